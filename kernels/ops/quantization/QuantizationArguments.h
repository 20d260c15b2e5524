// What the device code of quantised integers is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "convolution/ConvArguments.h"

namespace opc::ops {

/// u8 or i8 numbers less their zero points, of which there are none, one, or one for each row, column or filter.
struct ByteOperand {
  const void *data, *zero;
  int32_t isSigned, isZeroVector;
};

/// What becomes of 32-bit sums, as in cpu::SumFinish.
struct FinishArguments {
  const float *scale; // null: the sums are the result
  const void *zero;   // null for none
  int32_t kind, relu; // kind: 0 u8, 1 i8, 2 f32
  int32_t isScaleVector, isZeroVector;
};

struct IntegerConvArguments {
  ConvArguments conv; // x and weight are those of the operands
  ByteOperand in, weight;
  FinishArguments finish;
};

struct IntegerMatmulArguments {
  ByteOperand a, b;
  const int32_t *bias; // null for none
  void *out;
  FinishArguments finish;
  int64_t m, n, k, batches;
  int32_t transB, rank; // rank: of the batch
  int64_t dims[20], stepA[20], stepB[20];
};

/// A tensor of u8, i8, u16, i16 or i32, in this order.
struct QuantizedTensor {
  void *data; // null where there is none
  int32_t kind, unused;
};

/// Element i has scale i / length % scales.
struct QuantizationArguments {
  const void *from, *scale; // real numbers (or i32), scales
  void *to;                 // real numbers
  QuantizedTensor quantized, zero;
  int64_t n, length, scales;
};

struct DynamicQuantizationArguments {
  const float *in;
  float *ranges, *scale; // ranges: the least and the largest of each block
  uint8_t *out, *zero;
  int64_t n, blocks;
};

} // namespace opc::ops
