// A program as opc's GPU device is one: copy, compute and side stream, one arena, events, with and without a graph. It
// can leave out or spoil one thing at a time.  usage: opc_gpusim_client [--graph] [MUTANT]
// SPDX-License-Identifier: Apache-2.0
#include "DriverTable.h"

#include <cstring>
#include <string>
#include <vector>

using namespace opc::gpusim::driver;

namespace {

constexpr unsigned kN = 512, kThreads = 128, kSteps = 4;
constexpr size_t kBytes = kN * sizeof(float);

std::string mutant;
bool useGraph = false;

bool without(const char *name) { return mutant == name; }

void check(CuResult result, const char *call) {
  if (result == kSuccess) return;
  std::printf("error %d in %s\n", result, call);
  std::exit(1);
}
#define CU(function, ...) check(cuda().function(__VA_ARGS__), #function)

/// out[i] = f(a[i], b[i]) for i < n.
std::string elementwise(const std::string &name, const std::string &f) {
  return ".visible .entry " + name + R"((.param .u64 po, .param .u64 pa, .param .u64 pb, .param .u32 pn)
{
  .reg .pred %p<2>;
  .reg .b32 %r<6>;
  .reg .f32 %f<4>;
  .reg .b64 %rd<12>;
  ld.param.u64 %rd1, [po];
  ld.param.u64 %rd2, [pa];
  ld.param.u64 %rd3, [pb];
  ld.param.u32 %r1, [pn];
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mad.lo.s32 %r5, %r2, %r3, %r4;
  setp.ge.u32 %p1, %r5, %r1;
  @%p1 bra DONE;
  cvta.to.global.u64 %rd4, %rd1;
  cvta.to.global.u64 %rd5, %rd2;
  cvta.to.global.u64 %rd6, %rd3;
  mul.wide.u32 %rd7, %r5, 4;
  add.s64 %rd8, %rd4, %rd7;
  add.s64 %rd9, %rd5, %rd7;
  add.s64 %rd10, %rd6, %rd7;
  ld.global.f32 %f1, [%rd9];
  ld.global.f32 %f2, [%rd10];
  )" + f +
         R"(
  st.global.f32 [%rd8], %f3;
DONE:
  ret;
}
)";
}

/// Each block of 128 elements in reverse, through shared memory that cp.async fills.
std::string reverse() {
  const std::string wait = without("no_async_wait") ? "" : "  cp.async.wait_group 0;\n";
  const std::string barrier = without("no_barrier") ? "" : "  bar.sync 0;\n";
  return R"(.visible .entry reverse(.param .u64 po, .param .u64 pa)
{
  .reg .b32 %r<9>;
  .reg .f32 %f<2>;
  .reg .b64 %rd<9>;
  .shared .align 4 .b8 tile[512];
  ld.param.u64 %rd1, [po];
  ld.param.u64 %rd2, [pa];
  mov.u32 %r1, %ctaid.x;
  mov.u32 %r2, %tid.x;
  shl.b32 %r3, %r1, 7;
  add.u32 %r4, %r3, %r2;
  cvta.to.global.u64 %rd3, %rd1;
  cvta.to.global.u64 %rd4, %rd2;
  mul.wide.u32 %rd5, %r4, 4;
  add.s64 %rd6, %rd3, %rd5;
  add.s64 %rd7, %rd4, %rd5;
  mov.u32 %r5, tile;
  shl.b32 %r6, %r2, 2;
  add.u32 %r7, %r5, %r6;
  cp.async.ca.shared.global [%r7], [%rd7], 4;
  cp.async.commit_group;
)" + wait +
         barrier + R"(  sub.u32 %r8, %r5, %r6;
  ld.shared.f32 %f1, [%r8+508];
  st.global.f32 [%rd6], %f1;
  ret;
}
)";
}

std::string module() {
  if (mutant == "bad_ptx")
    return ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry f() { nonsense.f32 %f1; }";
  return ".version 8.0\n.target sm_80\n.address_size 64\n" + elementwise("twice", "add.f32 %f3, %f1, %f2;") +
         elementwise("square", "mul.f32 %f3, %f1, %f2;") + elementwise("sum", "add.f32 %f3, %f1, %f2;") + reverse();
}

struct Client {
  Stream *copy = nullptr, *compute = nullptr, *side = nullptr;
  Event *loaded = nullptr, *consumed = nullptr, *forked = nullptr, *joined = nullptr, *computed = nullptr,
        *sent = nullptr;
  CuLibrary *library = nullptr;
  DevicePtr x = 0, y = 0, z = 0, w = 0, s = 0, out = 0;
  float *in = nullptr, *results = nullptr; // pinned: kSteps tensors each
  CuGraphExec *exec = nullptr;
  Context *context = nullptr;

  void open() {
    CU(cuInit, 0);
    CU(cuDevicePrimaryCtxRetain, &context, 0);
    CU(cuCtxSetCurrent, context);
    for (Stream **stream : {&copy, &compute, &side}) CU(cuStreamCreate, stream, kStreamNonBlocking);
    for (Event **e : {&loaded, &consumed, &forked, &joined, &computed, &sent})
      CU(cuEventCreate, e, kEventDisableTiming);
    std::string image = module();
    if (mutant == "cubin")
      image = "\x7f"
              "ELF\x02";
    CU(cuLibraryLoadData, &library, image.c_str(), nullptr, nullptr, 0, nullptr, nullptr, 0);
    DevicePtr arena = 0;
    CU(cuMemAlloc_v2, &arena, 5 * kBytes);
    CU(cuMemAlloc_v2, &s, kBytes);
    x = arena, y = x + kBytes, out = y + kBytes, w = out + kBytes,
    z = w + kBytes; // what n + 1 reaches of z is nobody's
    if (mutant == "one_slot") w = z;
    void *p = nullptr;
    if (mutant == "pageable")
      p = std::malloc(kSteps * kBytes);
    else
      CU(cuMemHostAlloc, &p, kSteps * kBytes, 0);
    in = static_cast<float *>(p);
    CU(cuMemHostAlloc, &p, kSteps * kBytes, 0);
    results = static_cast<float *>(p);
  }

  CuFunction *function(const char *name) {
    CuKernel *kernel = nullptr;
    CuFunction *f = nullptr;
    CU(cuLibraryGetKernel, &kernel, library, name);
    CU(cuKernelGetFunction, &f, kernel);
    return f;
  }

  void map(const char *name, DevicePtr o, DevicePtr a, DevicePtr b, Stream *stream) {
    unsigned n = kN;
    if (mutant == "wrong_n" && o == s) n = kN + 1;
    if (mutant == "misaligned" && o == s) a += 2;
    const unsigned threads = mutant == "too_many_threads" ? 2000 : kThreads;
    const unsigned shared = mutant == "too_much_shared" ? 49 * 1024 : 0;
    void *parameters[] = {&o, &a, &b, &n};
    CU(cuLaunchKernel, function(name), (n + threads - 1) / threads, 1, 1, threads, 1, 1, shared, stream, parameters,
       nullptr);
  }

  /// What is one graph: y = x + x on compute; z = y + y on side, w = y * y on compute; out = reverse(z + w).
  void body() {
    map("twice", y, x, x, compute);
    if (!useGraph) CU(cuEventRecord, consumed, compute);
    CU(cuEventRecord, forked, compute);
    if (!without("no_fork")) CU(cuStreamWaitEvent, side, forked, 0);
    map("sum", z, y, y, side);
    CU(cuEventRecord, joined, side);
    map("square", w, y, y, compute);
    if (!without("no_join")) CU(cuStreamWaitEvent, compute, joined, 0);
    map("sum", s, z, w, compute);
    if (mutant == "sync_in_capture") CU(cuStreamSynchronize, compute);
    void *parameters[] = {&out, &s};
    CU(cuLaunchKernel, function("reverse"), kN / kThreads, 1, 1, kThreads, 1, 1, 0, compute, parameters, nullptr);
  }

  void capture() {
    CU(cuStreamBeginCapture_v2, mutant == "legacy_stream" ? nullptr : compute, kCaptureThreadLocal);
    body();
    CuGraph *graph = nullptr;
    CU(cuStreamEndCapture, compute, &graph);
    CU(cuGraphInstantiateWithFlags, &exec, graph, 0);
    CU(cuGraphDestroy, graph);
  }

  void load(unsigned step) {
    if (step > 0 && !without("no_back_pressure")) CU(cuStreamWaitEvent, copy, consumed, 0);
    if (!without("no_copy")) CU(cuMemcpyHtoDAsync_v2, x, in + step * kN, kBytes, copy);
    if (mutant == "overwritten_input") std::memset(in + step * kN, 0, kBytes);
    CU(cuEventRecord, loaded, copy);
  }

  /// The next step's input is copied while this one computes: x has one credit, and so has out.
  void step(unsigned k) {
    if (k == 0) load(0);
    if (!without("no_copy_to_compute")) CU(cuStreamWaitEvent, compute, loaded, 0);
    if (!useGraph && !without("redundant_side_wait")) CU(cuStreamWaitEvent, side, loaded, 0);
    if (k > 0 && !without("no_credit")) CU(cuStreamWaitEvent, compute, sent, 0);
    if (useGraph) {
      CU(cuGraphLaunch, exec, compute);
      CU(cuEventRecord, consumed, compute);
    } else {
      body();
    }
    CU(cuEventRecord, computed, compute);
    if (k + 1 < kSteps) load(k + 1);
    if (!without("no_compute_to_copy")) CU(cuStreamWaitEvent, copy, computed, 0);
    if (!useGraph && !without("redundant_join_wait")) CU(cuStreamWaitEvent, copy, joined, 0);
    CU(cuMemcpyDtoHAsync_v2, results + k * kN, out, kBytes, copy);
    CU(cuEventRecord, sent, copy);
  }

  int run() {
    open();
    if (mutant == "device_pointer") return static_cast<int>(*reinterpret_cast<float *>(x));
    for (unsigned i = 0; i < kSteps * kN; ++i) in[i] = static_cast<float>(i % 37) - 18;
    if (useGraph) capture();
    for (unsigned k = 0; k < kSteps; ++k) step(k);
    if (!without("no_host_wait")) CU(cuStreamSynchronize, copy);
    bool right = true;
    for (unsigned i = 0; i < kSteps * kN; ++i) {
      const unsigned mirrored = i / kThreads * kThreads + kThreads - 1 - i % kThreads;
      const float v = static_cast<float>(mirrored % 37) - 18, doubled = v + v;
      right &= results[i] == (doubled + doubled) + doubled * doubled;
    }
    std::printf("results %s\n", right ? "right" : "wrong");
    if (exec) CU(cuGraphExecDestroy, exec);
    CU(cuLibraryUnload, library);
    CU(cuDevicePrimaryCtxRelease_v2, 0);
    return right ? 0 : 1;
  }
};

} // namespace

int main(int argc, char **argv) {
  for (int i = 1; i < argc; ++i)
    if (!std::strcmp(argv[i], "--graph"))
      useGraph = true;
    else
      mutant = argv[i];
  return Client().run();
}
