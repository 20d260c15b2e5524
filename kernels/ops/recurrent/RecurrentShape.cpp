// Checks, shape rules and definitions of the recurrent layers.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentShape.h"

#include "support/IndexCheck.h"
#include "support/SbpRules.h"

#include <cmath>

namespace opc::ops {

namespace {

/// The descriptor of an input; nullptr where it is left out.
using Descs = std::function<const TensorDesc *(const char *)>;

Maybe<void> expect(const Descs &in, const char *arg, const Shape &shape, DataType type, const char *what) {
  const TensorDesc *d = in(arg);
  if (!d || *d == TensorDesc(shape, type)) return Maybe<void>::Ok();
  if (d->data_type() != type)
    return (Error::TypeError().id("OPC0204") << arg << " is " << d->toString() << ", x has " << dataTypeName(type))
        .help(std::string("cast ") + arg + " to " + dataTypeName(type));
  return Error::ShapeMismatch() << arg << " is " << d->toString() << ", expected " << shape.ToString() << ": " << what;
}

Maybe<int64_t> directionsOf(const OpContext &ctx, bool *reversed) {
  const std::string &direction = ctx.Attr<std::string>("direction");
  *reversed = direction == "reverse";
  if (direction == "forward" || direction == "reverse") return int64_t{1};
  if (direction == "bidirectional") return int64_t{2};
  return (Error::InvalidValueError().id("OPC0205") << "direction is \"" << direction << "\"")
      .help("it is \"forward\", \"reverse\" or \"bidirectional\"");
}

Maybe<void> readFunctions(const OpContext &ctx, RecurrentShape *r) {
  auto names = ctx.Attr<std::vector<std::string>>("activations");
  std::vector<std::string> usual = {"Sigmoid", "Tanh"};
  if (r->kind == CellKind::kRnn) usual = {"Tanh"};
  if (r->kind == CellKind::kLstm) usual.push_back("Tanh");
  const size_t want = usual.size() * static_cast<size_t>(r->directions);
  if (names.empty())
    while (names.size() < want) names.insert(names.end(), usual.begin(), usual.end());
  if (names.size() != want)
    return Error::InvalidValueError().id("OPC0205") << "activations has " << names.size() << " names, expected " << want
                                                    << ": " << usual.size() << " for each direction";
  r->functions = JUST(gateFunctions(names, ctx.Attr<std::vector<float>>("activation_alpha"),
                                    ctx.Attr<std::vector<float>>("activation_beta")));
  return Maybe<void>::Ok();
}

Maybe<void> checkInputs(const RecurrentShape &r, const Descs &in) {
  const DataType type = in("x")->data_type();
  const int64_t d = r.directions, h = r.hidden;
  JUST(expect(in, "weight", Shape{d, r.columns(), r.width}, type, "[directions, gates * hidden, the numbers of x]"));
  JUST(expect(in, "recurrence", Shape{d, r.columns(), h}, type, "[directions, gates * hidden, hidden]"));
  JUST(expect(in, "bias", Shape{d, 2 * r.columns()}, type, "[directions, 2 * gates * hidden]"));
  JUST(expect(in, "initial_h", r.stateShape(), type, "a state for each direction and sequence"));
  JUST(expect(in, "initial_c", r.stateShape(), type, "a state for each direction and sequence"));
  JUST(expect(in, "peephole", Shape{d, 3 * h}, type, "[directions, 3 * hidden]"));
  if (const TensorDesc *lengths = in("lengths"); lengths && lengths->shape() != Shape{r.batch})
    return Error::ShapeMismatch() << "lengths is " << lengths->toString() << ", expected a number for each of the "
                                  << r.batch << " sequences of x, " << in("x")->toString();
  return Maybe<void>::Ok();
}

Maybe<RecurrentShape> shapeOf(CellKind kind, const OpContext &ctx, const Descs &in) {
  RecurrentShape r;
  r.kind = kind;
  r.batchFirst = ctx.Attr<bool>("batch_first");
  r.clip = ctx.Attr<double>("clip");
  r.directions = JUST(directionsOf(ctx, &r.reversed));
  if (kind == CellKind::kLstm) r.coupled = ctx.Attr<bool>("input_forget");
  if (kind == CellKind::kGru) r.late = ctx.Attr<bool>("linear_before_reset");
  if (!(r.clip >= 0) || std::isinf(r.clip))
    return Error::InvalidValueError().id("OPC0205") << "clip is " << r.clip << ", expected a bound, or 0 for none";
  JUST(readFunctions(ctx, &r));
  const TensorDesc &x = *in("x"), &recurrence = *in("recurrence");
  if (!IsFloatingDataType(x.data_type()))
    return (Error::TypeError().id("OPC0204") << "x is " << x.toString() << ", expected a floating type")
        .help("cast it to f32");
  if (x.shape().NumAxes() != 3 || recurrence.shape().NumAxes() != 3)
    return (Error::ShapeMismatch() << "x is " << x.toString() << ", recurrence is " << recurrence.toString())
        .help("x is [steps, batch, numbers], with batch_first [batch, steps, numbers], and recurrence [directions, " +
              std::string("gates * hidden, hidden]; reshape gives an axis of 1"));
  r.steps = x.shape().At(r.batchFirst ? 1 : 0);
  r.batch = x.shape().At(r.batchFirst ? 0 : 1);
  r.width = x.shape().At(2);
  r.hidden = recurrence.shape().At(2);
  JUST(checkInputs(r, in));
  return r;
}

/// An argument and its axes, of which 'b' is the batch, when the steps or the batch is first.
struct ArgAxes {
  const char *arg, *axes, *batchFirst;
};
constexpr ArgAxes kInputs[] = {{"x", ".b.", "b.."},         {"weight", "...", "..."}, {"recurrence", "...", "..."},
                               {"bias", "..", ".."},        {"lengths", "b", "b"},    {"initial_h", ".b.", "b.."},
                               {"initial_c", ".b.", "b.."}, {"peephole", "..", ".."}};
constexpr ArgAxes kGradientInputs[] = {
    {"y", "..b.", "b..."}, {"dy", "..b.", "b..."}, {"dy_h", ".b.", "b.."}, {"dy_c", ".b.", "b.."}};
constexpr ArgAxes kOutputs[] = {{"y", "..b.", "b..."}, {"y_h", ".b.", "b.."}, {"y_c", ".b.", "b.."}};
constexpr ArgAxes kGradientOutputs[] = {
    {"dx", ".b.", "b.."},         {"dweight", "...", "..."},    {"drecurrence", "...", "..."}, {"dbias", "..", ".."},
    {"dinitial_h", ".b.", "b.."}, {"dinitial_c", ".b.", "b.."}, {"dpeephole", "..", ".."}};

/// The terms of a definition's arguments, empty where an optional one is left out. Those of a cell are an LSTM's.
template <size_t N> std::vector<AxisFactors> terms(const SbpContext &ctx, CellKind kind, const ArgAxes (&args)[N]) {
  std::vector<AxisFactors> all;
  for (const ArgAxes &a : args) {
    const std::string arg = a.arg;
    const bool ofCell = arg == "initial_c" || arg == "peephole" || arg == "y_c" || arg == "dy_c" ||
                        arg == "dinitial_c" || arg == "dpeephole";
    if (ofCell && kind != CellKind::kLstm) continue;
    AxisFactors &factors = all.emplace_back();
    if (ctx.Has(arg))
      for (const char *axis = ctx.Attr<bool>("batch_first") ? a.batchFirst : a.axes; *axis; ++axis)
        factors.push_back(std::string(1, *axis));
  }
  return all;
}

/// The sequences split. Of a gradient the parameters' add up, and it is linear in those that come in.
ShardingRule shardingOf(const SbpContext &ctx, CellKind kind, bool isForward) {
  std::vector<AxisFactors> inputs = terms(ctx, kind, kInputs);
  if (isForward) return shardingRule(inputs, terms(ctx, kind, kOutputs));
  std::vector<int32_t> linear;
  for (const AxisFactors &term : terms(ctx, kind, kGradientInputs)) {
    const bool isState = inputs.size() == std::size(kInputs) - (kind == CellKind::kLstm ? 0 : 2); // y comes first
    if (!isState && !term.empty()) linear.push_back(static_cast<int32_t>(inputs.size()));
    inputs.push_back(term);
  }
  ShardingRule rule = shardingRule(inputs, terms(ctx, kind, kGradientOutputs), Sum("b"));
  rule.add(Linear(linear));
  return rule;
}

} // namespace

Maybe<RecurrentShape> recurrentShape(CellKind kind, const InferContext *ctx) {
  return shapeOf(kind, *ctx, [&](const char *arg) { return ctx->Has(arg) ? &ctx->In(arg) : nullptr; });
}
RecurrentShape recurrentShape(CellKind kind, const KernelContext *ctx) {
  return valueOf(shapeOf(kind, *ctx, [&](const char *arg) { return ctx->Has(arg) ? &ctx->Desc(arg) : nullptr; }));
}

std::function<void(OpRegistry &)> recurrentInputs(CellKind kind) {
  return [=](OpRegistry &op) {
    op.Input("x").Input("weight").Input("recurrence").OptionalInput("bias").OptionalInput("lengths");
    op.OptionalInput("initial_h");
    if (kind == CellKind::kLstm) op.OptionalInput("initial_c").OptionalInput("peephole");
  };
}

std::function<void(OpRegistry &)> recurrentRules(CellKind kind, bool forward) {
  return [=](OpRegistry &op) {
    op.Attr<std::string>("direction", "forward")
        .Attr<bool>("batch_first", false)
        .Attr<std::vector<std::string>>("activations", {})
        .Attr<std::vector<float>>("activation_alpha", {})
        .Attr<std::vector<float>>("activation_beta", {})
        .Attr<double>("clip", 0.0);
    if (kind == CellKind::kLstm) op.Attr<bool>("input_forget", false);
    if (kind == CellKind::kGru) op.Attr<bool>("linear_before_reset", false);
    op.Sharding([=](const SbpContext &ctx) -> Maybe<ShardingRule> { return shardingOf(ctx, kind, forward); })
        .SetComputeComplexityFn([=](InferContext *ctx) -> Maybe<double> {
          const RecurrentShape r = JUST(recurrentShape(kind, ctx));
          // Backward the sums of the gates again, then two products for each of theirs.
          return 2.0 * static_cast<double>(r.rows() * r.directions) * static_cast<double>(r.columns()) *
                 static_cast<double>(r.width + r.hidden) * (forward ? 1 : 3);
        })
        .Tolerance(kFloat, 3e-5, 1e-5)
        .Tolerance(kFloat16, 5e-3, 5e-3)
        .Tolerance(kBFloat16, 4e-2, 4e-2);
  };
}

std::function<Maybe<void>(InferContext *)> inferRecurrent(CellKind kind) {
  return [=](InferContext *ctx) -> Maybe<void> {
    const RecurrentShape r = JUST(recurrentShape(kind, ctx));
    if (ctx->Has("lengths")) JUST(checkIndexType(ctx, "lengths"));
    const DataType type = ctx->In("x").data_type();
    ctx->Out("y") = TensorDesc(r.outputShape(), type);
    ctx->Out("y_h") = TensorDesc(r.stateShape(), type);
    if (kind == CellKind::kLstm) ctx->Out("y_c") = TensorDesc(r.stateShape(), type);
    return Maybe<void>::Ok();
  };
}

std::function<Maybe<void>(InferContext *)> inferRecurrentGradient(CellKind kind) {
  return [=](InferContext *ctx) -> Maybe<void> {
    const RecurrentShape r = JUST(recurrentShape(kind, ctx));
    if (ctx->Has("lengths")) JUST(checkIndexType(ctx, "lengths"));
    const DataType type = ctx->In("x").data_type();
    const TensorDesc y(r.outputShape(), type), state(r.stateShape(), type);
    for (const auto &[arg, want] : {std::pair{"y", y}, {"dy", y}, {"dy_h", state}, {"dy_c", state}})
      JUST(expectIn(ctx, arg, want));
    const TensorDesc x = ctx->In("x"), weight = ctx->In("weight"), recurrence = ctx->In("recurrence");
    ctx->Out("dx") = x;
    ctx->Out("dweight") = weight;
    ctx->Out("drecurrence") = recurrence;
    if (ctx->Has("dbias")) ctx->Out("dbias") = TensorDesc(Shape{r.directions, 2 * r.columns()}, type);
    for (const char *arg : {"dinitial_h", "dinitial_c"})
      if (ctx->Has(arg)) ctx->Out(arg) = state;
    if (ctx->Has("dpeephole")) ctx->Out("dpeephole") = TensorDesc(Shape{r.directions, 3 * r.hidden}, type);
    return Maybe<void>::Ok();
  };
}

Case recurrentCase(CellKind kind, const RecurrentCase &c) {
  const bool both = std::string(c.direction) == "bidirectional";
  const int64_t d = both ? 2 : 1, columns = RecurrentShape::gatesOf(kind) * c.hidden;
  const Shape state = c.batchFirst ? Shape{c.batch, d, c.hidden} : Shape{d, c.batch, c.hidden};
  Case made(c.name);
  made.In("x", c.batchFirst ? Shape{c.batch, c.steps, c.width} : Shape{c.steps, c.batch, c.width});
  made.In("weight", {d, columns, c.width}).In("recurrence", {d, columns, c.hidden});
  if (c.bias) made.In("bias", {d, 2 * columns});
  if (c.lengths) made.In("lengths", kInt32, {c.batch}, 1, static_cast<double>(c.steps + 1));
  if (c.initial) made.In("initial_h", state);
  if (c.initial && kind == CellKind::kLstm) made.In("initial_c", state);
  made.Attr("direction", std::string(c.direction));
  if (c.batchFirst) made.Attr("batch_first", true);
  return made;
}

Case recurrentGradientCase(CellKind kind, const RecurrentCase &c) {
  const int64_t d = std::string(c.direction) == "bidirectional" ? 2 : 1;
  const Shape state = c.batchFirst ? Shape{c.batch, d, c.hidden} : Shape{d, c.batch, c.hidden};
  const Shape y = c.batchFirst ? Shape{c.batch, c.steps, d, c.hidden} : Shape{c.steps, d, c.batch, c.hidden};
  Case made = recurrentCase(kind, c);
  made.In("y", y).In("dy", y);
  // A state's gradient comes in with the first states, so that there are samples with and without.
  if (c.initial) made.In("dy_h", state).Out("dinitial_h");
  if (c.initial && kind == CellKind::kLstm) made.In("dy_c", state).Out("dinitial_c");
  if (c.bias) made.Out("dbias");
  return made;
}

CommonRecurrentCases::CommonRecurrentCases(const char *direction) {
  plain.bias = false;
  lengths.steps = 5, lengths.batch = 4, lengths.hidden = 9;
  lengths.lengths = lengths.initial = true;
  first.direction = direction;
  first.batchFirst = first.lengths = first.initial = true;
}

std::vector<Case> gruCases(bool forward) {
  const auto sample = [forward](const RecurrentCase &c) {
    return forward ? recurrentCase(CellKind::kGru, c) : recurrentGradientCase(CellKind::kGru, c);
  };
  const CommonRecurrentCases common("reverse");
  RecurrentCase late{"late", "bidirectional"}, others{"activations"};
  late.initial = late.lengths = true;
  const std::string gate = forward ? "HardSigmoid" : "Sigmoid"; // differences see the corners of the first
  return {sample(common.plain), sample(common.lengths), sample(common.first),
          sample(late).Attr("linear_before_reset", true),
          sample(others).Attr("activations", std::vector<std::string>{gate, "Softsign"}).Attr("clip", 0.625)};
}

size_t recurrentBytes(InferContext *ctx, int64_t count) {
  return static_cast<size_t>(count) * (ctx->In("x").data_type() == kDouble ? sizeof(double) : sizeof(float));
}

} // namespace opc::ops
