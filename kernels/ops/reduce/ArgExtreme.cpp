// argmax and argmin: the position of the extreme along the last axis.
// SPDX-License-Identifier: Apache-2.0
#include "reduce/Reducers.h"
#include "support/CudaTask.h"
#include "support/Operator.h"

namespace opc::ops::reduce {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const Shape &in = ctx->In("in").shape();
  if (in.NumAxes() == 0)
    return (Error::ShapeMismatch() << "the input has rank 0").help("the last axis is searched; give at least one axis");
  if (in.At(in.NumAxes() - 1) == 0)
    return Error::ShapeMismatch() << "the last axis of " << in.ToString()
                                  << " is empty, so that no element has a position";
  return setOut(ctx, "out", TensorDesc(Shape(DimVector(in.begin(), in.end() - 1)), kInt64));
}

/// Finds the extreme value first (that loop vectorises), then where it first occurs.
template <class T, bool kMax> class ArgKernel : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    const T *from = in.dptr<T>();
    int64_t *to = ctx->Out("out").mut_dptr<int64_t>();
    const int64_t n = in.shape().At(in.shape().NumAxes() - 1), rows = in.shape().elem_cnt() / n;
    if (isOnGpu(ctx))
      return bindWarps(ctx, kernelOf(kMax ? "argmax" : "argmin", GetDataType<T>::value), rows, in.raw_dptr(), to, rows,
                       n);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(rows, std::max<int64_t>(1, 16384 / n), [&](int64_t begin, int64_t end) {
        for (int64_t r = begin; r < end; ++r) to[r] = position(from + r * n, n);
      });
    });
  }

private:
  static int64_t position(const T *x, int64_t n) {
    using R = ExtremeReducer<T, kMax>;
    constexpr int64_t kBlock = 256;
    typename R::Lane best = R{}.lane0();
    int64_t block = 0; // where the extreme first occurred
    for (int64_t i = 0; i < n; i += kBlock) {
      const auto next = reduceRun(R{}, x + i, std::min(kBlock, n - i), 0.0);
      if (i == 0 || (kMax ? next > best : next < best) || (next != next && best == best)) best = next, block = i;
    }
    for (int64_t i = block; i < n; ++i) {
      const auto v = static_cast<typename R::Load>(x[i]);
      if (v == best || (best != best && v != v)) return i;
    }
    return 0;
  }
};
template <class T> using ArgMaxKernel = ArgKernel<T, true>;
template <class T> using ArgMinKernel = ArgKernel<T, false>;

std::function<void(OpRegistry &)> definition() {
  return [](OpRegistry &op) {
    op.With(TensorArgs{{"in"}, {"out"}})
        .With(rules(infer, "... . -> ..."))
        .NoGrad("positions are not differentiable")
        .Cases({Case("matrix").In("in", {5, 33}, -10, 10), Case("vector").In("in", {7}, -10, 10),
                Case("long").In("in", {2, 3, 65}, -100, 100)});
  };
}

REGISTER_USER_OP("argmax")
    .With(definition())
    .Doc("The position (i64) of the largest element along the last axis, which the output lacks. Of equal elements "
         "the first; the first NaN if there is one.")
    .With(onCpuAndGpu<ArgMaxKernel, types::Numbers>("in"));

REGISTER_USER_OP("argmin")
    .With(definition())
    .Doc("The position (i64) of the smallest element along the last axis, which the output lacks. Of equal elements "
         "the first; the first NaN if there is one.")
    .With(onCpuAndGpu<ArgMinKernel, types::Numbers>("in"));

} // namespace
} // namespace opc::ops::reduce
