// Cases in guarded memory, and in place.
// SPDX-License-Identifier: Apache-2.0
#include "KernelCheck.h"
#include "CaseTrial.h"

#include <algorithm>
#include <set>

namespace opc {
namespace {

using user_op::Case;
using user_op::OpDef;

class Check {
public:
  Check(const Registry &registry, const std::function<void(const KernelFinding &)> &begins)
      : registry_(registry), begins_(begins) {}

  void add(const OpDef &op) {
    if (op.isView || !hasCpuKernel(registry_, op)) return;
    const size_t samples = report_.samples;
    for (const Case &sample : op.cases) tryCase(op, sample);
    report_.ops += report_.samples > samples;
  }
  KernelReport take() { return std::move(report_); }

private:
  void note(KernelFault fault, const OpDef &op, const Case &sample, const char *type, std::string detail) {
    if (!known_.insert({fault, &op}).second) return;
    report_.findings.push_back({fault, op.name, caseName(sample), type, std::move(detail)});
  }

  void tryCase(const OpDef &op, const Case &sample) {
    const bool varies = std::any_of(sample.inputs().begin(), sample.inputs().end(),
                                    [](const user_op::CaseInput &in) { return in.type == kInvalidDataType; });
    Status first; // why it does not run: rather what a kernel says than that there is none of the type
    bool hasRun = false, isKernels = false;
    for (DataType type : kCaseTypes) {
      const std::vector<DataType> &types = sample.types();
      if (varies && !types.empty() && std::find(types.begin(), types.end(), type) == types.end()) continue;
      const Status s = tryType(op, sample, type);
      if (s.id() == "OPC0417") note(KernelFault::kFails, op, sample, dataTypeName(type), s.message() + " (OPC0417)");
      hasRun |= s.isOk() || s.id() == "OPC0606" || s.id() == "OPC0417";
      const bool isOfKernel = s.id() != "OPC0411" && s.id() != "OPC0204" && s.id() != "OPC0203";
      if (!s && (first.isOk() || (isOfKernel && !isKernels))) first = s, isKernels = isOfKernel;
      if (!varies) break;
    }
    if (hasRun || first.isOk()) return;
    std::string detail = first.message();
    if (!first.id().empty()) detail += " (" + first.id() + ")";
    note(KernelFault::kFails, op, sample, "", std::move(detail));
  }

  Status tryType(const OpDef &op, const Case &sample, DataType type) {
    begins_({KernelFault::kCrashes, op.name, caseName(sample), dataTypeName(type), ""});
    OPC_RETURN_IF_ERROR(instanceOfCase(registry_, op, sample, type, nullptr).status());
    const std::optional<CaseTrial> trial = trialOf(registry_, op, sample, type);
    RunOpOptions options;
    options.guards = true;
    std::vector<OpTensor> inputs = trial->inputs, outputs;
    const Status ran = runOp(registry_, trial->op, &inputs, &outputs, options);
    if (ran.id() == "OPC0302") return Status::ok(); // more memory than is tried: nothing is said of it
    if (ran.id() == "OPC0606") note(KernelFault::kBeside, op, sample, dataTypeName(type), ran.message());
    OPC_RETURN_IF_ERROR(ran);
    ++report_.samples;
    if (!op.pure) return Status::ok();
    OPC_RETURN_IF_ERROR(tryBesides(op, sample, type, *trial));
    return tryInPlace(op, sample, type, *trial, outputs);
  }

  /// Guards that are large numbers of every type, above and below nothing: a sum and an extreme take them in.
  Status tryBesides(const OpDef &op, const Case &sample, DataType type, const CaseTrial &trial) {
    std::vector<OpTensor> results[2];
    for (const bool below : {false, true}) {
      RunOpOptions options;
      options.guards = true;
      options.guardByte = below ? 0xFE : 0x7E;
      std::vector<OpTensor> inputs = trial.inputs;
      OPC_RETURN_IF_ERROR(runOp(registry_, trial.op, &inputs, &results[below], options));
    }
    for (size_t i = 0; i < results[0].size(); ++i)
      if (results[0][i] != results[1][i]) {
        const auto &[name, index] = trial.op.outputArgs()[i];
        note(KernelFault::kReads, op, sample, dataTypeName(type),
             "its output " + name + (index ? "_" + std::to_string(index) : "") + ", " +
                 results[0][i].desc().toString() +
                 ", depends on what is beside the tensors that the kernel is given: look at how far its loops read");
        break;
      }
    return Status::ok();
  }

  Status tryInPlace(const OpDef &op, const Case &sample, DataType type, const CaseTrial &trial,
                    const std::vector<OpTensor> &expected) {
    OPC_ASSIGN_OR_RETURN(const user_op::KernelDef *kernel, trial.op.selectKernel(registry_, DeviceType::kCPU));
    OPC_ASSIGN_OR_RETURN(const auto pairs, trial.op.inplaceProposal(*kernel));
    for (const auto &[out, in] : pairs) {
      const auto o = static_cast<size_t>(out), i = static_cast<size_t>(in);
      if (trial.inputs[i].bytes() != expected[o].bytes()) continue; // a plan gives no such memory
      RunOpOptions options;
      options.inplace = {{out, in}};
      std::vector<OpTensor> inputs = trial.inputs, outputs;
      const std::string pair =
          "output " + trial.op.outputArgs()[o].first + " in the memory of input " + trial.op.inputArgs()[i].first;
      const Status ran = runOp(registry_, trial.op, &inputs, &outputs, options);
      if (!ran)
        note(KernelFault::kInPlace, op, sample, dataTypeName(type), pair + " fails: " + ran.message());
      else if (outputs != expected)
        note(KernelFault::kInPlace, op, sample, dataTypeName(type),
             pair + ", which its kernel proposes, has other numbers");
    }
    return Status::ok();
  }

  const Registry &registry_;
  const std::function<void(const KernelFinding &)> &begins_;
  KernelReport report_;
  std::set<std::pair<KernelFault, const OpDef *>> known_;
};

} // namespace

KernelReport checkKernels(const Registry &registry, const OpDef &op,
                          const std::function<void(const KernelFinding &)> &begins) {
  Check check(registry, begins);
  check.add(op);
  return check.take();
}

} // namespace opc
