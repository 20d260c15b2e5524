// Runs one op on the CPU for tests.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"
#include "Parallel.h"

#include <catch2/catch.hpp>

namespace opc::test {

const TestTensor &OpOutputs::at(const std::string &arg) const {
  for (const auto &[name, tensor] : tensors)
    if (name == arg) return tensor;
  throw std::out_of_range("no output " + arg);
}

Result<OpOutputs> tryOp(const OpCall &call, const CallOptions &options) {
  SingleOp single{call.op, {}, call.attrs, call.outputs};
  for (const auto &[arg, tensor] : call.inputs) single.inputs.emplace_back(arg, tensor.desc());
  std::vector<size_t> order;
  OPC_ASSIGN_OR_RETURN(const OpInstance op, instanceOf(registry(), single, &order));
  RunOpOptions how;
  how.device = DeviceCtx(DeviceType::kCPU, options.threads, cpu::parallelFor);
  how.runs = options.runs;
  how.inplace = options.inplace;
  how.fill = 0x5b; // what a kernel does not write is seen
  std::vector<OpTensor> inputs, outputs;
  for (size_t from : order) {
    const auto &[arg, tensor] = call.inputs[from];
    inputs.push_back(tensor);
    how.constant.push_back(std::find(call.constants.begin(), call.constants.end(), arg) != call.constants.end());
  }
  OPC_RETURN_IF_ERROR(runOp(registry(), op, &inputs, &outputs, how));
  OpOutputs result;
  for (size_t i = 0; i < outputs.size(); ++i)
    result.tensors.emplace_back(op.outputArgs()[i].first, std::move(outputs[i]));
  return result;
}

namespace {

OpOutputs runOn(const std::vector<int> &threads, int runs, const OpCall &call) {
  OpOutputs first;
  for (int t : threads) {
    auto outputs = tryOp(call, {t, runs, {}});
    INFO(call.op << " on " << t << " threads: " << outputs.status().toString());
    REQUIRE(outputs.isOk());
    if (t == threads[0]) first = *outputs;
    for (size_t i = 0; i < first.size(); ++i) {
      INFO("output " << first.tensors[i].first);
      const bool equalBytes = (*outputs)[i] == first[i];
      REQUIRE(equalBytes);
    }
  }
  return first;
}

} // namespace

OpOutputs run(const OpCall &call) { return runOn({1, 2, 5}, 1, call); }

OpOutputs runEverywhere(OpCall call) {
  call.constants.clear();
  const OpOutputs plain = runOn({1, 2, 3}, 2, call);
  for (size_t i = 1; i < call.inputs.size(); ++i) call.constants.push_back(call.inputs[i].first);
  const OpOutputs constant = runOn({1, 2, 3}, 2, call);
  for (size_t i = 0; i < plain.size(); ++i) { // another algorithm may serve constants: equal up to rounding
    const double tolerance = toleranceOf(plain[i].type());
    requireClose(constant[i], plain[i].values, tolerance, tolerance);
  }
  return plain;
}

std::string errorOf(const OpCall &call) {
  const auto outputs = tryOp(call);
  REQUIRE_FALSE(outputs.isOk());
  return outputs.status().toString();
}

} // namespace opc::test
