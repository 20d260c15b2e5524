// Plans on the simulated GPU by hand: several streams, registers of several slots, the CPU beside it. Prints what they
// give; tests take single calls of the driver away, or lay registers over each other, and look whether that is noticed
// (plan_mutants.py).
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "PlanModel.h"
#include "Session.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

static bool isMemoryChecked = true;

// The linker puts this in the place of the loader's check of memory (--wrap in CMakeLists.txt), in this program alone.
#define CHECK_MEMORY "_ZN3opc7runtime11checkMemoryERKNS0_9PlanModelERKSt6vectorIbSaIbEE"
namespace opc::runtime {
Status checkMemoryOfLoader(const PlanModel &, const std::vector<bool> &) __asm__("__real_" CHECK_MEMORY);
Status checkMemoryIfAsked(const PlanModel &, const std::vector<bool> &) __asm__("__wrap_" CHECK_MEMORY);
Status checkMemoryIfAsked(const PlanModel &model, const std::vector<bool> &isShared) {
  return isMemoryChecked ? checkMemoryOfLoader(model, isShared) : Status::ok();
}
} // namespace opc::runtime

namespace {

using namespace opc;
using opc::test::PlanBuilder;

constexpr int64_t kElements = 1000;

class GpuPlan : public PlanBuilder {
public:
  explicit GpuPlan(int streams) {
    for (int s = 1; s < streams; ++s) stream();
    plan.mutable_arena(0)->set_device("sim");
    for (auto &s : *plan.mutable_stream()) s.set_device("sim");
  }
  uint32_t value(const std::string &name, uint32_t credits = 1) {
    return tensor(name, Shape{kElements}, kFloat, plan::Register::ACTIVATION, credits);
  }
  /// A value on the CPU, for which the plan then has an arena.
  uint32_t valueOnCpu(const std::string &name, uint32_t credits = 1) {
    if (plan.arena_size() == 1) plan.add_arena()->set_device("cpu");
    const uint32_t t = value(name, credits);
    plan::Register *r = plan.mutable_register_(static_cast<int>(plan.tensor(static_cast<int>(t)).register_()));
    r->set_arena(1);
    r->set_offset(plan.arena(1).bytes());
    plan.mutable_arena(1)->set_bytes(plan.arena(1).bytes() + r->bytes() * credits);
    return t;
  }
  void copy(const std::string &name, uint32_t from, uint32_t to, uint32_t stream) {
    task(name, "copy", {{"in", {from}}}, {{"out", {to}}}, stream);
  }
  /// to = from + plus.
  void add(const std::string &name, uint32_t from, uint32_t to, double plus, uint32_t stream = 0) {
    plan::Task *t = task(name, "scalar_add", {{"in", {from}}}, {{"out", {to}}}, stream);
    const auto attribute = [&](const char *key) {
      plan::Attribute *a = t->add_attr();
      a->set_name(key);
      return a->mutable_value();
    };
    attribute("has_float_operand")->set_at_bool(true);
    attribute("float_operand")->set_at_double(plus);
  }
  plan::Register *registerOf(const std::string &name) {
    for (auto &r : *plan.mutable_register_())
      if (r.name() == name) return &r;
    std::fprintf(stderr, "no register %s\n", name.c_str());
    std::exit(2);
  }
  /// "c@a": c lies where a does. "a*2": a has two slots, and memory for one; the second is what lies behind it.
  void misplace(const std::string &change) {
    const size_t sign = change.find_first_of("@*");
    plan::Register *r = registerOf(change.substr(0, sign));
    if (change[sign] == '@') {
      const plan::Register *over = registerOf(change.substr(sign + 1));
      r->set_arena(over->arena());
      r->set_offset(over->offset());
    } else {
      r->set_stride(r->bytes());
      r->set_credits(2);
    }
  }
};

/// Stream 0: x -> a, c -> y. Stream 1: a -> b -> c.
GpuPlan handOver(uint32_t credits) {
  GpuPlan b(2);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a", credits), m = b.value("b"),
                 c = b.value("c", credits), y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10, 1);
  b.add("bc", m, c, 100, 1);
  b.add("cy", c, y, 1000);
  b.output("y", y);
  return b;
}

/// Stream 0: x -> a, b + c -> y. Stream 1: a -> b. Stream 2: a -> c.
GpuPlan forked() {
  GpuPlan b(3);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a"), m = b.value("b"), c = b.value("c"),
                 y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10, 1);
  b.add("ac", a, c, 100, 2);
  b.task("bcy", "broadcast_add", {{"x", {m}}, {"y", {c}}}, {{"z", {y}}});
  b.output("y", y);
  return b;
}

/// Stream 0: x -> a. Stream 1: a -> y. Nothing comes back but that a may be written anew.
GpuPlan oneWay() {
  GpuPlan b(2);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a"), y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ay", a, y, 10, 1);
  b.output("y", y);
  return b;
}

/// Stream 0: x -> a, two steps ahead. Stream 1: a -> b -> y.
GpuPlan ahead() {
  GpuPlan b(2);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a", 2), m = b.value("b"), y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10, 1);
  b.add("by", m, y, 100, 1);
  b.output("y", y);
  return b;
}

/// The device, stream 0: x -> a, d -> y. The CPU, stream 1: b -> c. Stream 2 copies c -> d, stream 3 a -> b.
GpuPlan beside(uint32_t credits) {
  GpuPlan b(4);
  b.plan.mutable_stream(1)->set_device("cpu");
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a", credits), on = b.valueOnCpu("b", credits),
                 c = b.valueOnCpu("c", credits), d = b.value("d", credits), y = b.value("y");
  b.add("xa", x, a, 1);
  b.copy("ab", a, on, 3);
  b.add("bc", on, c, 10, 1);
  b.copy("cd", c, d, 2);
  b.add("dy", d, y, 100);
  b.output("y", y);
  return b;
}

/// One stream, as the compiler makes it: x -> a -> b -> y, which is recorded as a graph.
GpuPlan steady() {
  GpuPlan b(1);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a"), m = b.value("b"), y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10);
  b.add("by", m, y, 100);
  b.output("y", y);
  return b;
}

/// One stream: x -> a -> b -> c, a + c -> y: a is read when b and c have been written.
GpuPlan again() {
  GpuPlan b(1);
  const uint32_t x = b.input("x", Shape{kElements}), a = b.value("a"), m = b.value("b"), c = b.value("c"),
                 y = b.value("y");
  b.add("xa", x, a, 1);
  b.add("ab", a, m, 10);
  b.add("bc", m, c, 100);
  b.task("acy", "broadcast_add", {{"x", {a}}, {"y", {c}}}, {{"z", {y}}});
  b.output("y", y);
  return b;
}

/// One stream: y = x + 1, a thousand times, in two registers by turns.
GpuPlan thousand() {
  GpuPlan b(1);
  uint32_t from = b.input("x", Shape{kElements});
  const uint32_t turns[2] = {b.reg("a", kElements * sizeof(float)), b.reg("b", kElements * sizeof(float))};
  for (int n = 0; n < 1000; ++n) {
    const uint32_t to = b.tensorIn(turns[n % 2], "v" + std::to_string(n), Shape{kElements});
    b.add("add" + std::to_string(n), from, to, 1);
    from = to;
  }
  b.output("y", from);
  return b;
}

/// x + w -> a -> y: w is set before each run.
GpuPlan weights() {
  GpuPlan b(1);
  const uint32_t x = b.input("x", Shape{kElements}), w = b.variable("w", Shape{kElements}), a = b.value("a"),
                 y = b.value("y");
  b.task("xw", "broadcast_add", {{"x", {x}}, {"y", {w}}}, {{"z", {a}}});
  b.add("ay", a, y, 100);
  b.output("y", y);
  return b;
}

/// Stream 0: x -> a. Stream 1: a + w -> y. The same numbers.
GpuPlan weightsApart() {
  GpuPlan b(2);
  const uint32_t x = b.input("x", Shape{kElements}), w = b.variable("w", Shape{kElements}), a = b.value("a"),
                 y = b.value("y");
  b.add("xa", x, a, 100);
  b.task("aw", "broadcast_add", {{"x", {a}}, {"y", {w}}}, {{"z", {y}}}, 1);
  b.output("y", y);
  return b;
}

/// y = x[i], by more ops than one block of notes on wrong indices has.
GpuPlan gathers() {
  constexpr int kGathers = 300;
  GpuPlan b(1);
  const uint32_t x = b.input("x", Shape{kElements}), i = b.input("i", Shape{kElements}, kInt64);
  uint32_t y = 0;
  for (int n = 0; n < kGathers; ++n) {
    y = b.value("y" + std::to_string(n));
    b.task("g" + std::to_string(n), "gather", {{"in", {x}}, {"indices", {i}}}, {{"out", {y}}});
  }
  b.output("y", y);
  return b;
}

int fail(const Status &status) {
  std::fprintf(stderr, "%s\n", status.toString().c_str());
  return 1;
}

/// Each round has another input, and `steps` steps.
int run(const std::string &plan, int64_t steps) {
  Result<Session> session = Session::load(plan, opc::test::registry());
  if (!session) return fail(session.status());
  for (int round = 0; round < 3; ++round) {
    Result<HostTensor> x = HostTensor::create(kFloat, Shape{kElements});
    if (!x) return fail(x.status());
    for (int64_t i = 0; i < kElements; ++i) x->as<float>()[i] = static_cast<float>(i + 1000 * round);
    if (Status s = session->feed("x", *x); !s) return fail(s);
    for (const PortInfo &v : session->interface().variables) {
      for (int64_t i = 0; i < kElements; ++i) x->as<float>()[i] = static_cast<float>(round + 1);
      if (Status s = session->setVariable(v.name, *x); !s) return fail(s);
    }
    if (Status s = session->run(steps); !s) return fail(s);
    const Result<HostTensor> y = session->fetch("y");
    if (!y) return fail(y.status());
    double sum = 0; // exact: whole numbers
    for (int64_t i = 0; i < kElements; ++i) sum += static_cast<double>(i + 1) * y->as<float>()[i];
    std::printf("%.0f\n", sum);
  }
  return 0;
}

/// A run with wrong indices, which fails, and then one with right ones: y is x from behind.
int runAfterFailure() {
  Result<Session> session = Session::load(gathers().encode(), opc::test::registry());
  if (!session) return fail(session.status());
  Result<HostTensor> x = HostTensor::create(kFloat, Shape{kElements}), i = HostTensor::create(kInt64, Shape{kElements});
  if (!x || !i) return fail(x ? i.status() : x.status());
  for (int64_t k = 0; k < kElements; ++k) x->as<float>()[k] = static_cast<float>(k);
  if (Status s = session->feed("x", *x); !s) return fail(s);
  for (const bool isRight : {false, true}) {
    for (int64_t k = 0; k < kElements; ++k) i->as<int64_t>()[k] = (isRight ? kElements - 1 : 2 * kElements) - k;
    if (Status s = session->feed("i", *i); !s) return fail(s);
    const Status ran = session->run();
    if (!isRight) std::printf("%s\n", ran.id().c_str());
    if (isRight && !ran) return fail(ran);
  }
  const Result<HostTensor> y = session->fetch("y");
  if (!y) return fail(y.status());
  bool isBackwards = true;
  for (int64_t k = 0; k < kElements; ++k) isBackwards &= y->as<float>()[k] == static_cast<float>(kElements - 1 - k);
  std::printf("%s\n", isBackwards ? "backwards" : "wrong");
  return 0;
}

} // namespace

int main(int argc, char **argv) {
  std::map<std::string, GpuPlan> plans = {
      {"hand_over", handOver(1)}, {"pipelined", handOver(2)}, {"fork", forked()},    {"one_way", oneWay()},
      {"steady", steady()},       {"weights", weights()},     {"beside", beside(1)}, {"beside_pipelined", beside(2)},
      {"again", again()},         {"thousand", thousand()},   {"ahead", ahead()},    {"weights_apart", weightsApart()}};
  if (argc == 2 && argv[1] == std::string("after_failure")) return runAfterFailure();
  const auto plan = plans.find(argc >= 3 ? argv[1] : "");
  if (plan == plans.end()) {
    std::fprintf(stderr, "usage: opc_gpusim_plans PLAN STEPS [REGISTER@REGISTER | REGISTER*2 [unchecked]] | "
                         "after_failure\nplans:");
    for (const auto &known : plans) std::fprintf(stderr, " %s", known.first.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  if (argc > 3) plan->second.misplace(argv[3]);
  isMemoryChecked = argc < 5 || argv[4] != std::string("unchecked");
  return run(plan->second.encode(), std::strtoll(argv[2], nullptr, 10));
}
