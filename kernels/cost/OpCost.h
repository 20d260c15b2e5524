// What an op costs wherever it runs: arithmetic operations, and bytes that go through memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

namespace opc {

struct OpCost {
  double flops = 0;         // multiplications and additions, 2 for a pair of them; other functions in equal work
  double bytes = 0;         // read and written, each tensor once
  bool contraction = false; // products of matrices, convolutions, attention: what matrix units are for
};

/// The cost of an op on the tensors of inputDescs() and outputDescs(): on several devices these are the device's
/// pieces, and the cost is the piece's. The outputs must be known.
///
/// Operations: what the definition says (SetComputeComplexityFn); for an elementwise op its scalar function's
/// operations times the elements; for a sharding rule that sums a factor of several floating inputs, 2 times the
/// product of all factors (a contraction); for common built-in ops a formula (CountedOps.h); otherwise 2 for each
/// element that the op reads or writes. Bytes: all inputs and outputs; inputs that only lend their shape count nothing,
/// tables of which rows are picked count as much as is picked, inputs that the op updates count twice. Views cost
/// nothing.
OpCost costOf(const OpInstance &op);

/// Operations of one evaluation of a scalar function: 1 for arithmetic, comparisons and selections, more for functions
/// that are themselves polynomials.
double scalarOperations(const scalar::ScalarProgram &program);

} // namespace opc
