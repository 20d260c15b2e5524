// lstm: a layer of cells with long short-term memory.
// SPDX-License-Identifier: Apache-2.0
#include "recurrent/RecurrentForward.h"

namespace opc::ops {
namespace {

/// Gates in ONNX's order: input, output, forget, cell.
template <class T> class LstmCell {
public:
  static constexpr CellKind kKind = CellKind::kLstm;
  LstmCell(const RecurrentShape &r, const T *recurrence, bool constant)
      : product_(stateProduct(r, recurrence, constant, 0, r.columns())) {}
  bool hasPackedAll() const { return product_.hasPackedB(); }

  void step(DeviceCtx *dev, const Lane &lane, const StepMemory<T> &m, int64_t s) const {
    const RecurrentShape &r = *lane.shape;
    const int64_t n = r.hidden;
    product_.run(dev, m.h, m.recurrence, m.product);
    lane.forEachSequence(dev, 1, [&](int64_t b) {
      if (!lane.has(s, b)) return;
      T *gates = m.product + b * r.columns(), *c = m.c + b * n, *h = m.h + b * n;
      addRow(m.projected + lane.row(s, b) * r.columns(), gates, r.columns());
      addRow(m.bias, gates, r.columns());
      addRow(m.bias ? m.bias + r.columns() : nullptr, gates, r.columns());
      cell({r, lane.direction}, m.peephole, gates, c, h, n);
      std::copy_n(h, n, m.y + r.output(lane.time(s, b), lane.direction, b));
    });
  }

private:
  static void cell(const GateRow<T> &f, const T *peephole, T *gates, T *c, T *h, int64_t n) {
    T *in = gates, *out = gates + n, *forget = gates + 2 * n, *fresh = gates + 3 * n;
    addProducts(peephole, c, in, n);
    addProducts(peephole ? peephole + 2 * n : nullptr, c, forget, n);
    f.apply(0, in, n);
    if (f.r.coupled)
      for (int64_t i = 0; i < n; ++i) forget[i] = T(1) - in[i];
    else
      f.apply(0, forget, n);
    f.apply(1, fresh, n);
    for (int64_t i = 0; i < n; ++i) c[i] = forget[i] * c[i] + in[i] * fresh[i];
    addProducts(peephole ? peephole + n : nullptr, c, out, n);
    f.apply(0, out, n);
    std::copy_n(c, n, h);
    f.apply(2, h, n);
    for (int64_t i = 0; i < n; ++i) h[i] *= out[i];
  }
  cpu::Gemm<T> product_;
};
template <class T> using LstmKernel = RecurrentKernel<T, LstmCell>;

Case sample(const RecurrentCase &c) { return recurrentCase(CellKind::kLstm, c); }

std::vector<Case> cases() {
  const CommonRecurrentCases common("bidirectional");
  RecurrentCase peephole{"peephole", "reverse"}, coupled{"coupled"}, others{"activations", "bidirectional"},
      empty{"no_steps"};
  peephole.initial = others.initial = true;
  empty.steps = 0, empty.initial = true;
  return {sample(common.plain),
          sample(common.lengths),
          sample(common.first),
          sample(peephole).In("peephole", {1, 12}),
          sample(coupled).In("peephole", {1, 12}).Attr("input_forget", true).Attr("clip", 0.375),
          sample(others)
              .Attr("activations",
                    std::vector<std::string>{"HardSigmoid", "ScaledTanh", "Softsign", "Elu", "LeakyRelu", "Affine"})
              .Attr("activation_alpha", std::vector<float>{0.3F, 0.9F, 1.5F, 0.2F, 0.7F})
              .Attr("activation_beta", std::vector<float>{0.4F, 0.8F, 0.1F}),
          sample(empty)};
}

REGISTER_USER_OP("lstm")
    .With(recurrentInputs(CellKind::kLstm))
    .Output("y")
    .Output("y_h")
    .Output("y_c")
    .With(recurrentRules(CellKind::kLstm, true))
    .SetTensorDescInferFn(inferRecurrent(CellKind::kLstm))
    .Doc("A layer of cells with long short-term memory (Hochreiter and Schmidhuber, 1997), as ONNX defines LSTM. With "
         "the gates' rows of weight W, recurrence R and bias in the order i, o, f, g, and state h, c: i = f1(Wi x + "
         "Ri h + bi + Pi c), f = f1(Wf x + Rf h + bf + Pf c), with input_forget 1 - i, g = f2(Wg x + Rg h + bg), c = f "
         "c + i g, o = f1(Wo x + Ro h + bo + Po c), h = o f3(c); f1, f2, f3 are Sigmoid, Tanh, Tanh unless activations "
         "names others, for each direction. bias [directions, 8 hidden] is that of W and then that of R, peephole has "
         "Pi, Po, Pf. clip bounds what goes into f1, f2 and f3. lengths (i32 or i64) has the steps of each sequence: "
         "behind them y is 0, and a reverse direction begins at each sequence's own end. x is [steps, batch, numbers], "
         "y [steps, directions, batch, hidden], states are [directions, batch, hidden]; with batch_first [batch, "
         "steps, numbers], [batch, steps, directions, hidden] and [batch, directions, hidden]. y_h and y_c are the "
         "last states.")
    .Cases(cases())
    .Kernel<LstmKernel, types::Floating>("x", recurrentMemory(CellKind::kLstm));

} // namespace
} // namespace opc::ops
