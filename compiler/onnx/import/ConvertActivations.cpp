// ONNX's activation functions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <cmath>

namespace opc::onnx {
namespace {

void unary(ConverterTable *t, const std::string &op, const std::string &to) {
  t->add(op, [to](Conversion &c) { c.out(c.op(to, {c.in(0)})); }, to);
}

/// With attribute alpha.
void withAlpha(ConverterTable *t, const std::string &op, const std::string &to, double otherwise) {
  t->add(op, [to, otherwise](Conversion &c) { c.out(c.op(to, {c.in(0)}, {{"alpha", c.f("alpha", otherwise)}})); }, to);
}

/// Attributes are f32; what they default to is meant as a decimal fraction of the type's own.
void convertHardSigmoid(Conversion &c) {
  const Term x = c.plus(c.scaled(c.in(0), c.f("alpha", 0.2f)), c.f("beta", 0.5));
  c.out(c.op("clip_by_scalar", {x}, {{"floating_min", 0.0}, {"floating_max", 1.0}}));
}

void convertSelu(Conversion &c) {
  const bool isFirst = c.version < 6; // whose numbers have fewer digits
  const Term x = c.op("elu", {c.in(0)}, {{"alpha", c.f("alpha", isFirst ? 1.6732f : 1.67326319217681884765625f)}});
  c.out(c.scaled(x, c.f("gamma", isFirst ? 1.0507f : 1.05070102214813232421875f)));
}

void convertPRelu(Conversion &c) {
  const Term x = c.in(0);
  Term slope = c.in(1);
  if (c.version < 7 && slope->rank() == 1 && slope->dim(0) > 1) { // of the channels
    DimVector dims(static_cast<size_t>(std::max<int64_t>(x->rank() - 1, 1)), 1);
    dims[0] = slope->dim(0);
    slope = c.reshape(slope, dims);
  } else {
    c.checkStretches(1, x->shape());
  }
  c.out(c.op("where", {c.op("broadcast_less", {x, like(c, x, 0)}), c.op("broadcast_mul", {x, slope}), x}));
}

void convertShrink(Conversion &c) {
  const DataType type = c.in(0)->type();
  const double bias = c.f("bias", 0), lambda = c.f("lambd", 0.5);
  // What whole numbers and a fraction make is cut, not the fraction.
  const bool isCut = !IsFloatingDataType(type) && bias != std::trunc(bias);
  const Term x = c.cast(c.in(0), isCut ? kDouble : type);
  const Term below = c.op("broadcast_less", {x, like(c, x, -lambda)}),
             above = c.op("broadcast_greater", {x, like(c, x, lambda)});
  const Term up = c.op("broadcast_add", {x, like(c, x, bias)}), down = c.op("broadcast_sub", {x, like(c, x, bias)});
  c.out(c.cast(c.op("where", {below, up, c.op("where", {above, down, like(c, x, 0)})}), type));
}

void convertGelu(Conversion &c) { c.out(c.op(c.s("approximate", "none") == "tanh" ? "fast_gelu" : "gelu", {c.in(0)})); }

void convertSwish(Conversion &c) {
  const Term x = c.in(0);
  const double alpha = c.f("alpha", 1);
  c.out(alpha == 1 ? c.op("silu", {x}) : c.op("broadcast_mul", {x, c.op("sigmoid", {c.scaled(x, alpha)})}));
}

/// A gate times what it lets through.
void convertSwiGlu(Conversion &c) {
  const Term gate = c.in(0);
  c.checkShape(1, gate->shape(), "the gates");
  c.checkType(1, {gate->type()});
  const double alpha = c.f("alpha", 1);
  const Term open =
      alpha == 1 ? c.op("silu", {gate}) : c.op("broadcast_mul", {gate, c.op("sigmoid", {c.scaled(gate, alpha)})});
  c.out(c.op("broadcast_mul", {open, c.in(1)}));
}

void convertDropout(Conversion &c) {
  const Term x = c.in(0);
  bool trains = c.version < 7 && c.i("is_test", 0) == 0;
  if (c.version >= 12 && c.has(2)) trains = c.knownInt(2) != 0;
  double ratio = c.version < 12 ? c.f("ratio", 0.5) : 0.5;
  if (c.version >= 12 && c.has(1)) ratio = c.knownFloat(1);
  if (c.version < 7) trains = false; // what a model that is run means by it
  if (!(ratio >= 0 && ratio <= 1)) c.invalid("its ratio is " + std::to_string(ratio) + ", and must be from 0 to 1");
  if (trains && ratio > 0) {
    const auto made = c.ops("dropout", {x}, {{"rate", ratio}, {"seed", c.i("seed", 0)}});
    c.out(0, made[0]);
    return c.out(1, c.wants(1) ? c.cast(made[1], kBool) : nullptr);
  }
  c.out(0, x);
  if (c.wants(1)) c.out(1, c.expand(c.version < 10 ? like(c, x, 1) : c.scalar(kBool, 1), x->shape()));
}

} // namespace

void addActivations(ConverterTable *t) {
  t->add(
      "Relu",
      [](Conversion &c) {
        const Term y = c.op("relu", {c.in(0)});
        noteRelu(c, y, c.in(0));
        c.out(y);
      },
      "relu");
  unary(t, "Sigmoid", "sigmoid");
  unary(t, "Softsign", "softsign");
  unary(t, "HardSwish", "hardswish");
  unary(t, "Mish", "mish");
  withAlpha(t, "Elu", "elu", 1);
  withAlpha(t, "Celu", "celu", 1);
  withAlpha(t, "LeakyRelu", "leaky_relu", 0.01);
  t->add("HardSigmoid", convertHardSigmoid, "scalar_mul, scalar_add, clip_by_scalar");
  t->add("Selu", convertSelu, "elu, scalar_mul");
  t->add("PRelu", convertPRelu, "where, broadcast_mul");
  t->add("Shrink", convertShrink, "where, broadcast_add, broadcast_sub");
  t->add("Gelu", convertGelu, "gelu, fast_gelu");
  t->add("SwiGLU", convertSwiGlu, "silu, sigmoid, broadcast_mul");
  t->add("Swish", convertSwish, "silu, sigmoid");
  t->add("Dropout", convertDropout, "dropout; nothing in inference", "the numbers of training mode are opc's own");
  t->add(
      "ThresholdedRelu",
      [](Conversion &c) { // 0 for NaN, which the op `threshold` keeps
        const Term x = c.in(0);
        c.out(c.op("where", {c.op("broadcast_greater", {x, like(c, x, c.f("alpha", 1))}), x, like(c, x, 0)}));
      },
      "broadcast_greater, where");
  t->add(
      "Softplus",
      [](Conversion &c) {
        c.out(c.op("softplus", {c.in(0)}, {{"beta", 1.0}, {"threshold", c.in(0)->type() == kDouble ? 700.0 : 88.0}}));
      },
      "softplus");
}

} // namespace opc::onnx
