// uniform, normal, bernoulli, randperm, random_mask_like, dropout: numbers that depend on the seed, the op's name, the
// run and the element, and on nothing else.
// SPDX-License-Identifier: Apache-2.0
#include "opc/HalfConversion.h"
#include "source/RandomStream.h"
#include "support/CpuKernels.h"

#include <cmath>
#include <numeric>
#include <type_traits>

namespace opc::ops {
namespace {

template <class T> constexpr bool isHalf = std::is_same_v<T, float16> || std::is_same_v<T, bfloat16>;

Maybe<void> inferSource(InferContext *ctx) {
  const Shape shape = ctx->Attr<Shape>("shape");
  for (int64_t d : shape)
    if (d < 0) return Error("OPC0205") << "shape " << shape.ToString() << " has the dimension " << d;
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!IsFloatingDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", it should be a floating type";
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(shape, type);
  return Maybe<void>::Ok();
}

/// Uniform numbers in [0, 1) a block of four words: four of f32, or two of f64.
template <class F> constexpr int64_t kPerBlock = std::is_same_v<F, double> ? 2 : 4;

/// Calls f(first element, count, uniforms) for pieces of a tensor of n elements, each a whole number of blocks.
template <class F, class Body> void forEachBlock(DeviceCtx *dev, int64_t n, const RandomBlocks &random, Body body) {
  constexpr int64_t per = kPerBlock<F>, batch = RandomBlocks::kBatch, piece = per * batch;
  dev->parallelFor((n + piece - 1) / piece, 128, [&](int64_t b, int64_t e) {
    for (int64_t p = b; p < e; ++p) {
      uint32_t words[4][batch];
      random.batch(static_cast<uint64_t>(p * batch), words);
      F u[piece];
      for (int64_t i = 0; i < batch; ++i)
        if constexpr (per == 2) {
          u[2 * i] = Philox::unitDouble(words[0][i], words[1][i]);
          u[2 * i + 1] = Philox::unitDouble(words[2][i], words[3][i]);
        } else {
          for (int64_t w = 0; w < 4; ++w) u[4 * i + w] = Philox::unitFloat(words[w][i]);
        }
      body(p * piece, std::min(piece, n - p * piece), u);
    }
  });
}

/// This device's piece of a tensor as runs of neighbours in the whole: run i begins at element start(i) of the whole
/// and at element i * length of the piece.
struct PieceRuns {
  int64_t count = 1, length = 0;
  bool whole = true;
  DimVector sizes, strides; // of the axes before the run, outermost first
  int64_t offset = 0;

  PieceRuns(const user_op::KernelContext *ctx, const std::string &arg) {
    const Shape &piece = ctx->TensorDesc4ArgNameAndIndex(arg, 0)->shape(),
                &all = ctx->LogicalTensorDesc4ArgNameAndIndex(arg, 0)->shape();
    int64_t last = piece.NumAxes() - 1;
    while (last >= 0 && piece.At(last) == all.At(last)) --last;
    whole = last < 0;
    length = piece.Count(std::max<int64_t>(0, last));
    for (int64_t a = 0; a < last; ++a) {
      sizes.push_back(piece.At(a));
      strides.push_back(all.Count(a + 1));
      count *= piece.At(a);
    }
    for (int64_t a = 0; a <= last; ++a) offset += ctx->ShardBegin(arg, 0, a) * all.Count(a + 1);
  }
  int64_t start(int64_t i) const {
    int64_t at = offset;
    for (size_t a = sizes.size(); a-- > 0; i /= sizes[a]) at += i % sizes[a] * strides[a];
    return at;
  }
};

/// forEachBlock for a piece: each element gets the number that it has in the whole.
template <class F, class Body>
void forEachBlock(DeviceCtx *dev, const PieceRuns &runs, const RandomBlocks &random, Body body) {
  if (runs.whole) return forEachBlock<F>(dev, runs.length, random, body);
  constexpr int64_t per = kPerBlock<F>, batch = RandomBlocks::kBatch, piece = per * batch;
  static_assert(per == 4, "the words are taken as f32");
  dev->parallelFor(runs.count, std::max<int64_t>(1, 16384 / std::max<int64_t>(1, runs.length)),
                   [&](int64_t b, int64_t e) {
                     for (int64_t r = b; r < e; ++r) {
                       const int64_t begin = runs.start(r), end = begin + runs.length;
                       for (int64_t block = begin / per; block * per < end; block += batch) {
                         uint32_t words[4][batch];
                         random.batch(static_cast<uint64_t>(block), words);
                         F u[piece];
                         for (int64_t i = 0; i < batch; ++i)
                           for (int64_t w = 0; w < 4; ++w) u[4 * i + w] = Philox::unitFloat(words[w][i]);
                         const int64_t first = std::max(begin, block * per), stop = std::min(end, block * per + piece);
                         body(r * runs.length + first - begin, stop - first, u + (first - block * per));
                       }
                     }
                   });
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

template <class T, bool kNormal> class SourceKernel : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = std::conditional_t<isHalf<T>, float, T>;
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    T *to = out->template mut_dptr<T>();
    const int64_t n = out->shape().elem_cnt();
    const double a = ctx->Attr<double>(kNormal ? "mean" : "from"), b = ctx->Attr<double>(kNormal ? "std" : "to");
    const F shift = static_cast<F>(a), scale = static_cast<F>(kNormal ? b : b - a), top = static_cast<F>(b);
    const uint64_t key = randomKey(ctx);
    RandomStream *stream = &stream_;
    return user_op::bindTask([=](DeviceCtx *dev) {
      forEachBlock<F>(dev, n, stream->next(key), [&](int64_t at, int64_t count, F *u) {
        if constexpr (kNormal) toNormal(u, kPerBlock<F> * RandomBlocks::kBatch);
        for (int64_t k = 0; k < count; ++k) {
          F v = shift + u[k] * scale;
          if (!kNormal && v >= top && top > shift) v = shift; // rounding must not reach the open end
          to[at + k] = T(v);
        }
      });
    });
  }

private:
  mutable RandomStream stream_;
};
template <class T> using UniformKernel = SourceKernel<T, false>;
template <class T> using NormalKernel = SourceKernel<T, true>;

REGISTER_USER_OP("uniform")
    .Output("out")
    .Attr<double>("from", 0.0)
    .Attr<double>("to", 1.0)
    .Attr<int64_t>("seed", 0)
    .RequiredAttr<DataType>("dtype")
    .RequiredAttr<Shape>("shape")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn(inferSource)
    .Pure(false)
    .NoGrad("it has no input")
    .Doc("Independent numbers, uniform in [from, to). They depend on seed, the op's name, the run of the session and "
         "the position: not on threads or devices (Philox4x32-10).")
    .Cases(
        {user_op::Case("plain").Attr("dtype", kFloat).Attr("shape", Shape({4, 5})),
         user_op::Case("range").Attr("dtype", kDouble).Attr("shape", Shape({7})).Attr("from", -2.0).Attr("to", 3.0)});

REGISTER_USER_OP("normal")
    .Output("out")
    .Attr<double>("mean", 0.0)
    .Attr<double>("std", 1.0)
    .Attr<int64_t>("seed", 0)
    .RequiredAttr<DataType>("dtype")
    .RequiredAttr<Shape>("shape")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn(inferSource)
    .Pure(false)
    .NoGrad("it has no input")
    .Doc("Independent normal numbers of the given mean and standard deviation, by Box and Muller's method from the "
         "numbers of uniform.")
    .Cases({user_op::Case("plain").Attr("dtype", kFloat).Attr("shape", Shape({4, 5}))});

OPC_CPU_KERNELS("uniform", "out", UniformKernel, float, double, float16, bfloat16);
OPC_CPU_KERNELS("normal", "out", NormalKernel, float, double, float16, bfloat16);

// --- bernoulli, random_mask_like
// ---------------------------------------------------------------------------------------

Maybe<void> inferBernoulli(InferContext *ctx) {
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  const double p = ctx->Attr<double>("p");
  if (p != -1 && !(p >= 0 && p <= 1))
    return (Error("OPC0205") << "p is " << p).help("p is a probability, or -1 to read them from in");
  DataType type = ctx->Attr<DataType>("dtype");
  if (type == kInvalidDataType) type = in.data_type();
  if (type != in.data_type() && type != kBool)
    return (Error::TypeError() << "dtype is " << dataTypeName(type) << ", in is " << dataTypeName(in.data_type()))
        .help("bernoulli gives the dtype of in, or bool; cast its output");
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(in.shape(), type);
  return Maybe<void>::Ok();
}

template <class T> class BernoulliKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    const T *from = in->template dptr<T>();
    const bool asBool = out->data_type() == kBool;
    void *to = out->mut_raw_dptr();
    const double p = ctx->Attr<double>("p");
    const uint64_t key = randomKey(ctx);
    const int64_t n = in->shape().elem_cnt();
    RandomStream *stream = &stream_;
    return user_op::bindTask([=](DeviceCtx *dev) {
      forEachBlock<float>(dev, n, stream->next(key), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) {
          const double probability =
              p >= 0 ? p : static_cast<double>(static_cast<std::conditional_t<isHalf<T>, float, T>>(from[at + k]));
          const bool hit = static_cast<double>(u[k]) < probability;
          if (asBool)
            static_cast<bool *>(to)[at + k] = hit;
          else
            static_cast<T *>(to)[at + k] = T(hit ? 1.0f : 0.0f);
        }
      });
    });
  }

private:
  mutable RandomStream stream_;
};

Maybe<void> checkRate(const user_op::UserOpDefWrapper &, const user_op::UserOpConfWrapper &conf) {
  const float rate = conf.attr<float>("rate");
  if (!(rate >= 0 && rate <= 1))
    return (Error("OPC0205") << "rate is " << rate).help("rate is the probability of dropping, from 0 to 1");
  return Maybe<void>::Ok();
}

class MaskKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    Tensor *out = ctx->Tensor4ArgNameAndIndex("out", 0);
    bool *to = out->mut_dptr<bool>();
    const int64_t n = out->shape().elem_cnt();
    const float rate = ctx->Attr<float>("rate");
    const uint64_t key = randomKey(ctx);
    RandomStream *stream = &stream_;
    return user_op::bindTask([=](DeviceCtx *dev) {
      forEachBlock<float>(dev, n, stream->next(key), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) to[at + k] = u[k] >= rate;
      });
    });
  }

private:
  mutable RandomStream stream_;
};

REGISTER_USER_OP("bernoulli")
    .Input("in")
    .Output("out")
    .Attr<double>("p", -1.0)
    .Attr<int64_t>("seed", 0)
    .Attr<DataType>("dtype", kInvalidDataType)
    .SetTensorDescInferFn(inferBernoulli)
    .Pure(false)
    .NoGrad("the output is random")
    .Doc("1 with probability p, else 0; with p = -1 each element of in is the probability. dtype is that of in (the "
         "default) or bool.")
    .Cases({user_op::Case("given").In("in", {4, 5}, 0, 1), user_op::Case("fixed").In("in", {9}, 0, 1).Attr("p", 0.25)});
OPC_CPU_KERNELS("bernoulli", "in", BernoulliKernel, float, double, float16, bfloat16);

REGISTER_USER_OP("random_mask_like")
    .Input("like")
    .Output("out")
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(ctx->InputShape("like", 0), kBool);
      return Maybe<void>::Ok();
    })
    .Pure(false)
    .NoGrad("the output is random")
    .Doc("A bool tensor in the shape of like: false with probability rate, else true.")
    .Cases({user_op::Case("half").In("like", {4, 5}).Attr("rate", 0.5f).Types({kFloat})});
OPC_ANY_TYPE_CPU_KERNEL("random_mask_like", MaskKernel);

// --- dropout
// -------------------------------------------------------------------------------------------------------------

Maybe<void> inferDropout(InferContext *ctx) {
  const TensorDesc in = *ctx->TensorDesc4ArgNameAndIndex("in", 0);
  if (ctx->has_input("_add_to_output", 0) && ctx->InputTensorDesc("_add_to_output", 0) != in)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->InputTensorDesc("_add_to_output", 0).toString()
                                  << ", in is " << in.toString();
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = in;
  *ctx->TensorDesc4ArgNameAndIndex("mask", 0) = TensorDesc(in.shape(), kBool);
  return Maybe<void>::Ok();
}

template <class T> class DropoutKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = std::conditional_t<isHalf<T>, float, T>;
    const Tensor *in = ctx->Tensor4ArgNameAndIndex("in", 0);
    const T *from = in->template dptr<T>();
    const Tensor *addend = ctx->Tensor4ArgNameAndIndex("_add_to_output", 0);
    const T *add = addend ? addend->template dptr<T>() : nullptr;
    T *to = ctx->Tensor4ArgNameAndIndex("out", 0)->template mut_dptr<T>();
    bool *mask = ctx->Tensor4ArgNameAndIndex("mask", 0)->template mut_dptr<bool>();
    const PieceRuns runs(ctx, "in");
    const float rate = ctx->Attr<float>("rate");
    const F scale = rate < 1 ? F(1) / (F(1) - static_cast<F>(rate)) : F(0);
    const uint64_t key = randomKey(ctx);
    RandomStream *stream = &stream_;
    return user_op::bindTask([=](DeviceCtx *dev) {
      forEachBlock<float>(dev, runs, stream->next(key), [&](int64_t at, int64_t count, const float *u) {
        for (int64_t k = 0; k < count; ++k) {
          const int64_t i = at + k;
          mask[i] = u[k] >= rate;
          F v = mask[i] ? static_cast<F>(from[i]) * scale : F(0);
          if (add) v += static_cast<F>(add[i]);
          to[i] = T(v);
        }
      });
    });
  }

private:
  mutable RandomStream stream_;
};

template <class T> class DropoutGradKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    using F = std::conditional_t<isHalf<T>, float, T>;
    const Tensor *dy = ctx->Tensor4ArgNameAndIndex("dy", 0);
    const T *from = dy->template dptr<T>();
    const bool *mask = ctx->Tensor4ArgNameAndIndex("mask", 0)->template dptr<bool>();
    T *to = ctx->Tensor4ArgNameAndIndex("dx", 0)->template mut_dptr<T>();
    const F scale = static_cast<F>(ctx->Attr<float>("scale"));
    const int64_t n = dy->shape().elem_cnt();
    return user_op::bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(n, 16384, [&](int64_t b, int64_t e) {
        for (int64_t i = b; i < e; ++i) to[i] = T(mask[i] ? static_cast<F>(from[i]) * scale : F(0));
      });
    });
  }
};

REGISTER_USER_OP("dropout")
    .Input("in")
    .OptionalInput("_add_to_output")
    .Output("out")
    .Output("mask")
    .Attr<float>("rate", 0.0f)
    .Attr<int64_t>("seed", 0)
    .SetCheckAttrFn(checkRate)
    .SetTensorDescInferFn(inferDropout)
    .SetGetSbpFn([](user_op::SbpContext *ctx) -> Maybe<void> {
      // An element is dropped or kept by its place in the whole, on every device alike.
      const int64_t rank = ctx->LogicalTensorDesc4InputArgNameAndIndex("in", 0).shape().NumAxes();
      for (int64_t a = 0; a < rank; ++a) ctx->NewBuilder().Split(ctx->inputs(), a).Split(ctx->outputs(), a).Build();
      ctx->NewBuilder()
          .PartialSum(ctx->inputs())
          .PartialSum(user_op::OpArg("out", 0))
          .Broadcast(user_op::OpArg("mask", 0))
          .Build();
      return Maybe<void>::Ok();
    })
    .Pure(false)
    .Doc("Each element of in is dropped (made 0) with probability rate, the others are scaled by 1 / (1 - rate); "
         "mask (bool) says which were kept. _add_to_output is added to the result. rate 1 drops everything.")
    .Cases({user_op::Case("half").In("in", {4, 5}).Attr("rate", 0.5f),
            user_op::Case("none").In("in", {7}).Attr("rate", 0.0f)});

REGISTER_USER_OP("dropout_grad")
    .GradientOf("dropout")
    .Input("dy")
    .Input("mask")
    .Output("dx")
    .RequiredAttr<float>("scale")
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      if (ctx->InputTensorDesc("mask", 0) != TensorDesc(ctx->InputShape("dy", 0), kBool))
        return Error::ShapeMismatch() << "mask is " << ctx->InputTensorDesc("mask", 0).toString()
                                      << ", it should be bool in the shape of dy "
                                      << ctx->InputShape("dy", 0).ToString();
      const TensorDesc dy = *ctx->TensorDesc4ArgNameAndIndex("dy", 0);
      *ctx->TensorDesc4ArgNameAndIndex("dx", 0) = dy;
      return Maybe<void>::Ok();
    })
    .Sharding("..., ... -> ...", user_op::Linear({0}))
    .Doc("dx = dy * scale where mask holds, else 0: the gradient of dropout, with scale = 1 / (1 - rate).")
    .Cases({user_op::Case("plain").In("dy", {4, 5}).In("mask", kBool, {4, 5}, 0, 2).Attr("scale", 2.0f)});

OPC_CPU_KERNELS_WITH("dropout", "in", (CpuKernelOptions{nullptr, inplaceOf("out", "in")}), DropoutKernel, float, double,
                     float16, bfloat16);
OPC_CPU_KERNELS_WITH("dropout_grad", "dy", (CpuKernelOptions{nullptr, inplaceOf("dx", "dy")}), DropoutGradKernel, float,
                     double, float16, bfloat16);

// --- randperm
// ------------------------------------------------------------------------------------------------------------

class RandpermKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    int32_t *to = ctx->Tensor4ArgNameAndIndex("out", 0)->mut_dptr<int32_t>();
    const int64_t n = ctx->Attr<int32_t>("n");
    const uint64_t key = randomKey(ctx);
    RandomStream *stream = &stream_;
    return user_op::bindTask([=](DeviceCtx *) {
      const RandomBlocks random = stream->next(key);
      std::iota(to, to + n, 0);
      for (int64_t i = n - 1; i > 0; --i) { // Fisher and Yates; 64 random bits make the bias of the product negligible
        const Philox::Block b = random(static_cast<uint64_t>(i));
        const uint64_t bits = (static_cast<uint64_t>(b[0]) << 32) | b[1];
        std::swap(
            to[i],
            to[static_cast<int64_t>((static_cast<unsigned __int128>(bits) * static_cast<uint64_t>(i + 1)) >> 64)]);
      }
    });
  }

private:
  mutable RandomStream stream_;
};

REGISTER_USER_OP("randperm")
    .Output("out")
    .RequiredAttr<int32_t>("n")
    .Attr<int64_t>("seed", 0)
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn([](InferContext *ctx) -> Maybe<void> {
      const int64_t n = ctx->Attr<int32_t>("n");
      if (n < 0) return Error("OPC0205") << "n is " << n << ", it should be 0 or more";
      *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape({n}), kInt32);
      return Maybe<void>::Ok();
    })
    .Pure(false)
    .NoGrad("it has no input")
    .Doc("The numbers 0 to n - 1 (i32) in random order.")
    .Cases({user_op::Case("ten").Attr<int32_t>("n", 10)});
OPC_ANY_TYPE_CPU_KERNEL("randperm", RandpermKernel);

} // namespace
} // namespace opc::ops
