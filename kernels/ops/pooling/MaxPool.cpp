// max_pool_1d, max_pool_2d and max_pool_3d.
// SPDX-License-Identifier: Apache-2.0
#include "PoolLoops.h"
#include "PoolOp.h"

namespace opc::ops {
namespace {

template <class T> void maxPool(DeviceCtx *d, const PoolTables &t, const T *x, T *y) {
  if (t.g.channelsLast)
    poolPixels<T, Largest<T>>(d, t, x, y, [](T *, int64_t, int64_t, int64_t) {});
  else
    poolRows<T, Largest<T>>(d, t, x, y, [](T *, int64_t, int64_t, int64_t, int64_t) {});
}

/// With the positions of the maxima.
template <class T> void maxPoolWithIndices(DeviceCtx *d, const PoolTables &t, const T *x, T *y, int64_t *indices) {
  const PoolGeometry &g = t.g;
  const Planes planes(g);
  forRows(d, g, planes.count, g.out[2] * taps(g) * 2, [&](int64_t plane, int64_t od, int64_t oh) {
    int64_t to = planes.out(plane) + (od * g.out[1] + oh) * g.out[2] * planes.step;
    for (int64_t ow = 0; ow < g.out[2]; ++ow, to += planes.step) {
      const Found<T> found = largestOf(g, x + planes.in(plane), planes.step, t.at(0, od), t.at(1, oh), t.at(2, ow));
      y[to] = found.value;
      indices[to] = found.where;
    }
  });
}

template <class T> class MaxPoolKernel final : public StagedKernel<T> {
  std::unique_ptr<BoundKernel> BindStaged(KernelBindContext *ctx, StagedTensors<T> &staged) const override {
    PoolTables tables(poolGeometry(ctx, Pooling::kMax).inRows());
    const T *x = staged.in("x");
    T *y = staged.out("y");
    int64_t *indices = ctx->Has("indice") ? ctx->Out("indice").mut_dptr<int64_t>() : nullptr;
    return bindTask([=, tables = std::move(tables)](DeviceCtx *d) {
      if (indices)
        maxPoolWithIndices(d, tables, x, y, indices);
      else
        maxPool(d, tables, x, y);
    });
  }
};

std::function<void(OpRegistry &)> definition(int dims) {
  return [dims](OpRegistry &op) {
    op.With(poolDefinition(dims, Pooling::kMax))
        .Doc(std::string("The largest element of each window; NaN wins. The optional output `indice` (i64) holds where "
                         "it was: the index in its channel's spatial dimensions, flattened, of the first largest "
                         "element. Windows are dilated by `dilation`. ") +
             kWindowsDoc)
        .Kernel<MaxPoolKernel, Join<types::Floating, types::Of<int32_t>>>("x");
  };
}
Case sample(const char *name, Shape x) { return Case(name).In("x", std::move(x), -5, 5); }

REGISTER_USER_OP("max_pool_1d")
    .With(definition(1))
    .Cases({windowed(sample("plain", {2, 3, 9}), {{3}, {2}, {1}}),
            windowed(sample("indices", {2, 3, 8}), {{2}}).Attr("return_indices", true).Out("indice")});

REGISTER_USER_OP("max_pool_2d")
    .With(definition(2))
    .Cases({windowed(sample("plain", {2, 3, 6, 8}), {{2, 2}}),
            windowed(sample("ceil", {1, 2, 7, 6}), {{3, 2}, {2, 2}, {1, 1}}).Attr("ceil_mode", true),
            windowed(sample("dilated", {1, 2, 7, 7}), {{2, 2}, {1, 1}}).Attr("dilation", Ints{2, 3}).Out("indice"),
            windowed(sample("channels_last", {2, 5, 4, 9}), {{2, 2}, {1, 2}, {}, true}),
            windowed(Case("no_samples").In("x", {0, 2, 4, 4}), {{2, 2}})});

REGISTER_USER_OP("max_pool_3d").With(definition(3)).Cases({windowed(sample("plain", {1, 2, 4, 5, 6}), {{2, 2, 2}})});

} // namespace
} // namespace opc::ops
