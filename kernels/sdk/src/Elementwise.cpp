// What all elementwise operators share: broadcasting, the loops over rows and threads, conversion of 16-bit floats,
// rules.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Elementwise.h"
#include "opc/BroadcastDims.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"
#include "opc/JoinableKernel.h"
#include "opc/ProcessorLevel.h"

#include <algorithm>
#include <cstring>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace opc::user_op::elementwise {
namespace {

// Elements a thread takes at a time. 16 Ki elements of f32 in and out are half of an L2 cache, and take microseconds.
constexpr int64_t kGrain = 16384;
constexpr int kMaxInputs = kMaxParameters;

// ---- 16-bit floats: converted in blocks to f32 and back, so that they need no loops of their own.

constexpr int64_t kBlock = 512;

#if defined(__x86_64__)
__attribute__((target("avx,f16c"))) void halfToFloatF16c(const uint16_t *in, float *out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(in + i))));
  for (; i < n; ++i) out[i] = _cvtsh_ss(in[i]);
}
__attribute__((target("avx,f16c"))) void floatToHalfF16c(const float *in, uint16_t *out, int64_t n) {
  int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; ++i) out[i] = static_cast<uint16_t>(_cvtss_sh(in[i], _MM_FROUND_TO_NEAREST_INT));
}
const bool kHasF16c = __builtin_cpu_supports("f16c") && __builtin_cpu_supports("avx");
#endif

void toFloat(DataType type, const void *in, float *out, int64_t n) {
  if (type == kBFloat16) {
    const auto *h = static_cast<const uint16_t *>(in);
    for (int64_t i = 0; i < n; ++i) out[i] = opc::detail::bitsToFloat(static_cast<uint32_t>(h[i]) << 16);
    return;
  }
#if defined(__x86_64__)
  if (kHasF16c) return halfToFloatF16c(static_cast<const uint16_t *>(in), out, n);
#endif
  const auto *h = static_cast<const float16 *>(in);
  for (int64_t i = 0; i < n; ++i) out[i] = static_cast<float>(h[i]);
}

void fromFloat(DataType type, const float *in, void *out, int64_t n) {
  if (type == kBFloat16) {
    auto *h = static_cast<bfloat16 *>(out);
    for (int64_t i = 0; i < n; ++i) h[i] = bfloat16(in[i]);
    return;
  }
#if defined(__x86_64__)
  if (kHasF16c) return floatToHalfF16c(in, static_cast<uint16_t *>(out), n);
#endif
  auto *h = static_cast<float16 *>(out);
  for (int64_t i = 0; i < n; ++i) h[i] = float16(in[i]);
}

// ---- Broadcasting: output dimensions, merged where every operand allows it; the innermost is one row.

struct Plan {
  int64_t total = 0;
  int64_t inner = 0;
  int outerRank = 0;
  int64_t dims[kMaxRank] = {};
  int64_t strides[kMaxInputs][kMaxRank] = {}; // in elements, of the outer dimensions
  uint32_t contiguous = 0;                    // inputs whose innermost stride is 1
};

Plan makePlan(const Shape &out, const std::vector<Shape> &inputs) {
  Plan plan;
  plan.total = out.elem_cnt();
  std::vector<BroadcastDim> dims = broadcastDims(out, inputs);
  std::reverse(dims.begin(), dims.end());
  plan.inner = dims.empty() ? 1 : dims.back().size;
  for (size_t k = 0; k < inputs.size(); ++k)
    if (dims.empty() ? true : dims.back().strides[k] != 0) plan.contiguous |= 1u << k;
  plan.outerRank = dims.empty() ? 0 : static_cast<int>(dims.size()) - 1;
  for (int i = 0; i < plan.outerRank; ++i) {
    plan.dims[i] = dims[static_cast<size_t>(i)].size;
    for (size_t k = 0; k < inputs.size(); ++k) plan.strides[k][i] = dims[static_cast<size_t>(i)].strides[k];
  }
  return plan;
}

/// A row with its parameters; 16-bit floats are converted on the way.
struct RowOfType {
  Row row = nullptr;
  int inputs = 0;
  size_t outSize = 0;
  DataType half = kInvalidDataType; // the stored type, when rows compute in f32 on a 16-bit type
  bool halfOutput = false;
  alignas(8) char parameters[kMaxParameters * 8] = {};

  void run(const void *const *in, uint32_t contiguous, char *out, int64_t n) const {
    if (half == kInvalidDataType) return row(in, contiguous, parameters, out, n);
    float buffers[kMaxInputs][kBlock];
    float result[kBlock];
    const void *converted[kMaxInputs] = {};
    for (int k = 0; k < inputs; ++k) {
      converted[k] = buffers[k];
      if (!(contiguous >> k & 1u)) toFloat(half, in[k], buffers[k], 1);
    }
    for (int64_t i = 0; i < n; i += kBlock) {
      const int64_t m = std::min(kBlock, n - i);
      for (int k = 0; k < inputs; ++k)
        if (contiguous >> k & 1u) toFloat(half, static_cast<const uint16_t *>(in[k]) + i, buffers[k], m);
      char *target = out + i * static_cast<int64_t>(outSize);
      row(converted, contiguous, parameters, halfOutput ? static_cast<void *>(result) : target, m);
      if (halfOutput) fromFloat(half, result, target, m);
    }
  }
};

class BoundRow final : public RowLoop {
public:
  explicit BoundRow(const RowOfType &row) : row_(row) {}
  void Run(const void *const *in, uint32_t contiguous, void *out, int64_t n) const override {
    const void *inputs[kMaxInputs] = {}; // those of attributes are null
    std::copy(in, in + row_.inputs, inputs);
    row_.run(inputs, contiguous, static_cast<char *>(out), n);
  }

private:
  RowOfType row_;
};

/// Everything is decided here; Run only loops.
class BoundElementwise final : public BoundKernel {
public:
  void Run(DeviceCtx *ctx) override {
    if (plan_.outerRank == 0 && row_.half == kInvalidDataType && (plan_.total <= kGrain || ctx->threads() <= 1)) {
      row_.row(in_, plan_.contiguous, row_.parameters, out_, plan_.total);
      return;
    }
    ctx->parallelFor(plan_.total, kGrain, [this](int64_t begin, int64_t end) { range(begin, end); });
  }

  RowOfType row_;
  const void *in_[kMaxInputs] = {};
  void *out_ = nullptr;
  Plan plan_;
  size_t inSize_[kMaxInputs] = {};

private:
  void range(int64_t begin, int64_t end) const {
    const void *in[kMaxInputs] = {};
    int64_t at[kMaxRank] = {};
    const int rank = plan_.outerRank, inputs = row_.inputs;
    int64_t row = begin / plan_.inner, offset = begin % plan_.inner;
    int64_t element[kMaxInputs] = {}; // where the current row begins in each input
    for (int d = rank; d-- > 0;) {
      at[d] = row % plan_.dims[d];
      row /= plan_.dims[d];
      for (int k = 0; k < inputs; ++k) element[k] += at[d] * plan_.strides[k][d];
    }
    while (begin < end) {
      const int64_t n = std::min(plan_.inner - offset, end - begin);
      for (int k = 0; k < inputs; ++k) {
        const int64_t first = element[k] + ((plan_.contiguous >> k & 1u) ? offset : 0);
        in[k] = static_cast<const char *>(in_[k]) + first * static_cast<int64_t>(inSize_[k]);
      }
      row_.run(in, plan_.contiguous, static_cast<char *>(out_) + begin * static_cast<int64_t>(row_.outSize), n);
      begin += n;
      offset = 0;
      for (int d = rank; d-- > 0;) {
        for (int k = 0; k < inputs; ++k) element[k] += plan_.strides[k][d];
        if (++at[d] < plan_.dims[d]) break;
        for (int k = 0; k < inputs; ++k) element[k] -= plan_.strides[k][d] * plan_.dims[d];
        at[d] = 0;
      }
    }
  }
};

RowOfType makeRow(size_t inputs, size_t outSize, Row row, const void *parameters, size_t parameterBytes) {
  RowOfType made;
  if (inputs > kMaxInputs || parameterBytes > sizeof made.parameters)
    throw ContractError("an elementwise kernel takes at most " + std::to_string(kMaxParameters) + " parameters");
  made.row = row;
  made.inputs = static_cast<int>(inputs);
  made.outSize = outSize;
  if (parameterBytes > 0) std::memcpy(made.parameters, parameters, parameterBytes);
  return made;
}

std::unique_ptr<BoundElementwise> makeBound(KernelComputeContext *ctx, const std::vector<Operand> &inputs,
                                            const Operand &output, const RowOfType &row) {
  auto bound = std::make_unique<BoundElementwise>();
  std::vector<Shape> shapes;
  for (const Operand &operand : inputs) {
    const Tensor *t = ctx->Tensor4ArgNameAndIndex(operand.arg, 0);
    const auto k = shapes.size();
    shapes.push_back(t->shape());
    bound->in_[k] = t->raw_dptr();
    bound->inSize_[k] = operand.elementSize;
  }
  Tensor *out = ctx->Tensor4ArgNameAndIndex(output.arg, 0);
  bound->row_ = row;
  bound->out_ = out->mut_raw_dptr();
  bound->plan_ = makePlan(out->shape(), shapes);
  return bound;
}

void putParameter(char *block, size_t k, const scalar::ScalarValue &v, DataType type) {
  const bool done = visit<types::Numbers>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (isShortFloat<T>)
      return false;
    else {
      const T value = v.as<T>();
      std::memcpy(block + k * sizeof(T), &value, sizeof(T));
      return true;
    }
  });
  if (!done) throw ContractError(std::string("no scalar function computes in ") + dataTypeName(type));
}

/// What the kernels of one op share.
struct Shared {
  std::vector<std::string> inputs;
  std::string output;
  bool boolOutput;
  std::shared_ptr<const scalar::ScalarProgram> program;
};

class ElementwiseKernel final : public OpKernel, public JoinableKernel {
public:
  ElementwiseKernel(std::shared_ptr<const Shared> op, RowKernel kernel) : op_(std::move(op)), kernel_(kernel) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return make(ctx); }
  void Compute(KernelComputeContext *ctx) const override { make(ctx)->Run(ctx->device_ctx()); }
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    return detail::guarded([&] {
      *loop = std::make_unique<BoundRow>(row(ctx.user_op_conf()));
      return Status();
    });
  }

private:
  size_t size() const { return GetSizeOfDataType(kernel_.type); }
  RowOfType row(const UserOpConfWrapper &conf) const {
    char block[kMaxParameters * 8] = {};
    if (op_->program->attributes) {
      const auto values = op_->program->attributes(conf, kernel_.type);
      for (size_t i = 0; i < values.size(); ++i)
        putParameter(block, op_->inputs.size() + i, values[i], kernel_.computeType);
    }
    RowOfType row = makeRow(op_->inputs.size(), op_->boolOutput ? 1 : size(), kernel_.row, block, sizeof block);
    if (kernel_.type == kFloat16 || kernel_.type == kBFloat16) {
      row.half = kernel_.type;
      row.halfOutput = !op_->boolOutput;
    }
    return row;
  }
  std::unique_ptr<BoundKernel> make(KernelComputeContext *ctx) const {
    std::vector<Operand> operands;
    for (const std::string &name : op_->inputs) operands.push_back({name, size()});
    const RowOfType computed = row(ctx->user_op_conf());
    return makeBound(ctx, operands, {op_->output, computed.outSize}, computed);
  }
  std::shared_ptr<const Shared> op_;
  RowKernel kernel_;
};

Maybe<void> inferElementwise(const Shared &op, bool sameShape, InferContext *ctx) {
  std::vector<std::pair<std::string, Shape>> shapes;
  const TensorDesc first = ctx->InputTensorDesc(op.inputs[0], 0);
  for (const std::string &name : op.inputs) {
    const TensorDesc &d = ctx->InputTensorDesc(name, 0);
    if (d.data_type() != first.data_type())
      return (Error::TypeError() << "element types differ: " << op.inputs[0] << " is "
                                 << dataTypeName(first.data_type()) << ", " << name << " is "
                                 << dataTypeName(d.data_type()))
          .help("insert a cast");
    if (sameShape && d.shape() != first.shape())
      return Error::ShapeMismatch() << "the shapes of " << op.inputs[0] << " and " << name << " differ ("
                                    << first.shape().ToString() << " vs " << d.shape().ToString() << ")";
    shapes.emplace_back(name, d.shape());
  }
  const Shape shape = JUST(broadcastShapes(shapes));
  TensorDesc *out = ctx->TensorDesc4ArgNameAndIndex(op.output, 0);
  *out->mut_shape() = shape;
  *out->mut_data_type() = op.boolOutput ? kBool : first.data_type();
  return Maybe<void>::Ok();
}

std::vector<Case> defaultCases(const Shared &op, const ElementwiseOptions &options) {
  // One row for each case: the shapes of the first input and of the others.
  struct Shapes {
    const char *name;
    Shape first, others;
  };
  std::vector<Shapes> list = {
      {"scalar", {}, {}}, {"vector", {17}, {17}}, {"matrix", {3, 5}, {3, 5}}, {"empty", {0, 3}, {0, 3}}};
  if (op.inputs.size() > 1 && !options.sameShape) {
    list.push_back({"broadcast_rows", {4, 1, 5}, {3, 1}});
    list.push_back({"broadcast_outer", {7, 1}, {1, 9}});
    list.push_back({"broadcast_scalar", {2, 3}, {}});
    list.push_back({"broadcast_left", {}, {2, 3}});
    list.push_back({"broadcast_empty", {0, 3}, {1, 3}});
  }
  std::vector<Case> cases;
  for (const Shapes &s : list) {
    Case c(s.name);
    for (size_t i = 0; i < op.inputs.size(); ++i) {
      auto own = options.domains.find(static_cast<int32_t>(i));
      const auto &range = own == options.domains.end() ? options.domain : own->second;
      c.In(op.inputs[i], i == 0 ? s.first : s.others, range.first, range.second);
    }
    for (const auto &[name, value] : options.caseAttrs) c.Attr(name, value);
    cases.push_back(std::move(c));
  }
  return cases;
}

/// The default reader: each numeric attribute is a parameter.
scalar::AttributeReader readAttributes(std::vector<std::string> names) {
  return [names = std::move(names)](const UserOpConfWrapper &conf, DataType) {
    std::vector<scalar::ScalarValue> values;
    for (const std::string &name : names) {
      auto it = conf.conf().attrs.find(name);
      if (it == conf.conf().attrs.end()) throw ContractError("no attribute '" + name + "'");
      const AttrValue &v = it->second;
      if (const auto *i32 = v.get<int32_t>())
        values.emplace_back(*i32);
      else if (const auto *i64 = v.get<int64_t>())
        values.emplace_back(*i64);
      else if (const auto *b = v.get<bool>())
        values.emplace_back(static_cast<int32_t>(*b));
      else if (const auto *f = v.get<float>())
        values.emplace_back(*f);
      else if (const auto *d = v.get<double>())
        values.emplace_back(*d);
      else
        throw ContractError("attribute '" + name + "' is " + attrTypeName(v.type()) + ", not a number");
    }
    return values;
  };
}

/// Those for this processor.
std::vector<RowKernel> chosenRows(const std::vector<RowKernel> &all) {
  std::vector<RowKernel> chosen;
  for (const RowKernel &k : all) {
    if (k.computeType != kInvalidDataType)
      chosen.push_back(k);
    else if (usesLevelV4())
      chosen.back().row = k.row;
  }
  return chosen;
}

/// A static registrar has nobody to report to: the op says it when it is used, by the sample that it gets here at
/// least.
void refuse(OpDef &def, const std::string &text) {
  def.inferTensorDesc = [text](InferContext *) -> Maybe<void> { return Error::RuntimeError() << text; };
  if (!def.cases.empty()) return;
  Case sample("of its definition");
  for (const ArgDef &a : def.inputs)
    for (int32_t i = 0; i < a.count; ++i) sample.In(a.name, Shape({1}), 0, 1, i);
  for (const AttrDef &a : def.attrs) {
    if (!a.defaultValue.empty()) continue;
    switch (a.type) {
    case kAtInt32: sample.Attr(a.name, int32_t{1}); break;
    case kAtInt64: sample.Attr(a.name, int64_t{1}); break;
    case kAtBool: sample.Attr(a.name, true); break;
    case kAtFloat: sample.Attr(a.name, 1.f); break;
    case kAtDouble: sample.Attr(a.name, 1.0); break;
    case kAtString: sample.Attr(a.name, std::string()); break;
    default: break;
    }
  }
  def.cases.push_back(std::move(sample));
}

bool isNumeric(AttrType t) { return t == kAtInt32 || t == kAtInt64 || t == kAtBool || t == kAtFloat || t == kAtDouble; }

} // namespace

Maybe<Shape> broadcastShapes(const std::vector<std::pair<std::string, Shape>> &inputs) {
  int64_t rank = 0;
  for (const auto &in : inputs) rank = std::max(rank, in.second.NumAxes());
  DimVector dims(static_cast<size_t>(rank), 1);
  for (int64_t axis = 0; axis < rank; ++axis)
    for (const auto &in : inputs) {
      const int64_t own = axis - (rank - in.second.NumAxes());
      const int64_t size = own >= 0 ? in.second.At(own) : 1;
      int64_t &d = dims[static_cast<size_t>(axis)];
      if (size == 1 || size == d) continue;
      if (d != 1) {
        std::string shapes;
        for (size_t i = 0; i < inputs.size(); ++i)
          shapes += (i ? " and " : "") + inputs[i].first + " " + inputs[i].second.ToString();
        return (Error::ShapeMismatch() << "shapes do not broadcast: " << shapes << " (dimension " << axis - rank << ": "
                                       << d << " vs " << size << ")")
            .help("sizes are compared from the last dimension; they must be equal or 1");
      }
      d = size;
    }
  return Shape(std::move(dims));
}

std::unique_ptr<BoundKernel> bind(KernelComputeContext *ctx, const std::vector<Operand> &inputs, const Operand &output,
                                  Row row, const void *parameters, size_t parameterBytes) {
  return makeBound(ctx, inputs, output, makeRow(inputs.size(), output.elementSize, row, parameters, parameterBytes));
}

std::unique_ptr<RowLoop> makeLoop(size_t inputs, size_t outputElementSize, Row row, const void *parameters,
                                  size_t parameterBytes) {
  return std::make_unique<BoundRow>(makeRow(inputs, outputElementSize, row, parameters, parameterBytes));
}

void add(OpDef &def, Spec spec) {
  auto op = std::make_shared<Shared>();
  for (const ArgDef &a : def.inputs) op->inputs.push_back(a.name);
  op->output = def.outputs.empty() ? "" : def.outputs[0].name;
  op->boolOutput = spec.boolOutput;
  op->program = spec.program;

  std::vector<std::string> names = op->inputs, attrs;
  if (spec.options.attributes) {
    const auto &given = spec.program->parameterNames();
    for (size_t i = names.size(); i < given.size(); ++i) names.push_back(given[i]);
    spec.program->attributes = spec.options.attributes;
  } else {
    for (const AttrDef &a : def.attrs)
      if (isNumeric(a.type)) attrs.push_back(a.name);
    names.insert(names.end(), attrs.begin(), attrs.end());
    if (!attrs.empty()) spec.program->attributes = readAttributes(attrs);
  }
  for (const ArgDef &a : def.inputs)
    if (a.optional || a.count != 1 || a.atLeast)
      return refuse(def, "the scalar function of op '" + def.name + "' takes one element of each input, and '" +
                             a.name + "' may be absent or several tensors: declare it with Input(\"" + a.name + "\")");
  if (op->inputs.empty() || def.outputs.size() != 1 || names.size() != static_cast<size_t>(spec.arity))
    return refuse(def, "the scalar function of op '" + def.name + "' has " + std::to_string(spec.arity) +
                           " parameters, but the op declares " + std::to_string(op->inputs.size()) + " inputs, " +
                           std::to_string(attrs.size()) + " numeric attributes and " +
                           std::to_string(def.outputs.size()) + " outputs; call Elementwise after the declarations");
  spec.program->setParameterNames(names);
  def.scalar = spec.program;

  const bool sameShape = spec.options.sameShape;
  def.inferTensorDesc = detail::guardRule(
      TensorDescInferFn([op, sameShape](InferContext *ctx) { return inferElementwise(*op, sameShape, ctx); }));
  if (def.sharding.empty()) {
    std::string rule;
    for (size_t i = 0; i < op->inputs.size(); ++i) rule += i ? ", ..." : "...";
    def.sharding.einsum = rule + " -> ...";
    for (auto &group : spec.program->linearGroups()) def.sharding.linear.push_back(Linear(std::move(group)));
  }
  if (def.cases.empty()) def.cases = defaultCases(*op, spec.options);

  for (const RowKernel &row : chosenRows(spec.kernels)) {
    OpKernelRegistry builder(def.name, def.origin.file.c_str(), def.origin.line);
    builder.SetIsMatchedHob(
        detail::isBoth(HobDeviceType() == DeviceType::kCPU, HobDataType(op->inputs[0], 0) == row.type));
    if (!spec.boolOutput || row.type == kBool)
      builder.SetInplaceProposalFn([op](const InferContext &ctx, AddInplaceArgPair propose) -> Maybe<void> {
        const TensorDesc &out = ctx.OutputTensorDesc(op->output, 0);
        for (const std::string &name : op->inputs) {
          const TensorDesc &in = ctx.InputTensorDesc(name, 0);
          if (in.shape() == out.shape() && in.data_type() == out.data_type())
            JUST(propose(op->output, 0, name, 0, true));
        }
        return Maybe<void>::Ok();
      });
    KernelDef kernel = builder.GetResult();
    kernel.create = [op, row](KernelCreateContext *, std::unique_ptr<OpKernel> *out) {
      return detail::guarded([&] {
        *out = std::make_unique<ElementwiseKernel>(op, row);
        return Status();
      });
    };
    def.kernels.push_back(std::move(kernel));
  }
}

} // namespace opc::user_op::elementwise
