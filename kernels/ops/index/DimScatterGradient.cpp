// dim_scatter_update_grad and dim_scatter_mul_grad, and the gradient rules of the dim_scatter operators.
// SPDX-License-Identifier: Apache-2.0
#include "index/DimLines.h"
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

// --- steps -----------------------------------------------------------------------------------------------------------

/// `a`, which has the shape of index, in the shape of src: what index does not reach of src has no gradient.
std::string likeSource(GradientRule &g, const std::string &a) {
  const Shape &index = g.shape("index"), &src = g.shape("src");
  if (index == src) return a;
  const size_t rank = static_cast<size_t>(src.NumAxes());
  return g.add("slice_grad", "src_rest")
      .in("dy", a)
      .attr("like_shape", src)
      .attr("start", std::vector<int64_t>(rank, 0))
      .attr("stop", index.dim_vec())
      .attr("step", std::vector<int64_t>(rank, 1))
      .out("dx");
}
/// The same index and dim as in the forward op.
std::string gathered(GradientRule &g, const std::string &input, const char *suffix) {
  return g.add("dim_gather", suffix).in("input", input).in("index", g.x("index")).same({"dim"}).out("output");
}
std::string scattered(GradientRule &g, const char *op, const char *base, const std::string &input,
                      const std::string &src, const std::string &suffix) {
  return g.add(op, suffix).in(base, input).in("index", g.x("index")).in("src", src).same({"dim"}).out("output");
}

void addGradient(GradientRule &g) {
  if (g.needs("input")) g.bind("input", g.dy("output"));
  if (g.needs("src")) g.bind("src", likeSource(g, gathered(g, g.dy("output"), "src")));
}
REGISTER_USER_OP_GRAD("dim_scatter_add").SetBackwardOpConfGenFn(gradientRule(addGradient));
REGISTER_USER_OP_GRAD("dim_scatter_add_like").SetBackwardOpConfGenFn(gradientRule(addGradient));

// --- dim_scatter_update ----------------------------------------------------------------------------------------------

void updateGradient(GradientRule &g) {
  if (g.needs("input")) {
    const std::string zeros = g.add("zero_like", "input_zeros").in("like", g.x("src")).out();
    g.bind("input", scattered(g, "dim_scatter_update", "input", g.dy("output"), zeros, "input"));
  }
  if (g.needs("src"))
    g.bind("src", likeSource(g, g.add("dim_scatter_update_grad", "src")
                                    .in("dy", g.dy("output"))
                                    .in("index", g.x("index"))
                                    .same({"dim"})
                                    .out("dx")));
}
REGISTER_USER_OP_GRAD("dim_scatter_update").SetBackwardOpConfGenFn(gradientRule(updateGradient));

Maybe<void> inferUpdateGrad(InferContext *ctx) {
  JUST(checkIndex(ctx, "dy"));
  ctx->Out("dx") = TensorDesc(ctx->In("index").shape(), ctx->In("dy").data_type());
  return Maybe<void>::Ok();
}

/// dy where each src element was written, and 0 for those that a later one replaced. Lines are walked backwards: the
/// first visit of a place is the last write to it.
class UpdateGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &dy = ctx->In("dy");
    const void *from = dy.raw_dptr();
    void *to = ctx->Out("dx").mut_raw_dptr();
    const int64_t places = dy.shape().elem_cnt();
    char *seen = ctx->Tmp<char>();
    return withIndices(ctx->In("index"), [&](const auto *indices) {
      const DimLines lines(ctx, indices, "dy", "dx");
      return withElementSize(elementSize(dy), [&](auto tag) {
        using T = decltype(tag);
        return bindTask([=](DeviceCtx *dev) {
          lines.check(dev);
          if (places) std::memset(seen, 0, static_cast<size_t>(places));
          lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
            for (int64_t k = lines.length; k-- > 0;) {
              const int64_t at = x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep;
              static_cast<T *>(to)[o + k * lines.otherStep] = seen[at] ? T(0) : static_cast<const T *>(from)[at];
              seen[at] = 1;
            }
          });
        });
      });
    });
  }
};

REGISTER_USER_OP("dim_scatter_update_grad")
    .GradientOf("dim_scatter_update")
    .Input("dy")
    .Input("index")
    .Output("dx")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn(inferUpdateGrad)
    .Sharding(alikeSharding)
    .Doc("The gradient of dim_scatter_update by src: dx, in the shape of index, holds the entries of dy where the "
         "elements of src were written. Of several written to one place only the last one counted; the others get 0.")
    .Cases({Case("columns")
                .In("dy", {3, 5})
                .In("index", kInt64, {3, 4}, 0, 5)
                .Attr<int32_t>("dim", 1)
                .Types({kFloat, kDouble, kFloat16}),
            Case("rows")
                .In("dy", {4, 3})
                .In("index", kInt32, {6, 2}, 0, 4)
                .Attr<int32_t>("dim", 0)
                .Types({kFloat, kDouble})})
    .Kernel<UpdateGradKernel>(KernelOptions().TmpSize([](InferContext *ctx) {
      return static_cast<size_t>(ctx->In("dy").shape().elem_cnt());
    }));

void updateGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string zeros = g.add("zero_like", "dy_zeros").in("like", g.x("dy")).out();
  g.bind("dy", scattered(g, "dim_scatter_update", "input", zeros, g.dy("dx"), "dy"));
}
REGISTER_USER_OP_GRAD("dim_scatter_update_grad").SetBackwardOpConfGenFn(gradientRule(updateGradGradient));

// --- dim_scatter_mul -------------------------------------------------------------------------------------------------

/// output = input times the factors of src: d input is dy times the same factors.
void mulGradient(GradientRule &g) {
  if (g.needs("input")) g.bind("input", scattered(g, "dim_scatter_mul", "input", g.dy("output"), g.x("src"), "input"));
  if (!g.needs("src")) return;
  const Shape &index = g.shape("index"), &src = g.shape("src");
  std::string used = g.x("src");
  if (src != index)
    used = g.add("slice", "src_used")
               .in("x", used)
               .attr("start", std::vector<int64_t>(src.dim_vec().size(), 0))
               .attr("stop", index.dim_vec())
               .attr("step", std::vector<int64_t>(src.dim_vec().size(), 1))
               .out("y");
  g.bind("src", likeSource(g, g.add("dim_scatter_mul_grad", "src")
                                  .in("dy", g.dy("output"))
                                  .in("input", g.x("input"))
                                  .in("index", g.x("index"))
                                  .in("src", used)
                                  .same({"dim"})
                                  .out("dsrc")));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul").SetBackwardOpConfGenFn(gradientRule(mulGradient));

Maybe<void> inferMulGrad(InferContext *ctx) {
  const TensorDesc input = ctx->In("input"), src = ctx->In("src"), dy = ctx->In("dy");
  JUST(checkIndex(ctx, "input"));
  const TensorDesc want(ctx->In("index").shape(), input.data_type());
  if (dy != input || src != want)
    return Error::ShapeMismatch() << "dy is " << dy.toString() << " and src " << src.toString() << ", expected "
                                  << input.toString() << " and " << want.toString();
  ctx->Out("dsrc") = src;
  return Maybe<void>::Ok();
}

/// The gradient of dim_scatter_mul by src: dy * input * the other factors of the place. For each place the product of
/// the factors that are not 0, in f64, and how many are.
template <class T> class MulGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const T *dy = ctx->In("dy").dptr<T>(), *base = ctx->In("input").dptr<T>(), *src = ctx->In("src").dptr<T>();
    T *dsrc = ctx->Out("dsrc").mut_dptr<T>();
    double *products = ctx->Tmp<double>();
    int64_t *zeros = reinterpret_cast<int64_t *>(products + ctx->In("input").shape().elem_cnt());
    return withIndices(ctx->In("index"), [&](const auto *indices) {
      const DimLines lines(ctx, indices, "input", "src");
      return bindTask([=](DeviceCtx *dev) {
        lines.check(dev);
        lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
          const auto place = [&](int64_t k) {
            return x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep;
          };
          for (int64_t k = 0; k < lines.range.size; ++k) {
            products[x + k * lines.indexedStep] = 1;
            zeros[x + k * lines.indexedStep] = 0;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const double factor = wide(src[o + k * lines.otherStep]);
            if (factor == 0)
              ++zeros[place(k)];
            else
              products[place(k)] *= factor;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = place(k);
            const double factor = wide(src[o + k * lines.otherStep]),
                         all = wide(dy[at]) * wide(base[at]) * products[at];
            const double d = zeros[at] == 0 ? all / factor : zeros[at] == 1 && factor == 0 ? all : 0.0;
            dsrc[o + k * lines.otherStep] = T(static_cast<Narrow>(d));
          }
        });
      });
    });
  }

private:
  using Narrow = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static double wide(T v) { return static_cast<double>(static_cast<Narrow>(v)); }
};

REGISTER_USER_OP("dim_scatter_mul_grad")
    .GradientOf("dim_scatter_mul")
    .Input("dy")
    .Input("input")
    .Input("index")
    .Input("src")
    .Output("dsrc")
    .RequiredAttr<int32_t>("dim")
    .SetTensorDescInferFn(inferMulGrad)
    .Sharding(alikeSharding)
    .Doc("The gradient of dim_scatter_mul by src, which has the shape of index: dsrc is dy * input at the place that "
         "an element of src multiplies, times the other elements that do, right also where some are 0.")
    .Cases({Case("columns")
                .In("dy", {3, 3})
                .In("input", {3, 3}, 0.5, 1.5)
                .In("index", kInt64, {3, 5}, 0, 3)
                .In("src", {3, 5}, 0.5, 1.5)
                .Attr<int32_t>("dim", 1)})
    .Kernel<MulGradKernel, types::Floating>("dy", KernelOptions().TmpSize([](InferContext *ctx) {
      return static_cast<size_t>(ctx->In("input").shape().elem_cnt()) * 16;
    }));

/// dsrc = (dy input P)[index] / src with P the product of a place's factors, for factors that are not 0. With r = ddsrc
/// / src and S the sum of r over a place: d dy = S input P, d input = S dy P, d src = (S[index] - r) dsrc.
void mulGradGradient(GradientRule &g) {
  const std::string r = binary(g, "broadcast_div", g.dy("dsrc"), g.x("src"), "ratio");
  const std::string sums = scattered(g, "dim_scatter_add_like", "like", g.x("input"), r, "sums");
  const auto scaled = [&](const char *input, const char *suffix) {
    return g.multiply(sums,
                      scattered(g, "dim_scatter_mul", "input", g.x(input), g.x("src"), std::string(suffix) + "_scaled"),
                      suffix);
  };
  if (g.needs("dy")) g.bind("dy", scaled("input", "dy"));
  if (g.needs("input")) g.bind("input", scaled("dy", "input"));
  if (g.needs("src"))
    g.bind("src",
           g.multiply(binary(g, "broadcast_sub", gathered(g, sums, "src_sums"), r, "src_others"), g.y("dsrc"), "src"));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul_grad").SetBackwardOpConfGenFn(gradientRule(mulGradGradient));

} // namespace
} // namespace opc::ops
