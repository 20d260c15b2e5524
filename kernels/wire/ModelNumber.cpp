// Tensors of a model that its import has made part of ops.
// SPDX-License-Identifier: Apache-2.0
#include "ModelNumber.h"
#include "PlanFile.h"

#include <algorithm>
#include <optional>
#include <set>

namespace opc {
namespace {

constexpr size_t kKeptBytes = 1 << 10;
constexpr int kMostDims = 20;

/// Nothing where it is of no tensor's type.
std::optional<size_t> bytesOf(const graph::ModelNumber &number) {
  size_t bytes = GetSizeOfDataType(static_cast<DataType>(number.data_type()));
  if (bytes == 0 || number.shape().dim_size() > kMostDims) return std::nullopt;
  for (int64_t d : number.shape().dim())
    if (d < 0 || __builtin_mul_overflow(bytes, static_cast<size_t>(d), &bytes)) return std::nullopt;
  return bytes;
}

} // namespace

graph::ModelNumber modelNumber(const std::string &name, const user_op::TensorDesc &desc, std::string_view bytes,
                               const std::string &reader) {
  graph::ModelNumber number;
  number.set_name(name);
  number.set_data_type(static_cast<graph::DataTypeProto>(desc.data_type()));
  number.mutable_shape();
  for (int64_t d : desc.shape().dim_vec()) number.mutable_shape()->add_dim(d);
  if (bytes.size() <= kKeptBytes)
    number.set_data(std::string(bytes));
  else
    number.set_checksum(planChecksum(bytes));
  if (!reader.empty()) number.set_reader(reader);
  return number;
}

Status checkModelNumbers(const std::vector<graph::ModelNumber> &numbers, const char *id) {
  std::set<std::string_view> names;
  for (const graph::ModelNumber &n : numbers) {
    const auto bad = [&](const std::string &why) {
      return Status(StatusCode::kInvalidGraph, id, "the model's number '" + n.name() + "': " + why);
    };
    for (const std::string *text : {&n.name(), &n.reader()})
      if (std::any_of(text->begin(), text->end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; }))
        return Status(StatusCode::kInvalidGraph, id, "a number of the model has control characters in its name");
    if (n.name().empty() || !names.insert(n.name()).second) return bad("its name is empty, or there are two");
    const std::optional<size_t> bytes = bytesOf(n);
    if (!bytes) return bad("it is of no tensor's type");
    if (n.has_data() == n.has_checksum() || n.has_checksum() != (*bytes > kKeptBytes) ||
        (n.has_data() && n.data().size() != *bytes))
      return bad("it has " + std::to_string(n.data().size()) + " bytes, and " + descOf(n).toString() + " has " +
                 std::to_string(*bytes));
  }
  return Status::ok();
}

user_op::TensorDesc descOf(const graph::ModelNumber &number) {
  const auto &dims = number.shape().dim();
  return {Shape(DimVector(dims.begin(), dims.end())), static_cast<DataType>(number.data_type())};
}

bool hasValue(const graph::ModelNumber &number, std::string_view bytes) {
  return number.has_checksum() ? planChecksum(bytes) == number.checksum() : bytes == number.data();
}

} // namespace opc
