// Products of recurrent layers, of tensors and of temporary memory: a tile of the result for each block.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentDevice.cuh"

namespace opc::cuda {
namespace {

using ops::RecurrentProduct;

constexpr int kTile = 16;

/// Element `at` of a matrix of T or of the compute type.
template <class T> __device__ inline Compute<T> element(const void *from, bool isStored, int64_t at) {
  if constexpr (!std::is_same_v<T, Compute<T>>)
    if (isStored) return load(static_cast<const T *>(from)[at]);
  return static_cast<const Compute<T> *>(from)[at];
}

/// One element of the result a thread, in the order of parts and k.
template <class T> __device__ void product(const RecurrentProduct &p) {
  using C = Compute<T>;
  __shared__ C tileA[kTile][kTile + 1], tileB[kTile][kTile + 1];
  const int tx = static_cast<int>(threadIdx.x), ty = static_cast<int>(threadIdx.y);
  const int64_t firstColumn = static_cast<int64_t>(blockIdx.x) * kTile, column = firstColumn + tx;
  const int64_t atA = blockIdx.z * p.stepA, atB = blockIdx.z * p.stepB, atOut = blockIdx.z * p.stepOut;
  for (int64_t rowTile = blockIdx.y; rowTile * kTile < p.m; rowTile += gridDim.y) {
    const int64_t row = rowTile * kTile + ty;
    C sum = 0;
    for (int64_t part = 0; part < p.parts; ++part)
      for (int64_t k0 = 0; k0 < p.k; k0 += kTile) {
        // Neighbouring threads read neighbouring elements, whichever way the matrices lie.
        const int64_t aRow = p.transA ? rowTile * kTile + tx : row, aK = k0 + (p.transA ? ty : tx);
        const int64_t bK = k0 + (p.transB ? tx : ty), bColumn = p.transB ? firstColumn + ty : column;
        const int64_t inA = p.transA ? aK * p.rowA + aRow : aRow * p.rowA + aK;
        const int64_t inB = p.transB ? bColumn * p.rowB + bK : bK * p.rowB + bColumn;
        const C a = aRow < p.m && aK < p.k ? element<T>(p.a, p.storedA, atA + part * p.partA + inA) : C(0);
        const C b = bColumn < p.n && bK < p.k ? element<T>(p.b, p.storedB, atB + part * p.partB + inB) : C(0);
        tileA[p.transA ? tx : ty][p.transA ? ty : tx] = a;
        tileB[p.transB ? tx : ty][p.transB ? ty : tx] = b;
        __syncthreads();
        for (int k = 0; k < kTile; ++k) sum = fma(tileA[ty][k], tileB[k][tx], sum);
        __syncthreads();
      }
    if (row >= p.m || column >= p.n) continue;
    const int64_t at = atOut + row * p.rowOut + column;
    if (p.add) sum += element<T>(p.out, p.storedOut, at);
    if (p.storedOut)
      static_cast<T *>(p.out)[at] = stored<T>(sum);
    else
      static_cast<C *>(p.out)[at] = sum;
  }
}

} // namespace

#define OPC_RECURRENT_PRODUCT(name, T) OPC_KERNEL(recurrent_product_##name, RecurrentProduct, product<T>)
OPC_EACH_FLOAT(OPC_RECURRENT_PRODUCT)

} // namespace opc::cuda
