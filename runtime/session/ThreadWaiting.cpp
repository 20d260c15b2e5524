// How long idle kernel threads burn a core before they sleep.
// SPDX-License-Identifier: Apache-2.0
#include "ThreadWaiting.h"

#include "cpu/CpuDevice.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

namespace opc {
namespace {

/// Threads of the machine that run or want to run, this one not counted; 0 when that is unknown.
int competitors() {
  // "0.52 0.58 0.59 3/602 12345": the fourth field counts what is runnable now.
  std::FILE *f = std::fopen("/proc/loadavg", "re");
  if (!f) return 0;
  double a, b, c;
  int running = 1;
  if (std::fscanf(f, "%lf %lf %lf %d/", &a, &b, &c, &running) != 4) running = 1;
  std::fclose(f);
  return running > 1 ? running - 1 : 0;
}

} // namespace

void boundThreadSpinning(char **argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  const int others = competitors();
  if (others == 0) return;
  // 1000 turns are some 20 us: longer than the gap between two kernels, shorter than anybody's time slice.
  if (setenv("GOMP_SPINCOUNT", others >= runtime::availableCores() ? "0" : "1000", 1) != 0) return;
  execv("/proc/self/exe", argv);
}

} // namespace opc
