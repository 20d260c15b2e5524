// Plan files: the checksum, and every damaged byte.
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "Session.h"

#include "opc/Version.h"

#include <catch2/catch.hpp>

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
