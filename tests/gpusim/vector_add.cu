// A program as users write them for the runtime: `<<<>>>`, symbols, the default stream, errors.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <cstring>
#include <cuda_runtime.h>
#include <vector>

__constant__ float factors[2];
__device__ int added;

__global__ void add(int n, const float *x, const float *y, float *z) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  z[i] = factors[0] * x[i] + factors[1] * y[i];
  atomicAdd(&added, 1);
}

__global__ void beyond(float *z, int n) { z[threadIdx.x + n] = 1; }

#define OK(call)                                                                                                       \
  do {                                                                                                                 \
    const cudaError_t e = call;                                                                                        \
    if (e != cudaSuccess) return std::printf("%s: %s, %s\n", #call, cudaGetErrorName(e), cudaGetErrorString(e)), 1;    \
  } while (0)

int main(int argc, char **argv) {
  const int n = 1000, bytes = n * sizeof(float);
  std::vector<float> x(n), y(n), z(n);
  for (int i = 0; i < n; ++i) x[i] = i, y[i] = 2 * i;
  const float own[2] = {3, 4};
  float *dx, *dy, *dz;
  int count = 0, devices = 0, blocks = 0;
  OK(cudaGetDeviceCount(&devices));
  OK(cudaMalloc(&dx, bytes));
  OK(cudaMalloc(&dy, bytes));
  OK(cudaMalloc(&dz, bytes));
  OK(cudaMemcpyToSymbol(factors, own, sizeof own));
  OK(cudaMemcpy(dx, x.data(), bytes, cudaMemcpyHostToDevice));
  OK(cudaMemcpy(dy, y.data(), bytes, cudaMemcpyHostToDevice));
  add<<<(n + 255) / 256, 256>>>(n, dx, dy, dz);
  OK(cudaGetLastError());
  OK(cudaDeviceSynchronize());
  OK(cudaMemcpy(z.data(), dz, bytes, cudaMemcpyDeviceToHost));
  OK(cudaMemcpyFromSymbol(&count, added, sizeof count));
  for (int i = 0; i < n; ++i)
    if (z[i] != 11.0f * i) return std::printf("z[%d] is %g\n", i, z[i]), 1;
  cudaFuncAttributes attributes;
  OK(cudaFuncGetAttributes(&attributes, add));
  OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, add, 256, 0));
  std::printf("%d added on %d devices, PTX %d, %d blocks\n", count, devices, attributes.ptxVersion, blocks);

  add<<<1, 2000>>>(n, dx, dy, dz);
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  std::printf("%s\n", cudaGetErrorName(cudaGetLastError()));
  if (argc > 1 && !std::strcmp(argv[1], "beyond")) {
    beyond<<<1, 32>>>(dz, n);
    std::printf("%s\n", cudaGetErrorName(cudaDeviceSynchronize()));
    std::printf("%s\n", cudaGetErrorName(cudaFree(dx)));
    return 0;
  }
  for (float *p : {dx, dy, dz}) OK(cudaFree(p));
  return 0;
}
