// A PTX module as text says it: kernels, functions, variables, flat instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace opc::gpusim {

struct Function; // Function.h

struct Param {
  uint32_t offset = 0, size = 0, align = 1;
};

/// What a launch has to know of a kernel.
struct KernelInfo {
  std::string name;
  std::vector<Param> params;
  uint32_t paramBytes = 0;
  uint32_t staticShared = 0; // bytes, without the dynamic part
  uint32_t maxThreads = 0;   // of .maxntid or .reqntid, 0: not said
  uint32_t requiredBlock[3] = {0, 0, 0};
  uint32_t minBlocks = 0;  // .minnctapersm
  uint32_t localBytes = 0; // a thread, of the kernel itself
  uint32_t line = 0;       // in the PTX text
};

/// A variable of the module in .global or .const.
struct Variable {
  std::string name;
  uint64_t bytes = 0;
  uint32_t align = 1;
  bool constant = false;
  bool external = false;          // declared here, defined elsewhere
  bool initialized = false;       // initial holds all bytes; otherwise CUDA zeroes
  std::vector<std::byte> initial; // addresses in it are zero until the module is placed
  struct Relocation {             // initial[offset, offset + size) += address of symbol, shifted right by `shift` bits
    uint64_t offset;
    uint32_t size, shift;
    std::string symbol;
  };
  std::vector<Relocation> relocations;
};

/// Immutable once parsed, and independent of any memory.
class Module {
public:
  /// Null, and `error` says "line N: what is wrong", for text that is not PTX.
  static std::unique_ptr<Module> parse(std::string_view ptx, std::string *error);
  ~Module();
  Module(const Module &) = delete;
  Module &operator=(const Module &) = delete;

  const KernelInfo *kernel(std::string_view name) const; // null: no .entry of that name
  const std::vector<KernelInfo> &kernels() const { return kernels_; }
  const std::vector<Variable> &variables() const { return variables_; }
  const std::string &target() const { return target_; } // "sm_80"
  uint32_t version() const { return version_; }         // 90 for 9.0

  const std::vector<std::unique_ptr<Function>> &functions() const { return functions_; }
  const Function *function(std::string_view name) const;
  const std::string &file(uint32_t number) const; // of .file; "" for an unknown number

private:
  friend class PtxParser;
  Module();

  std::vector<KernelInfo> kernels_;
  std::vector<Variable> variables_;
  std::vector<std::unique_ptr<Function>> functions_;
  std::vector<std::string> files_;
  std::string target_;
  uint32_t version_ = 0;
};

} // namespace opc::gpusim
