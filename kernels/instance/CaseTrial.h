// A sample instance of an op (Case) with values for its inputs, ready to run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunOp.h"

#include <optional>
#include <string>
#include <vector>

namespace opc {

struct CaseTrial {
  OpInstance op;
  std::vector<OpTensor> inputs; // in the op's order
};

/// What cases are tried in. The most likely ones first: where several are refused, the first one's reason is told.
inline constexpr DataType kCaseTypes[] = {kFloat, kDouble, kFloat16, kBFloat16, kInt32,  kInt64, kInt8,
                                          kUInt8, kInt16,  kUInt16,  kUInt32,   kUInt64, kBool};

/// Whether a kernel of the op may run on the CPU.
bool hasCpuKernel(const Registry &registry, const user_op::OpDef &op);

/// The op of a case with `type` where its inputs vary. `order`: for each input of the op, the case's that it is.
Result<OpInstance> instanceOfCase(const Registry &registry, const user_op::OpDef &op, const user_op::Case &sample,
                                  DataType type, std::vector<size_t> *order);

/// "case rows", or "case without a name".
std::string caseName(const user_op::Case &sample);

/// Whether the case has inputs without an element type of their own.
bool varies(const user_op::Case &sample);
/// The element type of a trial, as people call it: `type`, or of a case that does not vary that of its first input; ""
/// without any.
const char *shownType(const user_op::Case &sample, DataType type);

/// The case with `type` where its inputs vary, and pseudo-random values in the ranges that it says: the same ones on
/// every machine; whole numbers in integer types. Nothing when the op cannot be inferred so.
std::optional<CaseTrial> trialOf(const Registry &registry, const user_op::OpDef &op, const user_op::Case &sample,
                                 DataType type);

/// A number in [0, 1) that follows from `key` alone.
double uniformAt(uint64_t key);

} // namespace opc
