// What CUDA_SIM asks of the stand-in driver.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opc::gpusim::driver {

/// When the operations of streams are executed.
enum class Policy {
  kLate,   // only when a synchronisation or query needs them
  kEager,  // at once
  kRandom, // some of them at each call, in an order of the seed
};

/// Which devices reach each other's memory.
enum class Peers {
  kAll,
  kPairs, // 0 and 1, 2 and 3, and so on
  kNone,
};

/// `fail=NAME:N:CODE`: the N-th call of a function returns CODE and does nothing.
struct InjectedFailure {
  std::string function; // as cuGetProcAddress knows it
  uint64_t call = 1;    // from 1
  int code = 0;
};

/// `skip=NAME:N[:STREAM]`: the N-th call of a function, or the N-th on a stream, does nothing, and says that it did.
struct SkippedCall {
  std::string function;
  uint64_t call = 1;   // from 1
  uint64_t stream = 0; // 0: on any, or on none
};

/// `drop=FUNCTION:N`: the N-th barrier or wait of a function is taken out of PTX that is loaded.
struct DroppedWait {
  std::string function; // a kernel, or a device function
  uint64_t number = 1;  // from 1, as they stand in the PTX
};

/// `alter=KERNEL:grid`, `KERNEL:OFFSET+N`, `KERNEL:OFFSET/OFFSET`: its launches have a block less in x, a number or an
/// address that is N more, two of them exchanged.
struct AlteredLaunch {
  enum class Kind { kGrid, kAdd, kSwap };
  std::string kernel;
  Kind kind = Kind::kGrid;
  uint64_t offset = 0; // of eight bytes of the parameters
  uint64_t other = 0;  // what is added; the offset of the other eight bytes
};

struct SimOptions {
  uint64_t seed = 0;
  Policy policy = Policy::kLate;
  int devices = 1;
  Peers peers = Peers::kAll;
  int computeCapability = 80;          // 75, 80, 86, 89, 90
  uint64_t memory = uint64_t(4) << 30; // bytes of each device
  int driver = 13000;                  // what cuDriverGetVersion says
  unsigned blocks = 2147483647;        // the most of a grid in x
  bool findingsAreErrors = true;       // findings=error|warn
  uint64_t limit = 0;                  // instructions of one warp before it counts as endless; 0: the machine's
  std::string report;                  // a file (%p: the process), "-" for stderr, empty for none
  std::vector<InjectedFailure> failures;
  std::vector<SkippedCall> skipped;
  std::vector<DroppedWait> dropped;
  std::vector<AlteredLaunch> altered;

  bool canReach(int device, int other) const {
    return device != other && (peers == Peers::kAll || (peers == Peers::kPairs && device / 2 == other / 2));
  }
  /// "seed=3,policy=eager". False, and `error` names the key, what it takes and what was found.
  static bool parse(const std::string &text, SimOptions *options, std::string *error);
};

const char *policyName(Policy policy);

} // namespace opc::gpusim::driver
