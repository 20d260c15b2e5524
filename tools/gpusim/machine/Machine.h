// Runs one launch of a kernel and says all that is wrong with it: the interface of the simulator to a driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Memory.h"
#include "Module.h"

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc::gpusim {

struct Dim3 {
  uint32_t x = 1, y = 1, z = 1;
};

/// Codes of the driver API that findings have.
enum CudaError : int {
  kCudaSuccess = 0,
  kCudaInvalidValue = 1,
  kCudaNotFound = 500,
  kCudaIllegalAddress = 700,
  kCudaLaunchOutOfResources = 701,
  kCudaLaunchTimeout = 702,
  kCudaAssert = 710,
  kCudaHardwareStackError = 714,
  kCudaIllegalInstruction = 715,
  kCudaMisalignedAddress = 716,
  kCudaInvalidPc = 718,
  kCudaLaunchFailed = 719,
  kCudaNotSupported = 801,
};

struct Finding {
  int cudaError = 0;
  std::string kind; // "out of bounds", "misaligned", "unwritten", "race", "barrier", "mask", "endless", "launch",
                    // "trap", "assert", "not supported", "stack", "read-only"
  std::string message, kernel;
  uint32_t ptxLine = 0; // 0: the launch itself
  std::string file;     // of .loc; empty without -lineinfo
  uint32_t line = 0;
  Dim3 block, thread;
  bool ends = false; // the launch went no further: its results are not what the kernel says
  /// "race in saxpy, PTX line 41 (saxpy.cu:7), block (0,0,0), thread (3,0,0): ..."
  std::string text() const;
};

/// Sorted disjoint [begin, end) of global addresses.
struct AccessSet {
  struct Interval {
    uint64_t begin, end;
  };
  std::vector<Interval> reads, writes, atomics;
};

struct Counters {
  uint64_t instructions = 0;                                        // of warps
  uint64_t lanes = 0;                                               // active ones, summed over instructions
  uint64_t requests = 0, sectors = 0, idealSectors = 0;             // global memory, 32 bytes a sector
  uint64_t sharedRequests = 0, wavefronts = 0, idealWavefronts = 0; // shared memory
  uint64_t bytesRead = 0, bytesWritten = 0;                         // global, as asked for by lanes
  void add(const Counters &other);
};

struct LineCounters {
  uint32_t ptxLine = 0;
  std::string file;
  uint32_t line = 0;
  Counters counters;
};

/// A module whose variables have addresses in a Memory, which must outlive it.
class LoadedModule {
public:
  /// Null and `error` when a variable finds no room, which `noRoom` tells from the rest, or a symbol no definition.
  static std::unique_ptr<LoadedModule> load(std::shared_ptr<const Module> module, Memory &memory, std::string *error,
                                            bool *noRoom = nullptr);
  ~LoadedModule();
  LoadedModule(const LoadedModule &) = delete;
  LoadedModule &operator=(const LoadedModule &) = delete;

  const Module &module() const { return *module_; }
  /// Address and bytes of a .global or .const variable. False: there is none of that name.
  bool variable(const std::string &name, uint64_t *address, uint64_t *bytes) const;
  /// Instructions of all its functions that cannot be executed, without running anything.
  std::vector<Finding> notSupported() const;
  struct Programs; // functions made ready for execution, each when it is first called
  Programs &programs() const { return *programs_; }

private:
  LoadedModule();
  std::shared_ptr<const Module> module_;
  Memory *memory_ = nullptr;
  std::map<std::string, std::pair<uint64_t, uint64_t>> placed_; // name -> address, bytes
  std::unique_ptr<Programs> programs_;
};

struct Launch {
  const LoadedModule *module = nullptr;
  std::string kernel;
  Dim3 grid, block;
  uint32_t dynamicShared = 0;
  const void *params = nullptr;     // KernelInfo::paramBytes bytes, each parameter at its offset
  uint64_t seed = 0;                // 0: warps and blocks in order, lowest instruction first
  uint64_t instructionLimit = 0;    // of one warp; 0: 50,000,000
  uint32_t sharedLimit = 48 * 1024; // static and dynamic bytes a block may have
  uint32_t computeCapability = 80;  // what %smem and instructions may ask for
  uint32_t findingLimit = 16;       // the launch ends early after so many
};

struct Outcome {
  int cudaError = 0;
  std::vector<Finding> findings;
  Counters counters;
  std::vector<LineCounters> lines; // by PTX line, of every line that was executed
  AccessSet accesses;
  std::string printed; // what printf wrote
};

/// Never throws and never prints.
Outcome run(Memory &memory, const Launch &launch);

} // namespace opc::gpusim
