// What devices of each compute capability have, by CUDA's programming guide ("Technical specifications").
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::gpusim::driver {

struct DeviceProperties {
  int computeCapability;
  const char *name;
  int multiprocessors, threadsPerMultiprocessor, blocksPerMultiprocessor;
  int sharedPerMultiprocessor, sharedPerBlockOptin, reservedShared; // bytes
  int l2Bytes, clockKHz, memoryClockKHz, busBits;
};

inline const DeviceProperties &propertiesOf(int computeCapability) {
  static constexpr int K = 1024, M = K * K;
  static constexpr DeviceProperties all[] = {
      {75, "Simulated GPU (sm_75)", 40, 1024, 16, 64 * K, 64 * K, 0, 4 * M, 1590000, 5001000, 256},
      {80, "Simulated GPU (sm_80)", 108, 2048, 32, 164 * K, 163 * K, K, 40 * M, 1410000, 1215000, 5120},
      {86, "Simulated GPU (sm_86)", 84, 1536, 16, 100 * K, 99 * K, K, 6 * M, 1740000, 7251000, 384},
      {89, "Simulated GPU (sm_89)", 128, 1536, 24, 100 * K, 99 * K, K, 72 * M, 2520000, 10501000, 384},
      {90, "Simulated GPU (sm_90)", 132, 2048, 32, 228 * K, 227 * K, K, 50 * M, 1980000, 2619000, 5120},
  };
  for (const DeviceProperties &p : all)
    if (p.computeCapability == computeCapability) return p;
  return all[1];
}

} // namespace opc::gpusim::driver
