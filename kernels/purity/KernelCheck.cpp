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
    const bool isVaried = varies(sample);
    Status first; // why it does not run: rather what a kernel says than that there is none of the type
    bool hasRun = false, isKernels = false;
    for (DataType type : kCaseTypes) {
      const std::vector<DataType> &types = sample.types();
      if (isVaried && !types.empty() && std::find(types.begin(), types.end(), type) == types.end()) continue;
      const Status s = tryType(op, sample, type);
      if (s.id() == "OPC0417")
        note(KernelFault::kFails, op, sample, shownType(sample, type), s.message() + " (OPC0417)");
      hasRun |= s.isOk() || s.id() == "OPC0606" || s.id() == "OPC0417";
      const bool isOfKernel = s.id() != "OPC0411" && s.id() != "OPC0204" && s.id() != "OPC0203";
      if (!s && (first.isOk() || (isOfKernel && !isKernels))) first = s, isKernels = isOfKernel;
      if (!isVaried) break;
    }
    if (hasRun || first.isOk()) return;
    std::string detail = first.message();
    if (!first.id().empty()) detail += " (" + first.id() + ")";
    note(KernelFault::kFails, op, sample, "", std::move(detail));
  }

  Status tryType(const OpDef &op, const Case &sample, DataType type) {
    const char *const shown = shownType(sample, type);
    begins_({KernelFault::kCrashes, op.name, caseName(sample), shown, ""});
    OPC_RETURN_IF_ERROR(instanceOfCase(registry_, op, sample, type, nullptr).status());
    const std::optional<CaseTrial> trial = trialOf(registry_, op, sample, type);
    RunOpOptions options;
    options.guards = true;
    std::vector<OpTensor> inputs = trial->inputs, outputs;
    const Status ran = runOp(registry_, trial->op, &inputs, &outputs, options);
    if (ran.id() == "OPC0302") return Status::ok(); // more memory than is tried: nothing is said of it
    if (ran.id() == "OPC0606") note(KernelFault::kBeside, op, sample, shown, ran.message());
    OPC_RETURN_IF_ERROR(ran);
    ++report_.samples;
    if (!op.pure) return Status::ok();
    OPC_RETURN_IF_ERROR(tryBesides(op, sample, shown, *trial));
    return tryInPlace(op, sample, shown, *trial, outputs);
  }

  Status runBetween(const CaseTrial &trial, unsigned char byte, const std::optional<RunOpOptions::Guard> &other,
                    std::vector<OpTensor> *outputs) const {
    RunOpOptions options;
    options.guards = true;
    options.guardByte = byte;
    options.otherGuard = other;
    std::vector<OpTensor> inputs = trial.inputs;
    return runOp(registry_, trial.op, &inputs, outputs, options);
  }

  /// Between guards of zeros and of something else. One of these changes a sum, an extreme, a count, a truth value.
  Status tryBesides(const OpDef &op, const Case &sample, const char *type, const CaseTrial &trial) {
    constexpr unsigned char kZero = 0;
    // Small numbers, large ones above and below nothing, and NaN, or -1.
    constexpr unsigned char kOthers[] = {0x01, 0x7E, 0xFE, 0xFF};
    std::vector<OpTensor> zeros, now, again;
    OPC_RETURN_IF_ERROR(runBetween(trial, kZero, std::nullopt, &zeros));
    for (const unsigned char byte : kOthers) {
      OPC_RETURN_IF_ERROR(runBetween(trial, byte, std::nullopt, &now));
      if (now == zeros) continue;
      OPC_RETURN_IF_ERROR(runBetween(trial, kZero, std::nullopt, &again));
      if (again != zeros) return Status::ok(); // it gives other results by itself: it is not pure
      note(KernelFault::kReads, op, sample, type,
           "what it computes depends on what is " + placeOfRead(trial, kZero, byte, zeros) +
               ": look at how far its loops read");
      break;
    }
    return Status::ok();
  }

  /// "behind its input x, f32[4,6]".
  std::string placeOfRead(const CaseTrial &trial, unsigned char zero, unsigned char byte,
                          const std::vector<OpTensor> &zeros) const {
    const size_t inputs = trial.inputs.size(), outputs = zeros.size();
    for (size_t tensor = 0; tensor <= inputs + outputs; ++tensor)
      for (const bool isBehind : {true, false}) {
        std::vector<OpTensor> now;
        if (!runBetween(trial, zero, RunOpOptions::Guard{tensor, isBehind, byte}, &now) || now == zeros) continue;
        const std::string side = isBehind ? "behind its " : "before its ";
        if (tensor == inputs + outputs) return side + "temporary memory";
        const bool isInput = tensor < inputs;
        const auto &[name, index] = isInput ? trial.op.inputArgs()[tensor] : trial.op.outputArgs()[tensor - inputs];
        const OpTensor &t = isInput ? trial.inputs[tensor] : zeros[tensor - inputs];
        return side + (isInput ? "input " : "output ") + name + (index ? "_" + std::to_string(index) : "") + ", " +
               t.desc().toString();
      }
    return "beside several of its tensors";
  }

  Status tryInPlace(const OpDef &op, const Case &sample, const char *type, const CaseTrial &trial,
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
        note(KernelFault::kInPlace, op, sample, type, pair + " fails: " + ran.message());
      else if (outputs != expected)
        note(KernelFault::kInPlace, op, sample, type, pair + ", which its kernel proposes, has other numbers");
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
