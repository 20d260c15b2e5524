// Plan files: the checksum, and every damaged byte.
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "Session.h"

#include "opc/Version.h"

#include <catch2/catch.hpp>

#include <functional>
#include <random>

namespace {

using namespace opc;
using namespace opc::test;

PlanBuilder small() {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{4}), w = b.constant("k", {1, 2, 3, 4}), a = b.tensor("a", Shape{4}),
                 c = b.tensor("c", Shape{4});
  b.add("first", x, a, 1);
  b.add("second", w, c, 1);
  b.output("y", a);
  b.output("z", c);
  return b;
}

TEST_CASE("the checksum is XXH64", "[plan]") {
  CHECK(planChecksum("") == 0xef46db3751d8e999u);
  CHECK(planChecksum("a") == 0xd24ec4f1a98c6e5bu);
  CHECK(planChecksum("abc") == 0x44bc2cf5ad770999u);
  CHECK(planChecksum("The quick brown fox jumps over the lazy dog") == 0x0b242d361fda71bcu);
}

TEST_CASE("equal plans are equal bytes and come back", "[plan]") {
  const std::string bytes = small().encode();
  CHECK(bytes == small().encode());
  Result<plan::Plan> p = decodePlan(bytes);
  REQUIRE(p.isOk());
  CHECK(p->task(1).name() == "second");
}

TEST_CASE("a plan has the version of what lies in the graphs of its tasks", "[plan]") {
  plan::Plan plan;
  plan.add_task()->set_op_type("if");
  plan::Task &inner = *plan.mutable_task(0)->add_graph()->add_task();
  inner.set_op_type("batch_parts");
  inner.add_graph();
  std::string bytes = encodePlan(plan);
  CHECK(bytes[8] == 6);
  bytes[8] = 5;
  const Status s = decodePlan(bytes).status();
  CHECK(s.id() == "OPC0804");
  CHECK(s.message().find("version 5 and has batches in parts, which came with version 6") != std::string::npos);
}

TEST_CASE("what a plan has says its version, and one that says an older version is refused", "[plan]") {
  const struct {
    const char *what;
    int version;
    std::function<void(plan::Plan *)> change;
  } parts[] = {
      {"regions", 2, [](plan::Plan *p) { p->mutable_task(0)->set_region(true); }},
      {"tasks of several ops", 2, [](plan::Plan *p) { p->mutable_task(0)->add_body(); }},
      {"devices of tasks", 2, [](plan::Plan *p) { p->mutable_task(0)->set_device("cpu"); }},
      {"bounds of sizes", 2, [](plan::Plan *p) { p->mutable_tensor(0)->add_bound(4); }},
      {"bounds of sizes", 2, [](plan::Plan *p) { p->mutable_tensor(0)->add_extent(); }},
      {"sizes in a range", 2, [](plan::Plan *p) { p->add_size()->set_name("n"); }},
      {"values of variables", 3, [](plan::Plan *p) { p->mutable_interface()->add_variable()->set_data("1"); }},
      {"machine code", 4, [](plan::Plan *p) { p->add_native(); }},
      {"machine code", 4, [](plan::Plan *p) { p->mutable_task(0)->add_native(1); }},
      {"graphs of tasks", 5, [](plan::Plan *p) { p->mutable_task(0)->add_graph(); }},
      {"numbers of a model", 6, [](plan::Plan *p) { p->mutable_interface()->add_model_number()->set_name("n"); }},
      {"prepared tensors", 7, [](plan::Plan *p) { p->mutable_register_(0)->set_kind(plan::Register::PREPARED); }},
  };
  CHECK(encodePlan(small().plan)[8] == 1);
  for (const auto &part : parts)
    for (const bool isInside : {false, true}) { // of a plan of parts the version is what its parts need
      INFO(part.what << (isInside ? " in a part" : ""));
      plan::Plan plan = small().plan;
      part.change(&plan);
      if (isInside) {
        plan::Plan whole;
        *whole.add_part() = plan;
        plan = whole;
      }
      std::string bytes = encodePlan(plan);
      CHECK(bytes[8] == part.version);
      bytes[8] = static_cast<char>(part.version - 1);
      const Status s = decodePlan(bytes).status();
      CHECK(s.id() == "OPC0804");
      const std::string came = std::string("version ") + std::to_string(part.version - 1) + " and has " + part.what +
                               ", which came with version " + std::to_string(part.version);
      CHECK(s.message().find(came) != std::string::npos);
    }
}

TEST_CASE("a plan that does not fit is told by its writer's version", "[plan]") {
  PlanBuilder b = small();
  b.plan.mutable_task(0)->set_op_type("no_such_op");
  auto refused = [&](const char *producer) {
    b.plan.set_producer(producer);
    return Session::load(b.encode(), registry()).status();
  };
  for (const char *ours : {"opc " OPC_VERSION_STRING, "test", ""}) CHECK(refused(ours).id() == "OPC0201");
  const Status s = refused("opc 0.0.9\n");
  CHECK(s.id() == "OPC0802");
  CHECK(s.code() == StatusCode::kUnsupported);
  for (const char *part : {"0.0.9\\n", "version " OPC_VERSION_STRING, "no_such_op", "`opc compile GRAPH -o PLAN`"}) {
    INFO(part << " in " << s.message());
    CHECK(s.message().find(part) != std::string::npos);
  }
}

TEST_CASE("every truncation and every flipped byte of a plan is refused", "[plan]") {
  const std::string bytes = small().encode();
  REQUIRE(Session::load(bytes, registry()).isOk());
  for (size_t n = 0; n < bytes.size(); ++n) REQUIRE_FALSE(Session::load(bytes.substr(0, n), registry()).isOk());
  REQUIRE_FALSE(Session::load(bytes + "x", registry()).isOk());
  for (size_t i = 0; i < bytes.size(); ++i)
    for (int mask : {0x01, 0x80, 0xff}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ mask);
      const Status s = Session::load(damaged, registry()).status();
      REQUIRE_FALSE(s.isOk());
      REQUIRE((s.code() == StatusCode::kInvalidGraph || s.code() == StatusCode::kUnsupported));
      REQUIRE_FALSE(s.message().empty());
    }
}

TEST_CASE("a damaged plan with a right checksum never crashes", "[plan]") {
  const plan::Plan good = small().plan;
  std::string payload;
  REQUIRE(good.SerializeToString(&payload));
  std::mt19937 random(1);
  SessionOptions options;
  options.threads = 1;
  options.maxMemory = 1 << 20;
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string damaged = payload;
    for (unsigned n = 1 + random() % 3; n > 0; --n) {
      const size_t at = random() % damaged.size();
      switch (random() % 3) {
      case 0: damaged[at] = static_cast<char>(random()); break;
      case 1: damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8)); break;
      default: damaged[at] = static_cast<char>(damaged[random() % damaged.size()]); break;
      }
    }
    plan::Plan p;
    if (!p.ParsePartialFromString(damaged)) continue;
    Result<Session> s = Session::load(encodePlan(p), registry(), options);
    if (!s) {
      REQUIRE_FALSE(s.status().message().empty());
      continue;
    }
    ++accepted; // whatever was accepted must run
    for (const PortInfo &in : s->interface().inputs) {
      Result<HostTensor> t = HostTensor::create(in.desc.data_type(), in.desc.shape());
      REQUIRE(t.isOk());
      REQUIRE(s->feed(in.name, *t).isOk());
    }
    (void)s->run(2);
    for (const PortInfo &out : s->interface().outputs) (void)s->fetch(out.name);
  }
  CHECK(accepted > 0); // names and values may change freely
}

} // namespace
