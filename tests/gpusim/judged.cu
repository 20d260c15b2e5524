// Code of CUDA's libraries for the simulator: CUB's blocks, groups of threads, wmma, the maths functions. judged.py
// compares with numpy.
// SPDX-License-Identifier: Apache-2.0
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cub/block/block_radix_sort.cuh>
#include <cub/block/block_reduce.cuh>
#include <cub/block/block_scan.cuh>
#include <mma.h>

extern "C" __global__ void block_reduce(float *out, const float *in) {
  using Reduce = cub::BlockReduce<float, 128>;
  __shared__ typename Reduce::TempStorage room;
  float sum = Reduce(room).Sum(in[blockIdx.x * 128 + threadIdx.x]);
  if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" __global__ void block_reduce_raking(int *out, const int *in, int valid) {
  using Reduce = cub::BlockReduce<int, 96, cub::BLOCK_REDUCE_RAKING>;
  __shared__ typename Reduce::TempStorage room;
  int v = threadIdx.x < valid ? in[threadIdx.x] : 0;
  int most = Reduce(room).Reduce(v, cuda::maximum<>{}, valid);
  if (threadIdx.x == 0) out[0] = most;
}

extern "C" __global__ void block_scan(int *out, const int *in) {
  using Scan = cub::BlockScan<int, 128>;
  __shared__ typename Scan::TempStorage room;
  int v[2] = {in[threadIdx.x * 2], in[threadIdx.x * 2 + 1]};
  Scan(room).InclusiveSum(v, v);
  out[threadIdx.x * 2] = v[0], out[threadIdx.x * 2 + 1] = v[1];
}

extern "C" __global__ void block_sort(unsigned *out, const unsigned *in) {
  using Sort = cub::BlockRadixSort<unsigned, 128, 4>;
  __shared__ typename Sort::TempStorage room;
  unsigned v[4];
  for (int k = 0; k < 4; ++k) v[k] = in[threadIdx.x * 4 + k];
  Sort(room).Sort(v);
  for (int k = 0; k < 4; ++k) out[threadIdx.x * 4 + k] = v[k];
}

extern "C" __global__ void groups(int *out, const int *in) {
  namespace cg = cooperative_groups;
  cg::thread_block block = cg::this_thread_block();
  auto tile = cg::tiled_partition<16>(block);
  int sum = cg::reduce(tile, in[block.thread_rank()], cg::plus<int>());
  if (tile.thread_rank() == 0) out[block.thread_rank() / 16] = sum;
  block.sync();
  if (in[block.thread_rank()] % 3 == 0) { // whoever is here
    auto here = cg::coalesced_threads();
    int count = cg::reduce(here, 1, cg::plus<int>());
    out[4 + block.thread_rank()] = count * 100 + here.thread_rank();
  } else {
    out[4 + block.thread_rank()] = -1;
  }
}

struct Shape {
  __device__ virtual int area(int) const = 0;
};
struct Square : Shape {
  __device__ int area(int n) const override { return n * n; }
};
struct Line : Shape {
  __device__ int area(int n) const override { return -n; }
};
extern "C" __global__ void virtual_calls(int *out, const int *in) {
  Square square;
  Line line;
  const Shape *shape = in[threadIdx.x] & 1 ? static_cast<const Shape *>(&square) : &line;
  asm volatile("" : "+l"(shape)); // so that the compiler does not know
  out[threadIdx.x] = shape->area(in[threadIdx.x]);
}

template <class T, class Sum, int M, int N, int K> __device__ void product(Sum *out, const T *a, const T *b) {
  using namespace nvcuda::wmma;
  fragment<matrix_a, M, N, K, T, row_major> fa;
  fragment<matrix_b, M, N, K, T, col_major> fb;
  fragment<accumulator, M, N, K, Sum> fc;
  fill_fragment(fc, Sum(1));
  load_matrix_sync(fa, a, K);
  load_matrix_sync(fb, b, K);
  mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] * Sum(2);
  store_matrix_sync(out, fc, N, mem_row_major);
}
extern "C" __global__ void wmma_half(float *out, const __half *a, const __half *b) {
  product<__half, float, 16, 16, 16>(out, a, b);
}
extern "C" __global__ void wmma_half_wide(float *out, const __half *a, const __half *b) {
  product<__half, float, 8, 32, 16>(out, a, b);
}
extern "C" __global__ void wmma_bytes(int *out, const signed char *a, const signed char *b) {
  product<signed char, int, 32, 8, 16>(out, a, b);
}

// clang-format off
#define MATHS(X) \
  X(exp) X(exp2) X(expm1) X(log) X(log2) X(log10) X(log1p) X(tanh) X(sinh) X(cosh) X(atan) \
  X(erf) X(erfc) X(sin) X(cos) X(tan) X(cbrt) X(sqrt) X(rsqrt) X(lgamma) X(asinh)
// clang-format on
#define KERNELS(NAME)                                                                                                  \
  extern "C" __global__ void NAME##_f64(double *out, const double *in) {                                               \
    int i = blockIdx.x * 128 + threadIdx.x;                                                                            \
    out[i] = NAME(in[i]);                                                                                              \
  }                                                                                                                    \
  extern "C" __global__ void NAME##_f32(float *out, const float *in) {                                                 \
    int i = blockIdx.x * 128 + threadIdx.x;                                                                            \
    out[i] = NAME##f(in[i]);                                                                                           \
  }
MATHS(KERNELS)
extern "C" __global__ void pow_f64(double *out, const double *in) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = pow(fabs(in[i]), in[i ^ 1]);
}
extern "C" __global__ void pow_f32(float *out, const float *in) {
  int i = blockIdx.x * 128 + threadIdx.x;
  out[i] = powf(fabsf(in[i]), in[i ^ 1]);
}
