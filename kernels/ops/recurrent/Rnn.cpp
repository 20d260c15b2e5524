// rnn: a layer whose state is a function of what it reads and of the state before.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentForward.h"

namespace opc::ops {
namespace {

template <class T> class RnnCell {
public:
  static constexpr CellKind kKind = CellKind::kRnn;
  RnnCell(const RecurrentShape &r, const T *recurrence, bool constant)
      : product_(stateProduct(r, recurrence, constant, 0, r.columns())) {}
  bool hasPackedAll() const { return product_.hasPackedB(); }

  void step(DeviceCtx *dev, const Lane &lane, const StepMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    product_.run(dev, m.h, m.recurrence, m.product);
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (!lane.has(s, b)) return;
      T *sum = m.product + b * n, *h = m.h + b * n;
      addRow(m.projected + lane.row(s, b) * n, sum, n);
      addRow(m.bias, sum, n);
      addRow(m.bias ? m.bias + n : nullptr, sum, n);
      GateRow<T>{r, lane.direction}.apply(0, sum, n);
      std::copy_n(sum, n, h);
      std::copy_n(sum, n, m.y + r.output(lane.time(s, b), lane.direction, b));
    });
  }

private:
  cpu::Gemm<T> product_;
};
template <class T> using RnnKernel = RecurrentKernel<T, RnnCell>;

Case sample(const RecurrentCase &c) { return recurrentCase(CellKind::kRnn, c); }

std::vector<Case> cases() {
  const CommonRecurrentCases common("reverse");
  RecurrentCase relu{"relu", "bidirectional"}, others{"activations", "bidirectional"};
  return {sample(common.plain), sample(common.lengths), sample(common.first),
          sample(relu).Attr("activations", std::vector<std::string>{"Relu", "ThresholdedRelu"}),
          sample(others).Attr("activations", std::vector<std::string>{"Softplus", "Sigmoid"}).Attr("clip", 0.5)};
}

REGISTER_USER_OP("rnn")
    .With(recurrentInputs(CellKind::kRnn))
    .Output("y")
    .Output("y_h")
    .With(recurrentRules(CellKind::kRnn, true))
    .SetTensorDescInferFn(inferRecurrent(CellKind::kRnn))
    .Doc(
        "A recurrent layer, as ONNX defines RNN: h = f(W x + R h + b) for weight W, recurrence R and state h; f is Tanh "
        "unless activations names others, for each direction. bias [directions, 2 hidden] is that of W and then that "
        "of R. clip, lengths, batch_first and the shapes are those of lstm.")
    .Cases(cases())
    .Kernel<RnnKernel, types::Floating>("x", recurrentMemory(CellKind::kRnn));

} // namespace
} // namespace opc::ops
