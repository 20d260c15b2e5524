// Reverse accumulation: the gradient subgraph of a loss, as ordinary ops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Pass/Pass.h"

#include <string>
#include <vector>

namespace opc {

/// A tensor that gradients are wanted for, by the name of its variable or input op (or the tensor's own name for one
/// that an op makes).
struct WantedGradient {
  std::string name;
  mlir::Value tensor;
};

struct GeneratedGradient {
  std::string name;
  mlir::Value tensor, gradient; // gradient: null when the loss does not depend on the tensor
};

/// Resolves a loss: a tensor's name ("loss/out_0"), an output op's name, or the name of an op with one output. Emits
/// OPC0502 and returns null when there is none or when it is not a floating-point tensor. `isOfGraph`: the graph names
/// it, and no option does.
mlir::Value findLoss(mlir::ModuleOp module, const std::string &name, bool isOfGraph = false);

/// The inputs, variables and other tensors that the globs name, in the graph's order; without globs the trainable
/// variables. Each glob must match something (OPC0503). `option` is what messages call where they stand.
mlir::FailureOr<std::vector<WantedGradient>> findWanted(mlir::ModuleOp module, const std::vector<std::string> &globs,
                                                        const std::string &option = "--wrt");

struct OpGraphs;
class GraphTexts;

/// Whether an op of the graph writes the variable (moving statistics): such a one is not trained.
bool isWritten(mlir::Value variable);

/// Appends the ops that compute d sum(losses) / d tensor for each wanted tensor. A loss of several elements is summed.
/// Rules come from the registry (REGISTER_USER_OP_GRAD), from scalar functions by symbolic differentiation, and ops
/// that are NoGrad() stop gradients. Several contributions meet in an add_n. Backward ops carry their forward op's
/// source position and "calculation_pass_name: backward_pass". Types must be inferred. `seed`: the gradient of the
/// losses; null for ones. Time is linear in the number of ops on the paths. Errors: OPC0501 no rule, OPC0504 a rule
/// that does not do what it must. With `graphs` ops with graphs (if, loop) have gradients, too; joinTwins() follows
/// when nobody looks at the values any more.
mlir::FailureOr<std::vector<GeneratedGradient>> generateGradients(mlir::ModuleOp module, const Registry &registry,
                                                                  mlir::ArrayRef<mlir::Value> losses,
                                                                  const std::vector<WantedGradient> &wanted,
                                                                  mlir::ArrayRef<mlir::Value> seeds = {},
                                                                  OpGraphs *graphs = nullptr);

/// One line for each step: the path on which the gradient of `loss` reaches the tensor, or the ops at which it stops
/// and why. `reaches` says which.
std::vector<std::string> explainGradient(mlir::ModuleOp module, mlir::Value loss, mlir::Value tensor,
                                         const GraphTexts *texts, bool *reaches);

/// Removes the forward ops: what the backward ops read of them becomes inputs, named after their tensors with "." for
/// "/" ("fc1.out_0"). Graph outputs whose tensor is made by a forward op go.
void keepBackwardOnly(mlir::ModuleOp module);

} // namespace opc
