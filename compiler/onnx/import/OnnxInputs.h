// The inputs of an ONNX model: what their shapes are, and what must be said of them before the model is a graph.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxImport.h"

#include "onnx.pb.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace opc::onnx {

/// Whether training may change what the node reads as input `index`: not statistics, scales, bounds and the like.
bool isParameter(const Node &node, size_t index);

/// Whether it is a map, or a sequence or an optional of maps.
bool isOfMaps(const Type &type);

class ModelInputs {
public:
  using Report = std::function<void(const char *code, std::string message, std::string help)>;
  ModelInputs(const Graph &graph, const ImportRequest &request, Report report)
      : graph_(graph), request_(request), report_(std::move(report)) {}

  /// Finds the shapes. False when something is wrong, which has then been reported.
  bool bind();
  /// A dimension is not bound.
  bool isOpen() const { return isOpen_; }
  /// By name; of a sequence its elements.
  const std::map<std::string, user_op::TensorDesc> &descs() const { return descs_; }
  /// What must be bound, and the command that does.
  std::pair<std::string, std::string> unboundText() const;

private:
  using NamedSizes = std::map<std::string, std::pair<int64_t, std::string>>; // name -> size, the input that says so
  bool bindSizes(NamedSizes *found);
  bool bindTensor(const Value &v, const NamedSizes &sizes);
  bool bindElements(const Value &v);
  bool checkGiven();
  std::optional<DataType> typeOf(const std::string &what, const Type::TensorType &type);
  const std::vector<int64_t> *elementShape(const std::string &name) const;
  bool refuse(const char *code, std::string message, std::string help = "") {
    report_(code, std::move(message), std::move(help));
    return false;
  }

  const Graph &graph_;
  const ImportRequest &request_;
  Report report_;
  std::map<std::string, user_op::TensorDesc> descs_;
  bool isOpen_ = false;
};

} // namespace opc::onnx
