// The recurrent layers as ONNX's: the same arguments, with the steps first, which is what runtimes have.
// SPDX-License-Identifier: Apache-2.0
#include "EmitGates.h"
#include "OnnxEmitters.h"

namespace opc::onnx_export {
namespace {

/// Names that are left out.
const Wire kNone;

/// The numbers of all functions that take them, those that go without saying, too: there runtimes differ.
void writeFunctions(Emission &e, NodeAttrs *attrs) {
  std::vector<float> alphas, betas;
  for (const Gate &gate : gatesOf(e)) {
    if (gate.name.hasAlpha) alphas.push_back(gate.alpha);
    if (gate.name.hasBeta) betas.push_back(gate.beta);
  }
  if (!e.texts("activations").empty()) attrs->insert({"activations", e.texts("activations")});
  if (!alphas.empty()) attrs->insert({"activation_alpha", alphas});
  if (!betas.empty()) attrs->insert({"activation_beta", betas});
}

void emitRecurrent(Emission &e, const char *type, const std::vector<const char *> &inputs,
                   const std::vector<const char *> &outputs, NodeAttrs attrs) {
  const bool batchFirst = e.b("batch_first");
  std::vector<Wire> wires = {batchFirst ? e.transpose(e.in("x"), {1, 0, 2}) : e.in("x"), e.in("weight"),
                             e.in("recurrence"), e.has("bias") ? e.in("bias") : kNone,
                             e.has("lengths") ? e.cast(e.raw("lengths"), kInt32) : kNone};
  for (const char *arg : inputs) {
    const Wire x = e.has(arg) ? e.in(arg) : kNone;
    wires.push_back(batchFirst && x.rank() == 3 ? e.transpose(x, {1, 0, 2}) : x);
  }
  while (wires.back().name.empty()) wires.pop_back();
  attrs.insert({"direction", e.s("direction").c_str()});
  attrs.insert({"hidden_size", e.in("recurrence").dim(2)});
  if (e.f("clip") > 0) attrs.insert({"clip", e.f("clip")});
  writeFunctions(e, &attrs);
  const Shape &x = wires[0].shape, &r = wires[2].shape;
  std::vector<std::pair<DataType, Shape>> made;
  for (size_t k = 0; k < outputs.size(); ++k)
    made.push_back(
        {wires[0].type, k == 0 ? Shape{x.At(0), r.At(0), x.At(1), r.At(2)} : Shape{r.At(0), x.At(1), r.At(2)}});
  const std::vector<Wire> results = e.nodes(type, wires, attrs, made);
  for (size_t k = 0; k < outputs.size(); ++k) {
    const std::vector<int64_t> perm = k == 0 ? std::vector<int64_t>{2, 0, 1, 3} : std::vector<int64_t>{1, 0, 2};
    e.out(outputs[k], batchFirst ? e.transpose(results[k], perm) : results[k]);
  }
}

void emitRnn(Emission &e) { emitRecurrent(e, "RNN", {"initial_h"}, {"y", "y_h"}, {}); }
void emitGru(Emission &e) {
  emitRecurrent(e, "GRU", {"initial_h"}, {"y", "y_h"}, {{"linear_before_reset", e.b("linear_before_reset")}});
}
void emitLstm(Emission &e) {
  emitRecurrent(e, "LSTM", {"initial_h", "initial_c", "peephole"}, {"y", "y_h", "y_c"},
                {{"input_forget", e.b("input_forget")}});
}

} // namespace

void addRecurrent(EmitterTable *t) {
  t->add("rnn", Types::kWide, emitRnn, "RNN");
  t->add("gru", Types::kWide, emitGru, "GRU");
  t->add("lstm", Types::kWide, emitLstm, "LSTM");
}

} // namespace opc::onnx_export
