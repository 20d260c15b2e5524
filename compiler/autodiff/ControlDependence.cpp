// Which results of an op with graphs (if, loop) depend on which operands, so that a gradient passes.
// SPDX-License-Identifier: Apache-2.0
#include "ControlDependence.h"
#include "AttrBridge.h"
#include "ControlOp.h"
#include "GradientFlow.h"
#include "OpGraph.h"
#include "Passes.h"

using namespace mlir;

namespace opc {
namespace {

using Dependence = std::vector<std::vector<bool>>;

/// Of a graph's outputs, by output and input, where their types are floating-point ones.
Dependence within(const OpGraph &graph, size_t outputs, const GraphTexts &texts) {
  SmallVector<Value> inputs;
  for (size_t j = 0; j < graph.inputs(); ++j)
    if (IsFloatingDataType(ir::descOf(graph.input(j)).data_type())) inputs.push_back(graph.input(j));
  Dependence depends(outputs, std::vector<bool>(graph.inputs()));
  ControlDependences known;
  for (size_t k = 0; k < outputs; ++k) {
    if (!IsFloatingDataType(ir::descOf(graph.output(k)).data_type())) continue;
    const GradientFlow flow(graph.module(), {graph.output(k)}, inputs, &texts, &known);
    for (size_t j = 0; j < graph.inputs(); ++j) depends[k][j] = flow.carries(graph.input(j));
  }
  return depends;
}

/// Of a loop from that of a turn: a state depends on itself, where there is no turn, and on what others depend on that
/// it depends on.
Dependence overTurns(const Dependence &turn, size_t states, size_t operands) {
  const size_t outputs = turn.size() - 1; // the first is whether it goes on
  Dependence whole(outputs, std::vector<bool>(operands));
  for (size_t k = 0; k < outputs; ++k) {
    for (size_t j = 1; j < turn[1 + k].size(); ++j) whole[k][LoopParts::kFirst + j - 1] = turn[1 + k][j];
    if (k < states) whole[k][LoopParts::kFirst + k] = true;
  }
  for (bool grows = true; grows;) {
    grows = false;
    for (auto &row : whole)
      for (size_t s = 0; s < states; ++s) {
        if (!row[LoopParts::kFirst + s]) continue;
        for (size_t j = 0; j < operands; ++j)
          if (whole[s][j] && !row[j]) row[j] = grows = true;
      }
  }
  return whole;
}

} // namespace

Dependence controlDependence(ir::UserOp op, const GraphTexts &texts) {
  const ControlKind kind = controlKind(op.getOpType().str());
  const size_t results = op.getOuts().size(), operands = op.getArgs().size();
  Dependence all(results, std::vector<bool>(operands));
  const ScopedDiagnosticHandler silent(op.getContext(), [](mlir::Diagnostic &) { return success(); });
  for (const std::string &attribute : controlGraphs(kind)) {
    auto graph = OpGraph::read(op, attribute, registryOf(op.getContext()), texts);
    if (!graph) return Dependence(results, std::vector<bool>(operands, true));
    if (kind == ControlKind::kLoop)
      return overTurns(within(*graph, 1 + results, texts), loopParts(*ir::toInstance(op, *op.def())).states, operands);
    const Dependence one = within(*graph, results, texts);
    for (size_t k = 0; k < results; ++k)
      for (size_t j = 0; j + 1 < operands; ++j)
        if (one[k][j]) all[k][j + 1] = true;
  }
  return all;
}

} // namespace opc
