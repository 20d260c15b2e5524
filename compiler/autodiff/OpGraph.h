// A graph in an op (if, loop) while its gradient is made: a module of its own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GradientGeneration.h"
#include "GraphTexts.h"

#include <optional>
#include <vector>

namespace opc {

/// A loop, and the one that computes the same and keeps what the backward loop reads.
struct LoopTwin {
  ir::UserOp loop, keeping;
  std::vector<size_t> kept; // inputs of the graph
  bool isCounted = false;   // a row of ones is behind them
};

/// What gradients of ops with graphs need, and leave.
struct OpGraphs {
  const GraphTexts *texts = nullptr; // null: such ops have no gradient
  std::vector<LoopTwin> twins;
};

/// The loops that keep more take the place, and the names, of the others; of several for one the first. No value of
/// those must be looked at after.
void joinTwins(OpGraphs *graphs);

/// The value of a small tensor that follows from constants, as an integer; nothing where a run decides.
std::optional<int64_t> knownInteger(mlir::Value v, const Registry &registry);

class OpGraph {
public:
  /// The graph in an attribute of `op`, in which captured flags and numbers that are known outside are constants; empty
  /// after an error, which has been reported.
  static std::optional<OpGraph> read(ir::UserOp op, const std::string &attribute, const Registry &registry,
                                     const GraphTexts &texts);

  mlir::ModuleOp module() const { return *module_; }
  size_t inputs() const { return inputs_.size(); }
  mlir::Value input(size_t i) const { return inputs_[i].getOut(); }
  mlir::Value output(size_t i) const { return outputs_[i]; }
  /// A new input, after the others.
  size_t addInput(const std::string &name, mlir::Type type);
  mlir::Value addZero(mlir::Type type);
  mlir::Value addInteger(const user_op::TensorDesc &desc, int64_t value);
  mlir::Value addSum(mlir::Value a, mlir::Value b);

  /// Vector-Jacobian products: gradients of inputs, null where none of the outputs depends on one. For each of the
  /// `seeded` outputs there is a new input, its gradient, in their order.
  mlir::FailureOr<std::vector<mlir::Value>> differentiate(const std::vector<size_t> &seeded,
                                                          const std::vector<size_t> &wanted);
  /// Makes these the only outputs; ops that none of them needs go.
  void setOutputs(const std::vector<mlir::Value> &values);
  bool reads(size_t input) const { return !input_(input)->use_empty(); }
  /// The text of the graph with these inputs, in this order; nobody reads the others. "" after an error.
  std::string write(const std::vector<size_t> &inputs);

private:
  OpGraph(ir::UserOp op, mlir::OwningOpRef<mlir::ModuleOp> module, const Registry &registry, const GraphTexts &texts);
  void bindKnown();
  mlir::Operation *input_(size_t i) const { return inputs_[i].getOperation(); }
  mlir::Value add(user_op::OpConf conf);

  ir::UserOp op_;
  mlir::OwningOpRef<mlir::ModuleOp> module_;
  const Registry *registry_;
  const GraphTexts *texts_;
  mutable std::vector<ir::InputOp> inputs_;
  std::vector<mlir::Value> outputs_;
};

} // namespace opc
