// Which ops of an ONNX model somebody can convert.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxKnownOps.h"
#include "BuiltIn.h"
#include "OnnxConversion.h"
#include "OnnxOwnNodes.h"

#include <string>

namespace opc::onnx {
const user_op::OpDef *KnownOps::pluginOp(const Node &node) const {
  // What another's domain has under the name of a built-in op may mean something else.
  const std::string domain = domainOf(node.domain());
  const user_op::OpDef *def = domain.empty() ? nullptr : registry_.findOp(node.op_type());
  return def && (domain == onnx_export::kOwnDomain || !isBuiltIn(def->origin)) ? def : nullptr;
}

bool KnownOps::has(const Node &node) const {
  return head_.function(node) || ConverterTable::get().find(domainOf(node.domain()), node.op_type()) || pluginOp(node);
}

} // namespace opc::onnx
