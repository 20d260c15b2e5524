// uniform, normal, bernoulli, random_mask_like, randperm: numbers that depend on the seed, the op's name, the run and
// the element, and on nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "source/RandomElements.h"
#include "support/Operator.h"

#include <cmath>
#include <numeric>

namespace opc::ops {
namespace {

Maybe<void> inferSource(InferContext *ctx) {
  const Shape shape = ctx->Attr<Shape>("shape");
  for (int64_t d : shape)
    if (d < 0) return Error("OPC0205") << "shape " << shape.ToString() << " has the dimension " << d;
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!IsFloatingDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", it should be a floating type";
  return setOut(ctx, "out", TensorDesc(shape, type));
}

/// Definition of uniform and normal, whose numbers have the parameters `a` and `b`.
std::function<void(OpRegistry &)> sourceDefinition(const char *a, double byDefaultA, const char *b, double byDefaultB) {
  return [=](OpRegistry &op) {
    op.Output("out")
        .Attr<double>(a, byDefaultA)
        .Attr<double>(b, byDefaultB)
        .Attr<int64_t>("seed", 0)
        .RequiredAttr<DataType>("dtype")
        .RequiredAttr<Shape>("shape")
        .Attr<std::vector<std::string>>("nd_sbp", {})
        .With(rules(inferSource, "-> ..."))
        .Pure(false)
        .NoGrad("it has no input");
  };
}

/// Box-Muller: pairs of uniforms to pairs of standard normals.
template <class F> void toNormal(F *u, int64_t n) {
  for (int64_t k = 0; k < n; k += 2) {
    const F r = std::sqrt(F(-2) * std::log(F(1) - u[k])),
            angle = F(6.283185307179586476925) * u[k + 1]; // 1-u is never 0
    u[k] = r * std::cos(angle);
    u[k + 1] = r * std::sin(angle);
  }
}

template <class T, bool kNormal> class SourceKernel : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = ComputeType<T>;
    T *to = ctx->Out("out").mut_dptr<T>();
    const PieceRuns runs(ctx, "out");
    const double a = ctx->Attr<double>(kNormal ? "mean" : "from"), b = ctx->Attr<double>(kNormal ? "std" : "to");
    if (isOnGpu(ctx)) {
      RandomArguments p{};
      p.out = to;
      p.a = a;
      p.b = b;
      return bindOnGpu(ctx, kernelOf(kNormal ? "normal" : "uniform", GetDataType<T>::value), "out", p);
    }
    const F shift = static_cast<F>(a), scale = static_cast<F>(kNormal ? b : b - a), top = static_cast<F>(b);
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlock<F>(
          dev, runs, random(dev),
          [&](int64_t at, int64_t count, const F *u) {
            for (int64_t k = 0; k < count; ++k) {
              F v = shift + u[k] * scale;
              if (!kNormal && v >= top && top > shift) v = shift; // rounding must not reach the open end
              to[at + k] = T(v);
            }
          },
          [](F *u) {
            if constexpr (kNormal) toNormal(u, kPerBatch<F>);
          });
    });
  }
};
template <class T> using UniformKernel = SourceKernel<T, false>;
template <class T> using NormalKernel = SourceKernel<T, true>;

REGISTER_USER_OP("uniform")
    .With(sourceDefinition("from", 0, "to", 1))
    .Doc(
        "Independent numbers, uniform in [from, to); those of f16 and bf16 are rounded from f32, and may be `to`. They "
        "depend on seed, the op's name, the run of the session and the position: not on threads or devices "
        "(Philox4x32-10).")
    .Cases({Case("plain").Attr("dtype", kFloat).Attr("shape", Shape({4, 5})),
            Case("range").Attr("dtype", kDouble).Attr("shape", Shape({7})).Attr("from", -2.0).Attr("to", 3.0)})
    .With(onCpuAndGpu<UniformKernel, types::Floating>("out"));

REGISTER_USER_OP("normal")
    .With(sourceDefinition("mean", 0, "std", 1))
    .Doc("Independent normal numbers of the given mean and standard deviation, by Box and Muller's method from the "
         "numbers of uniform.")
    .Cases({Case("plain").Attr("dtype", kFloat).Attr("shape", Shape({4, 5}))})
    .With(onCpuAndGpu<NormalKernel, types::Floating>("out"));

// --- bernoulli, random_mask_like -------------------------------------------------------------------------------------

Maybe<void> inferBernoulli(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  const double p = ctx->Attr<double>("p");
  if (p != -1 && !(p >= 0 && p <= 1))
    return (Error("OPC0205") << "p is " << p).help("p is a probability, or -1 to read them from in");
  DataType type = ctx->Attr<DataType>("dtype");
  if (type == kInvalidDataType) type = in.data_type();
  if (type != in.data_type() && type != kBool)
    return (Error::TypeError() << "dtype is " << dataTypeName(type) << ", in is " << dataTypeName(in.data_type()))
        .help("bernoulli gives the dtype of in, or bool; cast its output");
  return setOut(ctx, "out", TensorDesc(in.shape(), type));
}

template <class T> class BernoulliKernel final : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const T *from = ctx->In("in").dptr<T>();
    Tensor &out = ctx->Out("out");
    const bool asBool = out.data_type() == kBool;
    void *to = out.mut_raw_dptr();
    const double p = ctx->Attr<double>("p");
    if (isOnGpu(ctx)) {
      RandomArguments a{};
      a.in = from;
      a.out = to;
      a.a = p;
      a.givesBool = asBool;
      return bindOnGpu(ctx, kernelOf("bernoulli", GetDataType<T>::value), "out", a);
    }
    const PieceRuns runs(ctx, "out");
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlock<float>(dev, runs, random(dev), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) {
          const double probability = p >= 0 ? p : static_cast<double>(static_cast<ComputeType<T>>(from[at + k]));
          const bool hit = static_cast<double>(u[k]) < probability;
          if (asBool)
            static_cast<bool *>(to)[at + k] = hit;
          else
            static_cast<T *>(to)[at + k] = T(hit ? 1.0f : 0.0f);
        }
      });
    });
  }
};

Maybe<void> inferMask(InferContext *ctx) { return setOut(ctx, "out", TensorDesc(ctx->In("like").shape(), kBool)); }

class MaskKernel final : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    bool *to = ctx->Out("out").mut_dptr<bool>();
    const PieceRuns runs(ctx, "out");
    const float rate = ctx->Attr<float>("rate");
    if (isOnGpu(ctx)) {
      RandomArguments a{};
      a.out = to;
      a.rate = rate;
      return bindOnGpu(ctx, "random_mask", "out", a);
    }
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      forEachBlock<float>(dev, runs, random(dev), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) to[at + k] = u[k] >= rate;
      });
    });
  }
};

REGISTER_USER_OP("bernoulli")
    .With(TensorArgs{{"in"}, {"out"}})
    .Attr<double>("p", -1.0)
    .Attr<int64_t>("seed", 0)
    .Attr<DataType>("dtype", kInvalidDataType)
    .With(rules(inferBernoulli, "... -> ..."))
    .Pure(false)
    .NoGrad("the output is random")
    .Doc("1 with probability p, else 0; with p = -1 each element of in is the probability. dtype is that of in (the "
         "default) or bool.")
    .Cases({Case("given").In("in", {4, 5}, 0, 1), Case("fixed").In("in", {9}, 0, 1).Attr("p", 0.25)})
    .With(onCpuAndGpu<BernoulliKernel, types::Floating>("in"));

REGISTER_USER_OP("random_mask_like")
    .With(TensorArgs{{"like"}, {"out"}})
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .With(rules(inferMask, "? ... -> ..."))
    .Pure(false)
    .NoGrad("the output is random")
    .Doc("A bool tensor in the shape of like: false with probability rate, else true.")
    .Cases({Case("half").In("like", {4, 5}).Attr("rate", 0.5f).Types({kFloat})})
    .With(onCpuAndGpu<MaskKernel>());

// --- randperm --------------------------------------------------------------------------------------------------------

Maybe<void> inferRandperm(InferContext *ctx) {
  const int64_t n = ctx->Attr<int32_t>("n");
  if (n < 0) return Error("OPC0205") << "n is " << n << ", it should be 0 or more";
  return setOut(ctx, "out", TensorDesc(Shape({n}), kInt32));
}

class RandpermKernel final : public RandomKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const PieceRange piece = pieceRange(ctx, "out", 0);
    const int64_t n = piece.whole;
    if (isOnGpu(ctx)) return bindPermutation(ctx, piece);
    int32_t *out = ctx->Out("out").mut_dptr<int32_t>(), *to = piece.all() ? out : ctx->Tmp<int32_t>();
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      const RandomBlocks blocks = random(dev);
      std::iota(to, to + n, 0);
      for (int64_t i = n - 1; i > 0; --i) { // Fisher and Yates; 64 random bits make the bias of the product negligible
        const Philox::Block b = blocks(static_cast<uint64_t>(i));
        const auto bits = static_cast<unsigned __int128>(static_cast<uint64_t>(b[0]) << 32 | b[1]);
        std::swap(to[i], to[static_cast<int64_t>((bits * static_cast<uint64_t>(i + 1)) >> 64)]);
      }
      if (to != out) std::copy(to + piece.begin, to + piece.end(), out);
    });
  }

private:
  std::unique_ptr<BoundKernel> bindPermutation(KernelBindContext *ctx, const PieceRange &piece) const {
    const int64_t n = piece.whole, begin = piece.begin, count = piece.size;
    int32_t *out = ctx->Out("out").mut_dptr<int32_t>(), *places = ctx->Tmp<int32_t>(), *numbers = places + n;
    cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
    const cuda::CudaFunction draw = device.function("randperm_places"), exchange = device.function("randperm");
    const bool isShared = n <= 12288; // what a block has at least
    return bindTask([=, random = draws(ctx)](DeviceCtx *dev) {
      if (count == 0) return;
      cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
      const RandomBlocks blocks = random(dev);
      gpu.run(draw, cuda::blocksFor(n), {cuda::kBlock, 1, 1}, 0, blocks.key, blocks.stream, places, n);
      gpu.run(exchange, {1, 1, 1}, {cuda::kBlock, 1, 1}, isShared ? static_cast<uint32_t>(n * 4) : 0,
              static_cast<const int32_t *>(places), numbers, out, n, begin, count, static_cast<int32_t>(isShared));
    });
  }
};
/// Every swap may move every number, so that a device makes all of them to have its piece.
size_t randpermTmpSize(InferContext *ctx) {
  const int64_t n = ctx->Attr<int32_t>("n");
  return ctx->Out("out").shape().At(0) == n ? 0 : static_cast<size_t>(n) * sizeof(int32_t);
}

REGISTER_USER_OP("randperm")
    .Output("out")
    .RequiredAttr<int32_t>("n")
    .Attr<int64_t>("seed", 0)
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .With(rules(inferRandperm, "-> n"))
    .Pure(false)
    .NoGrad("it has no input")
    .Doc("The numbers 0 to n - 1 (i32) in random order.")
    .Cases({Case("ten").Attr<int32_t>("n", 10)})
    .Kernel<RandpermKernel>(KernelOptions().TmpSize(randpermTmpSize))
    .Kernel<RandpermKernel>(onGpu().TmpSize([](InferContext *ctx) {
      return static_cast<size_t>(ctx->Attr<int32_t>("n")) * 2 * sizeof(int32_t);
    }));

} // namespace
} // namespace opc::ops
