// Philox against its published vectors, and the random operators: streams, runs, ranges, moments.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"
#include "opc/Philox.h"
#include "source/RandomStream.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>

using namespace opc;
using namespace opc::test;

TEST_CASE("Philox4x32-10 gives the published answers", "[random]") {
  // Known-answer vectors of the Random123 distribution.
  CHECK(Philox::at(0, 0, 0) == Philox::Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(Philox::at(~uint64_t{0}, ~uint64_t{0}, ~uint64_t{0}) ==
        Philox::Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(Philox::at(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u) ==
        Philox::Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("batches of blocks are the blocks", "[random]") {
  const ops::RandomBlocks random{0x123456789abcdefu, 77};
  uint32_t words[4][ops::RandomBlocks::kBatch];
  random.batch(0xfffffffau, words); // the index carries into its second word
  for (int i = 0; i < ops::RandomBlocks::kBatch; ++i)
    CHECK(random(0xfffffffau + static_cast<uint64_t>(i)) ==
          Philox::Block{words[0][i], words[1][i], words[2][i], words[3][i]});
}

TEST_CASE("random operators: the same for any thread count, new for each run", "[random]") {
  OpCall uniform{"uniform",
                 {},
                 {{"dtype", kFloat}, {"shape", Shape({100000})}, {"from", -1.0}, {"to", 3.0}, {"seed", int64_t{7}}},
                 {}};
  const auto u = runAs<float>(uniform);
  CHECK(*std::min_element(u.begin(), u.end()) >= -1.f);
  CHECK(*std::max_element(u.begin(), u.end()) < 3.f);
  CHECK(std::accumulate(u.begin(), u.end(), 0.0) / 1e5 == Approx(1).margin(0.02));
  const auto second = tryOp(uniform, {2, 2, {}});
  REQUIRE(second.isOk());
  CHECK((*second)[0].as<float>() != u);
  uniform.attrs["seed"] = int64_t{8};
  CHECK(runAs<float>(uniform) != u);
  for (auto make : {+[](Shape s) {
         return OpCall{"normal", {}, {{"dtype", kFloat}, {"shape", s}, {"mean", 2.0}, {"std", 3.0}}, {}};
       }}) {
    const auto z = runAs<float>(make({200001}));
    double mean = 0, square = 0;
    for (float v : z) mean += v, square += static_cast<double>(v) * v;
    mean /= 200001;
    CHECK(mean == Approx(2).margin(0.03));
    CHECK(std::sqrt(square / 200001 - mean * mean) == Approx(3).margin(0.03));
  }
  auto p = runAs<int32_t>({"randperm", {}, {{"n", 1000}}, {}});
  CHECK_FALSE(std::is_sorted(p.begin(), p.end()));
  std::sort(p.begin(), p.end());
  for (int i = 0; i < 1000; ++i) REQUIRE(p[static_cast<size_t>(i)] == i);
}

TEST_CASE("dropout keeps the expectation and says what it kept", "[random]") {
  const TestTensor x = tensorOf<float>({100000}, std::vector<float>(100000, 2.f));
  const auto out = run({"dropout", {{"in", x}}, {{"rate", 0.25f}}, {}});
  const auto y = out[0].as<float>();
  const auto mask = out[1].as<bool>();
  double sum = 0;
  for (size_t i = 0; i < y.size(); ++i) {
    REQUIRE(y[i] == (mask[i] ? 2.f / 0.75f : 0.f));
    sum += y[i];
  }
  CHECK(sum / 1e5 == Approx(2).margin(0.03));
  CHECK(runAs<float>(
            {"dropout", {{"in", iota<float>({3})}, {"_add_to_output", iota<float>({3})}}, {{"rate", 1.f}}, {}}) ==
        std::vector<float>{0, 1, 2});
  CHECK(errorOf({"dropout", {{"in", x}}, {{"rate", 1.5f}}, {}}).find("rate is 1.5") != std::string::npos);
  const auto b = runAs<bool>({"bernoulli", {{"in", tensorOf<float>({4}, {0, 1, 0, 1})}}, {{"dtype", kBool}}, {}});
  CHECK(b == std::vector<bool>{false, true, false, true});
}
