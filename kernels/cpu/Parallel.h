// The CPU thread pool: libgomp's, which oneDNN uses too, so that the process has one pool and no oversubscription.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::cpu {

/// Calls body(arg, begin, end) on ranges that cover [0, n), on at most `threads` threads, this one among them.
/// Ranges are cut at multiples of `grain`. In the child of a process that had threads it uses this one only. Matches
/// DeviceCtx::ParallelForFn. What a piece throws is thrown here
/// when the others have ended; pieces that nobody has begun by then are left out.
void parallelFor(int64_t n, int64_t grain, int threads, void (*body)(void *arg, int64_t begin, int64_t end), void *arg);

/// Whether the processor has noted an operation without a result since the last call, in this thread or another one of
/// the pool: a maximum or minimum of a NaN is one, too. True as well where that cannot be known, as a thread has ended.
bool takeInvalid(int threads);

/// The number of threads oneDNN uses in the calling thread; set before creating and running its primitives.
void setLibraryThreads(int threads);

} // namespace opc::cpu
