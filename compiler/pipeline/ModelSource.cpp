// A model of another system before it is a graph.
// SPDX-License-Identifier: Apache-2.0
#include "ModelSource.h"
#include "ForeignFile.h"
#include "GraphFile.h"
#include "OnnxImport.h"
#include "OnnxTensors.h"
#include "Pipeline.h"

#include "onnx.pb.h"

namespace opc {

ModelSource::ModelSource() = default;
ModelSource::ModelSource(ModelSource &&) noexcept = default;
ModelSource &ModelSource::operator=(ModelSource &&) noexcept = default;
ModelSource::~ModelSource() = default;

bool looksLikeModel(std::string_view bytes) { return looksLikeOnnx(bytes); }

std::optional<ModelSource> readModel(const std::string &name, const SharedBytes &bytes, const Registry &registry,
                                     const std::map<std::string, std::vector<int64_t>> &shapes,
                                     const ModelRequest &request, GraphsInOps graphs) {
  std::vector<Diagnostic> found;
  auto file = onnx::importModel(bytes, registry, {name, 0, shapes, request, graphs}, &found);
  if (!file) return std::nullopt;
  ModelSource source;
  for (Diagnostic &d : found)
    if (d.severity == Severity::kWarning) source.warnings.push_back(std::move(d));
  source.isUnbound = file->isUnbound;
  source.values = file->values;
  for (const std::string &constant : file->constants) source.values.erase(constant);
  source.decided = file->decided;
  for (const graph::OperatorConf &op : file->job->net().op()) {
    if (!op.has_input_conf()) continue;
    GraphTensor input;
    input.name = op.name();
    input.tensor = op.name() + "/out";
    input.dtype = static_cast<DataType>(op.input_conf().blob_conf().data_type());
    const auto &dims = op.input_conf().blob_conf().shape().dim();
    input.shape = Shape(DimVector(dims.begin(), dims.end()));
    source.inputs.push_back(std::move(input));
  }
  source.file = std::move(file);
  return source;
}

GraphsInOps graphsInOps(const CompileOptions &options) {
  if (options.mesh || !options.sizes.empty() || options.device != "cpu") return GraphsInOps::kNone;
  return options.regions || options.keepsBranches ? GraphsInOps::kAll : GraphsInOps::kLoops;
}

std::string withInitializer(std::string_view model, const std::string &input, const user_op::TensorDesc &desc,
                            const std::string &bytes) {
  // What is written behind a message is merged into it.
  onnx::Model addition;
  onnx::Tensor *tensor = addition.mutable_graph()->add_initializer();
  tensor->set_name(input);
  wire::toOnnx(desc, bytes, tensor);
  return std::string(model) + addition.SerializeAsString();
}

} // namespace opc
