// The ranges of a session's options.
// SPDX-License-Identifier: Apache-2.0
#include "SessionChecks.h"

#include "TextParts.h"

namespace opc::runtime {
namespace {

Status refused(const char *option, const std::string &found, const std::string &expected) {
  return Status(StatusCode::kUsage, "OPC0001",
                concat("SessionOptions::", option, " is ", found, ", expected ", expected));
}

} // namespace

Status checkOptions(const SessionOptions &options) {
  if (options.threads < 0 || options.threads > kMostThreads)
    return refused("threads", std::to_string(options.threads),
                   concat("at most ", kMostThreads, ", or 0: one for each core that the process may use"));
  if (options.ranks < 0)
    return refused("ranks", std::to_string(options.ranks), "1 or more, or 0: as many as the plan is for");
  constexpr double kLongest = 1e9; // seconds: the clock counts in nanoseconds
  if (!(options.timeout > 0 && options.timeout <= kLongest))
    return refused("timeout", std::to_string(options.timeout), "more than 0 seconds, and at most 1e9");
  return Status::ok();
}

} // namespace opc::runtime
