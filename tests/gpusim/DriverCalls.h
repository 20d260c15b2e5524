// What the scenarios that call the stand-in driver have in common: expectations, and objects with usual arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverTable.h"

#include <cstdio>

namespace opc::gpusim::driver {

inline int failures = 0;

inline void expect(bool right, const char *text, int line) {
  if (!right) std::printf("line %d: not so: %s\n", line, text), ++failures;
}
inline void expectCode(CuResult found, int expected, const char *call, int line) {
  if (found != expected) std::printf("line %d: %s returned %d, not %d\n", line, call, found, expected), ++failures;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define CODE(code, function, ...) expectCode(cuda().function(__VA_ARGS__), code, #function, __LINE__)
#define OK(function, ...) CODE(kSuccess, function, __VA_ARGS__)

inline const char *const kPtx = R"(.version 8.0
.target sm_75
.address_size 64
.visible .global .align 4 .b32 counter = 7;
.visible .entry addTo(.param .u64 p, .param .u32 v)
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p];
  ld.param.u32 %r1, [v];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r2, %tid.x;
  mul.wide.u32 %rd3, %r2, 4;
  add.s64 %rd4, %rd2, %rd3;
  ld.global.u32 %r3, [%rd4];
  add.u32 %r4, %r3, %r1;
  st.global.u32 [%rd4], %r4;
  ret;
}
.visible .entry wide() .maxntid 64, 1, 1
{
  .shared .align 4 .b8 tile[1024];
  ret;
}
)";

inline Context *useDevice(int device) {
  Context *context = nullptr;
  OK(cuInit, 0);
  OK(cuDevicePrimaryCtxRetain, &context, device);
  OK(cuCtxSetCurrent, context);
  return context;
}

inline Stream *newStream() {
  Stream *s = nullptr;
  OK(cuStreamCreate, &s, kStreamNonBlocking);
  return s;
}

inline Event *newEvent(unsigned flags = kEventDisableTiming) {
  Event *e = nullptr;
  OK(cuEventCreate, &e, flags);
  return e;
}

inline DevicePtr newMemory(size_t bytes) {
  DevicePtr p = 0;
  OK(cuMemAlloc_v2, &p, bytes);
  return p;
}

inline unsigned *newPinned(size_t count) {
  void *p = nullptr;
  OK(cuMemHostAlloc, &p, count * sizeof(unsigned), 0);
  return static_cast<unsigned *>(p);
}

inline CuFunction *newFunction(const char *name, CuModule **to = nullptr) {
  CuModule *module = nullptr;
  CuFunction *f = nullptr;
  OK(cuModuleLoadData, &module, kPtx);
  OK(cuModuleGetFunction, &f, module, name);
  if (to) *to = module;
  return f;
}

inline void addTo(CuFunction *f, DevicePtr p, unsigned value, Stream *stream, unsigned threads = 4) {
  void *parameters[] = {&p, &value};
  OK(cuLaunchKernel, f, 1, 1, 1, threads, 1, 1, 0, stream, parameters, nullptr);
}

inline unsigned firstOf(DevicePtr p) {
  unsigned value = 0;
  OK(cuMemcpyDtoH_v2, &value, p, sizeof value);
  return value;
}

// Scenarios of several devices that reach each other's memory, or do not.
void peers();
void peersDenied();
void peerStreams();

} // namespace opc::gpusim::driver
