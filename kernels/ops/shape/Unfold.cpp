// unfold and fold: the patches of an image as columns (im2col), and their sum back into an image (col2im).
// SPDX-License-Identifier: Apache-2.0
#include "shape/PlaneArguments.h"
#include "support/CudaTask.h"
#include "support/ElementBytes.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

namespace opc::ops {
namespace {

using Pair = std::vector<int32_t>;

/// Sizes of an image of h x w and of its patches: oh x ow positions of kh x kw pixels.
struct Patches {
  int64_t h, w, kh, kw, padH, padW, strideH, strideW, dilationH, dilationW, oh, ow;
};

Maybe<Patches> patches(const OpContext &ctx, int64_t h, int64_t w) {
  if (ctx.Attr<std::string>("data_format") != "channels_first")
    return (Error("OPC0205") << "data_format is \"" << ctx.Attr<std::string>("data_format") << "\"")
        .help("use \"channels_first\", and transpose before and after");
  for (const char *name : {"kernel_size", "padding", "strides", "dilation_rate"}) {
    const Pair p = ctx.Attr<Pair>(name);
    const int32_t least = std::string(name) == "padding" ? 0 : 1;
    if (p.size() != 2 || p[0] < least || p[1] < least)
      return (Error("OPC0205") << name << " has to be two numbers of " << least << " or more")
          .help("give (vertical, horizontal)");
  }
  // An empty tensor may have dimensions of any size; of these no sum with a padding overflows.
  if (h > INT32_MAX || w > INT32_MAX)
    return Error::ShapeMismatch().id("OPC0206")
           << "an image of " << h << " x " << w << " has an axis over " << INT32_MAX;
  const Pair k = ctx.Attr<Pair>("kernel_size"), pad = ctx.Attr<Pair>("padding"), s = ctx.Attr<Pair>("strides"),
             d = ctx.Attr<Pair>("dilation_rate");
  Patches p{h, w, k[0], k[1], pad[0], pad[1], s[0], s[1], d[0], d[1], 0, 0};
  const int64_t spanH = h + 2 * p.padH - p.dilationH * (p.kh - 1) - 1,
                spanW = w + 2 * p.padW - p.dilationW * (p.kw - 1) - 1;
  if (spanH < 0 || spanW < 0)
    return (Error::ShapeMismatch() << "an image of " << h << " x " << w << " holds no patch of " << p.kh << " x "
                                   << p.kw << " with this padding and dilation")
        .help("pad more, or make the kernel smaller");
  p.oh = spanH / p.strideH + 1;
  p.ow = spanW / p.strideW + 1;
  return p;
}

Maybe<void> inferUnfold(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  if (x.shape().NumAxes() != 4)
    return Error::ShapeMismatch() << "x is " << x.shape().ToString()
                                  << ", it should be (batch, channels, height, width)";
  const Patches p = JUST(patches(*ctx, x.shape().At(2), x.shape().At(3)));
  const int64_t rows = JUST(checkedMul(x.shape().At(1), p.kh * p.kw, "the number of rows"));
  const int64_t columns = JUST(checkedMul(p.oh, p.ow, "the number of columns"));
  return setOut(ctx, "y", TensorDesc(Shape({x.shape().At(0), rows, columns}), x.data_type()));
}

Maybe<void> inferFold(InferContext *ctx) {
  const TensorDesc x = ctx->In("x");
  const Pair size = ctx->Attr<Pair>("output_size");
  if (size.size() != 2 || size[0] < 1 || size[1] < 1)
    return (Error("OPC0205") << "output_size has to be two numbers of 1 or more").help("give (height, width)");
  const Patches p = JUST(patches(*ctx, size[0], size[1]));
  const int64_t columns = JUST(checkedMul(p.oh, p.ow, "the number of columns"));
  if (x.shape().NumAxes() != 3 || x.shape().At(1) % (p.kh * p.kw) || x.shape().At(2) != columns)
    return (Error::ShapeMismatch() << "x is " << x.shape().ToString() << ", it should be (batch, channels * "
                                   << p.kh * p.kw << ", " << columns << ")")
        .help("an image of output_size has as many patches as x has columns");
  return setOut(ctx, "y",
                TensorDesc(Shape({x.shape().At(0), x.shape().At(1) / (p.kh * p.kw), p.h, p.w}), x.data_type()));
}

/// The positions o in [0, n) for which o * stride + offset lies in [0, size).
std::pair<int64_t, int64_t> inside(int64_t offset, int64_t stride, int64_t size, int64_t n) {
  const int64_t lo = offset >= 0 ? 0 : (-offset + stride - 1) / stride;
  const int64_t hi = offset >= size ? 0 : (size - 1 - offset) / stride + 1;
  return {std::min(lo, n), std::clamp<int64_t>(hi, std::min(lo, n), n)};
}

PatchArguments patchArguments(const Patches &p, int64_t planes, const void *from, void *to) {
  return {from,   to,        planes,    p.h,         p.w,         p.kh, p.kw, p.padH,
          p.padW, p.strideH, p.strideW, p.dilationH, p.dilationW, p.oh, p.ow};
}

std::unique_ptr<BoundKernel> bindUnfold(KernelBindContext *ctx) {
  const Tensor &x = ctx->In("x");
  const Shape &in = x.shape();
  const Patches p = valueOf(patches(*ctx, in.At(2), in.At(3)));
  const void *from = x.raw_dptr();
  void *to = ctx->Out("y").mut_raw_dptr();
  const int64_t planes = in.Count(0, 2), taps = p.kh * p.kw;
  if (isOnGpu(ctx))
    return bindLaunch(ctx, kernelOf("unfold", elementSize(x)), ctx->Out("y").shape().elem_cnt(),
                      patchArguments(p, planes, from, to));
  return withElementSize(elementSize(x), [&](auto tag) {
    using T = decltype(tag);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(planes * taps, std::max<int64_t>(1, 16384 / p.oh / p.ow), [&](int64_t b, int64_t e) {
        for (int64_t job = b; job < e; ++job) {
          const T *plane = static_cast<const T *>(from) + job / taps * p.h * p.w;
          T *row = static_cast<T *>(to) + job * p.oh * p.ow;
          const int64_t tap = job % taps, dy = tap / p.kw * p.dilationH - p.padH,
                        dx = tap % p.kw * p.dilationW - p.padW;
          const auto [lo, hi] = inside(dx, p.strideW, p.w, p.ow);
          for (int64_t oy = 0; oy < p.oh; ++oy, row += p.ow) {
            const int64_t iy = oy * p.strideH + dy;
            if (iy < 0 || iy >= p.h) {
              std::fill_n(row, p.ow, T(0));
              continue;
            }
            std::fill_n(row, lo, T(0));
            for (int64_t ox = lo; ox < hi; ++ox) row[ox] = plane[iy * p.w + ox * p.strideW + dx];
            std::fill(row + hi, row + p.ow, T(0));
          }
        }
      });
    });
  });
}

template <class T> class FoldKernel final : public StagedKernel<T> {
public:
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    const T *x = staged.in("x");
    T *y = staged.out("y");
    const Shape &out = ctx->Out("y").shape();
    const Patches p = valueOf(patches(*ctx, out.At(2), out.At(3)));
    const int64_t planes = out.Count(0, 2), taps = p.kh * p.kw, positions = p.oh * p.ow;
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(planes, std::max<int64_t>(1, 16384 / taps / positions), [&](int64_t b, int64_t e) {
        for (int64_t c = b; c < e; ++c) {
          T *plane = y + c * p.h * p.w;
          std::fill_n(plane, p.h * p.w, T(0));
          for (int64_t tap = 0; tap < taps; ++tap) {
            const T *row = x + (c * taps + tap) * positions;
            const int64_t dy = tap / p.kw * p.dilationH - p.padH, dx = tap % p.kw * p.dilationW - p.padW;
            const auto [lo, hi] = inside(dx, p.strideW, p.w, p.ow);
            for (int64_t oy = 0; oy < p.oh; ++oy, row += p.ow) {
              const int64_t iy = oy * p.strideH + dy;
              if (iy < 0 || iy >= p.h) continue;
              for (int64_t ox = lo; ox < hi; ++ox) plane[iy * p.w + ox * p.strideW + dx] += row[ox];
            }
          }
        }
      });
    });
  }
};

std::unique_ptr<BoundKernel> bindFoldOnGpu(KernelBindContext *ctx) {
  Tensor &y = ctx->Out("y");
  const Patches p = valueOf(patches(*ctx, y.shape().At(2), y.shape().At(3)));
  return bindLaunch(ctx, kernelOf("fold", y.data_type()), y.shape().elem_cnt(),
                    patchArguments(p, y.shape().Count(0, 2), ctx->In("x").raw_dptr(), y.mut_raw_dptr()));
}

/// The attributes of both ops.
void patchAttrs(OpRegistry &op) {
  op.Attr<std::string>("data_format", "channels_first")
      .RequiredAttr<Pair>("kernel_size")
      .Attr<Pair>("padding", {0, 0})
      .Attr<Pair>("strides", {1, 1})
      .Attr<Pair>("dilation_rate", {1, 1});
}
Case sample(const char *name, Shape x, Pair k, Pair pad, Pair s, Pair d) {
  Case c(name);
  c.In("x", x).Attr("kernel_size", k).Attr("padding", pad).Attr("strides", s).Attr("dilation_rate", d);
  return c;
}

// Images split, and channels: of each the columns have kernel height times width rows.

REGISTER_USER_OP("unfold")
    .With(TensorArgs{{"x"}, {"y"}})
    .With(patchAttrs)
    .With(rules(inferUnfold, "n c . . -> n c* .", Linear({0})))
    .Doc("y[n, (c, i, j), (oy, ox)] = x[n, c, oy * stride + i * dilation - padding, ...], 0 outside: the patches of "
         "x (batch, channels, height, width) as columns.")
    .Cases({sample("plain", {2, 3, 5, 6}, {3, 2}, {0, 0}, {1, 1}, {1, 1}).Types({kFloat, kDouble, kFloat16}),
            sample("strided", {1, 2, 7, 6}, {3, 3}, {1, 2}, {2, 1}, {1, 2}).Types({kFloat, kDouble, kFloat16})})
    .With(onCpuAndGpu<FunctionKernel<bindUnfold>>());

REGISTER_USER_OP("fold")
    .With(TensorArgs{{"x"}, {"y"}})
    .RequiredAttr<Pair>("output_size")
    .With(patchAttrs)
    .With(rules(inferFold, "n c* . -> n c . .", Linear({0})))
    .Doc("Adds the columns of x, as unfold makes them of an image of output_size (height, width), back into an "
         "image; pixels that several patches cover add up. The gradient of unfold.")
    .Cases({sample("plain", {2, 18, 20}, {3, 2}, {0, 0}, {1, 1}, {1, 1}).Attr("output_size", Pair{6, 6})})
    .Kernel<FoldKernel, types::Floating>("x")
    .Kernel<OfFunction<bindFoldOnGpu>::Kernel, types::Floating>("x", onGpu());

} // namespace
} // namespace opc::ops
