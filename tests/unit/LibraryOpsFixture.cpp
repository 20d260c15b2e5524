// Runs one built-in op on the CPU for the tests of the library operators.
// SPDX-License-Identifier: Apache-2.0
#include "LibraryOpsFixture.h"
#include "Parallel.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

namespace opc::test {
namespace {

void readValues(TestTensor *t) {
  const size_t n = static_cast<size_t>(t->shape.elem_cnt());
  t->values.resize(n);
  visit(t->type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i < n; ++i) {
      T v;
      std::memcpy(&v, t->bytes.data() + i * sizeof(T), sizeof(T));
      t->values[i] = static_cast<double>(numberOf(v));
    }
  });
}

const Registry &registry() {
  static const Registry r = [] {
    Registry made;
    REQUIRE(made.addLinked().isOk());
    made.freeze();
    return made;
  }();
  return r;
}

Status runInto(const OpCall &call, int threads, std::map<std::string, TestTensor> *outputs) {
  const user_op::OpDef *def = registry().findOp(call.op);
  if (!def) return Status(StatusCode::kInternal, "", "no op " + call.op);
  user_op::OpConf conf;
  conf.name = "test";
  conf.type = call.op;
  for (const auto &[arg, tensor] : call.inputs) conf.inputs.push_back({arg, {"x/" + arg + "_0"}});
  for (const std::string &o : call.optionalOutputs) conf.outputs.push_back({o, {"test/" + o + "_0"}});
  conf.attrs = call.attrs;
  OPC_RETURN_IF_ERROR(completeOpConf(*def, &conf));
  OpInstance op(*def, conf);
  std::vector<void *> data;
  std::vector<bool> constant;
  std::vector<std::vector<char>> storage;
  for (size_t i = 0; i < op.inputArgs().size(); ++i)
    for (const auto &[arg, tensor] : call.inputs)
      if (op.inputArgs()[i].first == arg ||
          (def->findInput(arg) && def->findInput(arg)->name == op.inputArgs()[i].first)) {
        op.inputDescs()[i] = user_op::TensorDesc(tensor.shape, tensor.type);
        storage.push_back(tensor.bytes);
        constant.push_back(std::find(call.constants.begin(), call.constants.end(), arg) != call.constants.end());
      }
  OPC_RETURN_IF_ERROR(op.infer());
  for (size_t i = 0; i < op.outputDescs().size(); ++i) {
    const auto bytes = tensorBytes(op.outputDescs()[i]);
    storage.push_back(std::vector<char>(static_cast<size_t>(*bytes), char(0x7b)));
  }
  for (auto &s : storage) data.push_back(s.data());
  auto kernel = op.selectKernel(registry(), DeviceType::kCPU);
  if (!kernel) return kernel.status();
  const auto tmp = op.tmpSize(**kernel);
  if (!tmp) return tmp.status();
  std::vector<char> workspace(static_cast<size_t>(*tmp));
  DeviceCtx ctx(DeviceType::kCPU, threads, cpu::parallelFor);
  auto task = KernelTask::create(op, **kernel, &ctx, data, constant, workspace.data(), *tmp);
  if (!task) return task.status();
  for (int i = 0; i < 2; ++i) OPC_RETURN_IF_ERROR((*task)->run(&ctx));
  for (size_t i = 0; i < op.outputDescs().size(); ++i) {
    TestTensor t{op.outputDescs()[i].data_type(), op.outputDescs()[i].shape(), {}, storage[op.inputDescs().size() + i]};
    readValues(&t);
    (*outputs)[op.outputArgs()[i].first] = std::move(t);
  }
  return Status::ok();
}

} // namespace

TestTensor tensorOf(DataType type, Shape shape, std::vector<double> values) {
  TestTensor t{type, std::move(shape), std::move(values), {}};
  REQUIRE(t.values.size() == static_cast<size_t>(t.shape.elem_cnt()));
  visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    t.bytes.resize(t.values.size() * sizeof(T));
    for (size_t i = 0; i < t.values.size(); ++i) {
      const T v = convertElement<T>(t.values[i]);
      std::memcpy(t.bytes.data() + i * sizeof(T), &v, sizeof(T));
    }
  });
  readValues(&t);
  return t;
}

TestTensor randomTensor(DataType type, Shape shape, unsigned seed, double lo, double hi) {
  std::mt19937 generator(seed);
  std::vector<double> values(static_cast<size_t>(shape.elem_cnt()));
  for (double &v : values) v = lo + (hi - lo) * (static_cast<double>(generator()) / 4294967296.0);
  return tensorOf(type, std::move(shape), std::move(values));
}

OpOutcome runOp(const OpCall &call, int threads) {
  OpOutcome outcome;
  outcome.status = runInto(call, threads, &outcome.outputs);
  return outcome;
}

std::map<std::string, TestTensor> runEverywhere(OpCall call) {
  std::map<std::string, TestTensor> first;
  for (bool constant : {false, true}) {
    call.constants.clear();
    if (constant)
      for (size_t i = 1; i < call.inputs.size(); ++i) call.constants.push_back(call.inputs[i].first);
    std::map<std::string, TestTensor> one;
    for (int threads : {1, 2, 3}) {
      OpOutcome outcome = runOp(call, threads);
      INFO(call.op << " on " << threads << " threads: " << outcome.status.toString());
      REQUIRE(outcome.status.isOk());
      if (threads == 1) {
        one = outcome.outputs;
        continue;
      }
      for (const auto &[arg, tensor] : outcome.outputs) {
        INFO(arg);
        REQUIRE(tensor.bytes == one[arg].bytes);
      }
    }
    if (!constant)
      first = std::move(one);
    else // another algorithm may serve constants: equal up to rounding
      for (const auto &[arg, tensor] : one)
        requireClose(tensor, first[arg].values, toleranceOf(tensor.type), toleranceOf(tensor.type));
  }
  return first;
}

void requireClose(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol) {
  REQUIRE(found.values.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    const double f = found.values[i], e = expected[i];
    if (std::isnan(f) && std::isnan(e)) continue;
    if (f == e || std::fabs(f - e) <= atol + rtol * std::fabs(e)) continue;
    INFO("element " << i << " of " << expected.size() << ": found " << f << ", expected " << e);
    REQUIRE(false);
  }
}

std::string errorOf(const OpCall &call) {
  const OpOutcome outcome = runOp(call);
  REQUIRE_FALSE(outcome.status.isOk());
  return outcome.status.toString();
}

double toleranceOf(DataType type) {
  switch (type) {
  case kDouble: return 1e-12;
  case kFloat16: return 4e-3;
  case kBFloat16: return 3e-2;
  default: return 2e-5;
  }
}

} // namespace opc::test
