// pad, and the reflecting and replicating pads of the last axes.
// SPDX-License-Identifier: Apache-2.0
#include "shape/EdgePads.h"
#include "support/Axes.h"
#include "support/ConvertElements.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

#include <cstring>

namespace opc::ops {
namespace {

using List = std::vector<int64_t>;

struct Pads {
  List before, after; // one entry an axis; negative entries cut
};

/// PyTorch's order: pairs for the last axis, the one before it, and so on.
Maybe<Pads> fromPairs(const List &pairs, int64_t rank) {
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

/// pad, or one of constant_pad1d, 2d and 3d, which have `padding` alone.
bool isPad(const user_op::OpContext *ctx) { return ctx->op_type_name() == "pad"; }

Maybe<Pads> constantPads(const user_op::OpContext *ctx, const Shape &in) {
  if (!isPad(ctx)) return fromPairs(ctx->Attr<List>("padding"), in.NumAxes());
  Pads p{ctx->Attr<List>("padding_before"), ctx->Attr<List>("padding_after")};
  if (p.before.empty() && p.after.empty()) return fromPairs(ctx->Attr<List>("padding"), in.NumAxes());
  if (static_cast<int64_t>(p.before.size()) != in.NumAxes() || static_cast<int64_t>(p.after.size()) != in.NumAxes())
    return (Error("OPC0205") << "padding_before has " << p.before.size() << " entries and padding_after "
                             << p.after.size() << ", the input has rank " << in.NumAxes())
        .help("give one entry an axis in each");
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

Maybe<void> inferPad(InferContext *ctx) {
  const TensorDesc x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) =
      TensorDesc(JUST(paddedShape(x.shape(), JUST(constantPads(ctx, x.shape())))), x.data_type());
  return Maybe<void>::Ok();
}

class PadKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    const Pads p = valueOf(constantPads(ctx, x->shape()));
    const DimVector from = rowMajorStrides(x->shape()), to = rowMajorStrides(y->shape());
    DimVector dims;
    int64_t srcAt = 0, dstAt = 0;
    for (size_t a = 0; a < from.size(); ++a) {
      const int64_t cutFront = std::max<int64_t>(0, -p.before[a]), cutBack = std::max<int64_t>(0, -p.after[a]);
      dims.push_back(x->shape().dim_vec()[a] - cutFront - cutBack);
      srcAt += cutFront * from[a];
      dstAt += std::max<int64_t>(0, p.before[a]) * to[a];
    }
    const DataType type = x->data_type();
    const size_t size = GetSizeOfDataType(type);
    uint64_t value = 0;
    if (IsFloatingDataType(type)) {
      const double v = ctx->Attr<double>(isPad(ctx) ? "floating_constant_value" : "floating_value");
      converter(kDouble, type)(&v, &value, 1);
    } else {
      const int64_t v = ctx->Attr<int64_t>(isPad(ctx) ? "integral_constant_value" : "integral_value");
      converter(kInt64, type)(&v, &value, 1);
    }
    StridedCopy copy(size, dims, from, to);
    const int64_t n = y->shape().elem_cnt();
    const char *src = static_cast<const char *>(x->raw_dptr());
    char *dst = static_cast<char *>(y->mut_raw_dptr());
    if (n > 0 && Shape(dims).elem_cnt() > 0) src += srcAt * static_cast<int64_t>(size);
    char *inside = Shape(dims).elem_cnt() > 0 ? dst + dstAt * static_cast<int64_t>(size) : dst;
    return user_op::bindTask([=](DeviceCtx *dev) {
      fillElements(dev, size, &value, dst, n);
      copy.run(dev, src, inside);
    });
  }
};

/// How many of the last axes an edge pad works on, from its name.
int64_t edgeAxes(const user_op::OpContext *ctx) {
  return ctx->op_type_name().find("pad1d") != std::string::npos ? 1 : 2;
}
bool isReflection(const user_op::OpContext *ctx) { return ctx->op_type_name().rfind("reflection", 0) == 0; }

Maybe<Pads> edgePads(const user_op::OpContext *ctx, const Shape &in) {
  const int64_t axes = edgeAxes(ctx);
  const List padding = ctx->Attr<List>("padding");
  if (static_cast<int64_t>(padding.size()) != 2 * axes)
    return (Error("OPC0205") << "padding has " << padding.size() << " entries, not " << 2 * axes)
        .help(axes == 1 ? "padding is (left, right)" : "padding is (left, right, top, bottom)");
  if (in.NumAxes() < axes)
    return Error::ShapeMismatch() << "the input " << in.ToString() << " has fewer than " << axes << " axes";
  const Pads p = JUST(fromPairs(padding, in.NumAxes()));
  for (int64_t a = in.NumAxes() - axes; a < in.NumAxes(); ++a)
    for (int64_t pad : {p.before[static_cast<size_t>(a)], p.after[static_cast<size_t>(a)]}) {
      const int64_t limit = isReflection(ctx) ? in.At(a) - 1 : INT64_MAX / 4;
      if (pad < 0 || pad > limit || (pad > 0 && in.At(a) == 0))
        return (Error("OPC0205") << "padding " << pad << " of axis " << a << ", which has " << in.At(a) << " entries")
            .help(isReflection(ctx) ? "a reflection reaches at most one entry less than the axis has"
                                    : "give paddings of 0 or more");
    }
  return p;
}
Maybe<void> inferEdge(InferContext *ctx) {
  const TensorDesc x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) =
      TensorDesc(JUST(paddedShape(x.shape(), JUST(edgePads(ctx, x.shape())))), x.data_type());
  return Maybe<void>::Ok();
}

} // namespace

EdgePads edgePadsOf(const user_op::OpContext *ctx, const Shape &in) {
  const Pads p = valueOf(edgePads(ctx, in));
  const int64_t rank = in.NumAxes(), axes = edgeAxes(ctx);
  const auto sources = [&](int64_t a) {
    std::vector<int64_t> s;
    const int64_t n = in.At(a), before = p.before[static_cast<size_t>(a)], after = p.after[static_cast<size_t>(a)];
    for (int64_t o = 0; o < n + before + after; ++o) {
      int64_t i = o - before;
      if (isReflection(ctx))
        i = i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
      else
        i = std::clamp<int64_t>(i, 0, n - 1);
      s.push_back(i);
    }
    return s;
  };
  EdgePads e;
  e.columns = sources(rank - 1);
  e.rows = axes == 2 ? sources(rank - 2) : std::vector<int64_t>{0};
  e.planes = in.Count(0, rank - axes);
  e.inColumns = in.At(rank - 1);
  e.inPlane = in.Count(rank - axes);
  e.left = p.before[static_cast<size_t>(rank - 1)];
  return e;
}
Maybe<Shape> edgePaddedShape(const user_op::OpContext *ctx, const Shape &in) {
  return paddedShape(in, JUST(edgePads(ctx, in)));
}
Maybe<void> edgePadSbp(user_op::SbpContext *ctx, const Shape &in) {
  const Pads p = JUST(edgePads(ctx, in));
  for (size_t a = 0; a < p.before.size(); ++a)
    if (p.before[a] == 0 && p.after[a] == 0)
      ctx->NewBuilder()
          .Split(ctx->inputs(), static_cast<int64_t>(a))
          .Split(ctx->outputs(), static_cast<int64_t>(a))
          .Build();
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

namespace {

/// Source positions of each output row and column are worked out at bind time.
class EdgePadKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    Tensor *y = ctx->Tensor4ArgNameAndIndex("y", 0);
    const EdgePads e = edgePadsOf(ctx, x->shape());
    const void *from = x->raw_dptr();
    void *to = y->mut_raw_dptr();
    return withElementSize(GetSizeOfDataType(x->data_type()), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using T = decltype(tag);
      return user_op::bindTask([=](DeviceCtx *dev) {
        const int64_t nRows = static_cast<int64_t>(e.rows.size()), nCols = static_cast<int64_t>(e.columns.size());
        dev->parallelFor(e.planes * nRows, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, nCols)),
                         [&](int64_t begin, int64_t end) {
                           for (int64_t r = begin; r < end; ++r) {
                             const T *src = static_cast<const T *>(from) + r / nRows * e.inPlane +
                                            e.rows[static_cast<size_t>(r % nRows)] * e.inColumns;
                             T *dst = static_cast<T *>(to) + r * nCols;
                             for (int64_t c = 0; c < e.left; ++c) dst[c] = src[e.columns[static_cast<size_t>(c)]];
                             std::copy(src, src + e.inColumns, dst + e.left);
                             for (int64_t c = e.left + e.inColumns; c < nCols; ++c)
                               dst[c] = src[e.columns[static_cast<size_t>(c)]];
                           }
                         });
      });
    });
  }
};

/// Axes without padding split.
Maybe<void> padSbp(user_op::SbpContext *ctx) {
  const Shape in = ctx->LogicalTensorDesc4InputArgNameAndIndex("x", 0).shape();
  const bool edge =
      !ctx->user_op_conf().has_attr("floating_constant_value") && !ctx->user_op_conf().has_attr("floating_value");
  if (edge) return edgePadSbp(ctx, in);
  const Pads p = JUST(constantPads(ctx, in));
  for (size_t a = 0; a < p.before.size(); ++a)
    if (p.before[a] == 0 && p.after[a] == 0)
      ctx->NewBuilder()
          .Split(ctx->inputs(), static_cast<int64_t>(a))
          .Split(ctx->outputs(), static_cast<int64_t>(a))
          .Build();
  if (ctx->Attr<double>(isPad(ctx) ? "floating_constant_value" : "floating_value") == 0 &&
      ctx->Attr<int64_t>(isPad(ctx) ? "integral_constant_value" : "integral_value") == 0)
    ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64};

REGISTER_USER_OP("pad")
    .Input("x")
    .Output("y")
    .Attr<List>("padding_before", {})
    .Attr<List>("padding_after", {})
    .Attr<List>("padding", {})
    .Attr<double>("floating_constant_value", 0.0)
    .Attr<int64_t>("integral_constant_value", 0)
    .SetTensorDescInferFn(inferPad)
    .SetGetSbpFn(padSbp)
    .Doc("Surrounds x with a constant: padding_before and padding_after have one entry an axis; when both are "
         "absent, `padding` is (before, after) of the last axis, then of the one before it, and so on. Negative "
         "entries cut. Floating tensors take floating_constant_value, others integral_constant_value.")
    .Cases({user_op::Case("axes")
                .In("x", {2, 3}, 0, 2)
                .Attr("padding_before", List{1, 0})
                .Attr("padding_after", List{0, 2})
                .Attr("floating_constant_value", 0.5)
                .Attr<int64_t>("integral_constant_value", 7)
                .Types(kSampleTypes),
            user_op::Case("pairs").In("x", {2, 3, 4}, 0, 2).Attr("padding", List{1, 2, 0, 1}).Types(kSampleTypes),
            user_op::Case("cut")
                .In("x", {4, 5}, 0, 2)
                .Attr("padding_before", List{-1, 2})
                .Attr("padding_after", List{1, -2})
                .Types(kSampleTypes)});

const char *const kReflectDoc = "Extends the last axes by mirroring at the edge, which is not repeated. `padding` is "
                                "(left, right) or (left, right, top, bottom).";
const char *const kReplicateDoc =
    "Extends the last axes by repeating the edge. `padding` is (left, right) or (left, right, top, bottom).";
user_op::Case edgeCase(Shape in, List padding) {
  return user_op::Case("plain").In("x", in, 0, 2).Attr("padding", padding).Types(kSampleTypes);
}

#define OPC_EDGE_PAD(name, doc, in, ...)                                                                               \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("x")                                                                                                      \
      .Output("y")                                                                                                     \
      .RequiredAttr<List>("padding")                                                                                   \
      .SetTensorDescInferFn(inferEdge)                                                                                 \
      .SetGetSbpFn(padSbp)                                                                                             \
      .Doc(doc)                                                                                                        \
      .Cases({edgeCase(in, __VA_ARGS__)});                                                                             \
  OPC_ANY_TYPE_CPU_KERNEL(name, EdgePadKernel)

const char *const kConstantDoc =
    "pad with `padding` alone: (before, after) of the last axis, then of the one before it, and so on.";
#define OPC_CONSTANT_PAD(name, in, ...)                                                                                \
  REGISTER_USER_OP(name)                                                                                               \
      .Input("x")                                                                                                      \
      .Output("y")                                                                                                     \
      .RequiredAttr<List>("padding")                                                                                   \
      .Attr<double>("floating_value", 0.0)                                                                             \
      .Attr<int64_t>("integral_value", 0)                                                                              \
      .SetTensorDescInferFn(inferPad)                                                                                  \
      .SetGetSbpFn(padSbp)                                                                                             \
      .Doc(kConstantDoc)                                                                                               \
      .Cases({edgeCase(in, __VA_ARGS__).Attr("floating_value", 0.5).Attr<int64_t>("integral_value", 3)});              \
  OPC_ANY_TYPE_CPU_KERNEL(name, PadKernel)

OPC_CONSTANT_PAD("constant_pad1d", Shape({2, 3, 5}), List{2, 3});
OPC_CONSTANT_PAD("constant_pad2d", Shape({2, 2, 4, 5}), List{2, 1, 1, 3});
OPC_CONSTANT_PAD("constant_pad3d", Shape({1, 2, 2, 3, 2}), List{2, 1, 1, 0, 0, 1});
OPC_EDGE_PAD("reflection_pad1d", kReflectDoc, Shape({2, 3, 5}), List{2, 3});
OPC_EDGE_PAD("reflection_pad2d", kReflectDoc, Shape({2, 2, 4, 5}), List{2, 1, 1, 3});
OPC_EDGE_PAD("replication_pad1d", kReplicateDoc, Shape({2, 3, 5}), List{2, 7});
OPC_EDGE_PAD("replication_pad2d", kReplicateDoc, Shape({2, 2, 4, 5}), List{2, 1, 6, 3});
OPC_ANY_TYPE_CPU_KERNEL("pad", PadKernel);

} // namespace
} // namespace opc::ops
