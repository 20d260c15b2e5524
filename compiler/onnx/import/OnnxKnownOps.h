// Which ops of an ONNX model somebody can convert.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxModelHead.h"

#include "Registry.h"

namespace opc::onnx {

class KnownOps {
public:
  /// All must outlive it.
  KnownOps(const ModelHead &head, const Registry &registry) : head_(head), registry_(registry) {}

  /// The op of that name for a node that no function and no converter has: a plugin's, or for nodes that opc has
  /// written a built-in one. Null where there is none.
  const user_op::OpDef *pluginOp(const Node &node) const;
  /// Whether there is a function, a converter or an op for it.
  bool has(const Node &node) const;

private:
  const ModelHead &head_;
  const Registry &registry_;
};

} // namespace opc::onnx
