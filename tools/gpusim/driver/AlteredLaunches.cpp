// What drop= does to code, alter= does to launches.
// SPDX-License-Identifier: Apache-2.0
#include "AlteredLaunches.h"

#include <algorithm>
#include <cstring>

namespace opc::gpusim::driver {
namespace {

/// The eight bytes at an offset.
uint64_t wordAt(const KernelWork &work, uint64_t offset) {
  uint64_t word = 0;
  std::memcpy(&word, work.params.data() + offset, sizeof word);
  return word;
}
void putWord(KernelWork *work, uint64_t offset, uint64_t word) {
  std::memcpy(work->params.data() + offset, &word, sizeof word);
}

} // namespace

bool alterLaunch(const std::vector<AlteredLaunch> &altered, KernelWork *work, std::string *error) {
  for (const AlteredLaunch &a : altered) {
    if (a.kernel != work->kernel->name) continue;
    if (a.kind == AlteredLaunch::Kind::kGrid) {
      if (work->grid.x > 1) --work->grid.x;
      continue;
    }
    const bool swaps = a.kind == AlteredLaunch::Kind::kSwap;
    const uint64_t last = swaps ? std::max(a.offset, a.other) : a.offset, bytes = work->kernel->paramBytes;
    if (bytes < sizeof(uint64_t) || last > bytes - sizeof(uint64_t)) {
      *error = "alter= of CUDA_SIM: " + a.kernel + " has " + std::to_string(bytes) +
               " bytes of parameters, and eight at offset " + std::to_string(last) + " are to be altered";
      return false;
    }
    const uint64_t word = wordAt(*work, a.offset);
    putWord(work, a.offset, swaps ? wordAt(*work, a.other) : word + a.other);
    if (swaps) putWord(work, a.other, word);
  }
  return true;
}

} // namespace opc::gpusim::driver
