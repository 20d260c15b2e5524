// Kernels with one error each, and their correct twins: known_bad.py wants the finding at the marked line.
// SPDX-License-Identifier: Apache-2.0
//
// A kernel gets 256 unwritten ints, the ints 0 to 255 and n = 256. "launch: grid block" before a kernel says how it is
// launched (1 64 if nothing does), "finding: KIND" behind a line what is to be found there.
#include <cassert>
#include <cuda_pipeline.h>

#define KERNEL(NAME) extern "C" __global__ void NAME(int *out, const int *in, int n)

__constant__ int table[4] = {1, 2, 3, 4};

// launch: 1 256
KERNEL(bad_index_past_end) {
  int i = threadIdx.x;
  out[i + 1] = in[i]; // finding: out of bounds
}
// launch: 1 256
KERNEL(good_index_past_end) {
  int i = threadIdx.x;
  if (i + 1 < n) out[i + 1] = in[i];
}

KERNEL(bad_index_before_start) {
  int i = threadIdx.x;
  out[i] = in[i - 1]; // finding: out of bounds
}
KERNEL(good_index_before_start) {
  int i = threadIdx.x;
  out[i] = i ? in[i - 1] : 0;
}

// launch: 3 128
KERNEL(bad_no_guard) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  out[i] = 1; // finding: out of bounds
}
// launch: 3 128
KERNEL(good_no_guard) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = 1;
}

KERNEL(bad_misaligned_vector) {
  int i = threadIdx.x;
  int4 v = reinterpret_cast<const int4 *>(in + 1)[i % 32]; // finding: misaligned
  out[i] = v.x + v.y + v.z + v.w;
}
KERNEL(good_misaligned_vector) {
  int i = threadIdx.x;
  int4 v = reinterpret_cast<const int4 *>(in + 4)[i % 32];
  out[i] = v.x + v.y + v.z + v.w;
}

KERNEL(bad_misaligned_double) {
  int i = threadIdx.x;
  *reinterpret_cast<double *>(out + 2 * i + 1) = 1.0; // finding: misaligned
}
KERNEL(good_misaligned_double) {
  int i = threadIdx.x;
  *reinterpret_cast<double *>(out + 2 * i) = 1.0;
}

KERNEL(bad_misaligned_shared) {
  __shared__ __align__(16) char s[1024];
  int i = threadIdx.x;
  *reinterpret_cast<int *>(s + 4 * i + (in[5] - 3)) = i; // finding: misaligned
  out[i] = i;
}
KERNEL(good_misaligned_shared) {
  __shared__ __align__(16) char s[1024];
  int i = threadIdx.x;
  *reinterpret_cast<int *>(s + 4 * i + (in[5] - 1)) = i;
  out[i] = i;
}

KERNEL(bad_unwritten_output) {
  int i = threadIdx.x;
  out[i] += in[i]; // finding: unwritten
}
KERNEL(good_unwritten_output) {
  int i = threadIdx.x;
  out[i] = 0;
  out[i] += in[i];
}

KERNEL(bad_unwritten_shared) {
  __shared__ int s[64];
  int i = threadIdx.x;
  if (i < 32) s[i] = in[i];
  __syncthreads();
  out[i] = s[63 - i]; // finding: unwritten
}
KERNEL(good_unwritten_shared) {
  __shared__ int s[64];
  int i = threadIdx.x;
  s[i] = in[i];
  __syncthreads();
  out[i] = s[63 - i];
}

KERNEL(bad_unwritten_local) {
  int a[16];
  for (int k = 0; k < in[8]; ++k) a[in[k]] = k;
  out[threadIdx.x] = a[in[12]]; // finding: unwritten
}
KERNEL(good_unwritten_local) {
  int a[16];
  for (int k = 0; k < in[16]; ++k) a[in[k]] = k;
  out[threadIdx.x] = a[in[12]];
}

KERNEL(bad_missing_barrier) {
  __shared__ int s[64];
  int i = threadIdx.x;
  s[i] = 0;
  __syncthreads();
  s[i] = in[i];       // finding: race
  out[i] = s[63 - i]; // finding: race
}
KERNEL(good_missing_barrier) {
  __shared__ int s[64];
  int i = threadIdx.x;
  s[i] = 0;
  __syncthreads();
  s[i] = in[i];
  __syncthreads();
  out[i] = s[63 - i];
}

KERNEL(bad_missing_second_barrier) {
  __shared__ int s[64];
  int i = threadIdx.x, sum = 0;
#pragma unroll 1
  for (int k = 0; k < 3; ++k) {
    s[i] = in[i + k]; // finding: race
    __syncthreads();
    sum += s[(i + 33) % 64];
  }
  out[i] = sum;
}
KERNEL(good_missing_second_barrier) {
  __shared__ int s[64];
  int i = threadIdx.x, sum = 0;
#pragma unroll 1
  for (int k = 0; k < 3; ++k) {
    s[i] = in[i + k];
    __syncthreads();
    sum += s[(i + 33) % 64];
    __syncthreads();
  }
  out[i] = sum;
}

// launch: 1 32
KERNEL(bad_missing_syncwarp) {
  __shared__ int s[32];
  int i = threadIdx.x;
  s[i] = in[i];
  out[i] = *const_cast<int *>(&s[31 - i]); // finding: race|unwritten
}
// launch: 1 32
KERNEL(good_missing_syncwarp) {
  __shared__ int s[32];
  int i = threadIdx.x;
  s[i] = in[i];
  __syncwarp();
  out[i] = *const_cast<int *>(&s[31 - i]);
}

// launch: 1 32
KERNEL(bad_syncwarp_of_half) {
  __shared__ int s[32];
  int i = threadIdx.x;
  s[i] = in[i];
  __syncwarp(i < 16 ? 0x0000ffffu : 0xffff0000u);
  out[i] = s[31 - i]; // finding: race|unwritten
}
// launch: 1 32
KERNEL(good_syncwarp_of_half) {
  __shared__ int s[32];
  int i = threadIdx.x;
  s[i] = in[i];
  __syncwarp(i < 16 ? 0x0000ffffu : 0xffff0000u);
  out[i] = s[i ^ 15];
}

KERNEL(bad_global_exchange) {
  int i = threadIdx.x;
  out[i] = in[i];
  out[i + 64] = out[i ^ 32]; // finding: race|unwritten
}
KERNEL(good_global_exchange) {
  int i = threadIdx.x;
  out[i] = in[i];
  __syncthreads();
  out[i + 64] = out[i ^ 32];
}

// launch: 4 32
KERNEL(bad_blocks_exchange) {
  int i = blockIdx.x * 32 + threadIdx.x;
  out[i] = in[i];
  __syncthreads();
  out[i + 128] = out[127 - i]; // finding: race|unwritten
}
// launch: 4 32
KERNEL(good_blocks_exchange) {
  int i = blockIdx.x * 32 + threadIdx.x;
  out[i] = in[i];
  __syncthreads();
  out[i + 128] = out[i ^ 31];
}

// launch: 2 64
KERNEL(bad_blocks_overlap) {
  out[blockIdx.x * 63 + threadIdx.x] = blockIdx.x; // finding: race
}
// launch: 2 64
KERNEL(good_blocks_overlap) { out[blockIdx.x * 64 + threadIdx.x] = blockIdx.x; }

KERNEL(bad_count_without_atomics) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (in[threadIdx.x] % 3 == 0) ++count; // finding: race
  __syncthreads();
  out[threadIdx.x] = count;
}
KERNEL(good_count_without_atomics) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  if (in[threadIdx.x] % 3 == 0) atomicAdd(&count, 1);
  __syncthreads();
  out[threadIdx.x] = count;
}

KERNEL(bad_atomic_then_read) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);     // finding: race
  out[threadIdx.x] = count; // finding: race
}
KERNEL(good_atomic_then_read) {
  __shared__ int count;
  if (threadIdx.x == 0) count = 0;
  __syncthreads();
  atomicAdd(&count, 1);
  __syncthreads();
  out[threadIdx.x] = count;
}

// launch: 1 32
KERNEL(bad_shuffle_from_exited) {
  int i = threadIdx.x;
  if (i >= 16) return;
  out[i] = __shfl_down_sync(0xffffffffu, in[i], 8); // finding: mask
}
// launch: 1 32
KERNEL(good_shuffle_from_exited) {
  int i = threadIdx.x;
  int v = __shfl_down_sync(0xffffffffu, in[i], 8);
  if (i >= 16) return;
  out[i] = v;
}

// launch: 1 32
KERNEL(bad_lanes_outside_mask) {
  int i = threadIdx.x;
  out[i] = __any_sync(0x0000ffffu, in[i] == 3); // finding: mask
}
// launch: 1 32
KERNEL(good_lanes_outside_mask) {
  int i = threadIdx.x;
  out[i] = i < 16 ? __any_sync(0x0000ffffu, in[i] == 3) : 0;
}

KERNEL(bad_mask_waits_for_barrier) {
  int i = threadIdx.x;
  if (i % 32 < 16) {
    out[i] = __reduce_add_sync(0xffffffffu, in[i]); // finding: mask
  }
  __syncthreads();
}
KERNEL(good_mask_waits_for_barrier) {
  int i = threadIdx.x;
  if (i % 32 < 16) {
    out[i] = __reduce_add_sync(0x0000ffffu, in[i]);
  }
  __syncthreads();
}

KERNEL(bad_barrier_in_branch) {
  int i = threadIdx.x;
  if (i < 32) {
    out[i] = 1;
    __syncthreads(); // finding: barrier
    out[i] = 2;
  }
}
KERNEL(good_barrier_in_branch) {
  int i = threadIdx.x;
  if (i < 32) out[i] = 1;
  __syncthreads();
  if (i < 32) out[i] = 2;
}

KERNEL(bad_barriers_of_one_warp) {
  int i = threadIdx.x;
  if (in[i] & 1) {
    out[i] = 1;
    __syncthreads(); // finding: barrier
    out[i + 64] = 5;
  } else {
    out[i] = in[i] * 7;
    __syncthreads(); // finding: barrier
    out[i + 64] = in[i] * 3;
  }
}
KERNEL(good_barriers_of_one_warp) {
  int i = threadIdx.x;
  out[i] = in[i] & 1 ? 1 : in[i] * 7;
  __syncthreads();
  out[i + 64] = in[i] & 1 ? 5 : in[i] * 3;
}

KERNEL(bad_early_return) {
  int i = threadIdx.x;
  if (i >= 48) return;
  out[i] = in[i];
  __syncthreads(); // finding: barrier
  out[i + 64] = out[47 - i];
}
KERNEL(good_early_return) {
  int i = threadIdx.x;
  if (i < 48) out[i] = in[i];
  __syncthreads();
  if (i < 48) out[i + 64] = out[47 - i];
}

KERNEL(bad_barrier_count) {
  out[threadIdx.x] = 1;
  asm volatile("bar.sync 1, 96;" ::: "memory"); // finding: barrier
}
KERNEL(good_barrier_count) {
  out[threadIdx.x] = 1;
  asm volatile("bar.sync 1, 64;" ::: "memory");
}

KERNEL(bad_endless) {
  while (*const_cast<const volatile int *>(in) == 0) // finding: endless
    ;
  out[threadIdx.x] = 1;
}
KERNEL(good_endless) {
  while (*const_cast<const volatile int *>(in) != 0);
  out[threadIdx.x] = 1;
}

KERNEL(bad_copy_without_wait) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __syncthreads();
  out[i] = s[255 - i]; // finding: unwritten
}
KERNEL(good_copy_without_wait) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  __syncthreads();
  out[i] = s[255 - i];
}

KERNEL(bad_copy_without_barrier) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[i] = s[255 - i]; // finding: race|unwritten
}
KERNEL(good_copy_without_barrier) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  out[i] = s[4 * i];
}

KERNEL(bad_write_where_a_copy_lands) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  s[4 * i] = i; // finding: race
  __pipeline_wait_prior(0);
  out[i] = s[4 * i];
}
KERNEL(good_write_where_a_copy_lands) {
  __shared__ __align__(16) int s[256];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_wait_prior(0);
  s[4 * i] = i;
  out[i] = s[4 * i];
}

KERNEL(bad_copy_of_older_group) {
  __shared__ __align__(16) int s[512];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(s + 256 + 4 * i, in + 4 * (i % 8), 16);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  out[i] = s[i] + s[256 + i]; // finding: unwritten
}
KERNEL(good_copy_of_older_group) {
  __shared__ __align__(16) int s[512];
  int i = threadIdx.x;
  __pipeline_memcpy_async(s + 4 * i, in + 4 * i, 16);
  __pipeline_commit();
  __pipeline_memcpy_async(s + 256 + 4 * i, in + 4 * (i % 8), 16);
  __pipeline_commit();
  __pipeline_wait_prior(1);
  __syncthreads();
  out[i] = s[i];
  __pipeline_wait_prior(0);
  __syncthreads();
  out[i] += s[256 + i];
}

// launch: 1 64 128
KERNEL(bad_dynamic_shared) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = in[threadIdx.x]; // finding: out of bounds
  out[threadIdx.x] = dynamic[threadIdx.x];
}
// launch: 1 64 256
KERNEL(good_dynamic_shared) {
  extern __shared__ int dynamic[];
  dynamic[threadIdx.x] = in[threadIdx.x];
  out[threadIdx.x] = dynamic[threadIdx.x];
}

KERNEL(bad_null) {
  int *p = reinterpret_cast<int *>(static_cast<size_t>(in[0]));
  p[threadIdx.x] = 1; // finding: out of bounds
}
KERNEL(good_null) {
  int *p = in[0] ? reinterpret_cast<int *>(static_cast<size_t>(in[0])) : out;
  p[threadIdx.x] = 1;
}

KERNEL(bad_constant) {
  int *p = in[1] ? const_cast<int *>(table) : out;
  p[threadIdx.x % 4] = 1; // finding: read-only
}
KERNEL(good_constant) {
  const int *p = table;
  out[threadIdx.x] = p[in[threadIdx.x] % 4];
}

KERNEL(bad_trap) {
  if (in[threadIdx.x] == 40) __trap(); // finding: trap
  out[threadIdx.x] = 1;
}
KERNEL(good_trap) {
  if (in[threadIdx.x] == 400) __trap();
  out[threadIdx.x] = 1;
}

KERNEL(bad_assertion) {
  assert(in[threadIdx.x] < 40); // finding: assert
  out[threadIdx.x] = 1;
}
KERNEL(good_assertion) {
  assert(in[threadIdx.x] < 400);
  out[threadIdx.x] = 1;
}

__device__ __noinline__ int fall(const int *in, int k) {
  volatile int room[64];
  room[k % 64] = k;
  if (k == in[0] - 1) return 0;
  return fall(in, k + 1) + room[k % 64]; // finding: stack
}
KERNEL(bad_recursion) { out[threadIdx.x] = fall(in, 0); }
__device__ __noinline__ int fallSome(const int *in, int k) {
  volatile int room[64];
  room[k % 64] = k;
  if (k == in[9]) return 0;
  return fallSome(in, k + 1) + room[k % 64];
}
KERNEL(good_recursion) { out[threadIdx.x] = fallSome(in, 0); }

KERNEL(bad_local_index) {
  int a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  out[threadIdx.x] = a[in[200] * 4]; // finding: out of bounds
}
KERNEL(good_local_index) {
  int a[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  out[threadIdx.x] = a[in[200] % 8];
}
