// Values of variables that came with a graph.
// SPDX-License-Identifier: Apache-2.0
#include "ModelValues.h"

#include "StoredFiles.h"

#include <algorithm>
#include <cstring>

namespace opc::cli {

namespace {

/// What tensors take up in a file that is mapped. The system may bring as much as 2 MiB around a byte that is read into
/// the process: what has been read goes again from time to time, and whatever came with it.
class MappedExtent {
public:
  void add(const StoredTensor &value) {
    const char *begin = value.bytes.data(), *end = begin + value.bytes.size();
    if (!value.isMapped || begin == end) return;
    if (whole_.bytes.empty()) {
      whole_ = value;
      return;
    }
    begin = std::min(begin, whole_.bytes.data());
    end = std::max(end, whole_.bytes.data() + whole_.bytes.size());
    whole_.bytes = {begin, static_cast<size_t>(end - begin)};
  }
  void read(const StoredTensor &value, void *to) {
    constexpr size_t kAround = 2 << 20, kPiece = 1 << 20, kMost = 4 << 20;
    for (size_t at = 0; at < value.bytes.size(); at += kPiece) {
      const std::string_view piece = value.bytes.substr(at, kPiece);
      std::memcpy(static_cast<char *>(to) + at, piece.data(), piece.size());
      inMemory_ += piece.size() + (at == 0 ? kAround : 0);
      if (inMemory_ < kMost) continue;
      letGo(whole_);
      inMemory_ = 0;
    }
  }

private:
  StoredTensor whole_; // from the first tensor to the last one
  size_t inMemory_ = 0;
};

/// A tensor that others own, which may lie anywhere in a file. Straight into its place, when it is wanted there, where
/// that can be.
Status setVariable(Session &session, const std::string &name, const StoredTensor &value, DataType type,
                   const std::shared_ptr<MappedExtent> &extent) {
  if (session.ranks() == 1 && type == value.desc.data_type())
    return session.setVariableLater(name, [value, extent](void *to) {
      extent->read(value, to);
      return Status::ok();
    });
  OPC_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::createUninitialized(value.desc.data_type(), value.desc.shape()));
  extent->read(value, tensor.data());
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
  std::map<const void *, std::shared_ptr<MappedExtent>> extents; // by owner: of files
  for (const auto &[name, value] : values) {
    auto &extent = extents[value.owner.get()];
    if (!extent) extent = std::make_shared<MappedExtent>();
    extent->add(value);
  }
  for (const VariableInfo &v : session.interface().variables) {
    const auto own = values.find(v.name);
    if (own == values.end() || inputs.has(v.name) || !fits(own->second.desc, v.desc)) continue;
    if (std::any_of(weights.begin(), weights.end(), [&](const auto &w) { return w.has(v.name); })) continue;
    OPC_RETURN_IF_ERROR(
        setVariable(session, v.name, own->second, v.desc.data_type(), extents.at(own->second.owner.get())));
    given.insert(v.name);
  }
  return given;
}

} // namespace opc::cli
