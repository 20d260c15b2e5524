// From a request to gradients in the graph: losses and wanted tensors found, gradients of any order, outputs, training.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "PassRequests.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

namespace opc {

class GraphTexts;

/// Adds what the request asks for, and lists the gradients in `made`. Types must be inferred. Errors: those of
/// findLoss, findWanted, generateGradients and addTraining, and OPC0505 when no gradient reaches anything; a tensor
/// that gets none is a warning, or an error when it was asked for by its name. `texts`: null where ops with graphs
/// have no gradients.
mlir::LogicalResult differentiate(mlir::ModuleOp module, const Registry &registry, const GradientRequest &request,
                                  std::vector<GraphGradient> *made, const GraphTexts *texts = nullptr);

} // namespace opc
