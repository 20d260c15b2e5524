// Piecewise activations: relu and its relatives.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ActivationScalars.h"

namespace opc::scalar {

OPC_UNARY_OP("relu").Doc("max(x, 0); NaN stays NaN.").Elementwise<Relu, types::Numbers>();
OPC_UNARY_OP("square_relu").Doc("relu(x)^2.").Elementwise<SquareRelu>();
OPC_UNARY_OP("leaky_relu")
    .Attr<float>("alpha", 0.01f)
    .Doc("x where positive, alpha * x elsewhere.")
    .Elementwise<LeakyRelu>(ElementwiseOptions().CaseAttr("alpha", 0.2f));
OPC_UNARY_IN_OUT_OP("hardtanh")
    .Attr<double>("min_val", -1.0)
    .Attr<double>("max_val", 1.0)
    .Doc("x limited to [min_val, max_val].")
    .Elementwise<Hardtanh>(ElementwiseOptions().CaseAttr("min_val", -1.5).CaseAttr("max_val", 1.0));
OPC_UNARY_IN_OUT_OP("hardsigmoid")
    .Doc("(x + 3) / 6 limited to [0, 1].")
    .Elementwise<Hardsigmoid>(ElementwiseOptions().Domain(-5, 5));
OPC_UNARY_IN_OUT_OP("hardswish").Doc("x * hardsigmoid(x).").Elementwise<Hardswish>(ElementwiseOptions().Domain(-5, 5));
OPC_UNARY_IN_OUT_OP("hardshrink")
    .Attr<double>("lambd", 0.5)
    .Doc("0 for |x| <= lambd, x elsewhere.")
    .Elementwise<Hardshrink>(ElementwiseOptions().CaseAttr("lambd", 0.5));
OPC_UNARY_IN_OUT_OP("softshrink")
    .Attr<double>("alpha", 0.5)
    .Doc("0 for |x| <= alpha, elsewhere x moved by alpha towards 0.")
    .Elementwise<Softshrink>(ElementwiseOptions().CaseAttr("alpha", 0.5));
OPC_UNARY_IN_OUT_OP("threshold")
    .RequiredAttr<double>("threshold_val")
    .RequiredAttr<double>("value")
    .Doc("x where x > threshold_val, value elsewhere; NaN stays NaN.")
    .Elementwise<Threshold>(ElementwiseOptions().CaseAttr("threshold_val", 0.5).CaseAttr("value", -1.0));

} // namespace opc::scalar
