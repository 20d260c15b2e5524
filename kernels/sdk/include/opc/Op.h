// OpDef, KernelDef and GradDef, the builders that fill them, and the registration macros.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/ElementTypes.h"
#include "opc/Gradient.h"
#include "opc/Hob.h"
#include "opc/Kernel.h"
#include "opc/Version.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc {
namespace scalar {
class ScalarProgram;
}

namespace user_op {

class ElementwiseOptions;
namespace output {
struct Same;
}

/// A declared input or output argument. An argument binds `count` tensors; with `atLeast`, that many or more.
struct ArgDef {
  std::string name;
  bool optional = false;
  int32_t count = 1;
  bool atLeast = false;
  std::vector<std::string> aliases; // names that older graphs use
};

struct AttrDef {
  std::string name;
  AttrType type = kAtInvalid;
  AttrValue defaultValue; // empty: the graph must give one
  std::vector<std::string> aliases;
};

/// How the values of one case input are drawn (docs/writing-an-op.md).
struct CaseInput {
  std::string arg;
  int32_t index = 0;
  DataType type = kInvalidDataType; // kInvalidDataType: varies over the dtypes of the op's kernels
  Shape shape;
  double lo = -1, hi = 1;
};

/// A sample instance of an op: it drives conformance, gradient and SBP checks, fuzzing and benchmarks.
class Case {
public:
  Case() = default;
  explicit Case(std::string name) : name_(std::move(name)) {}
  /// An input whose element type varies; floating values are uniform in [lo, hi), integers in [lo, hi).
  Case &In(const std::string &arg, Shape shape, double lo = -1, double hi = 1, int32_t index = 0) {
    inputs_.push_back({arg, index, kInvalidDataType, std::move(shape), lo, hi});
    return *this;
  }
  /// An input with a fixed element type.
  Case &In(const std::string &arg, DataType type, Shape shape, double lo, double hi, int32_t index = 0) {
    inputs_.push_back({arg, index, type, std::move(shape), lo, hi});
    return *this;
  }
  template <class T> Case &Attr(const std::string &name, T value) {
    attrs_[name] = AttrValue(std::move(value));
    return *this;
  }
  /// Asks for an optional or variadic output.
  Case &Out(const std::string &arg, int32_t count = 1) {
    outputs_[arg] = count;
    return *this;
  }
  /// Restricts the varying element type.
  Case &Types(std::vector<DataType> types) {
    types_ = std::move(types);
    return *this;
  }
  const std::string &name() const { return name_; }
  const std::vector<CaseInput> &inputs() const { return inputs_; }
  const std::map<std::string, AttrValue> &attrs() const { return attrs_; }
  const std::map<std::string, int32_t> &outputs() const { return outputs_; }
  const std::vector<DataType> &types() const { return types_; }

private:
  std::string name_;
  std::vector<CaseInput> inputs_;
  std::map<std::string, AttrValue> attrs_;
  std::map<std::string, int32_t> outputs_;
  std::vector<DataType> types_;
};

struct InputBlobModifier {
  void set_is_mutable(bool v) { isMutable = v; }
  void set_requires_grad(bool v) { requiresGrad = v; }
  void set_use_header_only(bool) {}
  bool isMutable = false;
  bool requiresGrad = true;
};
struct OutputBlobModifier {
  void set_is_mutable(bool v) { isMutable = v; }
  void set_requires_grad(bool v) { requiresGrad = v; }
  void set_header_infered_before_compute(bool) {}
  void set_mutable_inplace_ibn(const std::string &ibn) { inplaceInput = ibn; }
  void set_const_inplace_ibn(const std::string &ibn) { inplaceInput = ibn; }
  bool isMutable = false;
  bool requiresGrad = true;
  std::string inplaceInput;
};
using GetInputArgModifier = std::function<InputBlobModifier *(const std::string &, int32_t)>;
using GetOutputArgModifier = std::function<OutputBlobModifier *(const std::string &, int32_t)>;

using TensorDescInferFn = std::function<Maybe<void>(InferContext *)>;
using CheckAttrFn = std::function<Maybe<void>(const UserOpDefWrapper &, const UserOpConfWrapper &)>;
using GetSbpFn = std::function<Maybe<void>(SbpContext *)>;
using ShardingFn = std::function<Maybe<ShardingRule>(const SbpContext &)>;
using InferSbpSignatureFn = std::function<Maybe<void>(InferSbpSignatureFnContext *)>;
using BatchAxisInferFn = std::function<Maybe<void>(BatchAxisContext *)>;
using InferOutputBlobTimeShapeFn = std::function<Maybe<void>(InferOutputBlobTimeShapeFnContext *)>;
using InputArgModifyFn = std::function<void(GetInputArgModifier, const UserOpConfWrapper &)>;
using OutputArgModifyFn = std::function<void(GetOutputArgModifier, const UserOpConfWrapper &)>;
using InferTmpSizeFn = std::function<size_t(InferContext *)>;
using AddInplaceArgPair =
    std::function<Maybe<void>(const std::string &out, int32_t oi, const std::string &in, int32_t ii, bool isMutable)>;
using InplaceProposalFn = std::function<Maybe<void>(const InferContext &, AddInplaceArgPair)>;
using ComputeComplexityFn = std::function<Maybe<double>(InferContext *)>;

/// Where a definition was written and which library holds it.
struct Origin {
  std::string file;
  int line = 0;
  int apiVersion = 0;
  std::string library; // by the host: a plugin's path; empty: it is built in
};

/// A kernel and the functions by which the host calls it. The functions are compiled into the kernel's own library and
/// let no exception out.
struct KernelDef {
  std::string opType;
  Origin origin;
  MatchCondition condition;
  int32_t priority = 0;
  bool hasState = false; // it makes an OpKernelState
  InferTmpSizeFn inferTmpSize;
  InplaceProposalFn proposeInplace;
  std::function<Status(KernelCreateContext *, std::unique_ptr<OpKernel> *)> create;

  Status (*init)(const OpKernel &, KernelInitContext *, std::shared_ptr<OpKernelState> *,
                 std::shared_ptr<OpKernelCache> *) = nullptr;
  Status (*bind)(const OpKernel &, KernelBindContext *, std::unique_ptr<BoundKernel> *) = nullptr;
  Status (*compute)(const OpKernel &, KernelComputeContext *, OpKernelState *, const OpKernelCache *) = nullptr;
  Status (*run)(BoundKernel &, DeviceCtx *) = nullptr;
};

/// What a definition says of its op's effects.
enum class Purity { kUnsaid, kPure, kImpure };

/// The only truth about an operator.
struct OpDef {
  std::string name;
  std::vector<std::string> aliases;
  std::string doc;
  Origin origin;
  std::vector<ArgDef> inputs, outputs;
  std::vector<AttrDef> attrs;
  TensorDescInferFn inferTensorDesc;
  TensorDescInferFn inferDataType; // optional: most rules set the dtype themselves
  CheckAttrFn checkAttr;
  GetSbpFn getSbp;
  InferSbpSignatureFn inferSbpSignature;
  BatchAxisInferFn inferBatchAxis;
  InferOutputBlobTimeShapeFn inferTimeShape;
  InputArgModifyFn modifyInputs;
  OutputArgModifyFn modifyOutputs;
  ComputeComplexityFn complexity;
  ShardingRule sharding;
  ShardingFn shardingOf; // a rule that depends on the op instance
  std::vector<Case> cases;
  std::map<DataType, std::pair<double, double>> tolerances; // rtol, atol
  std::shared_ptr<const scalar::ScalarProgram> scalar;      // elementwise ops: the expression
  std::vector<KernelDef> kernels;                           // kernels that come with the definition
  bool cpuOnly = false;
  Purity said = Purity::kUnsaid;
  bool pure = true;       // equal inputs give equal outputs, and nothing else happens: the registry concludes it
  std::string pureReason; // why it is held to be pure or not, for people
  bool isView = false;    // the output is the first input's bytes under another shape
  bool noGrad = false;
  std::string noGradReason;
  std::vector<std::string> gradientOf; // the ops whose gradients it computes, or a part of them; empty for forward ops
  int32_t pooledDims =
      0; // a pooling of images: the spatial dimensions of x, whose layout the attribute data_format has

  const ArgDef *findInput(const std::string &argOrAlias) const;
  const ArgDef *findOutput(const std::string &argOrAlias) const;
  const AttrDef *findAttr(const std::string &nameOrAlias) const;
};

/// The gradient rule of an operator.
struct GradDef {
  std::string opType;
  Origin origin;
  std::function<Status(BackwardOpConfContext *)> generate;
  std::function<Status(const UserOpWrapper &, const AddOpFn &)> generateOld;
};

namespace detail {

/// Runs `f` and turns whatever it throws into a Status. Compiled into the library that owns `f`.
template <class F> Status guarded(F &&f) {
  try {
    return f();
  } catch (const ContractError &e) {
    return Status(StatusCode::kInvalidGraph, "", e.what());
  } catch (const std::exception &e) {
    return Status(StatusCode::kExecution, "", std::string("exception: ") + e.what());
  } catch (...) {
    return Status(StatusCode::kExecution, "", "an exception that is no std::exception");
  }
}

/// Wraps a rule so that a throw becomes an error.
template <class R, class... Args> std::function<Maybe<R>(Args...)> guardRule(std::function<Maybe<R>(Args...)> rule) {
  if (!rule) return rule;
  return [rule = std::move(rule)](Args... args) -> Maybe<R> {
    if constexpr (std::is_void_v<R>) {
      return guarded([&] { return rule(args...).status(); });
    } else {
      std::optional<Maybe<R>> result;
      Status s = guarded([&] {
        result.emplace(rule(args...));
        return Status();
      });
      if (!s.isOk()) return s;
      return *result;
    }
  };
}

inline Status kernelInit(const OpKernel &k, KernelInitContext *ctx, std::shared_ptr<OpKernelState> *state,
                         std::shared_ptr<OpKernelCache> *cache) {
  return guarded([&] {
    *state = k.CreateOpKernelState(ctx);
    *cache = k.InitOpKernelCache(ctx);
    return Status();
  });
}
inline Status kernelBind(const OpKernel &k, KernelBindContext *ctx, std::unique_ptr<BoundKernel> *out) {
  return guarded([&] {
    *out = k.Bind(ctx);
    return Status();
  });
}
inline Status kernelCompute(const OpKernel &k, KernelComputeContext *ctx, OpKernelState *state,
                            const OpKernelCache *cache) {
  return guarded([&] {
    const opc::detail::RunningDevice running(ctx->device_ctx());
    k.Compute(ctx, state, cache);
    return Status();
  });
}
inline Status kernelRun(BoundKernel &k, DeviceCtx *ctx) {
  return guarded([&] {
    const opc::detail::RunningDevice running(ctx);
    k.Run(ctx);
    return Status();
  });
}

} // namespace detail

/// The builder behind REGISTER_USER_KERNEL.
class OpKernelRegistry {
public:
  OpKernelRegistry(const std::string &opType, const char *file, int line) {
    def_.opType = opType;
    def_.origin = {file, line, OPC_SDK_API_VERSION, ""};
    def_.condition = HobTrue();
    def_.init = detail::kernelInit;
    def_.bind = detail::kernelBind;
    def_.compute = detail::kernelCompute;
    def_.run = detail::kernelRun;
  }
  template <class T> OpKernelRegistry &SetCreateFn() {
    def_.hasState = detail::MakesState<T>::value;
    def_.create = [](KernelCreateContext *, std::unique_ptr<OpKernel> *out) {
      return detail::guarded([&] {
        *out = std::make_unique<T>();
        return Status();
      });
    };
    return *this;
  }
  template <class T> OpKernelRegistry &SetCreateWithCtxFn() {
    def_.hasState = detail::MakesState<T>::value;
    def_.create = [](KernelCreateContext *ctx, std::unique_ptr<OpKernel> *out) {
      return detail::guarded([&] {
        *out = std::make_unique<T>(ctx);
        return Status();
      });
    };
    return *this;
  }
  OpKernelRegistry &SetIsMatchedHob(MatchCondition condition) { return def_.condition = std::move(condition), *this; }
  /// Bytes of temporary memory (argument "tmp_buffer").
  OpKernelRegistry &SetInferTmpSizeFn(InferTmpSizeFn fn) { return def_.inferTmpSize = std::move(fn), *this; }
  OpKernelRegistry &SetInplaceProposalFn(InplaceProposalFn fn) { return def_.proposeInplace = std::move(fn), *this; }
  /// Among matching kernels the highest priority wins: -10 fallback, 0 default, 10 optimised, 100 experimental.
  OpKernelRegistry &SetPriority(int32_t priority) { return def_.priority = priority, *this; }
  OpKernelRegistry &Finish() { return *this; }
  KernelDef GetResult() const { return def_; }

private:
  KernelDef def_;
};

/// What the kernels of one registration share.
class KernelOptions {
public:
  /// The device that the kernel runs on, the CPU if not given.
  KernelOptions &Device(DeviceType type) { return device_ = type, *this; }
  /// Bytes of temporary memory (KernelBindContext::Tmp).
  KernelOptions &TmpSize(InferTmpSizeFn fn) { return tmpSize_ = std::move(fn), *this; }
  /// `out` may take the memory of `in`.
  KernelOptions &Inplace(const std::string &out, const std::string &in) {
    return Inplace([out, in](const InferContext &, AddInplaceArgPair add) { return add(out, 0, in, 0, true); });
  }
  KernelOptions &Inplace(InplaceProposalFn fn) { return inplace_ = std::move(fn), *this; }
  /// A condition beside those on device and element type.
  KernelOptions &When(MatchCondition condition) { return when_ = std::move(condition), *this; }
  KernelOptions &Priority(int32_t priority) { return priority_ = priority, *this; }

  /// A registration of kernel class K; `type`, if given, is the element type that it is for.
  template <class K> KernelDef make(const std::string &op, const Origin &origin, MatchCondition type = nullptr) const {
    OpKernelRegistry r(op, origin.file.c_str(), origin.line);
    if constexpr (std::is_default_constructible_v<K>)
      r.SetCreateFn<K>();
    else
      r.SetCreateWithCtxFn<K>();
    MatchCondition condition = HobDeviceType() == device_;
    if (type) condition = detail::isBoth(condition, type);
    if (when_) condition = condition & when_;
    r.SetIsMatchedHob(std::move(condition)).SetPriority(priority_);
    if (tmpSize_) r.SetInferTmpSizeFn(tmpSize_);
    if (inplace_) r.SetInplaceProposalFn(inplace_);
    return r.GetResult();
  }

private:
  DeviceType device_ = DeviceType::kCPU;
  InferTmpSizeFn tmpSize_;
  InplaceProposalFn inplace_;
  MatchCondition when_;
  int32_t priority_ = 0;
};

namespace detail {

/// The class that serves tensors of T: K<T>, or for a StagedKernel K of the type that it computes in.
template <class K, class = void> struct IsStaged : std::false_type {};
template <class K> struct IsStaged<K, std::void_t<typename K::StagedType>> : std::true_type {};
template <template <class> class K, class T>
using KernelFor = std::conditional_t<IsStaged<K<ComputeType<T>>>::value, K<ComputeType<T>>, K<T>>;

/// Adds kernels to whoever has an op, a place and a list (`kernelList`).
template <class Self> class AddsKernels {
public:
  /// Kernel class template K for each type of the list, selected by the element type of argument `arg`.
  template <template <class> class K, class Types>
  Self &Kernel(const std::string &arg, const KernelOptions &options = KernelOptions()) {
    return add<K>(arg, options, typename Types::List());
  }
  /// Kernel class K for all types (kernels that move bytes), or for those that `options` selects.
  template <class K> Self &Kernel(const KernelOptions &options = KernelOptions()) {
    auto [op, origin, list] = self().kernelList();
    list->push_back(options.make<K>(op, origin));
    return self();
  }

protected:
  struct KernelList {
    const std::string &op;
    const Origin &origin;
    std::vector<KernelDef> *list;
  };

private:
  Self &self() { return static_cast<Self &>(*this); }
  template <template <class> class K, class... T>
  Self &add(const std::string &arg, const KernelOptions &options, TypeList<T...>) {
    auto [op, origin, list] = self().kernelList();
    (list->push_back(options.make<KernelFor<K, T>>(op, origin, HobDataType(arg, 0) == GetDataType<T>::value)), ...);
    return self();
  }
};

} // namespace detail

/// The builder behind REGISTER_KERNELS: kernels of an op that is defined elsewhere.
class OpKernels : public detail::AddsKernels<OpKernels> {
public:
  OpKernels(const std::string &opType, const char *file, int line)
      : op_(opType), origin_{file, line, OPC_SDK_API_VERSION, ""} {}
  const std::vector<KernelDef> &GetResult() const { return kernels_; }

private:
  friend detail::AddsKernels<OpKernels>;
  KernelList kernelList() { return {op_, origin_, &kernels_}; }
  std::string op_;
  Origin origin_;
  std::vector<KernelDef> kernels_;
};

/// The builder behind REGISTER_USER_OP.
class OpRegistry : public detail::AddsKernels<OpRegistry> {
public:
  OpRegistry(const std::string &name, const char *file, int line) {
    def_.name = name;
    def_.origin = {file, line, OPC_SDK_API_VERSION, ""};
  }
  OpRegistry &Name(const std::string &name) { return def_.name = name, *this; }

  OpRegistry &Input(const std::string &n) { return arg(def_.inputs, {n, false, 1, false, {}}); }
  OpRegistry &Input(const std::string &n, int32_t num) { return arg(def_.inputs, {n, false, num, false, {}}); }
  OpRegistry &InputWithMinimum(const std::string &n, int32_t min) {
    return arg(def_.inputs, {n, false, min, true, {}});
  }
  OpRegistry &OptionalInput(const std::string &n) { return arg(def_.inputs, {n, true, 1, false, {}}); }
  OpRegistry &OptionalInput(const std::string &n, int32_t num) { return arg(def_.inputs, {n, true, num, false, {}}); }
  OpRegistry &OptionalInputWithMinimum(const std::string &n, int32_t min) {
    return arg(def_.inputs, {n, true, min, true, {}});
  }
  OpRegistry &OptionalInputWithMininum(const std::string &n, int32_t min) { return OptionalInputWithMinimum(n, min); }
  OpRegistry &Output(const std::string &n) { return arg(def_.outputs, {n, false, 1, false, {}}); }
  OpRegistry &Output(const std::string &n, int32_t num) { return arg(def_.outputs, {n, false, num, false, {}}); }
  OpRegistry &OutputWithMinimum(const std::string &n, int32_t min) {
    return arg(def_.outputs, {n, false, min, true, {}});
  }
  OpRegistry &OptionalOutput(const std::string &n) { return arg(def_.outputs, {n, true, 1, false, {}}); }
  OpRegistry &OptionalOutput(const std::string &n, int32_t num) { return arg(def_.outputs, {n, true, num, false, {}}); }
  OpRegistry &OptionalOutputWithMinimum(const std::string &n, int32_t min) {
    return arg(def_.outputs, {n, true, min, true, {}});
  }
  OpRegistry &OptionalOutputWithMininum(const std::string &n, int32_t min) { return OptionalOutputWithMinimum(n, min); }

  OpRegistry &SupportCpuOnly() { return def_.cpuOnly = true, *this; }
  OpRegistry &SupportNonContiguous() { return *this; }
  OpRegistry &SetOutputBufferNum(int32_t) { return *this; }

  OpRegistry &Attr(const std::string &n, AttrType type) { return def_.attrs.push_back({n, type, {}, {}}), *this; }
  template <class T> OpRegistry &Attr(const std::string &n, AttrType type, const T &value) {
    def_.attrs.push_back({n, type, AttrValue(value), {}});
    return *this;
  }
  template <class T> OpRegistry &Attr(const std::string &n, const T &value) {
    def_.attrs.push_back({n, GetAttrType<T>::value, AttrValue(value), {}});
    return *this;
  }
  template <class T> OpRegistry &Attr(const std::string &n) { return Attr<T>(n, T()); }
  /// An attribute that every graph must give.
  template <class T> OpRegistry &RequiredAttr(const std::string &n) {
    def_.attrs.push_back({n, GetAttrType<T>::value, {}, {}});
    return *this;
  }

  OpRegistry &SetTensorDescInferFn(TensorDescInferFn fn) {
    return def_.inferTensorDesc = detail::guardRule(std::move(fn)), *this;
  }
  OpRegistry &SetLogicalTensorDescInferFn(TensorDescInferFn fn) { return SetTensorDescInferFn(std::move(fn)); }
  OpRegistry &SetPhysicalTensorDescInferFn(TensorDescInferFn) { return *this; }
  OpRegistry &SetDataTypeInferFn(TensorDescInferFn fn) {
    return def_.inferDataType = detail::guardRule(std::move(fn)), *this;
  }
  OpRegistry &SetBatchAxisInferFn(BatchAxisInferFn fn) {
    return def_.inferBatchAxis = detail::guardRule(std::move(fn)), *this;
  }
  OpRegistry &SetGetSbpFn(GetSbpFn fn) { return def_.getSbp = detail::guardRule(std::move(fn)), *this; }
  OpRegistry &SetInferSbpSignatureFn(InferSbpSignatureFn fn) {
    return def_.inferSbpSignature = detail::guardRule(std::move(fn)), *this;
  }
  OpRegistry &SetSbpSignatureInferFn(InferSbpSignatureFn fn) { return SetInferSbpSignatureFn(std::move(fn)); }
  OpRegistry &SetInputArgModifyFn(InputArgModifyFn fn) { return def_.modifyInputs = std::move(fn), *this; }
  OpRegistry &SetOutputArgModifyFn(OutputArgModifyFn fn) { return def_.modifyOutputs = std::move(fn), *this; }
  OpRegistry &SetInferOutputBlobTimeShapeFn(InferOutputBlobTimeShapeFn fn) {
    return def_.inferTimeShape = detail::guardRule(std::move(fn)), *this;
  }
  OpRegistry &SetOutputBlobTimeShapeInferFn(InferOutputBlobTimeShapeFn fn) {
    return SetInferOutputBlobTimeShapeFn(std::move(fn));
  }
  OpRegistry &SetCheckAttrFn(CheckAttrFn fn) { return def_.checkAttr = detail::guardRule(std::move(fn)), *this; }
  OpRegistry &SetComputeComplexityFn(ComputeComplexityFn fn) {
    return def_.complexity = detail::guardRule(std::move(fn)), *this;
  }

  // opc's additions.
  /// A fragment of a definition that several ops share: a callable that adds to the builder.
  template <class F> OpRegistry &With(const F &fragment) { return fragment(*this), *this; }
  OpRegistry &Doc(std::string text) { return def_.doc = std::move(text), *this; }
  OpRegistry &Alias(const std::string &name) { return def_.aliases.push_back(name), *this; }
  /// Another name for the argument or attribute `name`, for graphs that use an older spelling.
  OpRegistry &ArgAlias(const std::string &alias, const std::string &name);
  OpRegistry &Cases(std::vector<Case> cases);
  OpRegistry &Tolerance(DataType type, double rtol, double atol) { return def_.tolerances[type] = {rtol, atol}, *this; }
  template <class... Parts> OpRegistry &Sharding(std::string einsum, const Parts &...parts) {
    return def_.sharding = ShardingRule(std::move(einsum), parts...), *this;
  }
  /// A rule that depends on attributes or shapes.
  OpRegistry &Sharding(ShardingFn fn) { return def_.shardingOf = detail::guardRule(std::move(fn)), *this; }
  /// Equal inputs give equal outputs, and nothing else happens (or not). Unsaid, ops without inputs or outputs and
  /// those with a kernel that makes a state are held to be impure: they are neither merged nor dropped nor computed
  /// ahead.
  OpRegistry &Pure(bool pure = true) { return def_.said = pure ? Purity::kPure : Purity::kImpure, *this; }
  OpRegistry &View() { return def_.isView = true, *this; }
  OpRegistry &NoGrad(std::string reason = "") {
    return def_.noGrad = true, def_.noGradReason = std::move(reason), *this;
  }
  /// The op computes the gradients of these ops, or a part of them: a graph that has it trains.
  template <class... Names> OpRegistry &GradientOf(const Names &...ops) {
    return (def_.gradientOf.emplace_back(ops), ...), *this;
  }
  /// The op pools images: it works on windows over the `dims` spatial dimensions of its one input x, and its attribute
  /// data_format names the layout of x and of the result. Compilers may change the layout.
  OpRegistry &Pools(int32_t dims) { return def_.pooledDims = dims, *this; }
  /// The op is the scalar function F, element by element. Goes after the arguments and attributes (opc/Elementwise.h).
  template <class F, class Types = types::Floating, class Output = output::Same> OpRegistry &Elementwise();
  template <class F, class Types = types::Floating, class Output = output::Same>
  OpRegistry &Elementwise(const ElementwiseOptions &options);

  OpRegistry &Finish() { return *this; }
  OpDef &def() { return def_; }
  OpDef GetResult() const { return def_; }

private:
  friend detail::AddsKernels<OpRegistry>;
  KernelList kernelList() { return {def_.name, def_.origin, &def_.kernels}; }
  OpRegistry &arg(std::vector<ArgDef> &list, ArgDef def) { return list.push_back(std::move(def)), *this; }
  OpDef def_;
};

/// The builder behind REGISTER_USER_OP_GRAD.
class OpGradRegistry {
public:
  OpGradRegistry(const std::string &opType, const char *file, int line) {
    def_.opType = opType;
    def_.origin = {file, line, OPC_SDK_API_VERSION, ""};
  }
  OpGradRegistry &SetBackwardOpConfGenFn(std::function<void(BackwardOpConfContext *)> fn) {
    def_.generate = [fn = std::move(fn)](BackwardOpConfContext *ctx) {
      return detail::guarded([&] { return fn(ctx), Status(); });
    };
    return *this;
  }
  OpGradRegistry &SetGenBackwardOpConfFn(std::function<void(const UserOpWrapper &, AddOpFn)> fn) {
    def_.generateOld = [fn = std::move(fn)](const UserOpWrapper &op, const AddOpFn &add) {
      return detail::guarded([&] { return fn(op, add), Status(); });
    };
    return *this;
  }
  OpGradRegistry &Finish() { return *this; }
  GradDef GetResult() const { return def_; }

private:
  GradDef def_;
};

/// What static registrars have left behind and no registry has taken yet.
struct PendingRegistrations {
  std::vector<OpDef> ops;
  std::vector<KernelDef> kernels;
  std::vector<GradDef> grads;
};
/// The list of this copy of the SDK (the host has one, libopc_sdk.so another).
PendingRegistrations &pendingRegistrations();

/// Hands a finished builder to the list; constructed by the REGISTER macros.
class UserOpRegisterTrigger {
public:
  UserOpRegisterTrigger(const OpRegistry &r) { pendingRegistrations().ops.push_back(r.GetResult()); }
  /// Of a builder that ends with the registration; a definition is large.
  UserOpRegisterTrigger(OpRegistry &r) { pendingRegistrations().ops.push_back(std::move(r.def())); }
  UserOpRegisterTrigger(const OpKernelRegistry &r) { pendingRegistrations().kernels.push_back(r.GetResult()); }
  UserOpRegisterTrigger(const OpKernels &r) {
    auto &kernels = pendingRegistrations().kernels;
    kernels.insert(kernels.end(), r.GetResult().begin(), r.GetResult().end());
  }
  UserOpRegisterTrigger(const OpGradRegistry &r) { pendingRegistrations().grads.push_back(r.GetResult()); }
};

} // namespace user_op
} // namespace opc

#define OPC_CONCAT_IMPL(a, b) a##b
#define OPC_CONCAT(a, b) OPC_CONCAT_IMPL(a, b)
#define OPC_REGISTER(Builder, name)                                                                                    \
  [[maybe_unused]] static const ::opc::user_op::UserOpRegisterTrigger OPC_CONCAT(opcRegisterTrigger, __COUNTER__) =    \
      ::opc::user_op::Builder(name, __FILE__, __LINE__)

#define REGISTER_USER_OP(name) OPC_REGISTER(OpRegistry, name)
#define REGISTER_CPU_ONLY_USER_OP(name) REGISTER_USER_OP(name).SupportCpuOnly()
#define REGISTER_USER_OP_GRAD(name) OPC_REGISTER(OpGradRegistry, name)
#define REGISTER_KERNELS(name) OPC_REGISTER(OpKernels, name)
#define REGISTER_USER_KERNEL(name) OPC_REGISTER(OpKernelRegistry, name)
