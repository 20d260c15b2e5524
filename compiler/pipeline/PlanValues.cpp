// A plan that was made without the values of its variables gets them.
// SPDX-License-Identifier: Apache-2.0
#include "PlanValues.h"

#include "PlanFile.h"

#include <google/protobuf/arena.h>

#include <set>

namespace opc {
namespace {

/// Protobuf holds 2 GiB, and the plan has more than the values.
constexpr uint64_t kMostPlannedBytes = uint64_t{2000} << 20;

/// The whole of a variable, of which a rank may have a piece.
user_op::TensorDesc descOf(const plan::Plan &plan, const plan::Interface::Variable &variable) {
  const plan::Tensor &tensor = plan.tensor(static_cast<int>(variable.tensor()));
  const auto &dims = variable.sharding().dim_size() > 0 ? variable.sharding().dim() : tensor.dim();
  return {Shape(DimVector(dims.begin(), dims.end())), static_cast<DataType>(tensor.data_type())};
}

void giveValues(const std::map<std::string, StoredTensor> &values, std::set<std::string> *given, plan::Plan *plan) {
  for (plan::Interface::Variable &v : *plan->mutable_interface()->mutable_variable()) {
    const auto value = values.find(v.name());
    if (value == values.end() || !given->insert(v.name()).second) continue; // the first part that names it has it
    if (value->second.desc == descOf(*plan, v)) v.set_data(std::string(value->second.bytes));
    letGo(value->second);
  }
}

} // namespace

Status valuesFitPlan(const std::map<std::string, StoredTensor> &values) {
  uint64_t bytes = 0;
  for (const auto &[name, value] : values) bytes += value.bytes.size();
  if (bytes < kMostPlannedBytes) return Status::ok();
  return Status(StatusCode::kUnsupported, "OPC0806",
                "the model's weights have " + std::to_string(bytes) + " bytes; a plan holds at most 2 GiB")
      .withHelp("leave them out of the plan: opc compile --weights-out FILE writes them, opc run PLAN --weights FILE "
                "reads them");
}

Result<std::string> planWithValues(std::string_view bytes, const std::map<std::string, StoredTensor> &values) {
  OPC_RETURN_IF_ERROR(valuesFitPlan(values));
  google::protobuf::Arena arena;
  plan::Plan &plan = *google::protobuf::Arena::CreateMessage<plan::Plan>(&arena);
  const std::string payload = planPayload(bytes);
  if (!plan.ParsePartialFromString(payload))
    return Status(StatusCode::kInternal, "OPC0901", "a plan that was just made does not read back");
  std::set<std::string> given;
  giveValues(values, &given, &plan);
  for (plan::Plan &part : *plan.mutable_part()) giveValues(values, &given, &part);
  return encodePlan(plan);
}

} // namespace opc
