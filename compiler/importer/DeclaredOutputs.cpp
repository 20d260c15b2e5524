// What a graph file says of its outputs.
// SPDX-License-Identifier: Apache-2.0
#include "DeclaredOutputs.h"

#include "AttrBridge.h"
#include "Graph.h"
#include "Locations.h"

#include <unordered_map>

namespace opc {

std::vector<DeclaredOutput> declaredOutputs(const GraphFile &file) {
  std::vector<DeclaredOutput> list;
  const auto &ops = file.job->net().op();
  for (int i = 0; i < ops.size(); ++i) {
    if (!ops[i].has_output_conf() || !ops[i].output_conf().has_blob_conf()) continue;
    const graph::InterfaceBlobConf &blob = ops[i].output_conf().blob_conf();
    DeclaredOutput d{ops[i].name(), file.opRanges[static_cast<size_t>(i)], blob.has_shape(), {}, kInvalidDataType};
    if (d.range.file.empty()) d.range.file = file.name;
    d.dims.assign(blob.shape().dim().begin(), blob.shape().dim().end());
    if (blob.has_data_type()) d.dtype = static_cast<DataType>(blob.data_type());
    if (d.hasShape || d.dtype != kInvalidDataType) list.push_back(std::move(d));
  }
  return list;
}

namespace {

Diagnostic contradiction(const char *code, const DeclaredOutput &d, const std::string &said, mlir::Value value,
                         const std::string &is) {
  Diagnostic found;
  found.code = code;
  found.subject = "op " + d.name;
  found.range = d.range;
  found.message = "output_conf of " + d.name + " says " + said + ", and " + ir::tensorName(value) + " is " + is;
  found.help = "correct its blob_conf, or leave it out: an output is what its tensor is";
  return found;
}

} // namespace

void checkDeclaredOutputs(mlir::ModuleOp module, const std::vector<DeclaredOutput> &declared,
                          const ImportOptions &options, std::vector<Diagnostic> *diagnostics) {
  if (declared.empty()) return;
  std::unordered_map<std::string, const DeclaredOutput *> byName;
  for (const DeclaredOutput &d : declared) byName[d.name] = &d;
  for (mlir::Operation &op : graphBlock(module)) {
    auto output = mlir::dyn_cast<ir::OutputOp>(&op);
    if (!output) continue;
    const auto found = byName.find(output.getName().str());
    const mlir::Value value = op.getOperand(0);
    user_op::TensorDesc desc;
    if (found == byName.end() || !ir::describe(value.getType(), &desc)) continue;
    const DeclaredOutput &d = *found->second;
    if (d.dtype != kInvalidDataType && d.dtype != desc.data_type() && options.floatsAs == kInvalidDataType)
      diagnostics->push_back(contradiction("OPC0204", d, dataTypeName(d.dtype), value, dataTypeName(desc.data_type())));
    const DimVector &dims = desc.shape().dim_vec();
    bool fits = !d.hasShape || d.dims.size() == dims.size();
    for (size_t i = 0; fits && options.shapes.empty() && i < d.dims.size(); ++i)
      fits = d.dims[i] < 0 || dims[i] < 0 || d.dims[i] == dims[i];
    if (!fits)
      diagnostics->push_back(contradiction("OPC0203", d, Shape(DimVector(d.dims.begin(), d.dims.end())).ToString(),
                                           value, desc.shape().ToString()));
  }
}

} // namespace opc
