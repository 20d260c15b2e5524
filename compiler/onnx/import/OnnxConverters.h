// The families of converters, one file each.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxConversion.h"

namespace opc::onnx {

void addElementwise(ConverterTable *table);
void addActivations(ConverterTable *table);
void addShapes(ConverterTable *table);
void addPieces(ConverterTable *table);
void addIndexing(ConverterTable *table);
void addPadding(ConverterTable *table);
void addConstants(ConverterTable *table);
void addMatrices(ConverterTable *table);
void addConvolutions(ConverterTable *table);
void addPooling(ConverterTable *table);
void addNormalizations(ConverterTable *table);
void addReductions(ConverterTable *table);
void addSelections(ConverterTable *table);
void addResizing(ConverterTable *table);
void addLosses(ConverterTable *table);
void addQuantization(ConverterTable *table);
void addRecurrent(ConverterTable *table);
void addControlFlow(ConverterTable *table);
void addStateful(ConverterTable *table);
void addSequences(ConverterTable *table);
void addSignals(ConverterTable *table);
void addFourier(ConverterTable *table);
void addDetections(ConverterTable *table);
void addRegions(ConverterTable *table);
void addRandom(ConverterTable *table);
void addAttention(ConverterTable *table);
void addOrtAttention(ConverterTable *table);
void addContributed(ConverterTable *table);

/// The second operand of an op of opset 6 or older with attributes axis and broadcast, as numpy broadcasts.
Term aligned(Conversion &c, const Term &x, const Term &y);
/// Numpy's matmul: a vector is a row on the left and a column on the right.
Term product(Conversion &c, Term a, Term b);
/// x over `axes`, and 1 in their place or nothing.
Term reduced(Conversion &c, const char *op, const Term &x, const std::vector<int64_t> &axes, bool keepDims);
/// Constant `value` of x's type, broadcasting to it.
inline Term like(const Conversion &c, const Term &x, double value) { return c.scalar(x->type(), value); }
/// x^y in x's type; products where y is a small whole number that never changes.
Term power(Conversion &c, const Term &x, const Term &y);
/// Negative indices made positive along a dimension of `size`.
Term wrapped(Conversion &c, const Term &indices, int64_t size);
/// A pad of any mode: constant, edge, reflect, wrap. Negative pads crop.
Term padded(Conversion &c, const Term &x, const std::vector<int64_t> &before, const std::vector<int64_t> &after,
            const std::string &mode, const Term &value);
/// What a scan with this graph makes: states, and what it collects along `outAxes`. `sequences` lie along `axes`.
std::vector<Term> scanned(Conversion &c, const Graph &graph, std::vector<Term> state,
                          const std::vector<Term> &sequences, const std::vector<int64_t> &axes,
                          const std::vector<int64_t> &directions, const std::vector<int64_t> &outAxes,
                          const std::vector<int64_t> &outDirections);

// Between DequantizeLinear and QuantizeLinear real numbers stand for integers, and products of them are computed on the
// integers. What they give is null where that cannot be.

/// The node's convolution of inputs 0 and 1, plus 2.
Term convolvedIntegers(Conversion &c);
/// The product of `a` and `b` [k, n], or [n, k] where it is transposed, plus `bias`, which may be null.
Term multipliedIntegers(Conversion &c, const Term &a, const Term &b, bool transB, const Term &bias);
/// Notes the integers of what is made of `x` with negative numbers set to 0.
void noteRelu(Conversion &c, const Term &made, const Term &x);

} // namespace opc::onnx
