// What an ONNX model says of the types and shapes of its values, and whether its ops make others.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"

#include "onnx.pb.h"

#include <optional>
#include <string>
#include <unordered_map>

namespace opc::onnx {

class DeclaredTypes {
public:
  /// Of the values of the model's own graph, which must outlive it.
  explicit DeclaredTypes(const Graph &graph);

  /// Why `value` cannot be the value of this name; nothing where the model says nothing else of it.
  std::optional<Refusal> contradiction(const std::string &name, const Operand &value, const GraphDraft &draft) const;
  /// The shape that the model says it has, as text, where it is another one: a hint, of the sizes that the model was
  /// exported with.
  std::optional<std::string> otherShape(const std::string &name, const Operand &value) const;

private:
  const Type *typeOf(const std::string &name, const Operand &value) const;

  std::unordered_map<std::string, const Type *> types_;
};

/// What is said of a value's type must not be another one.
std::optional<Refusal> typeContradiction(const std::string &name, const Type &type, const Operand &value,
                                         const GraphDraft &draft);

} // namespace opc::onnx
