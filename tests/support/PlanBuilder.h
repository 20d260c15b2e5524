// Builds small plans by hand, for tests of the runtime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PlanFile.h"
#include "TestRegistry.h"
#include "opc/Tensor.h"

#include <string>
#include <utility>
#include <vector>

namespace opc::test {

using Args = std::vector<std::pair<std::string, std::vector<uint32_t>>>;

/// One arena; every register gets memory of its own unless a test moves it.
class PlanBuilder {
public:
  plan::Plan plan;

  PlanBuilder() {
    plan.set_producer("test");
    plan.add_arena()->set_device("cpu");
    plan.add_stream()->set_device("cpu");
    plan.mutable_interface();
  }

  uint32_t reg(const std::string &name, uint64_t bytes, plan::Register::Kind kind = plan::Register::ACTIVATION,
               uint32_t credits = 1) {
    plan::Register *r = plan.add_register_();
    const uint64_t slot = (bytes + 63) / 64 * 64;
    r->set_name(name);
    r->set_arena(0);
    r->set_offset(plan.arena(0).bytes());
    r->set_bytes(slot);
    r->set_stride(credits > 1 ? slot : 0);
    r->set_credits(credits);
    r->set_kind(kind);
    plan.mutable_arena(0)->set_bytes(plan.arena(0).bytes() + slot * credits);
    return static_cast<uint32_t>(plan.register__size() - 1);
  }
  /// A tensor in a given register.
  uint32_t tensorIn(uint32_t reg, const std::string &name, const Shape &shape, DataType type = kFloat) {
    plan::Tensor *t = plan.add_tensor();
    t->set_register_(reg);
    t->set_data_type(static_cast<graph::DataTypeProto>(type));
    for (int64_t d : shape) t->add_dim(d);
    t->set_name(name);
    return static_cast<uint32_t>(plan.tensor_size() - 1);
  }
  uint32_t tensor(const std::string &name, const Shape &shape, DataType type = kFloat,
                  plan::Register::Kind kind = plan::Register::ACTIVATION, uint32_t credits = 1) {
    return tensorIn(reg(name, static_cast<uint64_t>(shape.elem_cnt()) * GetSizeOfDataType(type), kind, credits), name,
                    shape, type);
  }
  uint32_t input(const std::string &name, const Shape &shape, DataType type = kFloat) {
    const uint32_t t = tensor(name + "/out", shape, type, plan::Register::INPUT);
    auto *p = plan.mutable_interface()->add_input();
    p->set_name(name);
    p->set_tensor(t);
    return t;
  }
  plan::Interface::Variable *lastVariable() {
    return plan.mutable_interface()->mutable_variable(plan.interface().variable_size() - 1);
  }
  uint32_t variable(const std::string &name, const Shape &shape, DataType type = kFloat) {
    const uint32_t t = tensor(name + "/out", shape, type, plan::Register::VARIABLE);
    auto *v = plan.mutable_interface()->add_variable();
    v->set_name(name);
    v->set_tensor(t);
    return t;
  }
  uint32_t constant(const std::string &name, const std::vector<float> &values) {
    const uint32_t t = tensor(name, Shape{static_cast<int64_t>(values.size())}, kFloat, plan::Register::CONSTANT);
    auto *c = plan.mutable_interface()->add_constant();
    c->set_tensor(t);
    c->set_data(values.data(), values.size() * sizeof(float));
    return t;
  }
  void output(const std::string &name, uint32_t tensor) {
    auto *p = plan.mutable_interface()->add_output();
    p->set_name(name);
    p->set_tensor(tensor);
  }
  uint32_t stream() {
    plan.add_stream()->set_device("cpu");
    return static_cast<uint32_t>(plan.stream_size() - 1);
  }
  plan::Task *task(const std::string &name, const std::string &type, const Args &inputs, const Args &outputs,
                   uint32_t stream = 0) {
    plan::Task *t = plan.add_task();
    t->set_name(name);
    t->set_op_type(type);
    auto add = [](const Args &args, auto make) {
      for (const auto &[arg, tensors] : args) {
        plan::Argument *a = make();
        a->set_name(arg);
        for (uint32_t x : tensors) a->add_tensor(x);
      }
    };
    add(inputs, [&] { return t->add_input(); });
    add(outputs, [&] { return t->add_output(); });
    t->set_stream(stream);
    plan.mutable_stream(static_cast<int>(stream))->add_task(static_cast<uint32_t>(plan.task_size() - 1));
    return t;
  }
  /// out = in + value, elementwise.
  plan::Task *add(const std::string &name, uint32_t in, uint32_t out, float value, uint32_t stream = 0) {
    plan::Task *t = task(name, "runtime_test_add", {{"in", {in}}}, {{"out", {out}}}, stream);
    plan::Attribute *a = t->add_attr();
    a->set_name("value");
    a->mutable_value()->set_at_float(value);
    return t;
  }
  std::string encode() const { return encodePlan(plan); }
};

} // namespace opc::test
