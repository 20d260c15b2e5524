// What the random kernels share: the key of an op, and a stream for each run.
#pragma once

#include "opc/Kernel.h"
#include "opc/Philox.h"

namespace opc::ops {

/// The random numbers of one op in one session: run k of the op (0, 1, ...) reads stream k of the key, so that runs
/// differ and sessions repeat. The key mixes the op's name into the seed. Held by the kernel object, so that binding
/// again goes on where the last run ended.
class RandomStream {
public:
  /// The generator of the next run.
  Philox next(uint64_t key) { return Philox(key, run_++); }

private:
  uint64_t run_ = 0;
};

inline uint64_t randomKey(const user_op::OpContext *ctx) {
  return Philox::keyOf(ctx->Attr<int64_t>("seed"), ctx->op_name().c_str());
}

} // namespace opc::ops
