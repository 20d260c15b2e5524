// Where the diagonals of matrices lie: for diag, diagonal and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/Moves.h"
#include "support/PieceRange.h"
#include "support/SbpRules.h"

namespace opc::ops {

/// Entries of diagonal `k` (0 the main one, positive above) of a rows x cols matrix.
inline int64_t diagonalLength(int64_t rows, int64_t cols, int64_t k) {
  return std::max<int64_t>(0, k >= 0 ? std::min(rows, cols - k) : std::min(rows + k, cols));
}
/// The shape of diagonal `k` of the matrices that the first two axes form: it becomes the last axis.
inline Shape diagonalShape(const Shape &in, int64_t k) {
  DimVector dims(in.begin() + 2, in.end());
  dims.push_back(diagonalLength(in.At(0), in.At(1), k));
  return Shape(dims);
}
/// The term of the diagonal of the matrices that the first two axes of a tensor form, whose term is axisFactors(rank).
/// Of rows, columns and entries of the diagonal each device may have some, and deals with what it has.
inline AxisFactors diagonalFactors(int64_t rank) {
  AxisFactors factors = axisFactors(rank);
  factors.erase(factors.begin(), factors.begin() + 2);
  return factors.push_back("entries"), factors;
}
/// What a device deals with of diagonal `k` of the matrices that the first two axes of argument `matrix` form, when
/// the entries of the last axis of argument `vector` are on it: those that its pieces of both have.
struct DiagonalPiece {
  DimVector dims; // of the other axes, and how many entries
  Place inMatrix, inVector;
  DiagonalPiece(const KernelContext *ctx, const char *matrix, const char *vector, int64_t k) {
    const Shape &pieces = ctx->Desc(matrix).shape();
    const int64_t rest = pieces.Count(2), cols = pieces.At(1);
    const PieceRange rows = pieceRange(ctx, matrix, 0), columns = pieceRange(ctx, matrix, 1),
                     entries = pieceRange(ctx, vector, ctx->Desc(vector).shape().NumAxes() - 1);
    const int64_t row = std::max<int64_t>(0, -k), column = std::max<int64_t>(0, k); // of entry 0
    const int64_t begin = std::max({entries.begin, rows.begin - row, columns.begin - column});
    const int64_t end = std::min({entries.end(), rows.end() - row, columns.end() - column});
    dims.assign(pieces.begin() + 2, pieces.end());
    inMatrix = wholePlace(Shape(dims));
    inVector = wholePlace(ctx->Desc(vector).shape());
    dims.push_back(std::max<int64_t>(0, end - begin));
    inMatrix.strides.push_back((cols + 1) * rest);
    inMatrix.offset = (rows.place(begin + row) * cols + columns.place(begin + column)) * rest;
    inVector.offset = entries.place(begin);
  }
};
/// vector = the diagonal of matrix, zeros for entries that another device has.
inline std::unique_ptr<BoundKernel> bindTakeDiagonal(KernelBindContext *ctx, const char *matrix, const char *vector,
                                                     int64_t k) {
  const DiagonalPiece piece(ctx, matrix, vector, k);
  Tensor &out = ctx->Out(vector);
  Moves moves(out);
  if (Shape(piece.dims) != out.shape()) moves.fill(out);
  return moves.copy(piece.dims, ctx->In(matrix), piece.inMatrix, out, piece.inVector).bind();
}
/// matrix = zeros with vector on the diagonal.
inline std::unique_ptr<BoundKernel> bindPutDiagonal(KernelBindContext *ctx, const char *vector, const char *matrix,
                                                    int64_t k) {
  const DiagonalPiece piece(ctx, matrix, vector, k);
  Tensor &out = ctx->Out(matrix);
  return Moves(out).fill(out).copy(piece.dims, ctx->In(vector), piece.inVector, out, piece.inMatrix).bind();
}

} // namespace opc::ops
