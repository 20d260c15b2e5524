// Elementwise ops that ONNX has as one op, though their functions are several: activations, limits, logic on bool.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <algorithm>

namespace opc::onnx_export {
namespace {

bool isNarrow(const NodeAttrs::value_type &attr) {
  return static_cast<double>(static_cast<float>(attr.second.real)) == attr.second.real;
}

/// In and out of the first arguments.
void direct(EmitterTable *t, const std::string &op, const std::string &onnx,
            std::function<NodeAttrs(Emission &)> attrs = nullptr) {
  t->add(
      op, Types::kNumbers,
      [onnx, attrs](Emission &e) {
        const Wire x = e.in(e.instance.def().inputs[0].name);
        const NodeAttrs given = attrs ? attrs(e) : NodeAttrs();
        // Attributes are f32: of f64 the function itself is more exact.
        if (x.type == kDouble && !std::all_of(given.begin(), given.end(), isNarrow)) return emitExpression(e);
        e.out(e.unary(onnx, x, given));
      },
      onnx);
}

/// An op of a later operator set; before it its function, node by node.
void since(EmitterTable *t, const std::string &op, int64_t version, const std::string &onnx,
           const NodeAttrs &attrs = {}) {
  t->add(
      op, Types::kNumbers,
      [version, onnx, attrs](Emission &e) {
        if (e.opset < version) return emitExpression(e);
        e.out(e.unary(onnx, e.in(e.instance.def().inputs[0].name), attrs));
      },
      onnx + ", or its expression before operator set " + std::to_string(version));
}

void convertClip(Emission &e, bool hasLow, bool hasHigh) {
  const Wire x = e.in("x");
  const auto bound = [&](const char *real, const char *whole) {
    if (x.isFloating()) return e.number(x, e.f(real));
    // A bound beyond the op's own type is one at its end.
    const double value = static_cast<double>(e.i(whole));
    const ElementType &own = elementType(e.raw("x").type);
    return value <= own.lowest || value >= own.highest ? e.number(x, value <= own.lowest ? own.lowest : own.highest)
                                                       : e.cast(e.integers({e.i(whole)}, Shape()), x.type);
  };
  Wire y = x;
  if (hasLow) y = e.binary("Max", y, bound("floating_min", "integral_min"));
  if (hasHigh) y = e.binary("Min", y, bound("floating_max", "integral_max"));
  e.out(y);
}

/// -1 - x and 1 - x would overflow or are no logic.
void convertBitwiseNot(Emission &e) {
  const Wire x = e.raw("x");
  if (x.type == kBool) return e.out(e.negated(x));
  e.types = Types::kNumbers;
  const Wire wide = e.in("x");
  e.out(e.sub(e.number(wide, -1), wide));
}

/// Of bool; other numbers through the function.
void logic(EmitterTable *t, const std::string &op, const std::string &onnx) {
  t->add(
      op, Types::kNumbers,
      [onnx](Emission &e) {
        const auto &inputs = e.instance.def().inputs;
        if (e.raw(inputs[0].name).type != kBool) return emitExpression(e);
        if (inputs.size() == 1) return e.out(e.negated(e.raw(inputs[0].name)));
        e.out(e.test(onnx, e.raw(inputs[0].name), e.raw(inputs[1].name)));
      },
      onnx);
}

} // namespace

void addActivations(EmitterTable *t) {
  t->add("relu", Types::kNumbers, [](Emission &e) { e.out(e.unary("Relu", e.in("x"))); }, "Relu");
  const auto alpha = [](Emission &e) { return NodeAttrs{{"alpha", e.f("alpha")}}; };
  direct(t, "leaky_relu", "LeakyRelu", alpha);
  direct(t, "elu", "Elu", alpha);
  direct(t, "selu", "Selu");
  direct(t, "hardsigmoid", "HardSigmoid", [](Emission &) { return NodeAttrs{{"alpha", 1.0 / 6}, {"beta", 0.5}}; });
  t->isAnotherAlone({"selu", "hardsigmoid"});
  t->add(
      "hardswish", Types::kNumbers,
      [](Emission &e) { // ONNX has a sixth in f32
        const Wire x = e.in("in");
        x.type == kDouble ? emitExpression(e) : e.out(e.unary("HardSwish", x));
      },
      "HardSwish");
  direct(t, "softsign", "Softsign");
  direct(t, "reciprocal", "Reciprocal");
  since(t, "mish", 18, "Mish");
  since(t, "gelu", 20, "Gelu");
  since(t, "fast_gelu", 20, "Gelu", {{"approximate", "tanh"}});
  t->add("clip_by_scalar", Types::kNumbers, [](Emission &e) { convertClip(e, true, true); }, "Max, Min");
  t->add("clip_by_scalar_min", Types::kNumbers, [](Emission &e) { convertClip(e, true, false); }, "Max");
  t->add("clip_by_scalar_max", Types::kNumbers, [](Emission &e) { convertClip(e, false, true); }, "Min");
  t->add("bitwise_not", Types::kOwn, convertBitwiseNot, "Sub, or Not of bool");
  logic(t, "broadcast_logical_and", "And");
  logic(t, "broadcast_logical_or", "Or");
  logic(t, "broadcast_logical_xor", "Xor");
  logic(t, "logical_not", "Not");
  t->add(
      "prelu", Types::kWide,
      [](Emission &e) {
        const Wire x = e.in("x"), alpha = e.in("alpha");
        std::vector<int64_t> dims(static_cast<size_t>(alpha.shape.elem_cnt() == 1 ? 0 : x.rank() - 1), 1);
        if (!dims.empty()) dims[0] = alpha.shape.elem_cnt();
        e.out(e.node("PRelu", {x, e.reshape(alpha, dims)}, {}, x.type, x.shape));
      },
      "PRelu");
  t->add(
      "add_n", Types::kNumbers,
      [](Emission &e) {
        Wire sum = e.in("in");
        for (int32_t k = 1; k < e.count("in"); ++k) sum = e.add(sum, e.in("in", k));
        e.out(sum);
      },
      "Add");
}

} // namespace opc::onnx_export
