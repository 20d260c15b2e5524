// The passes of the compiler as Passes.td declares them; those that take more than text as makers of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFacts.h"
#include "GraphPass.h"
#include "MeshRequest.h"
#include "OpcDialect.h"
#include "PassRequests.h"

#include "mlir/Pass/Pass.h"

#include <memory>
#include <string>
#include <vector>

namespace opc {

class GraphTexts;

#define GEN_PASS_DECL
#include "Passes.h.inc"

/// The registry that the context's dialect has.
inline const Registry &registryOf(mlir::MLIRContext *context) {
  return *context->getOrLoadDialect<ir::OpcDialect>()->getRegistry();
}

// What a pass finds out beside the graph it leaves where it is told, unless that is null.
std::unique_ptr<mlir::Pass> createPruneGraph(const GraphCut &cut);
std::unique_ptr<mlir::Pass> createCastOps(const std::vector<CastRequest> &requests, CastStep step = CastStep::kAll);
std::unique_ptr<mlir::Pass> createWriteOutControl(std::shared_ptr<const GraphTexts> texts);
std::unique_ptr<mlir::Pass> createCutGraph(const GraphCut &cut);
/// `texts`: null where ops with graphs (if, loop) have no gradients.
std::unique_ptr<mlir::Pass> createAddGradients(const GradientRequest &request, std::vector<GraphGradient> *made,
                                               std::shared_ptr<const GraphTexts> texts);
std::unique_ptr<mlir::Pass> createPlaceOps(const MeshRequest &request);
std::unique_ptr<mlir::Pass> createAssignSignatures(const MeshRequest &request, MeshFacts *facts);
std::unique_ptr<mlir::Pass> createInsertBoxing(const MeshRequest &request);
std::unique_ptr<mlir::Pass> createAssignLags(const MeshRequest &request);
std::unique_ptr<mlir::Pass> createSplitRanks(const MeshRequest &request);
std::unique_ptr<mlir::Pass> createCutBatches(std::shared_ptr<const GraphTexts> texts,
                                             std::vector<FusionFacts::Parts> *facts);
/// Adds an entry to `facts` for each graph that it is run over.
std::unique_ptr<mlir::Pass> createFormRegions(const FormRegionsOptions &options, std::vector<FusionFacts> *facts);

} // namespace opc
