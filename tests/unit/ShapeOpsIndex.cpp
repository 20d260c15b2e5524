// Gathers, scatters, segment sums, one_hot: values, the order of sums, and the errors of bad indices.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace opc;
using namespace opc::test;
using I32 = std::vector<int32_t>;
using I64 = std::vector<int64_t>;
using F = std::vector<float>;

TEST_CASE("gather names the first bad index, its place and the range", "[index]") {
  const TestTensor x = iota<float>({2, 3});
  CHECK(runAs<float>(
            {"gather", {{"in", x}, {"indices", tensorOf<int64_t>({2, 1}, {2, 0})}}, {{"axis", int64_t{1}}}, {}}) ==
        F{2, 0, 5, 3});
  CHECK(run({"gather", {{"in", x}, {"indices", tensorOf<int32_t>({}, {1})}}, {}, {}})[0].shape() == Shape({3}));
  CHECK(run({"gather", {{"in", x}, {"indices", tensorOf<int32_t>({0}, {})}}, {}, {}})[0].shape() == Shape({0, 3}));
  const std::string e = errorOf({"gather", {{"in", x}, {"indices", tensorOf<int64_t>({2, 2}, {0, 1, -1, 7})}}, {}, {}});
  CHECK(e.find("indices[1,0] = -1 is outside [0, 2)") != std::string::npos);
  CHECK(errorOf({"gather", {{"in", x}, {"indices", iota<float>({2})}}, {}, {}}).find("indices is f32") !=
        std::string::npos);
  CHECK(runAs<float>({"embedding", {{"weight", x}, {"indices", tensorOf<int64_t>({2}, {1, 1})}}, {}, {}}) ==
        F{3, 4, 5, 3, 4, 5});
  CHECK(
      runAs<float>(
          {"batch_gather", {{"in", iota<float>({2, 2, 2})}, {"indices", tensorOf<int64_t>({2, 1}, {1, 0})}}, {}, {}}) ==
      F{2, 3, 4, 5});
}

TEST_CASE("the nd family", "[index]") {
  const TestTensor x = iota<float>({2, 3});
  CHECK(runAs<float>({"gather_nd", {{"params", x}, {"indices", tensorOf<int64_t>({2, 2}, {1, 2, 0, 1})}}, {}, {}}) ==
        F{5, 1});
  CHECK(runAs<float>({"gather_nd", {{"params", x}, {"indices", tensorOf<int64_t>({1, 1}, {1})}}, {}, {}}) ==
        F{3, 4, 5});
  CHECK(errorOf({"gather_nd", {{"params", x}, {"indices", tensorOf<int64_t>({1, 2}, {1, 3})}}, {}, {}})
            .find("indices[0,1] = 3 is outside [0, 3), the range of axis 1") != std::string::npos);
  CHECK(runAs<float>({"scatter_nd",
                      {{"indices", tensorOf<int32_t>({3, 1}, {1, 0, 1})}, {"updates", tensorOf<float>({3}, {1, 2, 4})}},
                      {{"shape", Shape({3})}},
                      {}}) == F{2, 5, 0});
  CHECK(runAs<float>({"tensor_scatter_nd_update",
                      {{"params", x},
                       {"updates", tensorOf<float>({2, 3}, {7, 7, 7, 8, 8, 8})},
                       {"indices", tensorOf<int64_t>({2, 1}, {1, 1})}},
                      {},
                      {}}) == F{0, 1, 2, 8, 8, 8});
  CHECK(runAs<float>({"tensor_scatter_nd_add",
                      {{"params", x},
                       {"updates", tensorOf<float>({2}, {10, 10})},
                       {"indices", tensorOf<int64_t>({2, 2}, {0, 0, 0, 0})}},
                      {},
                      {}}) == F{20, 1, 2, 3, 4, 5});
  // Sums of f16 are made in f32: 2048 + 1 + 1 + 1 + 1 would stay 2048 in f16.
  std::vector<float16> ones{float16(2048.f)};
  for (int i = 0; i < 4; ++i) ones.push_back(float16(1.f));
  CHECK(static_cast<float>(runAs<float16>(
            {"scatter_nd",
             {{"indices", tensorOf<int32_t>({5, 1}, {0, 0, 0, 0, 0})}, {"updates", tensorOf<float16>({5}, ones)}},
             {{"shape", Shape({1})}},
             {}})[0]) == 2052.f);
}

TEST_CASE("the dim family follows PyTorch's gather and scatter", "[index]") {
  const TestTensor x = iota<float>({2, 3});
  CHECK(runAs<float>(
            {"dim_gather", {{"input", x}, {"index", tensorOf<int64_t>({2, 2}, {2, 0, 1, 1})}}, {{"dim", 1}}, {}}) ==
        F{2, 0, 4, 4});
  CHECK(
      runAs<float>(
          {"dim_gather", {{"input", x}, {"index", tensorOf<int64_t>({3, 2}, {1, 0, 0, 1, 1, 1})}}, {{"dim", 0}}, {}}) ==
      F{3, 1, 0, 4, 3, 4});
  const TestTensor index = tensorOf<int64_t>({2, 2}, {0, 0, 2, 1}),
                   src = tensorOf<float>({2, 3}, {10, 20, 99, 30, 40, 99});
  auto scatter = [&](const char *op) {
    return runAs<float>({op, {{"input", x}, {"index", index}, {"src", src}}, {{"dim", 1}}, {}});
  };
  CHECK(scatter("dim_scatter_update") == F{20, 1, 2, 3, 40, 30});
  CHECK(scatter("dim_scatter_add") == F{30, 1, 2, 3, 44, 35});
  CHECK(scatter("dim_scatter_mul") == F{0, 1, 2, 3, 160, 150});
  CHECK(scatter("dim_scatter_max") == F{20, 1, 2, 3, 40, 30});
  CHECK(scatter("dim_scatter_min") == F{0, 1, 2, 3, 4, 5});
  CHECK(runAs<float>({"dim_scatter_add_like", {{"like", x}, {"index", index}, {"src", src}}, {{"dim", 1}}, {}}) ==
        F{30, 0, 0, 0, 40, 30});
  CHECK(errorOf(
            {"dim_gather", {{"input", x}, {"index", tensorOf<int64_t>({3, 2}, {0, 0, 0, 0, 0, 0})}}, {{"dim", 1}}, {}})
            .find("index is (3,2)") != std::string::npos);
}

TEST_CASE("scatters and segment sums of integers wrap around", "[index]") {
  const TestTensor twice = tensorOf<int32_t>({2, 1}, {0, 0});
  CHECK(runAs<uint8_t>({"scatter_nd",
                        {{"indices", twice}, {"updates", tensorOf<uint8_t>({2}, {200, 100})}},
                        {{"shape", Shape({1})}},
                        {}}) == std::vector<uint8_t>{44});
  CHECK(runAs<int16_t>({"tensor_scatter_nd_add",
                        {{"params", tensorOf<int16_t>({1}, {32766})},
                         {"updates", tensorOf<int16_t>({2}, {1, 1})},
                         {"indices", twice}},
                        {},
                        {}}) == std::vector<int16_t>{-32768});
  CHECK(runAs<uint16_t>(
            {"unsorted_segment_sum",
             {{"data", tensorOf<uint16_t>({2}, {40000, 30000})}, {"segment_ids", tensorOf<int64_t>({2}, {1, 1})}},
             {{"num_segments", int64_t{2}}},
             {}}) == std::vector<uint16_t>{0, 4464});
  const auto dim = [](const char *op, const TestTensor &input, const TestTensor &src) {
    return OpCall{op, {{"input", input}, {"index", tensorOf<int64_t>({1}, {0})}, {"src", src}}, {{"dim", 0}}, {}};
  };
  CHECK(runAs<uint32_t>(dim("dim_scatter_add", tensorOf<uint32_t>({1}, {4294967295u}),
                            tensorOf<uint32_t>({1}, {2u}))) == std::vector<uint32_t>{1});
  CHECK(runAs<uint64_t>(dim("dim_scatter_mul", tensorOf<uint64_t>({1}, {uint64_t{1} << 63}),
                            tensorOf<uint64_t>({1}, {3u}))) == std::vector<uint64_t>{uint64_t{1} << 63});
}

TEST_CASE("the largest and the smallest of scattered elements", "[index]") {
  const auto one = [](const char *op, const TestTensor &input, const TestTensor &src) {
    return OpCall{op, {{"input", input}, {"index", tensorOf<int64_t>({2}, {0, 0})}, {"src", src}}, {{"dim", 0}}, {}};
  };
  CHECK(runAs<int8_t>(one("dim_scatter_max", tensorOf<int8_t>({1}, {-5}), tensorOf<int8_t>({2}, {-9, -3}))) ==
        std::vector<int8_t>{-3});
  CHECK(runAs<uint64_t>(one("dim_scatter_min", tensorOf<uint64_t>({1}, {uint64_t{1} << 63}),
                            tensorOf<uint64_t>({2}, {~uint64_t{0}, (uint64_t{1} << 63) + 1}))) ==
        std::vector<uint64_t>{uint64_t{1} << 63});
  for (const char *op : {"dim_scatter_max", "dim_scatter_min"}) {
    CHECK(std::isnan(runAs<float>(one(op, tensorOf<float>({1}, {1}), tensorOf<float>({2}, {NAN, 2})))[0]));
    CHECK(std::isnan(runAs<float>(one(op, tensorOf<float>({1}, {NAN}), tensorOf<float>({2}, {3, 2})))[0]));
  }
}

TEST_CASE("segment sums and one_hot", "[index]") {
  CHECK(runAs<float>({"unsorted_segment_sum",
                      {{"data", iota<float>({3, 2})}, {"segment_ids", tensorOf<int64_t>({3}, {2, 0, 2})}},
                      {{"num_segments", int64_t{3}}},
                      {}}) == F{2, 3, 0, 0, 4, 6});
  CHECK(runAs<float>({"unsorted_segment_sum",
                      {{"data", iota<float>({2, 3})}, {"segment_ids", tensorOf<int32_t>({3}, {1, 1, 0})}},
                      {{"num_segments", int64_t{2}}, {"axis", int64_t{1}}},
                      {}}) == F{2, 1, 5, 7});
  CHECK(runAs<float>({"unsorted_batch_segment_sum",
                      {{"data", iota<float>({2, 2})}, {"segment_ids", tensorOf<int32_t>({2, 2}, {1, 1, 0, 1})}},
                      {{"num_segments", int64_t{2}}},
                      {}}) == F{0, 1, 2, 3});
  CHECK(errorOf({"unsorted_segment_sum",
                 {{"data", iota<float>({1, 2})}, {"segment_ids", tensorOf<int64_t>({1}, {3})}},
                 {{"num_segments", int64_t{3}}},
                 {}})
            .find("segment_ids[0] = 3") != std::string::npos);
  CHECK(runAs<float>({"one_hot",
                      {{"indices", tensorOf<int64_t>({2}, {2, 0})}},
                      {{"depth", int64_t{3}}, {"dtype", kFloat}, {"floating_off_value", -1.0}},
                      {}}) == F{-1, -1, 1, 1, -1, -1});
  CHECK(errorOf({"one_hot", {{"indices", tensorOf<int64_t>({1}, {3})}}, {{"depth", int64_t{3}}, {"dtype", kFloat}}, {}})
            .find("outside [0, 3)") != std::string::npos);
}
