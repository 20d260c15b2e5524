// How long idle kernel threads burn a core before they sleep.
#include "ThreadWaiting.h"

#include <cstdlib>
#include <unistd.h>

namespace opc {

void boundThreadSpinning(char **argv) {
  if (std::getenv("GOMP_SPINCOUNT") || std::getenv("OMP_WAIT_POLICY")) return;
  // Some 20 us on present machines: longer than the gap between two kernels, shorter than anybody's time slice.
  if (setenv("GOMP_SPINCOUNT", "1000", 1) != 0) return;
  execv("/proc/self/exe", argv);
}

} // namespace opc
