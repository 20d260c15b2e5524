// The cases of an op on a device beside the CPU.
// SPDX-License-Identifier: Apache-2.0
#include "OpDeviceCheck.h"

#include "CaseTrial.h"
#include "JsonOutput.h"
#include "MutableInputs.h"
#include "TensorCompare.h"

#include <algorithm>
#include <cstring>
#include <optional>

namespace opc::cli {

using user_op::Case;
using user_op::CaseInput;
using user_op::OpDef;

namespace {

constexpr DataType kTypes[] = {kDouble, kFloat,  kFloat16, kBFloat16, kInt64, kInt32, kInt16,
                               kInt8,   kUInt64, kUInt32,  kUInt16,   kUInt8, kBool};

/// The simulator's report, as far as it is looked at.
struct Report {
  std::map<std::string, KernelCounters> kernels;
  std::vector<std::pair<std::string, std::string>> findings; // kind and text

  explicit Report(const std::string &text) {
    const Json document = Json::parse(text, nullptr, false);
    if (!document.is_object()) return;
    const auto count = [](const Json &k, const char *key) { return k.value(key, uint64_t{0}); };
    const Json counted = document.value("kernels", Json::object());
    for (const auto &[name, k] : counted.items())
      kernels[name] = {count(k, "launches"),        count(k, "instructions"),  count(k, "active_lanes"),
                       count(k, "sectors"),         count(k, "ideal_sectors"), count(k, "wavefronts"),
                       count(k, "ideal_wavefronts")};
    for (const Json &f : document.value("findings", Json::array()))
      findings.emplace_back(f.value("kind", ""), f.value("text", ""));
  }
};

Result<HostTensor> hostTensor(const OpTensor &t) {
  OPC_ASSIGN_OR_RETURN(HostTensor copy, HostTensor::createUninitialized(t.type(), t.shape()));
  if (copy.bytes()) std::memcpy(copy.data(), t.data(), copy.bytes());
  return copy;
}

class Check {
public:
  Check(const Registry &registry, const OpDef &op, OpDevice &device) : registry_(registry), op_(op), device_(device) {
    result_.op = op.name;
  }

  Result<OpDeviceCheck> run() {
    const Report before(device_.report());
    findings_ = device_.findings();
    const std::vector<Case> madeUp = op_.cases.empty() ? madeUpCases() : std::vector<Case>();
    for (const Case &c : op_.cases.empty() ? madeUp : op_.cases) {
      const bool varies = std::any_of(c.inputs().begin(), c.inputs().end(),
                                      [](const CaseInput &in) { return in.type == kInvalidDataType; });
      for (DataType type : kTypes) {
        if (!c.types().empty() && std::find(c.types().begin(), c.types().end(), type) == c.types().end()) continue;
        const std::optional<CaseTrial> trial = trialOf(registry_, op_, c, type);
        if (!trial) continue;
        OPC_RETURN_IF_ERROR(sample(c.name(), varies ? dataTypeName(type) : "", *trial));
        if (!varies) break;
      }
    }
    const Report after(device_.report());
    for (const auto &[name, counters] : after.kernels) {
      const auto earlier = before.kernels.find(name);
      const KernelCounters own = counters.since(earlier == before.kernels.end() ? KernelCounters() : earlier->second);
      if (own.launches) result_.kernels[name] = own;
    }
    return std::move(result_);
  }

private:
  /// Of an op that has none: a shape for every input, with the attributes' default values, where its rules take that.
  std::vector<Case> madeUpCases() const {
    std::vector<Case> cases;
    for (const Shape &shape : {Shape{1027}, Shape{9, 33}, Shape{2, 3, 5, 8}}) {
      Case c("of all inputs " + shape.ToString());
      for (const user_op::ArgDef &in : op_.inputs)
        if (!in.optional)
          for (int32_t i = 0; i < in.count; ++i) c.In(in.name, shape, -1, 1, i);
      cases.push_back(std::move(c));
    }
    return cases;
  }

  static void note(std::vector<std::string> *list, const std::string &type) {
    if (!type.empty() && std::find(list->begin(), list->end(), type) == list->end()) list->push_back(type);
  }

  /// An error where the device is too small for the case: that says nothing of the op.
  Status sample(const std::string &name, const std::string &type, const CaseTrial &trial) {
    std::vector<OpTensor> hostInputs = trial.inputs, wanted, inputs = trial.inputs, outputs;
    if (!runOp(registry_, trial.op, &hostInputs, &wanted))
      return Status::ok(); // the CPU has nothing to hold it against
    if (!device_.computes(registry_, trial.op)) {
      note(&result_.withoutKernel, type);
      return Status::ok();
    }
    ++result_.samples;
    note(&result_.types, type);
    const size_t failures = result_.failures.size();
    const Status ran = device_.run(registry_, trial.op, &inputs, &outputs);
    if (!ran && ran.id() == kOutOfDeviceMemory)
      return Status(ran).withContext("running " + op_.name + ", case " + name + (type.empty() ? "" : " in " + type));
    addFindings(name, type);
    if (!ran) {
      if (result_.failures.size() == failures) result_.failures.push_back({name, type, "error", ran.toString()});
      return Status::ok();
    }
    const std::vector<bool> isWritten = mutableInputs(trial.op);
    for (size_t i = 0; i < inputs.size(); ++i)
      if (isWritten[i]) compare(name, type, trial.op.inputArgs()[i], inputs[i], hostInputs[i]);
    for (size_t i = 0; i < outputs.size(); ++i) compare(name, type, trial.op.outputArgs()[i], outputs[i], wanted[i]);
    return Status::ok();
  }

  void addFindings(const std::string &name, const std::string &type) {
    if (device_.findings() == findings_) return;
    const Report now(device_.report());
    for (; findings_ < now.findings.size(); ++findings_)
      result_.failures.push_back({name, type, now.findings[findings_].first, now.findings[findings_].second});
  }

  void compare(const std::string &name, const std::string &type, const std::pair<std::string, int32_t> &argument,
               const OpTensor &found, const OpTensor &wanted) {
    const Result<HostTensor> actual = hostTensor(found), expected = hostTensor(wanted);
    if (!actual || !expected) return;
    Tolerance limit = reorderedTolerance(*expected);
    if (const auto declared = op_.tolerances.find(wanted.type()); declared != op_.tolerances.end()) {
      limit.rtol = std::max(limit.rtol, declared->second.first);
      limit.atol = std::max(limit.atol, declared->second.second);
    }
    const Comparison c = compareTensors(*actual, *expected, limit, true);
    if (c.passed()) {
      result_.largestError = std::max(result_.largestError, c.maxAbs);
      return;
    }
    const std::string tensor = argument.first + "_" + std::to_string(argument.second);
    result_.failures.push_back({name, type, "numbers", mismatchText(tensor, *actual, *expected, c, limit, true)});
  }

  const Registry &registry_;
  const OpDef &op_;
  OpDevice &device_;
  OpDeviceCheck result_;
  size_t findings_ = 0; // of the report, that are known
};

} // namespace

KernelCounters KernelCounters::since(const KernelCounters &b) const {
  return {launches - b.launches,
          instructions - b.instructions,
          lanes - b.lanes,
          sectors - b.sectors,
          idealSectors - b.idealSectors,
          wavefronts - b.wavefronts,
          idealWavefronts - b.idealWavefronts};
}

Result<OpDeviceCheck> checkOnDevice(const Registry &registry, const OpDef &op, OpDevice &device) {
  return Check(registry, op, device).run();
}

} // namespace opc::cli
