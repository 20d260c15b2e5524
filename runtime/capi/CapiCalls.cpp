// The last error of a thread, and the border that no exception crosses.
// SPDX-License-Identifier: Apache-2.0
#include "CapiCalls.h"

#include "CWords.h"

#include <exception>
#include <new>

namespace opc::capi {
namespace {

struct LastError {
  opc_status status = OPC_OK;
  std::string code, message, help;
};
thread_local LastError lastError;

opc_status number(StatusCode code) {
  switch (code) {
  case StatusCode::kOk: return OPC_OK;
  case StatusCode::kUsage: return OPC_USAGE;
  case StatusCode::kInvalidGraph: return OPC_INVALID_GRAPH;
  case StatusCode::kUnsupported: return OPC_UNSUPPORTED;
  case StatusCode::kExecution: return OPC_EXECUTION;
  case StatusCode::kInternal: return OPC_INTERNAL;
  }
  return OPC_INTERNAL;
}

} // namespace

opc_status fail(const Status &status) noexcept {
  lastError.status = number(status.code());
  try {
    lastError.code = status.id();
    lastError.help = inCWords(status.help());
    lastError.message = inCWords(status.message());
    if (!status.context().empty()) lastError.message += " (" + status.context() + ")";
  } catch (...) { // no memory for the text: the status says enough
    lastError.message.clear();
  }
  return lastError.status;
}

Status badArgument(const std::string &what, const std::string &help) {
  return Status(StatusCode::kUsage, "OPC0618", what).withHelp(help);
}

Status given(const void *pointer, const char *name) {
  return pointer ? Status::ok()
                 : badArgument(std::string("argument '") + name + "' is null", "opc.h says what it takes");
}

Status caughtException() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc &) {
    return Status(StatusCode::kExecution, "OPC0614", "out of memory");
  } catch (const std::exception &e) {
    return Status(StatusCode::kInternal, "OPC0999", e.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "OPC0999", "an unknown exception");
  }
}

} // namespace opc::capi

opc_error opc_last_error(void) {
  const auto &e = opc::capi::lastError;
  return {e.status, e.code.c_str(), e.message.c_str(), e.help.c_str()};
}
