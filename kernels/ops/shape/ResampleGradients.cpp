// Gradient rules of affine_grid, grid_sample and the upsamplings.
// SPDX-License-Identifier: Apache-2.0
#include "support/GradientSteps.h"

namespace opc::ops {
namespace {

void affineGridGradient(GradientRule &g) {
  if (g.needs("theta"))
    g.bind("theta",
           g.add("affine_grid_grad", "theta").in("dgrid", g.dy("grid")).same({"size", "align_corners"}).out("dtheta"));
}
REGISTER_USER_OP_GRAD("affine_grid").SetBackwardOpConfGenFn(gradientRule(affineGridGradient));

/// Linear: its gradient is the forward op.
void affineGridGradGradient(GradientRule &g) {
  if (g.needs("dgrid"))
    g.bind("dgrid",
           g.add("affine_grid", "dgrid").in("theta", g.dy("dtheta")).same({"size", "align_corners"}).out("grid"));
}
REGISTER_USER_OP_GRAD("affine_grid_grad").SetBackwardOpConfGenFn(gradientRule(affineGridGradGradient));

void gridSampleGradient(GradientRule &g) {
  if (!g.needs("input") && !g.needs("grid")) return;
  auto grad = g.add("grid_sample_grad", "input");
  grad.in("doutput", g.dy("output")).in("input", g.x("input")).in("grid", g.x("grid"));
  grad.same({"interpolation_mode", "padding_mode", "align_corners"});
  if (g.needs("input")) g.bind("input", grad.out("dinput"));
  if (g.needs("grid")) g.bind("grid", grad.out("dgrid"));
}
REGISTER_USER_OP_GRAD("grid_sample").SetBackwardOpConfGenFn(gradientRule(gridSampleGradient));

/// An error, and not NoGrad: a gradient that silently left this path out would be wrong.
void gridSampleGradGradient(GradientRule &) {
  throw ContractError("second derivatives of grid_sample are not provided");
}
REGISTER_USER_OP_GRAD("grid_sample_grad").SetBackwardOpConfGenFn(gradientRule(gridSampleGradGradient));

template <bool kAlign> void upsampleGradient(GradientRule &g) {
  if (!g.needs("x")) return;
  auto grad = g.add(g.op().op_type_name() + "_grad", "x");
  grad.in("dy", g.dy("y")).in("x", g.x("x")).same({"height_scale", "width_scale", "output_size", "data_format"});
  if (kAlign) grad.same({"align_corners"});
  g.bind("x", grad.out("dx"));
}
template <bool kAlign> void upsampleGradGradient(GradientRule &g) {
  if (!g.needs("dy")) return;
  const std::string &type = g.op().op_type_name();
  auto forward = g.add(type.substr(0, type.size() - 5), "dy");
  forward.in("x", g.dy("dx")).same({"height_scale", "width_scale", "output_size", "data_format"});
  if (kAlign) forward.same({"align_corners"});
  g.bind("dy", forward.out("y"));
}
#define OPC_UPSAMPLE_GRADIENTS(op, align)                                                                              \
  REGISTER_USER_OP_GRAD(op).SetBackwardOpConfGenFn(gradientRule(upsampleGradient<align>));                             \
  REGISTER_USER_OP_GRAD(op "_grad").SetBackwardOpConfGenFn(gradientRule(upsampleGradGradient<align>))
OPC_UPSAMPLE_GRADIENTS("upsample_nearest_2d", false);
OPC_UPSAMPLE_GRADIENTS("upsample_bilinear_2d", true);
OPC_UPSAMPLE_GRADIENTS("upsample_bicubic_2d", true);

} // namespace
} // namespace opc::ops
