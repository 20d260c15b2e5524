// OpKernel and the contexts that kernels receive.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Contexts.h"

#include <memory>
#include <type_traits>
#include <vector>

struct CUstream_st;

namespace opc {

/// Where the running session stands. What a random kernel draws should follow from it: `opc run --seed`, and a training
/// that goes on from a checkpoint, then give what they gave before.
struct RunPosition {
  uint64_t seed = 0;
  int64_t step = -1; // from 0; -1 outside of a session, where a kernel counts its runs itself
};

/// The executor that a kernel runs on: a CPU stream with a number of threads, or a CUDA stream.
class DeviceCtx {
public:
  using Body = void (*)(void *arg, int64_t begin, int64_t end);
  using ParallelForFn = void (*)(int64_t n, int64_t grain, int threads, Body body, void *arg);

  DeviceCtx() = default;
  DeviceCtx(DeviceType type, int threads, ParallelForFn loop, CUstream_st *stream = nullptr)
      : type_(type), threads_(threads), parallelFor_(loop), stream_(stream) {}
  DeviceType device_type() const { return type_; }
  /// The CUDA stream (cudaStream_t) to launch on; nullptr on a CPU.
  CUstream_st *cuda_stream() const { return stream_; }
  /// How many threads a CPU kernel may use.
  int threads() const { return threads_; }
  /// The session's seed and step.
  const RunPosition &position() const { return position_; }
  /// For the host: before each step.
  void setPosition(const RunPosition &position) { position_ = position; }
  /// Calls f(begin, end) on disjoint ranges that cover [0, n), each of at least `grain` elements but for the last.
  /// Where ranges begin depends on n and grain alone when the caller's result does (see docs/writing-an-op.md).
  template <class F> void parallelFor(int64_t n, int64_t grain, F &&f) const {
    if (n <= 0) return;
    if (threads_ <= 1 || n <= grain || !parallelFor_) {
      f(int64_t{0}, n);
      return;
    }
    using Fn = std::remove_reference_t<F>;
    parallelFor_(
        n, grain, threads_, [](void *arg, int64_t b, int64_t e) { (*static_cast<Fn *>(arg))(b, e); },
        const_cast<void *>(static_cast<const void *>(&f)));
  }

private:
  DeviceType type_ = DeviceType::kCPU;
  int threads_ = 1;
  ParallelForFn parallelFor_ = nullptr;
  CUstream_st *stream_ = nullptr;
  RunPosition position_;
};

namespace detail {
/// The executor of the kernel that runs on this thread, for functions of OneFlow's API that are not handed one.
inline thread_local DeviceCtx *runningDevice = nullptr;
class RunningDevice {
public:
  explicit RunningDevice(DeviceCtx *ctx) : before_(runningDevice) { runningDevice = ctx; }
  RunningDevice(const RunningDevice &) = delete;
  RunningDevice &operator=(const RunningDevice &) = delete;
  ~RunningDevice() { runningDevice = before_; }

private:
  DeviceCtx *before_;
};
} // namespace detail

namespace user_op {

class OpKernelState {
public:
  virtual ~OpKernelState() = default;
};
class OpKernelCache {
public:
  virtual ~OpKernelCache() = default;
};

/// Where a device's piece of a tensor lies in the whole, when the graph runs on several devices.
struct TensorShard {
  TensorDesc logical;              // of the whole tensor
  std::vector<int64_t> begin;      // the piece's first index on each axis
  std::vector<SbpParallel> states; // one for each dimension of the mesh
};

/// What all kernel contexts offer.
class KernelContext : public OpContext {
public:
  virtual DeviceType device_type() const = 0;
  /// This device's piece of an argument's tensor.
  const TensorDesc &Desc(const std::string &arg, int32_t index = 0) const {
    const TensorDesc *d = findDesc(arg, index);
    if (!d) detail::throwNoArg("argument", arg, index, user_op_conf().conf());
    return *d;
  }
  // The rest in OneFlow's spelling.
  /// This device's piece: the whole tensor unless the graph runs on several devices. nullptr when the op instance has
  /// no such argument.
  const TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    return findDesc(arg, index);
  }
  /// The whole tensor.
  const TensorDesc *LogicalTensorDesc4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    const TensorShard *s = findShard(arg, index);
    return s ? &s->logical : findDesc(arg, index);
  }
  /// The device among those of the op: 0 of 1 unless the graph runs on several.
  virtual const ParallelContext &parallel_ctx() const { return parallelContext_; }
  const ParallelDesc &parallel_desc() const { return parallelDesc_; }
  const JobDesc &job_desc() const { return jobDesc_; }
  /// The tensor's state on the mesh's first dimension; B when the graph runs on one device.
  const SbpParallel &SbpParallel4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    const TensorShard *s = findShard(arg, index);
    return s && !s->states.empty() ? s->states[0] : broadcast_;
  }
  /// The first index of this device's piece on an axis: 0 where the device holds the whole axis.
  int64_t ShardBegin(const std::string &arg, int32_t index, int64_t axis) const {
    const TensorShard *s = findShard(arg, index);
    return s ? s->begin[static_cast<size_t>(axis)] : 0;
  }

protected:
  virtual const TensorDesc *findDesc(const std::string &arg, int32_t index) const = 0;
  /// nullptr: the device holds the whole tensor.
  virtual const TensorShard *findShard(const std::string &, int32_t) const { return nullptr; }

private:
  ParallelContext parallelContext_{0, 1};
  ParallelDesc parallelDesc_;
  JobDesc jobDesc_;
  SbpParallel broadcast_ = SbpParallel::broadcast();
};

/// Selection time: which kernel fits this op instance?
class KernelRegContext : public KernelContext {
public:
  std::string device_tag() const { return DeviceTag(device_type()); }
};

/// Construction with SetCreateWithCtxFn.
class KernelCreateContext : public KernelContext {};

class KernelInitContext : public KernelContext {
public:
  virtual DeviceCtx *device_ctx() = 0;
};
using KernelCacheContext = KernelInitContext;

/// Run time.
class KernelComputeContext : public KernelContext {
public:
  virtual DeviceCtx *device_ctx() = 0;
  DeviceCtx *stream() { return device_ctx(); }
  /// The tensor of an argument, which must be there (see Has). Without an index the first.
  const Tensor &In(const std::string &arg, int32_t index = 0) { return bound("input", arg, index); }
  Tensor &Out(const std::string &arg, int32_t index = 0) { return bound("output", arg, index); }
  /// The temporary buffer as T; nullptr when the kernel asked for none or for nothing.
  template <class T> T *Tmp() {
    Tensor *t = findTensor("tmp_buffer", 0);
    return t ? static_cast<T *>(t->mut_raw_dptr()) : nullptr;
  }
  /// Equal to nullptr when the op instance has no such argument. "tmp_buffer", 0 is the temporary buffer.
  TensorLookup Tensor4ArgNameAndIndex(const std::string &arg, int32_t index) {
    return TensorLookup(findTensor(arg, index));
  }

protected:
  virtual Tensor *findTensor(const std::string &arg, int32_t index) = 0;

private:
  Tensor &bound(const char *what, const std::string &arg, int32_t index) {
    Tensor *t = findTensor(arg, index);
    if (!t) detail::throwNoArg(what, arg, index, user_op_conf().conf());
    return *t;
  }
};

/// Load time, once per task: every tensor is at the address it keeps for the life of the session.
class KernelBindContext : public KernelComputeContext {
public:
  /// True when the tensor's contents are final now and stay so (constants; variables of an inference session).
  virtual bool isConstant(const std::string &arg, int32_t index) const = 0;
};

class KernelInferContext : public KernelContext {
public:
  virtual DeviceCtx *device_ctx() = 0;
  virtual TensorLookup Tensor4ArgNameAndIndex(const std::string &arg, int32_t index) = 0;
  virtual const ShapeView &ShapeView4ArgNameAndIndex(const std::string &arg, int32_t index) = 0;
  virtual MutShapeView *MutShapeView4ArgNameAndIndex(const std::string &arg, int32_t index) = 0;
};

/// A kernel with everything decided: addresses, sizes, packed weights, library handles. Run() does only the work.
class BoundKernel {
public:
  virtual ~BoundKernel() = default;
  virtual void Run(DeviceCtx *ctx) = 0;
};

/// A kernel. One object serves one task of one session; Compute may be called from one thread at a time.
class OpKernel {
public:
  virtual ~OpKernel() = default;
  virtual std::shared_ptr<OpKernelState> CreateOpKernelState(KernelInitContext *) const { return nullptr; }
  virtual std::shared_ptr<OpKernelCache> InitOpKernelCache(KernelCacheContext *) const { return nullptr; }
  /// The host calls the first; each hands on to the next, so that a kernel overrides the one that it needs.
  virtual void Compute(KernelComputeContext *ctx, OpKernelState *state, const OpKernelCache *) const {
    Compute(ctx, state);
  }
  virtual void Compute(KernelComputeContext *ctx, OpKernelState *) const { Compute(ctx); }
  virtual void Compute(KernelComputeContext *) const { throw ContractError("the kernel overrides no Compute"); }
  virtual void InferShape(KernelInferContext *) const {}
  virtual bool AlwaysComputeWhenAllOutputsEmpty() const = 0;
  virtual bool IsKernelLaunchSynchronized() const { return true; }
  /// opc's addition: return an object whose Run() replaces Compute for this task, or nullptr to keep Compute.
  virtual std::unique_ptr<BoundKernel> Bind(KernelBindContext *) const { return nullptr; }
};

namespace detail {
/// Whether kernel class K overrides CreateOpKernelState, and so carries something from one run to the next. A class
/// whose override is private says so, too: it cannot be looked at.
template <class K, class = void> struct MakesState : std::true_type {};
template <class K>
struct MakesState<K, std::void_t<decltype(&K::CreateOpKernelState)>>
    : std::bool_constant<!std::is_same_v<decltype(&K::CreateOpKernelState), decltype(&OpKernel::CreateOpKernelState)>> {
};
} // namespace detail

/// A kernel that always binds, and has nothing to do when all its outputs are empty.
class BindingKernel : public OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
};

namespace detail {
/// Turns a callable into a BoundKernel.
template <class F> class BoundFunction final : public BoundKernel {
public:
  explicit BoundFunction(F f) : f_(std::move(f)) {}
  void Run(DeviceCtx *ctx) override { f_(ctx); }

private:
  F f_;
};
} // namespace detail

/// `return bindTask([=](DeviceCtx *ctx) { ... });` in a Bind override.
template <class F> std::unique_ptr<BoundKernel> bindTask(F f) {
  return std::make_unique<detail::BoundFunction<F>>(std::move(f));
}

} // namespace user_op
} // namespace opc
