// The exit codes of opc, and the classes of failure they stand for (`opc explain exit-codes`).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

namespace opc::cli {

enum ExitCode : int {
  kExitOk = 0,
  kExitNo = 1,          // the answer is "no": a value differs from what was expected
  kExitUsage = 2,       // bad flag, bad specification, missing file
  kExitInvalid = 3,     // the graph, plan or tensor file is not valid
  kExitUnsupported = 4, // not possible here
  kExitExecution = 5,   // execution failed
  kExitInternal = 70,   // a bug in opc
};

struct ExitMeaning {
  ExitCode code;
  const char *meaning;
};
inline constexpr ExitMeaning kExitMeanings[] = {{kExitOk, "success"},
                                                {kExitNo, "the answer is no"},
                                                {kExitUsage, "usage"},
                                                {kExitInvalid, "invalid graph"},
                                                {kExitUnsupported, "not possible here"},
                                                {kExitExecution, "execution failed"},
                                                {kExitInternal, "internal error"}};

inline int exitCodeOf(StatusCode code) {
  switch (code) {
  case StatusCode::kOk: return kExitOk;
  case StatusCode::kUsage: return kExitUsage;
  case StatusCode::kInvalidGraph: return kExitInvalid;
  case StatusCode::kUnsupported: return kExitUnsupported;
  case StatusCode::kExecution: return kExitExecution;
  case StatusCode::kInternal: return kExitInternal;
  }
  return kExitInternal;
}

} // namespace opc::cli
