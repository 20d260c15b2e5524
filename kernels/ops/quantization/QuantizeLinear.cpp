// quantize_linear, dequantize_linear and requantize: between real numbers, 32-bit sums and quantised integers.
// SPDX-License-Identifier: Apache-2.0
#include "Quantized.h"

#include "opc/Dispatch.h"
#include "opc/JoinableKernel.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::ops {
namespace {

Maybe<void> checkScale(InferContext *ctx, DataType type, const char *of) {
  const TensorDesc in = ctx->In("in"), scale = ctx->In("scale");
  if (scale.data_type() != type)
    return Error::TypeError().id("OPC0204").help("cast scale")
           << "scale is " << scale.toString() << ", expected " << dataTypeName(type) << of;
  JUST(checkAlongAxis(ctx, "scale", in.shape()));
  if (ctx->Has("zero_point") && ctx->In("zero_point").shape() != scale.shape())
    return Error::ShapeMismatch() << "zero_point is " << ctx->In("zero_point").toString() << ", scale is "
                                  << scale.toString() << ": their shapes must be the same";
  return Maybe<void>::Ok();
}

Maybe<void> inferTo(InferContext *ctx) {
  const TensorDesc out(ctx->In("in").shape(), ctx->Attr<DataType>("dtype"));
  JUST(checkQuantizedType("out", out));
  if (ctx->Has("zero_point") && ctx->In("zero_point").data_type() != out.data_type())
    return Error::TypeError().id("OPC0204").help("cast zero_point, or change dtype")
           << "zero_point is " << ctx->In("zero_point").toString() << ", but dtype is "
           << dataTypeName(out.data_type());
  return setOut(ctx, "out", out);
}

Maybe<void> inferQuantize(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (!IsFloatingDataType(in.data_type()))
    return Error::TypeError().id("OPC0204").help("cast it to f32")
           << "in is " << in.toString() << ", expected a floating type";
  JUST(checkScale(ctx, in.data_type(), ", the type of in"));
  return inferTo(ctx);
}

Maybe<void> inferRequantize(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  if (in.data_type() != kInt32)
    return Error::TypeError().id("OPC0204") << "in is " << in.toString() << ", expected i32, as integer products give";
  JUST(checkScale(ctx, kFloat, ""));
  return inferTo(ctx);
}

Maybe<void> inferDequantize(InferContext *ctx) {
  const TensorDesc in = ctx->In("in"), scale = ctx->In("scale");
  JUST(checkQuantizedType("in", in));
  if (!IsFloatingDataType(scale.data_type()))
    return Error::TypeError().id("OPC0204") << "scale is " << scale.toString() << ", expected a floating type";
  JUST(checkScale(ctx, scale.data_type(), ""));
  if (ctx->Has("zero_point") && ctx->In("zero_point").data_type() != in.data_type())
    return Error::TypeError().id("OPC0204").help("cast zero_point")
           << "in is " << in.toString() << " and zero_point is " << ctx->In("zero_point").toString()
           << ": their element types must be the same";
  return setOut(ctx, "out", TensorDesc(in.shape(), scale.data_type()));
}

/// The nearest integer, ties to even, plus the zero point, within Q. NaN gives the least one. 32 bits do not fit in
/// f32.
template <class Q, class T> Q held(T steps, int32_t zero) {
  using Wide = std::conditional_t<sizeof(Q) <= 2, T, double>;
  constexpr Wide low = static_cast<Wide>(std::numeric_limits<Q>::lowest()),
                 high = static_cast<Wide>(std::numeric_limits<Q>::max());
  Wide v = static_cast<Wide>(std::rint(steps)) + static_cast<Wide>(zero);
  v = v > low ? v : low;
  v = v < high ? v : high;
  return static_cast<Q>(static_cast<std::conditional_t<sizeof(Q) <= 2, int32_t, int64_t>>(v));
}

const Tensor *zeroPointOf(KernelBindContext *ctx) { return ctx->Has("zero_point") ? &ctx->In("zero_point") : nullptr; }

/// `steps(x, scale)` for each element, held to the type of out.
template <class T, class S, class F>
std::unique_ptr<BoundKernel> bindQuantization(KernelBindContext *ctx, const T *in, const S *scale, F steps) {
  const Tensor *zero = zeroPointOf(ctx);
  const ScaleRuns runs(ctx->In("in").shape(), ctx->In("scale").shape(), ctx->Attr<int32_t>("axis"));
  Tensor &out = ctx->Out("out");
  std::unique_ptr<BoundKernel> task;
  visit<QuantizedTypes>(out.data_type(), [&](auto tag) {
    using Q = typename decltype(tag)::type;
    Q *to = out.mut_dptr<Q>();
    task = bindTask([=](DeviceCtx *d) {
      runs.forEach(d, [&](int64_t first, int64_t count, int64_t s) {
        const S factor = scale[s];
        const int32_t point = zeroPointAt(zero, s);
        for (int64_t i = first; i < first + count; ++i) to[i] = held<Q>(steps(in[i], factor), point);
      });
    });
  });
  return task;
}

/// A zero point of any of the types.
int32_t numberAt(const void *place, DataType type) {
  int32_t value = 0;
  visit<QuantizedTypes>(
      type, [&](auto tag) { value = static_cast<int32_t>(*static_cast<const typename decltype(tag)::type *>(place)); });
  return value;
}

/// in with one scale and, where there is one, one zero point: element by element, so that it joins a region.
template <class In, class Out, class F> class OneScaleLoop final : public RowLoop {
public:
  OneScaleLoop(DataType zero, F element) : zero_(zero), element_(element) {}
  void Run(const void *const *in, uint32_t contiguous, void *out, int64_t n) const override {
    const auto *from = static_cast<const In *>(in[0]);
    auto *to = static_cast<Out *>(out);
    const float scale = *static_cast<const float *>(in[1]);
    const int32_t zero = zero_ == kInvalidDataType ? 0 : numberAt(in[2], zero_);
    if (contiguous & 1u)
      for (int64_t i = 0; i < n; ++i) to[i] = element_(from[i], scale, zero);
    else
      std::fill_n(to, n, element_(from[0], scale, zero));
  }

private:
  DataType zero_; // kInvalidDataType: there is none
  F element_;
};

bool hasOneScale(const KernelContext &ctx) {
  return ctx.Desc("scale").shape().elem_cnt() == 1 && ctx.Desc("scale").data_type() == kFloat;
}

template <class In, class Out, class F> std::unique_ptr<RowLoop> oneScaleLoop(const KernelContext &ctx, F element) {
  const DataType zero = ctx.Has("zero_point") ? ctx.Desc("zero_point").data_type() : kInvalidDataType;
  return std::make_unique<OneScaleLoop<In, Out, F>>(zero, element);
}

/// A loop whose elements are held to the type of out.
template <class In, class F> void makeHolding(const KernelContext &ctx, F steps, std::unique_ptr<RowLoop> *loop) {
  if (!hasOneScale(ctx)) return;
  visit<QuantizedTypes>(ctx.Desc("out").data_type(), [&](auto tag) {
    using Q = typename decltype(tag)::type;
    *loop =
        oneScaleLoop<In, Q>(ctx, [steps](In x, float scale, int32_t zero) { return held<Q>(steps(x, scale), zero); });
  });
}

template <class T> class QuantizeKernel final : public StagedKernel<T>, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    if (ctx.Desc("in").data_type() == kFloat)
      makeHolding<float>(ctx, [](float x, float scale) { return x / scale; }, loop);
    return Status();
  }

private:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    return bindQuantization(ctx, staged.in("in"), staged.in("scale"), [](T x, T scale) { return x / scale; });
  }
};

class RequantizeKernel final : public BindingKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    makeHolding<int32_t>(ctx, [](int32_t x, float scale) { return static_cast<float>(x) * scale; }, loop);
    return Status();
  }

private:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return bindQuantization(ctx, ctx->In("in").dptr<int32_t>(), ctx->In("scale").dptr<float>(),
                            [](int32_t x, float scale) { return static_cast<float>(x) * scale; });
  }
};

template <class T> class DequantizeKernel final : public StagedKernel<T>, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    if (!hasOneScale(ctx)) return Status();
    visit<QuantizedTypes>(ctx.Desc("in").data_type(), [&](auto tag) {
      using Q = typename decltype(tag)::type;
      using Wide = std::conditional_t<sizeof(Q) <= 2, int32_t, int64_t>;
      *loop = oneScaleLoop<Q, float>(ctx, [](Q x, float scale, int32_t zero) {
        return static_cast<float>(static_cast<Wide>(x) - static_cast<Wide>(zero)) * scale;
      });
    });
    return Status();
  }

private:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *scale = staged.in("scale");
    T *out = staged.out("out");
    const Tensor &in = ctx->In("in");
    const Tensor *zero = zeroPointOf(ctx);
    const ScaleRuns runs(in.shape(), ctx->In("scale").shape(), ctx->Attr<int32_t>("axis"));
    std::unique_ptr<BoundKernel> task;
    visit<QuantizedTypes>(in.data_type(), [&](auto tag) {
      using Q = typename decltype(tag)::type;
      using Wide = std::conditional_t<sizeof(Q) <= 2, int32_t, int64_t>;
      const Q *from = in.dptr<Q>();
      task = bindTask([=](DeviceCtx *d) {
        runs.forEach(d, [&](int64_t first, int64_t count, int64_t s) {
          const T factor = scale[s];
          const Wide point = zeroPointAt(zero, s);
          for (int64_t i = first; i < first + count; ++i)
            out[i] = static_cast<T>(static_cast<Wide>(from[i]) - point) * factor;
        });
      });
    });
    return task;
  }
};

const char *const kAxis =
    " scale and zero_point are one number, or a vector with one for each element of dimension `axis`; without "
    "zero_point it is 0.";

REGISTER_USER_OP("quantize_linear")
    .Input("in")
    .Input("scale")
    .With(quantizationArgs)
    .Output("out")
    .Attr<DataType>("dtype", kUInt8)
    .With(rules(inferQuantize, quantizationSharding))
    .NoGrad("rounding has the derivative 0 almost everywhere")
    .Doc(std::string("out = in / scale, rounded to the nearest integer (ties to even), plus zero_point, held to the "
                     "range of dtype: u8, i8, u16, i16 or i32. NaN gives the least number.") +
         kAxis)
    .Cases(
        {Case("one_scale").In("in", {3, 50}, -20, 20).In("scale", {}, 0.05, 0.1).In("zero_point", kUInt8, {}, 100, 140),
         Case("by_axis")
             .In("in", {2, 5, 7}, -3, 3)
             .In("scale", {5}, 0.01, 0.1)
             .In("zero_point", kInt8, {5}, -10, 10)
             .Attr("dtype", kInt8),
         Case("last_axis")
             .In("in", {4, 3}, -300, 300)
             .In("scale", {3}, 0.01, 0.1)
             .Attr("axis", int32_t{-1})
             .Attr("dtype", kInt16),
         Case("to_u16").In("in", {40}, -10, 900).In("scale", {1}, 0.01, 0.02).Attr("dtype", kUInt16),
         Case("to_i32").In("in", {9}, -3, 3).In("scale", {}, 1e-6, 2e-6).Attr("dtype", kInt32).Types({kDouble}),
         Case("no_elements").In("in", {0, 2}).In("scale", {2}, 0.5, 1)})
    .Kernel<QuantizeKernel, types::Floating>("in");

REGISTER_USER_OP("requantize")
    .Input("in")
    .Input("scale")
    .With(quantizationArgs)
    .Output("out")
    .Attr<DataType>("dtype", kUInt8)
    .With(rules(inferRequantize, quantizationSharding))
    .NoGrad("its tensors are integers")
    .Doc(std::string("32-bit sums as quantised integers: out = in * scale in f32, rounded to the nearest integer (ties "
                     "to even), plus zero_point, held to the range of dtype. scale is that of in's operands over that "
                     "of out.") +
         kAxis)
    .Cases({Case("one_scale")
                .In("in", kInt32, {3, 50}, -20000, 20000)
                .In("scale", kFloat, {}, 0.005, 0.01)
                .In("zero_point", kUInt8, {}, 100, 140),
            Case("by_axis")
                .In("in", kInt32, {2, 5, 3, 3}, -3000, 3000)
                .In("scale", kFloat, {5}, 0.01, 0.1)
                .Attr("dtype", kInt8)})
    .Kernel<RequantizeKernel>();

REGISTER_USER_OP("dequantize_linear")
    .Input("in")
    .Input("scale")
    .With(quantizationArgs)
    .Output("out")
    .With(rules(inferDequantize, quantizationSharding))
    .NoGrad("its input is of integers; scales that are learned are a product of their own")
    .Doc(std::string("The real numbers that integers stand for: out = (in - zero_point) * scale, in the type of "
                     "scale.") +
         kAxis)
    .Cases({Case("one_scale")
                .In("in", kUInt8, {3, 50}, 0, 256)
                .In("scale", {}, 0.05, 0.1)
                .In("zero_point", kUInt8, {}, 100, 140),
            Case("by_axis")
                .In("in", kInt8, {2, 5, 7}, -128, 128)
                .In("scale", {5}, 0.01, 0.1)
                .In("zero_point", kInt8, {5}, -10, 10),
            Case("of_i32").In("in", kInt32, {6}, -5000, 5000).In("scale", {1}, 0.01, 0.1),
            Case("of_u16").In("in", kUInt16, {4, 3}, 0, 65536).In("scale", {4}, 0.01, 0.1).Attr("axis", int32_t{0})})
    .Kernel<DequantizeKernel, types::Floating>("scale");

} // namespace
} // namespace opc::ops
