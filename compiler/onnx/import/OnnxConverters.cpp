// The table of converters.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

namespace opc::onnx {

const ConverterTable &ConverterTable::get() {
  static const ConverterTable kTable = [] {
    ConverterTable table;
    for (auto add :
         {addElementwise, addActivations,  addShapes,       addPieces,       addIndexing,       addPadding,
          addConstants,   addMatrices,     addConvolutions, addPooling,      addNormalizations, addReductions,
          addSelections,  addResizing,     addLosses,       addQuantization, addRecurrent,      addControlFlow,
          addStateful,    addSequences,    addDetections,   addSignals,      addFourier,        addContributed,
          addAttention,   addOrtAttention, addRegions,      addRandom})
      add(&table);
    return table;
  }();
  return kTable;
}

} // namespace opc::onnx
