// Poolings against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "ImageLayout.h"
#include "OpCall.h"

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace opc;
using namespace opc::test;
using Ints = std::vector<int32_t>;

namespace {

struct PoolCase {
  std::vector<int64_t> in;
  Ints kernel, stride, before, after, dilation;
  bool ceil;
  std::vector<int64_t> out; // as torch gives it
};

int64_t product(const std::vector<int64_t> &v) {
  int64_t p = 1;
  for (int64_t d : v) p *= d;
  return p;
}

struct Expected {
  std::vector<double> max, avg, avgPadded, indices;
};

Expected pool(const PoolCase &k, const TestTensor &x, int64_t batch, int64_t channels, bool last) {
  const int64_t inCount = product(k.in), outCount = product(k.out);
  int64_t kernelCount = 1;
  for (int32_t v : k.kernel) kernelCount *= v;
  Expected e;
  for (auto *v : {&e.max, &e.avg, &e.avgPadded, &e.indices}) v->resize(z(batch * channels * outCount));
  for (int64_t n = 0; n < batch; ++n)
    for (int64_t c = 0; c < channels; ++c)
      for (int64_t p = 0; p < outCount; ++p) {
        double max = -INFINITY, sum = 0, inside = 0, padded = 0;
        int64_t where = 0;
        for (int64_t q = 0; q < kernelCount; ++q) {
          bool isInside = true, isPadded = true;
          int64_t position = 0, scale = 1, restP = p, restQ = q;
          for (size_t i = k.in.size(); i-- > 0;) {
            const int64_t v = restP % k.out[i] * k.stride[i] + restQ % k.kernel[i] * k.dilation[i] - k.before[i];
            restP /= k.out[i];
            restQ /= k.kernel[i];
            isInside = isInside && v >= 0 && v < k.in[i];
            isPadded = isPadded && v < k.in[i] + k.after[i];
            position += v * scale;
            scale *= k.in[i];
          }
          padded += isPadded;
          if (!isInside) continue;
          const double v = x.values[at(n, c, position, channels, inCount, last)];
          inside += 1;
          sum += v;
          if (v > max) max = v, where = position;
        }
        const size_t to = at(n, c, p, channels, outCount, last);
        e.max[to] = max;
        e.indices[to] = static_cast<double>(where);
        e.avg[to] = sum / inside;
        e.avgPadded[to] = sum / padded;
      }
  return e;
}

const std::vector<PoolCase> kCases = {
    {{9}, {3}, {2}, {1}, {1}, {1}, false, {5}},
    {{10}, {3}, {3}, {0}, {1}, {1}, false, {3}},
    {{6, 8}, {2, 2}, {2, 2}, {0, 0}, {0, 0}, {1, 1}, false, {3, 4}},
    {{33, 19}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, false, {33, 19}},
    {{7, 6}, {3, 2}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true, {4, 4}},
    {{7, 9}, {2, 3}, {1, 4}, {0, 1}, {1, 0}, {1, 1}, true, {7, 3}},
    {{3000}, {2}, {2}, {0}, {0}, {1}, false, {1500}},
    {{2, 2500}, {2, 3}, {1, 3}, {0, 1}, {0, 1}, {1, 1}, false, {1, 834}},
    {{4, 5, 6}, {2, 2, 3}, {2, 1, 2}, {1, 0, 1}, {1, 0, 1}, {1, 1, 1}, false, {3, 4, 3}},
};

} // namespace

TEST_CASE("max and average pooling equal plain loops", "[library]") {
  for (const PoolCase &k : kCases)
    for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16, kInt32})
      for (bool last : {false, true}) {
        const std::string suffix = "_pool_" + std::to_string(k.in.size()) + "d";
        const TestTensor x = randomTensor(type, layout(2, 9, k.in, last), 3, -50, 50);
        const Expected e = pool(k, x, 2, 9, last);
        OpCall call{"max" + suffix,
                    {{"x", x}},
                    {{"kernel_size", k.kernel},
                     {"stride", k.stride},
                     {"padding", k.before},
                     {"padding_after", k.after},
                     {"ceil_mode", k.ceil},
                     {"data_format", last ? "channels_last" : "channels_first"}},
                    {},
                    {}};
        INFO(dataTypeName(type) << " " << x.shape().ToString() << last);
        auto out = runEverywhere(call);
        REQUIRE(out.at("y").shape() == layout(2, 9, k.out, last));
        requireClose(out.at("y"), e.max, 0, 0);
        call.outputs = {{"indice", 1}};
        out = runEverywhere(call);
        requireClose(out.at("y"), e.max, 0, 0);
        if (type == kDouble || type == kFloat) requireClose(out.at("indice"), e.indices, 0, 0);
        if (type == kInt32) continue;
        call.op = "avg" + suffix;
        call.outputs.clear();
        requireClose(runEverywhere(call).at("y"), e.avg, toleranceOf(type), toleranceOf(type) * 20);
        call.attrs["count_include_pad"] = true;
        requireClose(runEverywhere(call).at("y"), e.avgPadded, toleranceOf(type), toleranceOf(type) * 20);
      }
}

TEST_CASE("max pooling dilates, keeps NaN and infinities, and takes old spellings", "[library]") {
  const PoolCase k{{8, 9}, {2, 3}, {1, 2}, {1, 1}, {1, 1}, {3, 2}, false, {7, 4}};
  const TestTensor x = randomTensor(kFloat, {2, 3, 8, 9}, 3);
  OpCall call{"max_pool_2d",
              {{"x", x}},
              {{"pool_size", k.kernel}, {"strides", k.stride}, {"padding_before", k.before}, {"dilation", k.dilation}},
              {{"indice", 1}},
              {}};
  const Expected e = pool(k, x, 2, 3, false);
  requireClose(runEverywhere(call).at("y"), e.max, 0, 0);
  requireClose(runEverywhere(call).at("indice"), e.indices, 0, 0);
  const double nan = std::nan(""), inf = std::numeric_limits<double>::infinity();
  for (bool indices : {false, true}) {
    call = {"max_pool_1d",
            {{"x", tensorOf(kFloat, {1, 1, 8}, {1, nan, nan, 2, -inf, -inf, inf, 3})}},
            {{"kernel_size", Ints{2}}},
            {},
            {}};
    if (indices) call.outputs = {{"indice", 1}};
    const auto out = runEverywhere(call);
    requireClose(out.at("y"), {nan, nan, -inf, inf}, 0, 0);
    if (indices) requireClose(out.at("indice"), {1, 2, 4, 6}, 0, 0);
  }
}

TEST_CASE("average pooling divides by what it is told", "[library]") {
  const TestTensor x = tensorOf(kFloat, {1, 1, 4}, {1, 2, 3, 4});
  requireClose(
      runEverywhere({"avg_pool_1d", {{"x", x}}, {{"kernel_size", Ints{2}}, {"divisor_override", int32_t{4}}}, {}, {}})
          .at("y"),
      {0.75, 1.75}, 0, 0);
}

TEST_CASE("adaptive average pooling equals plain loops", "[library]") {
  for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16})
    for (bool last : {false, true})
      for (std::vector<int64_t> out : {std::vector<int64_t>{1, 1}, {3, 4}, {9, 20}}) {
        const std::vector<int64_t> in{7, 37};
        const TestTensor x = randomTensor(type, layout(2, 5, in, last), 3);
        std::vector<double> expected(z(10 * product(out)));
        for (int64_t n = 0; n < 2; ++n)
          for (int64_t c = 0; c < 5; ++c)
            for (int64_t i = 0; i < out[0]; ++i)
              for (int64_t j = 0; j < out[1]; ++j) {
                double sum = 0, count = 0;
                for (int64_t a = i * in[0] / out[0]; a < ((i + 1) * in[0] + out[0] - 1) / out[0]; ++a)
                  for (int64_t b = j * in[1] / out[1]; b < ((j + 1) * in[1] + out[1] - 1) / out[1]; ++b, ++count)
                    sum += x.values[at(n, c, a * in[1] + b, 5, product(in), last)];
                expected[at(n, c, i * out[1] + j, 5, product(out), last)] = sum / count;
              }
        const OpCall call{"adaptive_avg_pool2d",
                          {{"x", x}},
                          {{"output_size", out}, {"data_format", last ? "channels_last" : "channels_first"}},
                          {},
                          {}};
        requireClose(runEverywhere(call).at("y"), expected, toleranceOf(type), toleranceOf(type));
      }
}

TEST_CASE("poolings say what does not fit", "[library]") {
  const auto error = [](Shape x, std::map<std::string, AttrValue> attrs) {
    return errorOf({"max_pool_2d", {{"x", randomTensor(kFloat, x, 1)}}, attrs, {}, {}});
  };
  CHECK_THAT(error({1, 2, 4, 4}, {}), Catch::Contains("'kernel_size'") && Catch::Contains("must be given"));
  CHECK_THAT(error({1, 2, 4, 4}, {{"kernel_size", Ints{}}}), Catch::Contains("kernel_size is empty"));
  CHECK_THAT(error({1, 4, 4}, {{"kernel_size", Ints{2, 2}}}), Catch::Contains("x must have rank 4"));
  CHECK_THAT(error({1, 2, 4, 4}, {{"kernel_size", Ints{5, 2}}}), Catch::Contains("the kernel spans 5"));
  CHECK_THAT(error({1, 2, 4, 4}, {{"kernel_size", Ints{2, 2}}, {"stride", Ints{0, 1}}}),
             Catch::Contains("stride holds 0"));
  CHECK_THAT(error({1, 2, 4, 4}, {{"kernel_size", Ints{2, 2}}, {"padding", Ints{2, 0}}}),
             Catch::Contains("more than half of the kernel_size 2"));
  CHECK_THAT(errorOf({"adaptive_avg_pool1d",
                      {{"x", randomTensor(kFloat, {1, 2, 4}, 1)}},
                      {{"output_size", std::vector<int64_t>{0}}},
                      {},
                      {}}),
             Catch::Contains("output_size holds 0"));
}
