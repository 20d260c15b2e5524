// What every call is asked before it does anything.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"

#include "Executor.h"

#include <atomic>
#include <cstdio>
#include <cstring>
#include <pthread.h>

namespace opc::gpusim::driver {
namespace {

std::atomic<bool> forked{false};

/// Registered when the library is opened: a child has no threads of the driver, and may have its lock for ever.
const int kForkWatch = pthread_atfork(nullptr, nullptr, [] { forked = true; });

} // namespace

ContextStack &threadContexts() {
  thread_local ContextStack stack = {};
  return stack;
}

ApiCall::ApiCall(const char *function, unsigned needs) {
  if (forked) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true))
      std::fprintf(stderr,
                   "gpusim: error 3 (CUDA_ERROR_NOT_INITIALIZED): %s in a process that was forked: CUDA does not "
                   "work there; start it anew (exec), or fork before the driver is used\n",
                   function);
    refused = kNotInitialized;
    return;
  }
  if (inHostFunction()) {
    std::fprintf(stderr, "gpusim: error 800 (CUDA_ERROR_NOT_PERMITTED): %s in a host function of a stream\n", function);
    refused = kNotPermitted;
    return;
  }
  lock = DriverLock(driver.mutex);
  driver.configure(); // an error is cuInit's to return
  const uint64_t number = ++driver.report.calls[function];
  if ((needs & kInitialized) && !driver.initialized) {
    refused = kNotInitialized;
    return;
  }
  if (!threadContexts().empty()) context = threadContexts().back();
  for (const SkippedCall &s : driver.options.skipped)
    skipped |= s.stream == 0 && s.call == number && s.function == function;
  if (skipped) return;
  for (const InjectedFailure &f : driver.options.failures)
    if (f.call == number && f.function == function) {
      refused =
          driver.refuse(static_cast<CuResult>(f.code),
                        std::string(function) + ": call " + std::to_string(number) + ", injected by fail= of CUDA_SIM");
      const bool sticky = f.code >= kIllegalAddress && f.code <= kLaunchFailed && f.code != kLaunchOutOfResources &&
                          f.code != kPeerAccessAlreadyEnabled && f.code != kPeerAccessNotEnabled &&
                          f.code != kHostMemoryAlreadyRegistered && f.code != kHostMemoryNotRegistered;
      if (context && sticky) context->sticky = refused;
      return;
    }
  if ((needs & kCurrentContext) == kCurrentContext) {
    if (!context || !context->retained)
      refused = kInvalidContext;
    else if (context->sticky && !(needs & kDespiteErrors))
      refused = context->sticky;
    if (refused) return;
  }
  if (needs & kNoCapture) refused = driver.refuseInCapture(function);
}

Stream *ApiCall::stream(Stream *handle, const char *function) {
  Stream *found = driver.streamOf(*context, handle);
  if (!found)
    refused = driver.refuse(kInvalidHandle, std::string(function) + ": no stream has this handle");
  else if (found->context->sticky)
    refused = found->context->sticky, found = nullptr;
  if (!found) return nullptr;
  const uint64_t call = ++driver.report.streamCalls[std::string(function) + ":" + std::to_string(found->number)];
  for (const SkippedCall &s : driver.options.skipped)
    if (s.stream == found->number && s.call == call && s.function == function) return nullptr; // and nothing is refused
  return found;
}

} // namespace opc::gpusim::driver
