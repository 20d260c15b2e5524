// Smooth activations: the gelu family, exponential and logistic units.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ActivationScalars.h"

namespace opc::scalar {

OPC_UNARY_IN_OUT_OP("gelu")
    .Doc("Gaussian error linear unit: x times the normal distribution function of x.")
    .Elementwise<Gelu>();
OPC_UNARY_IN_OUT_OP("fast_gelu").Doc("gelu by its tanh approximation.").Elementwise<FastGelu>();
OPC_UNARY_OP("quick_gelu").Doc("gelu by its logistic approximation, x * sigmoid(1.702 x).").Elementwise<QuickGelu>();
OPC_UNARY_IN_OUT_OP("silu").Doc("x * sigmoid(x).").Elementwise<Silu>();
OPC_UNARY_IN_OUT_OP("mish").Doc("x * tanh(log(1 + e^x)).").Elementwise<Mish>();
OPC_UNARY_IN_OUT_OP("elu")
    .Attr<double>("alpha", 1.0)
    .Doc("x where positive, alpha * (e^x - 1) elsewhere.")
    .Elementwise<Elu>(ElementwiseOptions().CaseAttr("alpha", 0.7));
OPC_UNARY_IN_OUT_OP("celu")
    .Attr<double>("alpha", 1.0)
    .Doc("x where positive, alpha * (e^(x / alpha) - 1) elsewhere.")
    .Elementwise<Celu>(ElementwiseOptions().CaseAttr("alpha", 0.7));
OPC_UNARY_IN_OUT_OP("selu").Doc("elu scaled so that mean 0 and variance 1 are kept.").Elementwise<Selu>();
OPC_UNARY_OP("softplus")
    .Attr<double>("beta", 1.0)
    .Attr<double>("threshold", 20.0)
    .Doc("log(1 + e^(beta x)) / beta; x where beta x > threshold.")
    .Elementwise<Softplus>(ElementwiseOptions().CaseAttr("beta", 1.5));
OPC_UNARY_IN_OUT_OP("softsign").Doc("x / (1 + |x|).").Elementwise<Softsign>();

} // namespace opc::scalar
