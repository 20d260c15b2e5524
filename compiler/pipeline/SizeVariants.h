// A graph that is compiled for sizes in a range: the same passes over copies of it for other sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "SizeSweep.h"

#include "mlir/IR/OwningOpRef.h"

#include <vector>

namespace opc {

/// Passes look at shapes, and at a single size two of them may be equal by chance: what is a no-op for 64 rows is none
/// for 63. So the graph goes through the passes at three sizes; what two of them agree on depends on no chance, since
/// expressions that are equal twice are the same (docs/adr/0014-sizes-in-a-range.md).
class SizeVariants {
public:
  /// After the shape phase: refuses graphs whose ops compute for one size alone (OPC0220), checks the ops' rules over
  /// the range, and makes the copies.
  mlir::LogicalResult begin(mlir::ModuleOp module, const SizeRequest &request);
  /// What else the passes of each phase run over.
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> &copies() { return copies_; }
  /// Before memory is planned: the graph that two agree on goes into `module`, with the types of the largest sizes.
  mlir::LogicalResult settle(mlir::OwningOpRef<mlir::ModuleOp> *module, const Registry &registry,
                             const SizeRequest &request, SizeFacts *facts);

private:
  std::vector<std::vector<int64_t>> sizes_; // of the copies
  std::vector<mlir::OwningOpRef<mlir::ModuleOp>> copies_;
};

} // namespace opc
