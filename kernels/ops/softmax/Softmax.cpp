// softmax and log_softmax over the last axis.
// SPDX-License-Identifier: Apache-2.0
#include "RowMath.h"
#include "SimdExp.h"
#include "support/Operator.h"

#include "opc/RowsKernel.h"

#include <cmath>

namespace opc::ops {
namespace {

using namespace opc::cpu;

Maybe<void> inferLastAxis(InferContext *ctx, const char *output) {
  const TensorDesc in = ctx->In("in");
  if (in.shape().NumAxes() == 0)
    return Error::ShapeMismatch().help("reshape it to one dimension")
           << "in is a scalar (" << in.toString() << "): there is no last axis";
  if (!IsFloatingDataType(in.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << "in is " << in.toString() << ", expected a floating type";
  return setOut(ctx, output, in);
}

/// Definition of softmax and log_softmax.
std::function<void(OpRegistry &)> definition(const char *output) {
  return [output](OpRegistry &op) {
    op.With(TensorArgs{{"in"}, {output}})
        .With(rules([output](InferContext *ctx) { return inferLastAxis(ctx, output); }, "... . -> ... ."))
        .Cases({Case("rows").In("in", {5, 13}, -4, 4), Case("long").In("in", {2, 3, 100}, -4, 4),
                Case("large").In("in", {3, 9}, -60, 60), Case("one").In("in", {4, 1}), Case("no_rows").In("in", {0, 3}),
                Case("no_columns").In("in", {3, 0})});
  };
}

template <bool kLog> void computeRows(const float *x, float *y, int64_t n, int64_t rows) {
  (kLog ? rowMath().logSoftmax : rowMath().softmax)(x, y, n, rows);
}

void softmaxRow(const double *x, double *y, int64_t n) {
  const double max = rowMax(x, n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += y[i] = std::exp(x[i] - max);
  for (int64_t i = 0; i < n; ++i) y[i] /= sum;
}

void logSoftmaxRow(const double *x, double *y, int64_t n) {
  const double max = rowMax(x, n);
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
  const double log = std::log(sum);
  for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - max) - log;
}

template <bool kLog> void computeRows(const double *x, double *y, int64_t n, int64_t rows) {
  for (; rows > 0; --rows, x += n, y += n) (kLog ? logSoftmaxRow : softmaxRow)(x, y, n);
}

template <class T, bool kLog> class RowKernel : public RowFunctionKernel<T> {
protected:
  RowFunction<T> Rows(const KernelContext &ctx) const override {
    const Shape &shape = ctx.Desc("in").shape();
    const int64_t n = shape.At(shape.NumAxes() - 1);
    RowFunction<T> f;
    f.rows = n == 0 ? 0 : shape.elem_cnt() / n;
    f.size = n;
    f.inputs = {{"in", RowPart::kRow}};
    f.outputs = {{kLog ? "prob" : "out", RowPart::kRow}};
    f.run = [n](const RowArguments<T> &a) { computeRows<kLog>(a.x(0), a.out[0], n, a.count); };
    return f;
  }
};
template <class T> using SoftmaxKernel = RowKernel<T, false>;
template <class T> using LogSoftmaxKernel = RowKernel<T, true>;

REGISTER_USER_OP("softmax")
    .With(definition("out"))
    .Doc("Softmax over the last axis: out[..., i] = exp(in[..., i] - m) / sum over j of exp(in[..., j] - m), m the "
         "row's maximum. A row that holds NaN or +inf, or -inf alone, becomes NaN.")
    .Kernel<SoftmaxKernel, types::Floating>("in");

REGISTER_USER_OP("log_softmax")
    .With(definition("prob"))
    .Doc("The logarithm of softmax over the last axis: prob[..., i] = in[..., i] - m - log(sum over j of exp(in[..., "
         "j] - m)), m the row's maximum.")
    .Kernel<LogSoftmaxKernel, types::Floating>("in");

} // namespace
} // namespace opc::ops
