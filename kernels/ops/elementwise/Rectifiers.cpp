// Piecewise activations: relu and its relatives.
// SPDX-License-Identifier: Apache-2.0
#include "ActivationScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("relu").With(unary<Relu, types::Numbers>()).Doc("max(x, 0); NaN stays NaN.");
REGISTER_USER_OP("square_relu").With(unary<SquareRelu>()).Doc("relu(x)^2.");
REGISTER_USER_OP("leaky_relu")
    .Attr<float>("alpha", 0.01f)
    .With(unary<LeakyRelu>(ElementwiseOptions().CaseAttr("alpha", 0.2f)))
    .Doc("x where positive, alpha * x elsewhere.");
REGISTER_USER_OP("hardtanh")
    .Attr<double>("min_val", -1.0)
    .Attr<double>("max_val", 1.0)
    .With(unaryInOut<Hardtanh>(ElementwiseOptions().CaseAttr("min_val", -1.5).CaseAttr("max_val", 1.0)))
    .Doc("x limited to [min_val, max_val].");
REGISTER_USER_OP("hardsigmoid").With(unaryInOut<Hardsigmoid>(domain(-5, 5))).Doc("(x + 3) / 6 limited to [0, 1].");
REGISTER_USER_OP("hardswish").With(unaryInOut<Hardswish>(domain(-5, 5))).Doc("x * hardsigmoid(x).");
REGISTER_USER_OP("hardshrink")
    .Attr<double>("lambd", 0.5)
    .With(unaryInOut<Hardshrink>(ElementwiseOptions().CaseAttr("lambd", 0.5)))
    .Doc("0 for |x| <= lambd, x elsewhere.");
REGISTER_USER_OP("softshrink")
    .Attr<double>("alpha", 0.5)
    .With(unaryInOut<Softshrink>(ElementwiseOptions().CaseAttr("alpha", 0.5)))
    .Doc("0 for |x| <= alpha, elsewhere x moved by alpha towards 0.");
REGISTER_USER_OP("threshold")
    .RequiredAttr<double>("threshold_val")
    .RequiredAttr<double>("value")
    .With(unaryInOut<Threshold>(ElementwiseOptions().CaseAttr("threshold_val", 0.5).CaseAttr("value", -1.0)))
    .Doc("x where x > threshold_val, value elsewhere; NaN stays NaN.");

} // namespace
} // namespace opc::ops
