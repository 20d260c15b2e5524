// Values of variables that came with a graph.
// SPDX-License-Identifier: Apache-2.0
#include "ModelValues.h"

#include "StoredFiles.h"
#include "ValuePages.h"

#include <algorithm>

namespace opc::cli {

namespace {

/// A tensor that others own, which may lie anywhere in a file. Straight into its place, when it is wanted there, where
/// that can be.
Status setVariable(Session &session, const std::string &name, const StoredTensor &value, DataType type,
                   const std::shared_ptr<ValuePages> &pages) {
  const std::shared_ptr<const void> lies(value.owner, value.isMapped ? value.bytes.data() : nullptr);
  if (session.ranks() == 1 && type == value.desc.data_type())
    return session.setVariableLater(
        name,
        [value, pages](void *to) {
          pages->copy(value.bytes, to);
          return Status::ok();
        },
        lies);
  OPC_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::createUninitialized(value.desc.data_type(), value.desc.shape()));
  pages->copy(value.bytes, tensor.data());
  OPC_ASSIGN_OR_RETURN(tensor, castTensor(tensor, type));
  return session.setVariable(name, tensor);
}

/// The same type, or another floating-point type, in which a reference runs.
bool fits(const user_op::TensorDesc &value, const user_op::TensorDesc &variable) {
  return value == variable || (value.shape() == variable.shape() && IsFloatingDataType(value.data_type()) &&
                               IsFloatingDataType(variable.data_type()));
}

} // namespace

Result<std::set<std::string>> giveModelValues(Session &session, const ModelValues &values, const NamedValues &inputs,
                                              const ValueFlags &flags) {
  std::set<std::string> given;
  if (values.empty()) return given;
  OPC_RETURN_IF_ERROR(filesAreComplete(values));
  std::vector<NamedValues> weights;
  for (const std::string &path : flags.weights) {
    OPC_ASSIGN_OR_RETURN(NamedValues opened, NamedValues::open({}, path, "--weights"));
    weights.push_back(std::move(opened));
  }
  const auto pages = pagesOf(values);
  for (const PortInfo &v : session.interface().variables) {
    const auto own = values.find(v.name);
    if (own == values.end() || inputs.has(v.name) || !fits(own->second.desc, v.desc)) continue;
    if (std::any_of(weights.begin(), weights.end(), [&](const auto &w) { return w.has(v.name); })) continue;
    OPC_RETURN_IF_ERROR(
        setVariable(session, v.name, own->second, v.desc.data_type(), pages.at(own->second.owner.get())));
    given.insert(v.name);
  }
  return given;
}

} // namespace opc::cli
