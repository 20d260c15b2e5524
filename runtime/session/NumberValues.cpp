// Tensors of a model that are parts of ops.
// SPDX-License-Identifier: Apache-2.0
#include "NumberValues.h"
#include "ModelNumber.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <charconv>
#include <cstring>

namespace opc::runtime {
namespace {

constexpr int64_t kMostShown = 8;

template <class T> std::string textOf(T value) {
  char text[64];
  const auto end = std::to_chars(text, text + sizeof text, value);
  return {text, end.ptr};
}

/// "1,2,3", as options have them; empty for more than a few.
std::string valuesText(DataType type, std::string_view bytes) {
  const auto size = static_cast<int64_t>(GetSizeOfDataType(type));
  const int64_t count = static_cast<int64_t>(bytes.size()) / size;
  if (count > kMostShown) return "";
  std::string text;
  for (int64_t i = 0; i < count; ++i)
    text += (i ? "," : "") + visit(type, [&](auto tag) -> std::string {
              using T = typename decltype(tag)::type;
              T value;
              std::memcpy(static_cast<void *>(&value), bytes.data() + i * size, sizeof value);
              return textOf(+numberOf(value));
            });
  return text;
}

} // namespace

Result<NumberValues> NumberValues::read(const plan::Plan &plan) {
  const std::vector<graph::ModelNumber> all(plan.interface().model_number().begin(),
                                            plan.interface().model_number().end());
  OPC_RETURN_IF_ERROR(checkModelNumbers(all, "OPC0812"));
  NumberValues made;
  for (const graph::ModelNumber &n : all) {
    made.list_.push_back({n.name(), descOf(n)});
    made.list_.back().reader = n.reader();
    made.numbers_.emplace(n.name(), n);
  }
  return made;
}

Status NumberValues::check(const std::string &name, const HostTensor &tensor, bool isVariable) const {
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return Status::ok();
  const graph::ModelNumber &own = found->second;
  OPC_RETURN_IF_ERROR(checkTensor(tensor, descOf(own), shown(name)));
  const std::string_view given(tensor.as<char>(), tensor.bytes());
  if (hasValue(own, given)) return Status::ok();
  const std::string before = own.has_data() ? valuesText(tensor.dtype(), own.data()) : "";
  const std::string after = valuesText(tensor.dtype(), given);
  return Status(StatusCode::kUsage, "OPC0719",
                "'" + name + "' is given " + (after.empty() ? "other numbers than the model's" : "as " + after) +
                    (before.empty() || after.empty() ? "" : ", and the model has " + before) + ": it is a part of " +
                    (own.reader().empty() ? "an op" : own.reader()) + ", which a run does not change" +
                    (isVariable ? "; other ops read it as a variable" : ""))
      .withHelp(isVariable ? "give the node a tensor of its own in the model, or give the model's value"
                           : "import the model with it: --const " + name + "=" + (after.empty() ? "@FILE" : after) +
                                 ", or leave it out of what is given");
}

} // namespace opc::runtime
