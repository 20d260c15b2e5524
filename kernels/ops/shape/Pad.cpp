// pad, constant_pad1d, constant_pad2d and constant_pad3d: a tensor surrounded with a constant.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Pads.h"
#include "support/ElementBytes.h"

namespace opc::ops {

using List = std::vector<int64_t>;

Maybe<Pads> padsOfPairs(const List &pairs, int64_t rank) {
  if (pairs.size() % 2 || static_cast<int64_t>(pairs.size()) / 2 > rank)
    return (Error("OPC0205") << "padding has " << pairs.size() << " entries, the input has rank " << rank)
        .help("padding is (before, after) of the last axis, then of the one before it, and so on");
  Pads p{List(static_cast<size_t>(rank), 0), List(static_cast<size_t>(rank), 0)};
  for (size_t i = 0; i < pairs.size() / 2; ++i) {
    p.before[static_cast<size_t>(rank) - 1 - i] = pairs[2 * i];
    p.after[static_cast<size_t>(rank) - 1 - i] = pairs[2 * i + 1];
  }
  return p;
}

Maybe<Shape> paddedShape(const Shape &in, const Pads &p) {
  DimVector dims;
  for (int64_t a = 0; a < in.NumAxes(); ++a) {
    const size_t i = static_cast<size_t>(a);
    int64_t n;
    if (__builtin_add_overflow(in.At(a), p.before[i], &n) || __builtin_add_overflow(n, p.after[i], &n))
      return Error("OPC0206") << "the padded axis " << a << " overflows 63 bits";
    // With negative pads what is left of the input may be nothing; the output is empty then, never negative.
    if (n < 0 || in.At(a) + std::min<int64_t>(0, p.before[i]) + std::min<int64_t>(0, p.after[i]) < 0)
      return (Error::ShapeMismatch() << "axis " << a << " has " << in.At(a) << " entries, the padding " << p.before[i]
                                     << ", " << p.after[i] << " cuts more")
          .help("negative paddings cut entries; cut at most what is there");
    dims.push_back(n);
  }
  return Shape(dims);
}

std::vector<int64_t> Pads::axes() const {
  std::vector<int64_t> padded;
  for (size_t a = 0; a < before.size(); ++a)
    if (before[a] != 0 || after[a] != 0) padded.push_back(static_cast<int64_t>(a));
  return padded;
}

namespace {

/// pad has lists for both sides; constant_pad1d, 2d and 3d have pairs alone, and other names for the constant.
enum class Form { kLists, kPairs };

template <Form form> Maybe<Pads> padsOf(const OpContext &ctx, const Shape &in) {
  Pads p;
  if (form == Form::kLists) p = {ctx.Attr<List>("padding_before"), ctx.Attr<List>("padding_after")};
  if (p.before.empty() && p.after.empty()) return padsOfPairs(ctx.Attr<List>("padding"), in.NumAxes());
  if (static_cast<int64_t>(p.before.size()) != in.NumAxes() || static_cast<int64_t>(p.after.size()) != in.NumAxes())
    return (Error("OPC0205") << "padding_before has " << p.before.size() << " entries and padding_after "
                             << p.after.size() << ", the input has rank " << in.NumAxes())
        .help("give one entry an axis in each");
  return p;
}
/// The constant, for floating types and for others.
template <Form form> std::pair<double, int64_t> constantOf(const OpContext &ctx) {
  return form == Form::kLists
             ? std::pair(ctx.Attr<double>("floating_constant_value"), ctx.Attr<int64_t>("integral_constant_value"))
             : std::pair(ctx.Attr<double>("floating_value"), ctx.Attr<int64_t>("integral_value"));
}

template <Form form> Maybe<void> infer(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  return setOut(ctx, "y", TensorDesc(JUST(paddedShape(x.shape(), JUST(padsOf<form>(*ctx, x.shape())))), x.data_type()));
}

template <Form form> std::unique_ptr<BoundKernel> bindPad(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  Tensor &y = ctx->Out("y");
  const Pads p = valueOf(padsOf<form>(*ctx, wholeShape(ctx, "x")));
  Place from = wholePlace(x.shape()), to = wholePlace(y.shape());
  DimVector dims;
  for (size_t a = 0; a < p.before.size(); ++a) { // entry i of x is entry i + before of y, where this device has both
    const PieceRange in = pieceRange(ctx, "x", static_cast<int64_t>(a)),
                     out = pieceRange(ctx, "y", static_cast<int64_t>(a));
    const int64_t begin = std::max(in.begin, out.begin - p.before[a]),
                  end = std::min(in.end(), out.end() - p.before[a]);
    dims.push_back(std::max<int64_t>(0, end - begin));
    from.offset += in.place(begin) * from.strides[a];
    to.offset += out.place(begin + p.before[a]) * to.strides[a];
  }
  const auto [floating, integral] = constantOf<form>(*ctx);
  return Moves(x).fill(y, elementBits(x.data_type(), floating, integral)).copy(dims, x, from, y, to).bind();
}

/// What negative pads cut away is not read.
template <Form form> MoveMap padMap(const KernelContext &ctx) {
  const Shape &x = ctx.Desc("x").shape(), &y = ctx.Desc("y").shape();
  const Pads p = valueOf(padsOf<form>(ctx, x));
  MovedBox box;
  for (int64_t a = 0; a < x.NumAxes(); ++a) {
    const int64_t before = p.before[static_cast<size_t>(a)], begin = std::max<int64_t>(0, before);
    box.begin.push_back(begin);
    box.size.push_back(std::max<int64_t>(0, std::min(y.At(a), x.At(a) + before) - begin));
    box.reads.push_back({a, -before, 1});
  }
  const auto [floating, integral] = constantOf<form>(ctx);
  return {{std::move(box)}, elementBits(ctx.Desc("x").data_type(), floating, integral)};
}

/// Axes without padding split. Of others each device may have a piece of y; zeros around a piece of x are addends.
template <Form kForm> Maybe<ShardingRule> sharding(const SbpContext &ctx) {
  const Shape &shape = ctx.In("x").shape();
  const auto [floating, integral] = constantOf<kForm>(ctx);
  const bool zero = floating == 0 && integral == 0;
  AxisFactors x = axisFactors(shape.NumAxes()), y = x, sums;
  for (int64_t axis : JUST(padsOf<kForm>(ctx, shape)).axes()) {
    const auto a = static_cast<size_t>(axis);
    y[a] = "y" + std::to_string(axis);
    if (zero)
      sums.push_back(x[a]);
    else
      x[a] = ".";
  }
  ShardingRule rule = withSums(sums, shardingRule({x}, {y}));
  if (zero) rule.add(Linear({0}));
  return rule;
}

const std::vector<DataType> kTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("pad")
    .With(TensorArgs{{"x"}, {"y"}})
    .Attr<List>("padding_before", {})
    .Attr<List>("padding_after", {})
    .Attr<List>("padding", {})
    .Attr<double>("floating_constant_value", 0.0)
    .Attr<int64_t>("integral_constant_value", 0)
    .With(rules(infer<Form::kLists>, sharding<Form::kLists>))
    .Doc("Surrounds x with a constant: padding_before and padding_after have one entry an axis; when both are "
         "absent, `padding` is (before, after) of the last axis, then of the one before it, and so on. Negative "
         "entries cut. Floating tensors take floating_constant_value, others integral_constant_value.")
    .Cases({Case("axes")
                .In("x", {2, 3}, 0, 2)
                .Attr("padding_before", List{1, 0})
                .Attr("padding_after", List{0, 2})
                .Attr("floating_constant_value", 0.5)
                .Attr<int64_t>("integral_constant_value", 7)
                .Types(kTypes),
            Case("pairs").In("x", {2, 3, 4}, 0, 2).Attr("padding", List{1, 2, 0, 1}).Types(kTypes),
            Case("cut")
                .In("x", {4, 5}, 0, 2)
                .Attr("padding_before", List{-1, 2})
                .Attr("padding_after", List{1, -2})
                .Types(kTypes)})
    .With(moves<bindPad<Form::kLists>, padMap<Form::kLists>>);

/// The definition of constant_pad1d, 2d and 3d.
std::function<void(OpRegistry &)> constantPad(Shape in, List padding) {
  return [=](OpRegistry &op) {
    op.With(TensorArgs{{"x"}, {"y"}})
        .RequiredAttr<List>("padding")
        .Attr<double>("floating_value", 0.0)
        .Attr<int64_t>("integral_value", 0)
        .With(rules(infer<Form::kPairs>, sharding<Form::kPairs>))
        .Doc("pad with `padding` alone: (before, after) of the last axis, then of the one before it, and so on.")
        .Cases({Case("plain")
                    .In("x", in, 0, 2)
                    .Attr("padding", padding)
                    .Types(kTypes)
                    .Attr("floating_value", 0.5)
                    .Attr<int64_t>("integral_value", 3)})
        .With(moves<bindPad<Form::kPairs>, padMap<Form::kPairs>>);
  };
}
REGISTER_USER_OP("constant_pad1d").With(constantPad({2, 3, 5}, {2, 3}));
REGISTER_USER_OP("constant_pad2d").With(constantPad({2, 2, 4, 5}, {2, 1, 1, 3}));
REGISTER_USER_OP("constant_pad3d").With(constantPad({1, 2, 2, 3, 2}, {2, 1, 1, 0, 0, 1}));

} // namespace
} // namespace opc::ops
