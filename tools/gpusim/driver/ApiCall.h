// The frame of every exported function: lock, fork, initialization, injected failures, sticky errors, capture rules.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverDeclarations.h"
#include "StandInDriver.h"

#include <new>

namespace opc::gpusim::driver {

/// What a function needs to be called.
enum Need : unsigned {
  kNothing = 0,
  kInitialized = 1,
  kCurrentContext = 2 | kInitialized, // and that it has no sticky error
  kNoCapture = 4,                     // it may wait for a device
  kDespiteErrors = 8,                 // also with a sticky error
};

struct ApiCall {
  /// Null: for functions of no context.
  Context *context = nullptr;
  StandInDriver &driver = StandInDriver::instance();
  DriverLock lock;
  CuResult refused = kSuccess;
  bool skipped = false; // success, and nothing done

  ApiCall(const char *function, unsigned needs);
  /// The stream of a handle; null after `refused` was set.
  Stream *stream(Stream *handle, const char *function);
  bool isKnown(Device device) const { return device >= 0 && device < static_cast<Device>(driver.contexts.size()); }
};

/// The calling thread's contexts, the current one last. Needs no destructor: what runs at exit may call the driver.
struct ContextStack {
  static constexpr size_t kMost = 64;
  Context *contexts[kMost];
  size_t count;
  bool empty() const { return count == 0; }
  Context *back() const { return contexts[count - 1]; }
  void pop_back() { --count; }
  bool push_back(Context *context) { return count < kMost && (contexts[count++] = context); }
};
ContextStack &threadContexts();

/// Runs `body(ApiCall &)`. No exception leaves the library.
template <class Body> CuResult api(const char *function, unsigned needs, Body body) noexcept {
  try {
    ApiCall call(function, needs);
    if (call.skipped) return kSuccess;
    return call.refused ? call.refused : static_cast<CuResult>(body(call));
  } catch (const std::bad_alloc &) {
    return kOutOfMemory;
  } catch (...) {
    return kUnknown;
  }
}

} // namespace opc::gpusim::driver
