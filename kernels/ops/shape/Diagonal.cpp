// diag, diagonal, tril, triu: diagonals taken, made, and the triangles beside them.
// SPDX-License-Identifier: Apache-2.0
#include "support/Axes.h"
#include "support/ConvertElements.h"
#include "support/CpuKernels.h"
#include "support/StridedCopy.h"

#include <cstring>

namespace opc::ops {
namespace {

/// Entries of diagonal `k` of a rows x cols matrix.
int64_t diagonalLength(int64_t rows, int64_t cols, int64_t k) {
  const int64_t n = k >= 0 ? std::min(rows, cols - k) : std::min(rows + k, cols);
  return std::max<int64_t>(0, n);
}
int64_t diagonalStart(int64_t cols, int64_t k) { return k >= 0 ? k : -k * cols; }

Maybe<void> inferDiag(InferContext *ctx) {
  const Shape in = ctx->InputShape("in", 0);
  const int64_t k = ctx->Attr<int32_t>("diagonal");
  Shape out;
  if (in.NumAxes() == 1)
    out = Shape({in.At(0) + std::abs(k), in.At(0) + std::abs(k)});
  else if (in.NumAxes() == 2)
    out = Shape({diagonalLength(in.At(0), in.At(1), k)});
  else
    return (Error::ShapeMismatch() << "the input " << in.ToString() << " has rank " << in.NumAxes())
        .help("diag makes a matrix of a vector, or takes the diagonal of a matrix; diagonal serves higher ranks");
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(out, ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}
Maybe<void> inferDiagonal(InferContext *ctx) {
  const Shape in = ctx->InputShape("in", 0);
  if (in.NumAxes() < 2) return Error::ShapeMismatch() << "the input " << in.ToString() << " has fewer than two axes";
  DimVector dims(in.begin() + 2, in.end());
  dims.push_back(diagonalLength(in.At(0), in.At(1), ctx->Attr<int32_t>("offset")));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape(dims), ctx->InputDType("in", 0));
  return Maybe<void>::Ok();
}
Maybe<void> inferTriangle(InferContext *ctx) {
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  if (in.shape().NumAxes() < 2)
    return Error::ShapeMismatch() << "the input " << in.shape().ToString() << " has fewer than two axes";
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = in;
  return Maybe<void>::Ok();
}

class DiagKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const bool higher = ctx->user_op_conf().has_attr("offset");
    const int64_t k = ctx->Attr<int32_t>(higher ? "offset" : "diagonal");
    const size_t size = GetSizeOfDataType(in->data_type());
    const char *from = static_cast<const char *>(in->raw_dptr());
    char *to = static_cast<char *>(out->mut_raw_dptr());
    const Shape shape = in->shape();
    if (!higher && shape.NumAxes() == 1) { // a vector onto the diagonal of a matrix of zeros
      const int64_t n = out->shape().At(1), all = out->shape().elem_cnt();
      StridedCopy copy(size, {shape.At(0)}, {1}, {n + 1});
      char *start = to + diagonalStart(n, k) * static_cast<int64_t>(size);
      return user_op::bindTask([=](DeviceCtx *dev) {
        const uint64_t zero = 0;
        fillElements(dev, size, &zero, to, all);
        copy.run(dev, from, start);
      });
    }
    const int64_t rest = shape.Count(2), cols = shape.At(1);
    const int64_t length = out->shape().At(out->shape().NumAxes() - 1);
    StridedCopy copy(size, {rest, length}, {1, (cols + 1) * rest});
    const char *start = from + (length == 0 ? 0 : diagonalStart(cols, k) * rest * static_cast<int64_t>(size));
    return user_op::bindTask([=](DeviceCtx *dev) { copy.run(dev, start, to); });
  }
};

/// Copies the kept part of each row and fills the rest.
class TriangleKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    const bool lower = ctx->op_type_name() == "tril";
    const int64_t k = ctx->Attr<int64_t>("diagonal"), rank = in->shape().NumAxes();
    const int64_t rows = in->shape().At(rank - 2), cols = in->shape().At(rank - 1),
                  all = in->shape().Count(0, rank - 1);
    const DataType type = in->data_type();
    uint64_t fill = 0;
    if (lower && ctx->Attr<bool>("is_floating_fill_value")) {
      const double v = ctx->Attr<double>("floating_fill_value");
      converter(kDouble, type)(&v, &fill, 1);
    } else if (lower) {
      const int64_t v = ctx->Attr<int64_t>("integer_fill_value");
      converter(kInt64, type)(&v, &fill, 1);
    }
    const void *from = in->raw_dptr();
    void *to = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr();
    return withElementSize(GetSizeOfDataType(type), [&](auto tag) -> std::unique_ptr<user_op::BoundKernel> {
      using T = decltype(tag);
      T value;
      std::memcpy(&value, &fill, sizeof(T));
      return user_op::bindTask([=](DeviceCtx *dev) {
        dev->parallelFor(all, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, cols)),
                         [&](int64_t begin, int64_t end) {
                           for (int64_t r = begin; r < end; ++r) {
                             const T *src = static_cast<const T *>(from) + r * cols;
                             T *dst = static_cast<T *>(to) + r * cols;
                             // Column c of row i is on diagonal c - i. tril keeps c - i <= k, triu c - i >= k.
                             const int64_t i = r % rows, edge = std::clamp<int64_t>(lower ? i + k + 1 : i + k, 0, cols);
                             if (lower) {
                               if (src != dst) std::copy(src, src + edge, dst);
                               std::fill(dst + edge, dst + cols, value);
                             } else {
                               std::fill(dst, dst + edge, value);
                               if (src != dst) std::copy(src + edge, src + cols, dst + edge);
                             }
                           }
                         });
      });
    });
  }
};

Maybe<void> checkDiagonal(const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) {
  const int64_t k = conf.attr<int64_t>("diagonal");
  // i + k must not overflow; no tensor has a diagonal this far out.
  if (k < -(int64_t{1} << 62) || k > (int64_t{1} << 62))
    return Error("OPC0205") << "diagonal is " << k << ", beyond any matrix";
  return Maybe<void>::Ok();
}

const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kUInt8, kInt64, kBool};

REGISTER_USER_OP("diag")
    .Input("in")
    .Output("out")
    .Attr<int32_t>("diagonal", 0)
    .SetTensorDescInferFn(inferDiag)
    .Doc("Of a vector: the square matrix with it on the given diagonal (0 the main one, positive above) and zeros "
         "elsewhere. Of a matrix: its given diagonal.")
    .Cases({user_op::Case("make").In("in", {4}, 0, 2).Attr<int32_t>("diagonal", -1).Types(kSampleTypes),
            user_op::Case("take").In("in", {3, 5}, 0, 2).Attr<int32_t>("diagonal", 1).Types(kSampleTypes)});

REGISTER_USER_OP("diagonal")
    .Input("in")
    .Output("out")
    .Attr<int32_t>("offset", 0)
    .SetTensorDescInferFn(inferDiagonal)
    .Sharding(". . ... -> ... .", user_op::Linear({0}))
    .Doc("The given diagonal (0 the main one, positive above) of the matrices formed by the first two axes; it "
         "becomes the last axis.")
    .Cases({user_op::Case("matrix").In("in", {3, 5}, 0, 2).Attr<int32_t>("offset", 1).Types(kSampleTypes),
            user_op::Case("stack").In("in", {4, 3, 2}, 0, 2).Attr<int32_t>("offset", -1).Types(kSampleTypes)});

REGISTER_USER_OP("tril")
    .Input("in")
    .Output("out")
    .Attr<int64_t>("diagonal", 0)
    .Attr<double>("floating_fill_value", 0.0)
    .Attr<int64_t>("integer_fill_value", 0)
    .Attr<bool>("is_floating_fill_value", false)
    .SetTensorDescInferFn(inferTriangle)
    .SetCheckAttrFn(checkDiagonal)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
      for (int64_t a = 0; a + 2 < rank; ++a) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
      const bool zero = ctx->Attr<bool>("is_floating_fill_value") ? ctx->Attr<double>("floating_fill_value") == 0
                                                                  : ctx->Attr<int64_t>("integer_fill_value") == 0;
      if (zero) ctx->NewBuilder().PartialSum(ctx->inputs()).PartialSum(ctx->outputs()).Build();
      return Maybe<void>::Ok();
    })
    .Doc("The last two axes are matrices: entries on and below the given diagonal are kept, the others become the "
         "fill value (0 unless given).")
    .Cases({user_op::Case("main").In("in", {4, 5}, 0, 2).Types(kSampleTypes),
            user_op::Case("stack").In("in", {2, 4, 3}, 0, 2).Attr<int64_t>("diagonal", 1).Types(kSampleTypes),
            user_op::Case("mask")
                .In("in", {5, 5}, 0, 2)
                .Attr("floating_fill_value", -10.0)
                .Attr("is_floating_fill_value", true)
                .Types({kFloat, kDouble, kFloat16})});

REGISTER_USER_OP("triu")
    .Input("in")
    .Output("out")
    .Attr<int64_t>("diagonal", 0)
    .SetTensorDescInferFn(inferTriangle)
    .SetCheckAttrFn(checkDiagonal)
    .Sharding("... . . -> ... . .", user_op::Linear({0}))
    .Doc("The last two axes are matrices: entries on and above the given diagonal are kept, the others become 0.")
    .Cases({user_op::Case("main").In("in", {4, 5}, 0, 2).Types(kSampleTypes),
            user_op::Case("below").In("in", {2, 4, 3}, 0, 2).Attr<int64_t>("diagonal", -1).Types(kSampleTypes)});

OPC_ANY_TYPE_CPU_KERNEL("diag", DiagKernel);
OPC_ANY_TYPE_CPU_KERNEL("diagonal", DiagKernel);
OPC_ANY_TYPE_CPU_KERNEL("tril", TriangleKernel, CpuKernelOptions{nullptr, inplaceOf("out", "in")});
OPC_ANY_TYPE_CPU_KERNEL("triu", TriangleKernel, CpuKernelOptions{nullptr, inplaceOf("out", "in")});

} // namespace
} // namespace opc::ops
