// The constant folder.
// SPDX-License-Identifier: Apache-2.0
#include "FoldOp.h"

#include <algorithm>
#include <cstring>

namespace opc {
namespace {

OpTensor tensorOf(const user_op::TensorDesc &desc, std::string_view bytes) {
  OpTensor tensor(desc);
  if (!bytes.empty()) std::memcpy(tensor.data(), bytes.data(), std::min(bytes.size(), tensor.bytes()));
  return tensor;
}

} // namespace

std::optional<std::vector<OpTensor>> foldOp(const Registry &registry, const OpInstance &op,
                                            const std::vector<std::string_view> &operands, int64_t maxBytes) {
  if (!op.def().pure) return std::nullopt;
  for (const user_op::TensorDesc &desc : op.outputDescs()) {
    const auto bytes = tensorBytes(desc);
    if (!bytes || *bytes > maxBytes) return std::nullopt;
    maxBytes -= *bytes;
  }
  std::vector<OpTensor> inputs, outputs;
  if (op.def().isView) {
    outputs.push_back(tensorOf(op.outputDescs()[0], operands[0]));
    return outputs;
  }
  for (size_t i = 0; i < operands.size(); ++i) inputs.push_back(tensorOf(op.inputDescs()[i], operands[i]));
  RunOpOptions options;
  options.constant.assign(inputs.size(), true);
  if (!runOp(registry, op, &inputs, &outputs, options)) return std::nullopt;
  return outputs;
}

} // namespace opc
