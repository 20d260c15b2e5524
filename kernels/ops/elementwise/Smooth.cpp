// Smooth activations: the gelu family, exponential and logistic units.
// SPDX-License-Identifier: Apache-2.0
#include "ActivationScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

REGISTER_USER_OP("gelu")
    .With(unaryInOut<Gelu>())
    .Doc("Gaussian error linear unit: x times the normal distribution function of x.");
REGISTER_USER_OP("fast_gelu").With(unaryInOut<FastGelu>()).Doc("gelu by its tanh approximation.");
REGISTER_USER_OP("quick_gelu")
    .With(unary<QuickGelu>())
    .Doc("gelu by its logistic approximation, x * sigmoid(1.702 x).");
REGISTER_USER_OP("silu").With(unaryInOut<Silu>()).Doc("x * sigmoid(x).");
REGISTER_USER_OP("mish").With(unaryInOut<Mish>()).Doc("x * tanh(log(1 + e^x)).");
REGISTER_USER_OP("elu")
    .Attr<double>("alpha", 1.0)
    .With(unaryInOut<Elu>(ElementwiseOptions().CaseAttr("alpha", 0.7)))
    .Doc("x where positive, alpha * (e^x - 1) elsewhere.");
REGISTER_USER_OP("celu")
    .Attr<double>("alpha", 1.0)
    .With(unaryInOut<Celu>(ElementwiseOptions().CaseAttr("alpha", 0.7)))
    .Doc("x where positive, alpha * (e^(x / alpha) - 1) elsewhere.");
REGISTER_USER_OP("selu").With(unaryInOut<Selu>()).Doc("elu scaled so that mean 0 and variance 1 are kept.");
REGISTER_USER_OP("softplus")
    .Attr<double>("beta", 1.0)
    .Attr<double>("threshold", 20.0)
    .With(unary<Softplus>(ElementwiseOptions().CaseAttr("beta", 1.5)))
    .Doc("log(1 + e^(beta x)) / beta; x where beta x > threshold.");
REGISTER_USER_OP("softsign").With(unaryInOut<Softsign>()).Doc("x / (1 + |x|).");

} // namespace
} // namespace opc::ops
