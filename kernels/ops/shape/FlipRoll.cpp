// flip and roll: the same elements, reversed or rotated along axes.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

namespace opc::ops {
namespace {

using Axes = std::vector<int32_t>;

class FlipKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *x = ctx->Tensor4ArgNameAndIndex("x", 0);
    const Shape shape = x->shape();
    DimVector strides = rowMajorStrides(shape);
    int64_t offset = 0;
    if (shape.elem_cnt() > 0)
      for (int64_t a : valueOf(resolveAxes(ctx->Attr<Axes>("dims"), shape.NumAxes(), "dims"))) {
        int64_t &s = strides[static_cast<size_t>(a)];
        offset += (shape.At(a) - 1) * s;
        s = -s;
      }
    const size_t size = GetSizeOfDataType(x->data_type());
    StridedCopy copy(size, shape.dim_vec(), strides);
    const char *from = static_cast<const char *>(x->raw_dptr()) + offset * static_cast<int64_t>(size);
    void *to = ctx->Tensor4ArgNameAndIndex("y", 0)->mut_raw_dptr();
    return user_op::bindTask([=](DeviceCtx *dev) { copy.run(dev, from, to); });
  }
};

/// Each axis with its shift in [0, dimension). Without dims the tensor is rolled as one flat axis.
struct Rolled {
  DimVector dims;
  std::vector<int64_t> shift;
};
Maybe<Rolled> rolled(const user_op::OpContext *ctx, const Shape &shape) {
  const Axes shifts = ctx->Attr<Axes>("shifts"), dims = ctx->Attr<Axes>("dims");
  if (dims.empty()) {
    if (shifts.size() != 1)
      return (Error("OPC0205") << "shifts has " << shifts.size() << " entries and dims is empty")
          .help("give one shift for each axis in dims");
    const int64_t n = shape.elem_cnt();
    return Rolled{{n}, {n == 0 ? 0 : (shifts[0] % n + n) % n}};
  }
  if (dims.size() != shifts.size())
    return (Error("OPC0205") << "shifts has " << shifts.size() << " entries, dims " << dims.size())
        .help("give one shift for each axis in dims");
  Rolled r{shape.dim_vec(), std::vector<int64_t>(shape.dim_vec().size(), 0)};
  for (size_t i = 0; i < dims.size(); ++i) {
    const int64_t a = JUST(resolveAxis(dims[i], shape.NumAxes(), "dims")), n = shape.At(a);
    int64_t &s = r.shift[static_cast<size_t>(a)]; // an axis that is named twice rolls by the sum
    if (n > 0) s = ((s + shifts[i]) % n + n) % n;
  }
  return r;
}

/// Each rolled axis falls into two pieces; every combination of pieces is one strided copy.
class RollKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    const Rolled r = valueOf(rolled(ctx, in->shape()));
    const DimVector strides = rowMajorStrides(Shape(r.dims));
    const size_t size = GetSizeOfDataType(in->data_type());
    std::vector<Piece> pieces{{r.dims, 0, 0}};
    for (size_t a = 0; a < r.dims.size(); ++a) {
      if (r.shift[a] == 0) continue;
      std::vector<Piece> next;
      for (const Piece &p : pieces) {
        Piece head = p, tail = p; // the last `shift` entries move to the front
        tail.dims[a] = r.shift[a];
        tail.src += (r.dims[a] - r.shift[a]) * strides[a];
        head.dims[a] = r.dims[a] - r.shift[a];
        head.dst += r.shift[a] * strides[a];
        next.push_back(tail);
        next.push_back(head);
      }
      pieces = std::move(next);
    }
    struct Move {
      StridedCopy copy;
      const char *src;
      char *dst;
    };
    std::vector<Move> moves;
    const char *from = static_cast<const char *>(in->raw_dptr());
    char *to = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr());
    for (const Piece &p : pieces)
      moves.push_back({StridedCopy(size, p.dims, strides, strides), from + p.src * static_cast<int64_t>(size),
                       to + p.dst * static_cast<int64_t>(size)});
    return user_op::bindTask([moves = std::move(moves)](DeviceCtx *dev) {
      for (const Move &m : moves) m.copy.run(dev, m.src, m.dst);
    });
  }

private:
  struct Piece {
    DimVector dims;
    int64_t src, dst;
  };
};

Maybe<void> inferFlip(InferContext *ctx) {
  const TensorDesc x = *ctx->TensorDesc4ArgNameAndIndex("x", 0);
  JUST(resolveAxes(ctx->Attr<Axes>("dims"), x.shape().NumAxes(), "dims"));
  *ctx->TensorDesc4ArgNameAndIndex("y", 0) = x;
  return Maybe<void>::Ok();
}
Maybe<void> inferRoll(InferContext *ctx) {
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  JUST(rolled(ctx, in.shape()));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = in;
  return Maybe<void>::Ok();
}
/// Axes that keep their order split; a roll of the flat tensor leaves none.
Maybe<void> sbp(user_op::SbpContext *ctx) {
  const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex(ctx->inputs()[0].first, 0).shape().NumAxes();
  const auto axes = JUST(resolveAxes(ctx->Attr<Axes>("dims"), rank, "dims"));
  const bool flat = axes.empty() && ctx->user_op_conf().has_attr("shifts");
  for (int64_t a = 0; a < rank; ++a)
    if (!flat && !std::binary_search(axes.begin(), axes.end(), a))
      ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
  ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};

REGISTER_USER_OP("flip")
    .Input("x")
    .Output("y")
    .RequiredAttr<Axes>("dims")
    .SetTensorDescInferFn(inferFlip)
    .SetGetSbpFn(sbp)
    .Doc("Reverses the order of the entries along each axis in dims.")
    .Cases({user_op::Case("last").In("x", {3, 5}, 0, 2).Attr("dims", Axes{-1}).Types(kSampleTypes),
            user_op::Case("two").In("x", {3, 2, 4}, 0, 2).Attr("dims", Axes{0, 2}).Types(kSampleTypes)});

REGISTER_USER_OP("roll")
    .Input("in")
    .Output("out")
    .RequiredAttr<Axes>("shifts")
    .Attr<Axes>("dims", {})
    .SetTensorDescInferFn(inferRoll)
    .SetGetSbpFn(sbp)
    .Doc("Moves the entries along axis dims[i] by shifts[i] places towards the end; what passes the end comes back "
         "at the front. Without dims, the tensor is rolled as if it were flat.")
    .Cases({user_op::Case("two")
                .In("in", {4, 5}, 0, 2)
                .Attr("shifts", Axes{1, -2})
                .Attr("dims", Axes{0, 1})
                .Types(kSampleTypes),
            user_op::Case("flat").In("in", {3, 4}, 0, 2).Attr("shifts", Axes{5}).Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("flip", FlipKernel);
OPC_ANY_TYPE_CPU_KERNEL("roll", RollKernel);

} // namespace
} // namespace opc::ops
