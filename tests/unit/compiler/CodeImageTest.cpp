// Images of machine code: what is refused, where they run, and that each has the bits of the loops.
// SPDX-License-Identifier: Apache-2.0
#include "CodeImage.h"
#include "FusedRegion.h"
#include "RegionImages.h"
#include "RegionKey.h"

#include <catch2/catch.hpp>

#include <fstream>
#include <sstream>

using namespace opc;
using namespace opc::test;

namespace {

std::vector<CodeLevel> levels() {
  std::vector<CodeLevel> list;
  for (CodeLevel level : {CodeLevel::kV3, CodeLevel::kV4})
    if (level <= processorLevel()) list.push_back(level);
  return list;
}

RegionImager::Made imageOf(const Region &region, CodeLevel level) {
  std::string reason;
  auto made = makeRegionImager()->make(region, level, &reason);
  INFO(reason);
  REQUIRE(made);
  made->image.bytes = {};
  return std::move(*made);
}

/// What /proc says of the mapping that has this address: "r-xp".
std::string modeOf(const void *at) {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    uintptr_t begin = 0, end = 0;
    char dash = 0;
    std::string mode;
    std::istringstream(line) >> std::hex >> begin >> dash >> end >> mode;
    if (reinterpret_cast<uintptr_t>(at) >= begin && reinterpret_cast<uintptr_t>(at) < end) return mode;
  }
  return "";
}

} // namespace

TEST_CASE("images have the loops' bits, and run from any memory", "[codegen]") {
  // Integers are divided one by one, by a function that the image has inside.
  const std::shared_ptr<const Region> regions[] = {
      regionOf("tanh"), regionOf("erf"), regionOf("sqrt", kDouble, 1000, "square"),
      regionOf("broadcast_div", kInt32, 1000, "square", true), regionOf("broadcast_pow", kInt64, 1000, "abs", true)};
  for (const auto &region : regions)
    for (CodeLevel level : levels()) {
      INFO(region->steps.back().op.def().name << " " << codeLevelName(level));
      RegionImager::Made made = imageOf(*region, level);
      made.image.bytes = made.bytes;
      std::string reason;
      const auto first = mapImage(made.image, &reason), second = mapImage(made.image, &reason);
      REQUIRE((first && second));
      CHECK(first->function != second->function);
      CHECK(agreesWithLoops(*region, *first));
      CHECK(agreesWithLoops(*region, *second));
      CHECK(modeOf(reinterpret_cast<const void *>(first->function)) == "r-xp");
      const char *begin = reinterpret_cast<const char *>(first->function) - made.image.entry;
      if (made.image.code < made.bytes.size()) CHECK(modeOf(begin + made.image.code) == "r--p");
    }
}

TEST_CASE("an image is the same each time", "[codegen]") {
  const auto region = regionOf("tanh");
  CHECK(imageOf(*region, CodeLevel::kV3).bytes == imageOf(*region, CodeLevel::kV3).bytes);
}

TEST_CASE("a region that needs the C library has no image", "[codegen]") {
  std::string reason;
  CHECK_FALSE(makeRegionImager()->make(*regionOf("asinh"), CodeLevel::kV3, &reason));
  CHECK(reason == "it calls asinhf of another library");
  CHECK_FALSE(makeRegionImager()->make(*regionOf("tanh", kDouble), CodeLevel::kV3, &reason));
}

TEST_CASE("images with wrong numbers are not mapped", "[codegen]") {
  RegionImager::Made made = imageOf(*regionOf("tanh"), CodeLevel::kV3);
  made.image.bytes = made.bytes;
  const auto fault = [&](auto &&change) {
    CodeImage image = made.image;
    change(image);
    std::string reason;
    CHECK_FALSE(mapImage(image, &reason));
    CHECK(reason == faultOf(image));
    return reason;
  };
  CHECK(fault([](CodeImage &i) { i.level = CodeLevel::kNone; }) == "its level is none");
  CHECK(fault([](CodeImage &i) { i.code = 0; }) == "its code does not end at a page of 4096 bytes");
  CHECK(fault([](CodeImage &i) { i.code += 1; }) == "its code does not end at a page of 4096 bytes");
  CHECK(fault([](CodeImage &i) { i.code += 16 * kImagePage; }) == "its code is longer than it");
  CHECK(fault([](CodeImage &i) { i.entry = i.code; }) == "its function begins behind its code");
  CHECK(fault([](CodeImage &i) { i.lanes = 0; }) == "it computes 0 elements at a time");
  CHECK(fault([](CodeImage &i) { i.lanes = 65; }) == "it computes 65 elements at a time");
  CHECK(fault([](CodeImage &i) { i.bytes = i.bytes.substr(0, 100); }) == "its code is longer than it");
}

TEST_CASE("a region's key says what it computes, and not how much of it", "[codegen]") {
  CHECK(regionKey(*regionOf("tanh")) == regionKey(*regionOf("tanh", kFloat, 77)));
  CHECK(regionKey(*regionOf("tanh")) != regionKey(*regionOf("erf")));
  CHECK(regionKey(*regionOf("tanh")) != regionKey(*regionOf("tanh", kDouble)));
}
