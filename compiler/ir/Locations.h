// What opc keeps in an op's location: its name, its source range, and what only the graph's writer needs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/Operation.h"
#include "mlir/IR/Value.h"

#include <string>

namespace opc::ir {

/// Where an op was written, when that is no line of the text that it was read from: OperatorConf.place.
struct OpPlace {
  std::string file;              // without its folder
  uint32_t line = 0, column = 0; // of a graph file
  std::string node;              // of a model, which has no lines
  bool isKnown() const { return line != 0 || !node.empty(); }
};

/// The parts of a location. `tensors` names the results when they are not "<op>/<arg>_<index>"; `conf` is the rest of
/// the OperatorConf as text; `pythonLoc` is OperatorConf.loc.
struct OpLocation {
  std::string name;
  std::string file;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0;
  std::string pythonLoc;
  OpPlace place;
  std::string conf;
  llvm::SmallVector<std::string, 1> tensors;
};

mlir::Location makeLocation(mlir::MLIRContext *ctx, const OpLocation &parts);
OpLocation readLocation(mlir::Location loc);
/// Of readLocation() that part.
OpPlace placeOf(mlir::Location loc);
/// The op's name in the graph; "" when the location has none.
std::string opName(mlir::Operation *op);
/// The tensor's name: as the graph spells it, "<op>/<arg>_<index>" or "<op>/out".
std::string tensorName(mlir::Value value);
/// The same place under another name, for an op that is made from the one that stands there.
mlir::Location renamed(mlir::Location from, const std::string &name);
/// The location of an op that takes the place of the one that made `v`: its name, its range, and the tensor's name.
mlir::Location locationOfMaker(mlir::Value v);

} // namespace opc::ir
