// The ranges of a session's options.
// SPDX-License-Identifier: Apache-2.0
#include "SessionChecks.h"

#include "ControlTask.h"
#include "Device.h"
#include "PlanGraphs.h"
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

Status checkFits(const plan::Plan &plan, const JobPlan &job, const std::vector<int64_t> &mine, int threads,
                 const SessionOptions &options) {
  const uint64_t limit = options.maxMemory ? options.maxMemory : defaultMemoryLimit();
  uint64_t wanted = 0;
  for (int64_t r : mine)
    for (const plan::Arena &a : partOf(plan, job, r).arena())
      if (options.maxMemory || deviceTypeOf(a.device()) != DeviceType::kGPU)
        if (__builtin_add_overflow(wanted, a.bytes(), &wanted)) wanted = UINT64_MAX;
  bool hasManyGraphs = false;
  for (const plan::Task &task : plan.task()) { // of one rank
    const int64_t count = graphsOfTask(task, threads);
    hasManyGraphs |= count > 1;
    uint64_t bytes = taskGraphBytes(task);
    if (__builtin_mul_overflow(bytes, static_cast<uint64_t>(count), &bytes) ||
        __builtin_add_overflow(wanted, bytes, &wanted))
      wanted = UINT64_MAX;
  }
  if (wanted <= limit) return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0821",
                "the plan needs " + std::to_string(wanted) + " bytes of memory" +
                    (hasManyGraphs ? " with " + std::to_string(threads) + " threads" : "") + "; the limit is " +
                    std::to_string(limit))
      .withHelp(
          std::string(
              options.maxMemory
                  ? "raise SessionOptions::maxMemory (--max-memory)"
                  : "nine tenths of this machine's memory; SessionOptions::maxMemory (--max-memory) sets another limit") +
          (hasManyGraphs ? "; with fewer threads (-j) fewer of them have parts of the batch in memory" : ""));
}

std::string stepsHelp(int64_t microBatches) {
  return concat("steps are counted from 0 to ", kMostSteps / microBatches);
}

Status checkSteps(int64_t position, int64_t steps, int64_t microBatches) {
  int64_t end = 0;
  if (steps >= 0 && !__builtin_mul_overflow(steps, microBatches, &end) &&
      !__builtin_add_overflow(position, end, &end) && end <= kMostSteps)
    return Status::ok();
  if (steps < 0) return Status(StatusCode::kUsage, "OPC0616", concat("no session runs ", steps, " steps"));
  return Status(StatusCode::kUsage, "OPC0616",
                concat("no session runs ", steps, " steps from step ", position / microBatches, " on"))
      .withHelp(stepsHelp(microBatches));
}

} // namespace opc::runtime
