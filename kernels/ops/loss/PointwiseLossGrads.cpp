// Gradients of the losses that work element by element, as elementwise ops: these have derived gradients themselves.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

namespace opc::scalar {

// The denominator's bound is PyTorch's: a certain and wrong input has a large finite gradient.
OPC_SCALAR(BinaryCrossEntropyGrad, input, target, dy) {
  return dy * (input - target) / max(input * (1 - input), 1e-12);
}
OPC_SCALAR(BinaryCrossEntropyWithLogitsGrad, input, target, dy) { return dy * (sigmoid(input) - target); }
OPC_SCALAR(SmoothL1LossGrad, input, target, dy, beta) {
  return dy * select(abs(input - target) < beta, (input - target) / beta, sign(input - target));
}

#define OPC_LOSS_GRAD(name) REGISTER_USER_OP(name).Input("input").Input("target").Input("dy").Output("dx")

OPC_LOSS_GRAD("binary_cross_entropy_grad")
    .GradientOf("binary_cross_entropy")
    .Doc("dx = dy * (input - target) / max(input * (1 - input), 1e-12): the gradient of binary_cross_entropy by "
         "input; dy is multiplied by the loss's weight before.")
    .Elementwise<BinaryCrossEntropyGrad>(ElementwiseOptions().SameShape().Domain(0, 0.05, 0.95).Domain(1, 0, 1));
OPC_LOSS_GRAD("binary_cross_entropy_with_logits_grad")
    .GradientOf("binary_cross_entropy_with_logits")
    .Doc("dx = dy * (sigmoid(input) - target): the gradient of binary_cross_entropy_with_logits without pos_weight "
         "by input; dy is multiplied by the loss's weight before.")
    .Elementwise<BinaryCrossEntropyWithLogitsGrad>(ElementwiseOptions().SameShape().Domain(1, 0, 1));
OPC_LOSS_GRAD("smooth_l1_loss_grad")
    .GradientOf("smooth_l1_loss")
    .ArgAlias("prediction", "input")
    .ArgAlias("label", "target")
    .ArgAlias("loss_grad", "dy")
    .ArgAlias("prediction_grad", "dx")
    .Attr<float>("beta", 0.0f)
    .Doc("With d = input - target: dx = dy * d / beta where |d| < beta, else dy * sign(d): the gradient of "
         "smooth_l1_loss by input.")
    .Elementwise<SmoothL1LossGrad>(ElementwiseOptions().SameShape().CaseAttr("beta", 1.0f));

} // namespace opc::scalar
