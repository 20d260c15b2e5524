// Kernels that hardware stops at, each in its own way, and one with a race, which it does not.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::gpusim::driver {

inline const char *const kFaultKernels = R"(.version 8.0
.target sm_80
.address_size 64
.extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
.global .align 1 .b8 said[3] = {110, 111};
.func deeper() { call deeper, (); ret; }
.visible .entry trap() { trap; }
.visible .entry assert()
{
  .reg .b64 %rd<2>;
  mov.u64 %rd1, said;
  { .param .b64 a; .param .b64 b; .param .b32 c; .param .b64 d; .param .b64 e;
    st.param.b64 [a], %rd1; st.param.b64 [b], %rd1; st.param.b32 [c], 1; st.param.b64 [d], %rd1; st.param.b64 [e], 1;
    call __assertfail, (a, b, c, d, e); }
  ret;
}
.visible .entry unknown() { .reg .b32 %r<5>; tex.1d.v4.s32.s32 {%r0, %r1, %r2, %r3}, [%r4]; ret; }
.visible .entry stack() { call deeper, (); ret; }
.visible .entry half() // mma of half a warp ends the simulation
{
  .reg .b32 %r<8>; .reg .pred %p;
  mov.u32 %r0, %tid.x;
  setp.lt.u32 %p, %r0, 16;
  @%p bra E;
  mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%r1, %r2}, {%r3, %r4}, {%r5}, {%r6, %r7};
E: ret;
}
.visible .entry race()
{
  .reg .b32 %r<2>; .shared .align 4 .b32 s;
  mov.u32 %r1, %tid.x;
  st.shared.u32 [s], %r1;
  ret;
}
)";

} // namespace opc::gpusim::driver
