// Cases as far as a compiler goes with them.
// SPDX-License-Identifier: Apache-2.0
#include "CaseProblems.h"

#include "CaseTrial.h"
#include "Signatures.h"

#include <algorithm>

namespace opc::cli {

using user_op::Case;
using user_op::OpDef;

namespace {

/// What a compiler asks of an op that it has inferred.
Status ask(const Registry &registry, const OpInstance &op, bool needsKernel) {
  OPC_RETURN_IF_ERROR(signaturesOf(op, 2).status());
  const auto kernel = op.selectKernel(registry, DeviceType::kCPU);
  if (!kernel) return needsKernel ? kernel.status() : Status::ok();
  OPC_RETURN_IF_ERROR(op.tmpSize(**kernel).status());
  return op.inplaceProposal(**kernel).status();
}

} // namespace

std::vector<std::string> problemsOfCases(const Registry &registry, const OpDef &op) {
  std::vector<std::string> problems;
  if (op.cases.empty())
    if (const Status rule = checkShardingRule(op, op.sharding); !rule)
      problems.push_back(rule.message() + " (" + rule.id() + ")");
  const bool needsKernel = !op.isView && hasCpuKernel(registry, op);
  for (const Case &sample : op.cases) {
    Status first;
    bool isFine = false;
    const bool varies = std::any_of(sample.inputs().begin(), sample.inputs().end(),
                                    [](const user_op::CaseInput &in) { return in.type == kInvalidDataType; });
    for (DataType type : kCaseTypes) {
      const std::vector<DataType> &types = sample.types();
      if (varies && !types.empty() && std::find(types.begin(), types.end(), type) == types.end()) continue;
      auto instance = instanceOfCase(registry, op, sample, type, nullptr);
      const Status s = instance ? ask(registry, *instance, needsKernel) : instance.status();
      // Types that the op refuses, or has no kernel for, are no problem; what its functions do wrong in one is.
      isFine |= s.isOk();
      if (!s && (first.isOk() || (instance && s.id() != "OPC0411"))) first = s;
      if (!varies) break;
    }
    const bool isOfFunctions =
        !first.isOk() && (first.id() == "OPC0301" || first.id() == "OPC0412" || first.id() == "OPC0417");
    if (!first.isOk() && (!isFine || isOfFunctions))
      problems.push_back(caseName(sample) + ": " + first.message() +
                         (first.id().empty() ? "" : " (" + first.id() + ")"));
  }
  return problems;
}

} // namespace opc::cli
