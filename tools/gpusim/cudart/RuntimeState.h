// What the stand-in for CUDA's runtime remembers: fat binaries, functions, variables, each thread's error.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverDeclarations.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace opc::gpusim::cudart {

using namespace opc::gpusim::driver;

/// Errors have the numbers of the driver's; these are the runtime's alone.
enum RuntimeError : int {
  kInvalidConfiguration = 9,
  kInvalidSymbol = 13,
  kInvalidCopyDirection = 21,
  kInsufficientDriver = 35,
  kMissingConfiguration = 52,
  kInvalidDeviceFunction = 98,
};

struct Fatbin {
  const void *wrapper = nullptr;
  CuLibrary *library = nullptr; // loaded when something of it is first needed
  int error = 0;                // of loading
};

struct Registered {
  Fatbin *fatbin = nullptr;
  std::string name; // on the device
};

struct RuntimeState {
  static RuntimeState &instance();
  std::mutex mutex;
  std::vector<std::unique_ptr<Fatbin>> fatbins;
  std::map<const void *, Registered> functions, variables; // by the host's address
  std::map<int, Context *> contexts;                       // retained, by device
};

/// Makes the device's context current, as every call of the runtime does.
int useDevice();
/// Remembers an error for cudaGetLastError.
int remember(int error);
int &lastError();
int &currentDevice();

/// A kernel by the address of its host function.
int kernelOf(const void *function, CuKernel **kernel);
int variableOf(const void *symbol, DevicePtr *pointer, size_t *bytes);

/// Runs `body` with a context and remembers its error.
template <class Body> int call(Body body) noexcept {
  try {
    const int r = useDevice();
    return remember(r ? r : static_cast<int>(body()));
  } catch (...) {
    return remember(kUnknown);
  }
}

#define GPUSIM_RUNTIME extern "C" __attribute__((visibility("default")))

} // namespace opc::gpusim::cudart
