// What the device code of recurrent layers is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "IndexFault.h"
#include "recurrent/GateMath.h"

namespace opc::ops {

/// A layer. Where something "may be null", the op's optional argument is left out.
struct RecurrentLayer {
  int64_t steps, batch, hidden, directions, columns; // columns of all gates
  int32_t batchFirst, reversed, coupled, late, wideLengths, unused;
  double clip; // infinite for none
  GateFunction functions[2][3];
  const void *lengths; // may be null
  cuda::IndexFault *fault;
  const void *bias, *peephole; // of x's type; may be null

  OPC_HOST_DEVICE int64_t rows() const { return steps * batch; }
};

/// Pointers to x's type are those of tensors, the others of temporary memory in the compute type.
struct RecurrentForwardArguments {
  RecurrentLayer layer;
  const void *initialH, *initialC; // of x's type; may be null
  void *y, *yH, *yC;               // of x's type; no yC but for an LSTM
  void *projected;                 // [directions, rows, columns]
  void *product;                   // [directions, batch, columns]
  void *extra, *h, *c;             // [directions, batch, hidden]
};

struct RecurrentBackwardArguments {
  RecurrentLayer layer;
  const void *initialH, *initialC, *y, *dy, *dyH, *dyC; // of x's type; all but y may be null
  void *dbias, *dpeephole, *dinitialH, *dinitialC;      // of x's type; may be null
  void *values;             // [directions, rows, columns]: sums of gates, then gates, then gradients of the sums
  void *slopes;             // [directions, rows, columns]
  void *states;             // [directions, rows, columns]: a GRU's products with the state; late, their gradients
  void *before;             // [directions, rows, hidden]: the state before the step
  void *cell;               // [directions, rows, hidden]: an LSTM's; what a GRU's reset leaves, or is applied to
  void *shown, *shownSlope; // [directions, rows, hidden]: f3 of an LSTM's cell
  void *step;               // [directions, batch, columns]: the gradients of a step's sums
  void *extra, *dh, *dc;    // [directions, batch, hidden]
};

/// `batches` products: out = sum over parts of a b, or with `add` out += that. Distances count elements.
struct RecurrentProduct {
  const void *a, *b;
  void *out;
  int64_t m, n, k, batches, parts;
  int64_t rowA, rowB, rowOut;    // between neighbouring rows, as the matrices lie
  int64_t stepA, stepB, stepOut; // between the products of a batch
  int64_t partA, partB;          // between the parts of a product
  int32_t transA, transB, add;
  int32_t storedA, storedB, storedOut; // of x's type, and not of the compute type
};

} // namespace opc::ops
