// dim_scatter_update_grad, dim_scatter_mul_grad and its gradient, and the gradient rules of the dim_scatter operators.
// SPDX-License-Identifier: Apache-2.0
#include "index/IndexOnGpu.h"
#include "support/GradientSteps.h"
#include "support/ScalarSteps.h"

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
  return setOut(ctx, "dx", TensorDesc(ctx->In("index").shape(), ctx->In("dy").data_type()));
}

/// dy where each src element was written, and 0 for those that a later one replaced. Lines are walked backwards: the
/// first visit of a place is the last write to it.
class UpdateGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &dy = ctx->In("dy");
    if (isOnGpu(ctx))
      return bindLinesOnGpu(ctx, kernelOf("dim_scatter_update_grad", elementSize(dy)), {&dy}, ctx->Out("dx"), "dy",
                            "dx", false);
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
              const int64_t place = lines.range.place(indices[i + k * lines.indexStep]);
              const int64_t at = x + place * lines.indexedStep;
              const bool last = lines.range.holds(place) && !seen[at];
              static_cast<T *>(to)[o + k * lines.otherStep] = last ? static_cast<const T *>(from)[at] : T(0);
              if (last) seen[at] = 1;
            }
          });
        });
      });
    });
  }
};

/// All writes to a place are in one piece, so that each piece knows the last.
Maybe<ShardingRule> updateGradSharding(const SbpContext &ctx) {
  const AxisFactors updates = JUST(lineFactors(ctx, "."));
  return shardingRule({JUST(lineFactors(ctx, "entries")), updates}, {updates}, Sum("entries"), Linear({0}));
}

REGISTER_USER_OP("dim_scatter_update_grad")
    .GradientOf("dim_scatter_update")
    .With(TensorArgs{{"dy", "index"}, {"dx"}})
    .RequiredAttr<int32_t>("dim")
    .With(rules(inferUpdateGrad, updateGradSharding))
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
    }))
    .Kernel<UpdateGradKernel>(onGpu());

void updateGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string zeros = g.add("zero_like", "dy_zeros").in("like", g.x("dy")).out();
  g.bind("dy", scattered(g, "dim_scatter_update", "input", zeros, g.dy("dx"), "dy"));
}
REGISTER_USER_OP_GRAD("dim_scatter_update_grad").SetBackwardOpConfGenFn(gradientRule(updateGradGradient));

// --- dim_scatter_max, dim_scatter_min --------------------------------------------------------------------------------

/// 1 where `a` and `b` are equal, in their type.
std::string equal(GradientRule &g, const std::string &a, const std::string &b, const char *suffix) {
  const std::string same = g.add("broadcast_equal", std::string(suffix) + "_chosen").in("x", a).in("y", b).out("z");
  return g.add("cast", std::string(suffix) + "_ones").in("in", same).attr("dtype", g.desc("input").data_type()).out();
}

/// The part of src that the index covers.
std::string coveredSource(GradientRule &g) {
  const Shape &index = g.shape("index"), &src = g.shape("src");
  if (index == src) return g.x("src");
  const size_t rank = static_cast<size_t>(src.NumAxes());
  return g.add("slice", "src_covered")
      .in("x", g.x("src"))
      .attr("start", std::vector<int64_t>(rank, 0))
      .attr("stop", index.dim_vec())
      .attr("step", std::vector<int64_t>(rank, 1))
      .out("y");
}

/// All that are equal to the chosen value have equal shares of its gradient.
void chooseGradient(GradientRule &g) {
  if (!g.needs("input") && !g.needs("src")) return;
  const std::string y = g.y("output"), held = equal(g, g.x("input"), y, "input");
  const std::string given = equal(g, coveredSource(g), gathered(g, y, "src_value"), "src");
  const std::string count = scattered(g, "dim_scatter_add", "input", held, given, "count");
  const std::string share = g.add("broadcast_div", "share").in("x", g.dy("output")).in("y", count).out("z");
  if (g.needs("input")) g.bind("input", g.multiply(held, share, "input"));
  if (g.needs("src")) g.bind("src", likeSource(g, g.multiply(given, gathered(g, share, "src_share"), "src")));
}
REGISTER_USER_OP_GRAD("dim_scatter_max").SetBackwardOpConfGenFn(gradientRule(chooseGradient));
REGISTER_USER_OP_GRAD("dim_scatter_min").SetBackwardOpConfGenFn(gradientRule(chooseGradient));

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
  return setOut(ctx, "dsrc", src);
}

/// The gradient of dim_scatter_mul by src: dy * input * the other factors of the place. For each place the product of
/// the factors that are not 0, in f64, and how many are.
template <class T> class MulGradKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    if (isOnGpu(ctx))
      return bindLinesOnGpu(ctx, kernelOf("dim_scatter_mul_grad", GetDataType<T>::value),
                            {&ctx->In("dy"), &ctx->In("input"), &ctx->In("src")}, ctx->Out("dsrc"), "input", "src",
                            false);
    const T *dy = ctx->In("dy").dptr<T>(), *base = ctx->In("input").dptr<T>(), *src = ctx->In("src").dptr<T>();
    T *dsrc = ctx->Out("dsrc").mut_dptr<T>();
    double *products = ctx->Tmp<double>();
    int64_t *zeros = reinterpret_cast<int64_t *>(products + ctx->In("input").shape().elem_cnt());
    return withIndices(ctx->In("index"), [&](const auto *indices) {
      const DimLines lines(ctx, indices, "input", "src");
      return bindTask([=](DeviceCtx *dev) {
        lines.check(dev);
        lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
          const auto place = [&](int64_t k) { // -1: another device has it
            const int64_t at = lines.range.place(indices[i + k * lines.indexStep]);
            return lines.range.holds(at) ? x + at * lines.indexedStep : -1;
          };
          for (int64_t k = 0; k < lines.range.size; ++k) {
            products[x + k * lines.indexedStep] = 1;
            zeros[x + k * lines.indexedStep] = 0;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = place(k);
            if (at < 0) continue;
            const double factor = wide(src[o + k * lines.otherStep]);
            if (factor == 0)
              ++zeros[at];
            else
              products[at] *= factor;
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const int64_t at = place(k);
            if (at < 0) {
              dsrc[o + k * lines.otherStep] = T(Narrow(0));
              continue;
            }
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

/// All factors of a place are in one piece.
Maybe<ShardingRule> mulGradSharding(const SbpContext &ctx) {
  const AxisFactors indexed = JUST(lineFactors(ctx, "entries")), updates = JUST(lineFactors(ctx, "."));
  return shardingRule({indexed, indexed, updates, updates}, {updates}, Sum("entries"), Linear({0}), Linear({1}));
}

REGISTER_USER_OP("dim_scatter_mul_grad")
    .GradientOf("dim_scatter_mul")
    .With(TensorArgs{{"dy", "input", "index", "src"}, {"dsrc"}})
    .RequiredAttr<int32_t>("dim")
    .With(rules(inferMulGrad, mulGradSharding))
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
    }))
    .Kernel<MulGradKernel, types::Floating>("dy", onGpu());

/// For each element of src the product of the other factors of its place.
std::string otherFactors(GradientRule &g, const std::string &like) {
  const std::string ones = withScalar(g, "scalar_add", g.add("zero_like", "zeros").in("like", like).out(), 1, "ones");
  auto others = g.add("dim_scatter_mul_grad", "others");
  others.in("dy", ones).in("input", ones).in("index", g.x("index")).in("src", g.x("src"));
  return others.same({"dim"}).out("dsrc");
}

/// dsrc[k] = (dy input)[place] times the other factors. With v = ddsrc and t the sum of v times the others over a
/// place: d dy = input t, d input = dy t; d src[m] is the sum over k of v[k] times all factors but k and m.
void mulGradGradient(GradientRule &g) {
  const std::string v = g.dy("dsrc");
  if (g.needs("dy") || g.needs("input")) {
    const std::string terms = g.multiply(v, otherFactors(g, g.x("input")), "terms");
    const std::string sums = scattered(g, "dim_scatter_add_like", "like", g.x("input"), terms, "sums");
    if (g.needs("dy")) g.bind("dy", g.multiply(sums, g.x("input"), "dy"));
    if (g.needs("input")) g.bind("input", g.multiply(sums, g.x("dy"), "input"));
  }
  if (!g.needs("src")) return;
  auto pairs = g.add("dim_scatter_mul_grad_grad", "src");
  pairs.in("weight", g.multiply(g.x("dy"), g.x("input"), "weight")).in("index", g.x("index"));
  g.bind("src", pairs.in("src", g.x("src")).in("ddsrc", v).same({"dim"}).out("dsrc"));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul_grad").SetBackwardOpConfGenFn(gradientRule(mulGradGradient));

// --- dim_scatter_mul_grad_grad ---------------------------------------------------------------------------------------

Maybe<void> inferMulSecond(InferContext *ctx) {
  const TensorDesc weight = ctx->In("weight"), src = ctx->In("src"), ddsrc = ctx->In("ddsrc");
  JUST(checkIndex(ctx, "weight"));
  const TensorDesc want(ctx->In("index").shape(), weight.data_type());
  if (src != want || ddsrc != want)
    return Error::ShapeMismatch() << "src is " << src.toString() << " and ddsrc " << ddsrc.toString() << ", expected "
                                  << want.toString() << " for both";
  return setOut(ctx, "dsrc", src);
}

/// What is known of a place: the product of its factors that are not 0, how many are, the sum of ddsrc / src where src
/// is not 0, and the sum of ddsrc where it is.
struct PlaceFactors {
  double product, slopes, atZeros;
  int64_t zeros;
};

/// dsrc[m] = weight times the sum over k != m of ddsrc[k] times the factors but k and m; with two zeros those alone
/// have one, with more nothing has.
template <class T> class MulSecondKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    if (isOnGpu(ctx))
      return bindLinesOnGpu(ctx, kernelOf("dim_scatter_mul_grad_grad", GetDataType<T>::value),
                            {&ctx->In("weight"), &ctx->In("src"), &ctx->In("ddsrc")}, ctx->Out("dsrc"), "weight", "src",
                            false);
    const T *weight = ctx->In("weight").dptr<T>(), *src = ctx->In("src").dptr<T>(), *ddsrc = ctx->In("ddsrc").dptr<T>();
    T *dsrc = ctx->Out("dsrc").mut_dptr<T>();
    PlaceFactors *places = ctx->Tmp<PlaceFactors>();
    return withIndices(ctx->In("index"), [&](const auto *indices) {
      const DimLines lines(ctx, indices, "weight", "src");
      return bindTask([=](DeviceCtx *dev) {
        lines.check(dev);
        lines.forEach(dev, [&](int64_t i, int64_t x, int64_t o) {
          const auto place = [&](int64_t k) {
            return x + static_cast<int64_t>(indices[i + k * lines.indexStep]) * lines.indexedStep;
          };
          for (int64_t k = 0; k < lines.range.size; ++k) places[x + k * lines.indexedStep] = {1, 0, 0, 0};
          for (int64_t k = 0; k < lines.length; ++k) {
            const double s = wide(src[o + k * lines.otherStep]), v = wide(ddsrc[o + k * lines.otherStep]);
            PlaceFactors &p = places[place(k)];
            if (s == 0) {
              ++p.zeros;
              p.atZeros += v;
            } else {
              p.product *= s;
              p.slopes += v / s;
            }
          }
          for (int64_t k = 0; k < lines.length; ++k) {
            const double s = wide(src[o + k * lines.otherStep]), v = wide(ddsrc[o + k * lines.otherStep]);
            const double d = wide(weight[place(k)]) * without(places[place(k)], s, v);
            dsrc[o + k * lines.otherStep] = T(static_cast<Narrow>(d));
          }
        });
      });
    });
  }

private:
  using Narrow = std::conditional_t<std::is_same_v<T, double>, double, float>;
  static double wide(T v) { return static_cast<double>(static_cast<Narrow>(v)); }
  static double without(const PlaceFactors &p, double s, double v) {
    if (p.zeros == 0) return p.product / s * (p.slopes - v / s);
    if (p.zeros == 1) return s == 0 ? p.product * p.slopes : p.product / s * p.atZeros;
    return p.zeros == 2 && s == 0 ? p.product * (p.atZeros - v) : 0.0;
  }
};

Maybe<ShardingRule> mulSecondSharding(const SbpContext &ctx) {
  const AxisFactors all = JUST(lineFactors(ctx, "."));
  return shardingRule({all, all, all, all}, {all});
}

REGISTER_USER_OP("dim_scatter_mul_grad_grad")
    .GradientOf("dim_scatter_mul_grad")
    .With(TensorArgs{{"weight", "index", "src", "ddsrc"}, {"dsrc"}})
    .RequiredAttr<int32_t>("dim")
    .With(rules(inferMulSecond, mulSecondSharding))
    .Doc("The gradient of sum(ddsrc * dim_scatter_mul_grad) by src, with weight = dy * input: for each element of src "
         "weight at its place times the sum, over the other elements there, of ddsrc times the factors that are "
         "neither, right also where some are 0.")
    .Cases({Case("columns")
                .In("weight", {3, 3})
                .In("index", kInt64, {3, 5}, 0, 3)
                .In("src", {3, 5}, 0.5, 1.5)
                .In("ddsrc", {3, 5})
                .Attr<int32_t>("dim", 1)})
    .Kernel<MulSecondKernel, types::Floating>("weight", KernelOptions().TmpSize([](InferContext *ctx) {
      return static_cast<size_t>(ctx->In("weight").shape().elem_cnt()) * sizeof(PlaceFactors);
    }))
    .Kernel<MulSecondKernel, types::Floating>("weight", onGpu());

/// For factors that are not 0. With G = weight, P the product of a place's factors, r = ddsrc / src, a = ddy / src and
/// their sums over a place R and A, and C that of a r: dsrc = G P (R - r) / src. By weight P (A R - C); by ddsrc G P (A
/// - a) / src; by src G P (A R - C - a R - A r + 2 a r) / src.
void mulSecondGradient(GradientRule &g) {
  const std::string s = g.x("src"), weight = g.x("weight");
  const std::string r = binary(g, "broadcast_div", g.x("ddsrc"), s, "ratio");
  const std::string a = binary(g, "broadcast_div", g.dy("dsrc"), s, "slope");
  const auto sum = [&](const std::string &x, const char *suffix) {
    return scattered(g, "dim_scatter_add_like", "like", weight, x, suffix);
  };
  const std::string both = g.multiply(a, r, "both"), sumR = sum(r, "ratios"), sumA = sum(a, "slopes");
  const std::string ones = withScalar(g, "scalar_add", g.add("zero_like", "zeros").in("like", weight).out(), 1, "ones");
  const std::string pairs =
      binary(g, "broadcast_sub", g.multiply(sumA, sumR, "pairs_all"), sum(both, "pairs_same"), "pairs");
  if (g.needs("weight"))
    g.bind("weight", g.multiply(pairs, scattered(g, "dim_scatter_mul", "input", ones, s, "product"), "weight"));
  if (!g.needs("ddsrc") && !g.needs("src")) return;
  const std::string scale =
      binary(g, "broadcast_div",
             gathered(g, scattered(g, "dim_scatter_mul", "input", weight, s, "scaled"), "scale_gathered"), s, "scale");
  const std::string atA = gathered(g, sumA, "slopes_gathered");
  if (g.needs("ddsrc")) g.bind("ddsrc", g.multiply(scale, binary(g, "broadcast_sub", atA, a, "ddsrc_others"), "ddsrc"));
  if (!g.needs("src")) return;
  const std::string crossed = g.add("add_n", "crossed")
                                  .in("in", g.multiply(a, gathered(g, sumR, "ratios_gathered"), "crossed_slope"))
                                  .in("in", g.multiply(atA, r, "crossed_ratio"))
                                  .in("in", g.scale(both, -2, "crossed_both"))
                                  .out();
  g.bind("src", g.multiply(scale, binary(g, "broadcast_sub", gathered(g, pairs, "pairs_gathered"), crossed, "src_rest"),
                           "src"));
}
REGISTER_USER_OP_GRAD("dim_scatter_mul_grad_grad").SetBackwardOpConfGenFn(gradientRule(mulSecondGradient));

} // namespace
} // namespace opc::ops
