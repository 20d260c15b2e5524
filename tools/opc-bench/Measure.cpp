// Timing and child processes.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"

#include <algorithm>
#include <chrono>
#include <ctime>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opc::bench {

double medianSeconds(int repeats, const std::function<void()> &f) {
  std::vector<double> times;
  for (int i = 0; i < repeats; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + repeats / 2, times.end());
  return times[static_cast<size_t>(repeats / 2)];
}

double processorSeconds() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9;
}

ChildResult inChild(const std::function<double()> &f) {
  int channel[2];
  ChildResult result;
  if (pipe(channel) != 0) return result;
  const pid_t pid = fork();
  if (pid == 0) {
    close(channel[0]);
    const double value = f();
    const bool written = write(channel[1], &value, sizeof value) == sizeof value;
    _exit(written ? 0 : 1);
  }
  close(channel[1]);
  double value = -1;
  if (read(channel[0], &value, sizeof value) != sizeof value) value = -1;
  close(channel[0]);
  int status = 0;
  rusage usage{};
  wait4(pid, &status, 0, &usage);
  result.value = WIFEXITED(status) && WEXITSTATUS(status) == 0 ? value : -1;
  result.peakBytes = static_cast<double>(usage.ru_maxrss) * 1024;
  return result;
}

} // namespace opc::bench
