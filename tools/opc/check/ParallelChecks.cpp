// Many graphs at once.
// SPDX-License-Identifier: Apache-2.0
#include "ParallelChecks.h"

#include "CheckProcesses.h"
#include "CrashBundle.h"
#include "GuardedCheck.h"

#include <algorithm>
#include <atomic>
#include <thread>

namespace opc::cli {

std::vector<CheckedGraph> checkGraphs(const Registry &registry, const CheckSettings &settings,
                                      const std::vector<std::string> &paths, int threads) {
  std::vector<CheckedGraph> checked(paths.size());
  const size_t wanted = threads > 0 ? static_cast<size_t>(threads) : std::thread::hardware_concurrency();
  const size_t workers = std::clamp<size_t>(wanted, 1, std::max<size_t>(1, paths.size()));
  CheckSettings each = settings;
  each.threads = static_cast<int>(std::max<size_t>(1, wanted / workers));
  if (settings.hasForeignCode) return checkInProcesses(registry, each, paths, workers);
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < paths.size(); i = next++) checked[i] = checkGuarded(registry, each, paths[i]);
  };
  std::vector<std::thread> pool;
  for (size_t i = 1; i < workers; ++i)
    pool.emplace_back([&] {
      const CrashStack stack;
      work();
    });
  work();
  for (std::thread &t : pool) t.join();
  return checked;
}

} // namespace opc::cli
