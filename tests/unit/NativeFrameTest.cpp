// Frames of machine code in plans: whatever their numbers are, what decoding accepts can be mapped.
// SPDX-License-Identifier: Apache-2.0
#include "CodeImage.h"
#include "PlanBuilder.h"
#include "PlanNative.h"

#include <catch2/catch.hpp>

#include <random>

namespace {

using namespace opc;
using namespace opc::test;

/// A plan whose only image has this frame; its bytes are none that anybody runs.
plan::Plan framed(uint32_t level, uint32_t lanes, uint32_t entry, uint32_t code, size_t bytes) {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{4}), a = b.tensor("a", Shape{4});
  b.add("first", x, a, 1);
  b.output("y", a);
  plan::NativeCode *native = b.plan.add_native();
  native->set_region(nativeRegion("nothing"));
  plan::NativeCode::Image *image = native->add_image();
  image->set_level(static_cast<plan::NativeCode::Image::Level>(level));
  image->set_lanes(lanes);
  image->set_entry(entry);
  image->set_code(code);
  image->set_data(std::string(bytes, '\xcc'));
  image->set_checksum(nativeChecksum(*native, *image));
  return b.plan;
}

} // namespace

TEST_CASE("what a plan's frame may say is what can be mapped", "[plan]") {
  std::mt19937 random(7);
  const auto pick = [&](std::initializer_list<uint32_t> list) { return *(list.begin() + random() % list.size()); };
  int accepted = 0;
  for (int round = 0; round < 4000; ++round) {
    const uint32_t level = random() % 3, lanes = pick({0, 1, 16, 32, 33, 64, 65, 128, UINT32_MAX});
    const uint32_t entry = pick({0, 16, 4095, 4096, 4097, 8191, 8192, UINT32_MAX});
    const uint32_t code = pick({0, 1, 4095, 4096, 8192, 12288, UINT32_MAX - 4095, UINT32_MAX});
    const size_t bytes = pick({0, 1, 4095, 4096, 5000, 8192, 12288});
    const plan::Plan plan = framed(level, lanes, entry, code, bytes);
    const std::string &data = plan.native(0).image(0).data();
    const CodeLevel levels[] = {CodeLevel::kNone, CodeLevel::kV3, CodeLevel::kV4};
    const std::string fault = faultOf({levels[level], lanes, entry, code, data});
    const Status status = decodePlan(encodePlan(plan)).status();
    INFO(level << " " << lanes << " " << entry << " " << code << " " << bytes << ": " << fault << status.toString());
    REQUIRE(status.isOk() == fault.empty());
    if (!status) REQUIRE((status.id() == "OPC0823" && status.code() == StatusCode::kInvalidGraph));
    accepted += status.isOk();
  }
  CHECK(accepted > 50);
}

TEST_CASE("machine code in plans is counted, in order and of the whole plan", "[plan]") {
  const plan::Plan good = framed(1, 32, 0, 4096, 4096);
  REQUIRE(decodePlan(encodePlan(good)).isOk());
  const auto refused = [&](auto &&change) {
    plan::Plan plan = good;
    change(plan);
    const Status status = decodePlan(encodePlan(plan)).status();
    CHECK(status.id() == "OPC0823");
    return status.message();
  };
  CHECK(refused([](plan::Plan &p) { p.mutable_native(0)->clear_image(); }) ==
        "invalid plan: machine code 0 has 0 images");
  CHECK(refused([](plan::Plan &p) {
          *p.mutable_native(0)->add_image() = plan::NativeCode::Image(p.native(0).image(0));
        }) == "invalid plan: images of machine code 0 are not in the order of their levels");
  CHECK(refused([](plan::Plan &p) { p.mutable_native(0)->set_region(1); }) ==
        "invalid plan: image 0 of machine code 0 is damaged: its checksum does not match");
  CHECK(refused([](plan::Plan &p) {
          p.mutable_task(0)->add_native(1);
          p.mutable_task(0)->add_native(1);
        }) == "invalid plan: task first has more loops with machine code than ops");
  CHECK(refused([](plan::Plan &p) { p.mutable_task(0)->add_graph()->add_task()->add_native(2); }).find("is 2 of 1") !=
        std::string::npos);
  CHECK(refused([](plan::Plan &p) { *p.add_part()->add_native() = plan::NativeCode(p.native(0)); }) ==
        "invalid plan: a part has machine code of its own");
}
