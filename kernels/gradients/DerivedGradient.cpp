// Gradient operators of elementwise ops, made from their scalar functions by symbolic differentiation.
// SPDX-License-Identifier: Apache-2.0
#include "DerivedGradient.h"

#include "opc/Elementwise.h"

#include <cstring>
#include <vector>

namespace opc {

using scalar::Expr;
using scalar::ScalarOp;
using scalar::ScalarProgram;
using user_op::OpDef;

namespace {

// Registers of a block stay in the L1 cache for expressions of up to some 50 nodes.
constexpr int64_t kBlock = 128;

/// An expression and the values of its attribute parameters, ready to run over blocks.
struct Interpreter {
  std::shared_ptr<const ScalarProgram> program;
  std::vector<double> attributes;
};

template <class C, class F> void unary(C *__restrict out, const C *a, F f) {
  OPC_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < kBlock; ++i) out[i] = f(a[i]);
}
template <class C, class F> void binary(C *__restrict out, const C *a, const C *b, F f) {
  OPC_INDEPENDENT_ITERATIONS
  for (int64_t i = 0; i < kBlock; ++i) out[i] = f(a[i], b[i]);
}

/// One node over a block of kBlock values (those beyond the data's end are computed and not stored).
template <class C> void runNode(const ScalarProgram::Node &n, C *out, const C *const *registers) {
  using F = scalar::Functions;
  const C *a = n.args[0] >= 0 ? registers[n.args[0]] : nullptr;
  const C *b = n.args[1] >= 0 ? registers[n.args[1]] : nullptr;
  switch (n.op) {
  case ScalarOp::kConstant:
  case ScalarOp::kParameter: return;
  case ScalarOp::kAdd: return binary(out, a, b, [](C x, C y) { return x + y; });
  case ScalarOp::kSub: return binary(out, a, b, [](C x, C y) { return x - y; });
  case ScalarOp::kMul: return binary(out, a, b, [](C x, C y) { return x * y; });
  case ScalarOp::kDiv: return binary(out, a, b, [](C x, C y) { return x / y; });
  case ScalarOp::kNegate: return unary(out, a, [](C x) { return -x; });
  case ScalarOp::kLess: return binary(out, a, b, [](C x, C y) { return C(x < y); });
  case ScalarOp::kLessEqual: return binary(out, a, b, [](C x, C y) { return C(x <= y); });
  case ScalarOp::kGreater: return binary(out, a, b, [](C x, C y) { return C(x > y); });
  case ScalarOp::kGreaterEqual: return binary(out, a, b, [](C x, C y) { return C(x >= y); });
  case ScalarOp::kEqual: return binary(out, a, b, [](C x, C y) { return C(x == y); });
  case ScalarOp::kNotEqual: return binary(out, a, b, [](C x, C y) { return C(x != y); });
  case ScalarOp::kAnd: return binary(out, a, b, [](C x, C y) { return C((x != C(0)) & (y != C(0))); });
  case ScalarOp::kOr: return binary(out, a, b, [](C x, C y) { return C((x != C(0)) | (y != C(0))); });
  case ScalarOp::kXor: return binary(out, a, b, [](C x, C y) { return C((x != C(0)) ^ (y != C(0))); });
  case ScalarOp::kNot: return unary(out, a, [](C x) { return C(x == C(0)); });
  case ScalarOp::kSelect: {
    const C *c = registers[n.args[2]];
    OPC_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < kBlock; ++i) out[i] = a[i] != C(0) ? b[i] : c[i];
    return;
  }
// clang-format 14 joins these lines.
// clang-format off
#define OPC_ONE(name) case ScalarOp::name: return unary(out, a, [](C x) { return C(F::name(x)); });
#define OPC_TWO(name) case ScalarOp::name: return binary(out, a, b, [](C x, C y) { return C(F::name(x, y)); });
#define OPC_BITS(name) case ScalarOp::name: return binary(out, a, b, [](C x, C y) { return C(F::name(static_cast<int64_t>(x), static_cast<int64_t>(y))); });
    // clang-format on
    OPC_SCALAR_UNARY_REAL(OPC_ONE)
    OPC_SCALAR_UNARY_ANY(OPC_ONE)
    OPC_SCALAR_TESTS(OPC_ONE)
    OPC_SCALAR_BINARY_ANY(OPC_TWO)
    OPC_SCALAR_BINARY_REAL(OPC_TWO)
    OPC_SCALAR_BINARY_BITS(OPC_BITS)
#undef OPC_ONE
#undef OPC_TWO
#undef OPC_BITS
  }
}

/// An elementwise::Row whose parameter is a pointer to the Interpreter.
template <class T>
void interpretRow(const void *const *in, uint32_t contiguous, const void *parameters, void *output, int64_t n) {
  using C = user_op::ComputeType<T>;
  const Interpreter *self;
  std::memcpy(&self, parameters, sizeof self);
  const auto &nodes = self->program->nodes();
  const int32_t inputs = self->program->inputs();
  // One buffer a thread, grown once: the steady state allocates nothing.
  thread_local std::vector<C> storage;
  thread_local std::vector<const C *> registers;
  storage.resize(nodes.size() * kBlock);
  registers.resize(nodes.size());
  for (size_t k = 0; k < nodes.size(); ++k) {
    const ScalarProgram::Node &node = nodes[k];
    C *block = &storage[k * kBlock];
    registers[k] = block;
    if (node.op == ScalarOp::kConstant)
      std::fill(block, block + kBlock, static_cast<C>(node.value));
    else if (node.op == ScalarOp::kParameter && node.parameter >= inputs)
      std::fill(block, block + kBlock, static_cast<C>(self->attributes[static_cast<size_t>(node.parameter - inputs)]));
    else if (node.op == ScalarOp::kParameter && !(contiguous >> node.parameter & 1u))
      std::fill(block, block + kBlock, static_cast<C>(*static_cast<const T *>(in[node.parameter])));
    else
      std::fill(block, block + kBlock, C(0));
  }
  T *out = static_cast<T *>(output);
  for (int64_t begin = 0; begin < n; begin += kBlock) {
    const int64_t count = std::min(kBlock, n - begin);
    for (size_t k = 0; k < nodes.size(); ++k) {
      const ScalarProgram::Node &node = nodes[k];
      C *block = &storage[k * kBlock];
      if (node.op == ScalarOp::kParameter && node.parameter < inputs && (contiguous >> node.parameter & 1u)) {
        const T *from = static_cast<const T *>(in[node.parameter]) + begin;
        if constexpr (std::is_same_v<C, T>) {
          // Whole blocks are read where they lie.
          if (count == kBlock) {
            registers[k] = from;
            continue;
          }
          registers[k] = block;
        }
        for (int64_t i = 0; i < count; ++i) block[i] = static_cast<C>(from[i]);
        continue;
      }
      runNode(node, block, registers.data());
    }
    const C *result = registers[nodes.size() - 1];
    for (int64_t i = 0; i < count; ++i) out[begin + i] = static_cast<T>(result[i]);
  }
}

/// Owns the interpreter that the bound kernel's row points to.
class BoundGradient final : public user_op::BoundKernel {
public:
  std::unique_ptr<Interpreter> interpreter;
  std::unique_ptr<user_op::BoundKernel> inner;
  void Run(DeviceCtx *ctx) override { inner->Run(ctx); }
};

template <class T> class DerivedKernel final : public user_op::OpKernel {
public:
  explicit DerivedKernel(std::shared_ptr<const ScalarProgram> program) : program_(std::move(program)) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override { return make(ctx); }
  void Compute(user_op::KernelComputeContext *ctx) const override { make(ctx)->Run(ctx->device_ctx()); }

private:
  std::unique_ptr<user_op::BoundKernel> make(user_op::KernelComputeContext *ctx) const {
    auto bound = std::make_unique<BoundGradient>();
    bound->interpreter = std::make_unique<Interpreter>();
    bound->interpreter->program = program_;
    if (program_->attributes)
      for (const auto &v : program_->attributes(ctx->user_op_conf(), GetDataType<T>::value))
        bound->interpreter->attributes.push_back(v.real);
    std::vector<user_op::elementwise::Operand> operands;
    for (int32_t i = 0; i < program_->inputs(); ++i)
      operands.push_back({program_->parameterNames()[static_cast<size_t>(i)], sizeof(T)});
    const Interpreter *self = bound->interpreter.get();
    bound->inner = user_op::elementwise::bind(ctx, operands, {"dx", sizeof(T)}, &interpretRow<T>, &self, sizeof self);
    return bound;
  }
  std::shared_ptr<const ScalarProgram> program_;
};

template <class T> void addKernel(OpDef *def, std::shared_ptr<const ScalarProgram> program) {
  using namespace user_op;
  OpKernelRegistry builder(def->name, def->origin.file.c_str(), def->origin.line);
  builder.SetIsMatchedHob((HobDeviceType() == DeviceType::kCPU) & (HobDataType("dy", 0) == GetDataType<T>::value));
  builder.SetInplaceProposalFn([](const InferContext &ctx, AddInplaceArgPair propose) -> Maybe<void> {
    const TensorDesc &out = ctx.OutputTensorDesc("dx", 0);
    for (const auto &[name, index] : ctx.inputs())
      if (ctx.InputTensorDesc(name, index).shape() == out.shape()) JUST(propose("dx", 0, name, index, true));
    return Maybe<void>::Ok();
  });
  KernelDef kernel = builder.GetResult();
  kernel.create = [program](KernelCreateContext *, std::unique_ptr<OpKernel> *out) {
    *out = std::make_unique<DerivedKernel<T>>(program);
    return Status();
  };
  def->kernels.push_back(std::move(kernel));
}

/// The expression with its parameters numbered anew.
Expr renumber(const ScalarProgram &program, const std::vector<int32_t> &to) {
  std::vector<Expr> built;
  for (const auto &n : program.nodes()) {
    if (n.op == ScalarOp::kConstant) {
      built.push_back(Expr(n.value));
    } else if (n.op == ScalarOp::kParameter) {
      built.push_back(Expr::parameter(to[static_cast<size_t>(n.parameter)]));
    } else {
      auto arg = [&](int i) { return built[static_cast<size_t>(n.args[i])]; };
      switch (scalar::scalarOpArity(n.op)) {
      case 1: built.push_back(Expr::make(n.op, {arg(0)})); break;
      case 2: built.push_back(Expr::make(n.op, {arg(0), arg(1)})); break;
      default: built.push_back(Expr::make(n.op, {arg(0), arg(1), arg(2)}));
      }
    }
  }
  return built.back();
}

} // namespace

std::string derivedGradientName(const OpDef &op, int32_t input) {
  return op.inputs.size() == 1 ? op.name + "_grad"
                               : op.name + "_" + op.inputs[static_cast<size_t>(input)].name + "_grad";
}

Result<std::unique_ptr<DerivedGradient>> deriveGradientOp(const OpDef &op, int32_t input) {
  auto derivative = op.scalar->derivative(input);
  if (!derivative)
    return Status(derivative.status().code(), derivative.status().id(),
                  "op " + op.name + ": " + derivative.status().message())
        .withHelp(derivative.status().help());
  if (derivative->isConstant(0)) return std::unique_ptr<DerivedGradient>();

  auto result = std::make_unique<DerivedGradient>();
  OpDef *def = &result->def;
  def->name = derivedGradientName(op, input);
  def->origin = op.origin;
  def->doc = "The gradient of " + op.name + " with respect to " + op.inputs[static_cast<size_t>(input)].name +
             ", times dy: " + derivative->text() + ".";
  def->attrs = op.attrs;
  def->gradientOf = {op.name};
  // Inputs that the derivative does not read are left out: their memory is free earlier.
  std::vector<int32_t> to(op.scalar->parameterNames().size(), 0);
  std::vector<std::string> names;
  for (size_t k = 0; k < op.inputs.size(); ++k) {
    if (!derivative->dependsOn(static_cast<int32_t>(k))) continue;
    // The derivative of a derived op: its own dy becomes an ordinary input under another name.
    std::string name = op.inputs[k].name;
    while (name == "dy" || name == "dx" || def->findInput(name)) name = "forward_" + name;
    to[k] = static_cast<int32_t>(names.size());
    def->inputs.push_back({name, false, 1, false, {}});
    names.push_back(name);
    result->reads.push_back(static_cast<int32_t>(k));
  }
  const auto dy = static_cast<int32_t>(names.size());
  def->inputs.push_back({"dy", false, 1, false, {}});
  names.push_back("dy");
  for (size_t k = op.inputs.size(); k < op.scalar->parameterNames().size(); ++k) {
    to[k] = static_cast<int32_t>(names.size());
    names.push_back(op.scalar->parameterNames()[k]);
  }
  def->outputs.push_back({"dx", false, 1, false, {}});

  const Expr slope = renumber(*derivative, to);
  const Expr gradient = derivative->isConstant(1) ? Expr::parameter(dy) : slope * Expr::parameter(dy);
  auto program = std::make_shared<ScalarProgram>(gradient, names, dy + 1);
  program->attributes = op.scalar->attributes;

  // Each derivative multiplies the expression's size: a graph may name any order, memory may not.
  if (program->nodes().size() > 4096)
    return Status(StatusCode::kUnsupported, "OPC0501",
                  "op " + op.name + ": the expression of its gradient has " + std::to_string(program->nodes().size()) +
                      " parts; the limit is 4096");
  user_op::elementwise::Spec spec;
  spec.program = program;
  spec.arity = static_cast<int32_t>(names.size());
  spec.options.attributes = op.scalar->attributes;
  user_op::elementwise::add(*def, std::move(spec));
  // Its cases have the attributes of the op's own, some of which are required.
  if (!op.cases.empty())
    for (user_op::Case &c : def->cases)
      for (const auto &[name, value] : op.cases.front().attrs()) c.Attr(name, value);
  std::shared_ptr<const ScalarProgram> shared = def->scalar;
  addKernel<float>(def, shared);
  addKernel<double>(def, shared);
  addKernel<float16>(def, shared);
  addKernel<bfloat16>(def, shared);
  return result;
}

} // namespace opc
