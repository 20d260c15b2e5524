// Convolutions against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "ImageLayout.h"
#include "OpCall.h"

#include <array>
#include <catch2/catch.hpp>

using namespace opc;
using namespace opc::test;
using Ints = std::vector<int32_t>;

namespace {

struct ConvCase {
  std::array<int64_t, 2> io; // channels, filters
  int64_t batch, groups;
  std::vector<int64_t> in, kernel;
  Ints stride, dilation, padding;
  bool last, bias;
};

std::vector<double> convolve(const ConvCase &k, const TestTensor &in, const TestTensor &weight, const TestTensor *bias,
                             Shape *shape) {
  const size_t dims = k.in.size();
  std::vector<int64_t> out(dims);
  int64_t inCount = 1, outCount = 1, kernelCount = 1;
  for (size_t i = 0; i < dims; ++i) {
    out[i] = (k.in[i] + 2 * k.padding[i] - k.dilation[i] * (k.kernel[i] - 1) - 1) / k.stride[i] + 1;
    inCount *= k.in[i];
    outCount *= out[i];
    kernelCount *= k.kernel[i];
  }
  *shape = layout(k.batch, k.io[1], out, k.last);
  std::vector<double> y(z(k.batch * k.io[1] * outCount));
  const int64_t own = k.io[0] / k.groups, perGroup = k.io[1] / k.groups;
  for (int64_t n = 0; n < k.batch; ++n)
    for (int64_t o = 0; o < k.io[1]; ++o)
      for (int64_t p = 0; p < outCount; ++p) {
        double sum = bias ? bias->values[z(o)] : 0;
        for (int64_t q = 0; q < kernelCount; ++q) {
          int64_t position = 0, restP = p, restQ = q, scale = 1;
          bool inside = true;
          for (size_t i = dims; i-- > 0;) {
            const int64_t v = restP % out[i] * k.stride[i] + restQ % k.kernel[i] * k.dilation[i] - k.padding[i];
            restP /= out[i];
            restQ /= k.kernel[i];
            inside = inside && v >= 0 && v < k.in[i];
            position += v * scale;
            scale *= k.in[i];
          }
          if (!inside) continue;
          for (int64_t c = 0; c < own; ++c)
            sum += in.values[at(n, o / perGroup * own + c, position, k.io[0], inCount, k.last)] *
                   weight.values[at(o, c, q, own, kernelCount, k.last)];
        }
        y[at(n, o, p, k.io[1], outCount, k.last)] = sum;
      }
  return y;
}

} // namespace

TEST_CASE("convolutions equal plain loops and do not depend on threads", "[library]") {
  const std::vector<ConvCase> cases = {
      {{3, 5}, 2, 1, {11}, {3}, {1}, {1}, {0}, false, true},
      {{4, 6}, 1, 2, {17}, {3}, {2}, {2}, {1}, false, false},
      {{4, 8}, 2, 1, {17}, {5}, {2}, {1}, {2}, true, true},
      {{1, 1}, 1, 1, {1, 1}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false, false},
      {{3, 16}, 2, 1, {13, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
      {{16, 32}, 3, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
      {{16, 24}, 1, 1, {9, 10}, {3, 2}, {2, 1}, {1, 2}, {1, 0}, false, true},
      {{64, 40}, 1, 1, {7, 7}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false, false},
      {{16, 16}, 2, 16, {10, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
      {{12, 18}, 2, 3, {6, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
      {{32, 32}, 1, 4, {6, 7}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, false, false},
      {{3, 8}, 2, 1, {13, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true, true},
      {{16, 32}, 2, 1, {8, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true, true},
      {{32, 40}, 3, 1, {9, 10}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true, true}, // in blocks of channels with AVX2
      {{64, 32}, 2, 1, {13, 9}, {3, 2}, {2, 1}, {1, 2}, {1, 0}, true, false},
      {{5, 7}, 1, 1, {8, 8}, {5, 3}, {3, 2}, {1, 1}, {2, 0}, true, true},
      {{6, 6}, 2, 2, {5, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, true, false},
      {{32, 32}, 2, 32, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, true, true},
      {{64, 128}, 1, 1, {14, 14}, {1, 1}, {2, 2}, {1, 1}, {0, 0}, true, true},
      {{3, 4}, 1, 1, {5, 6, 7}, {2, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}, false, true},
      {{8, 16}, 2, 1, {4, 4, 4}, {2, 2, 2}, {2, 1, 1}, {1, 1, 1}, {0, 0, 0}, true, false},
      {{3, 4}, 0, 1, {5, 6}, {2, 3}, {1, 1}, {1, 1}, {0, 0}, false, true},
      {{256, 256}, 1, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, false, true},
  };
  for (const ConvCase &k : cases)
    for (DataType type : {kFloat, kDouble, kFloat16, kBFloat16}) {
      if (k.io[0] == 256 && type != kFloat) continue;
      const double range = type == kBFloat16 || type == kFloat16 ? 0.3 : 1;
      OpCall call{
          "conv" + std::to_string(k.in.size()) + "d",
          {{"in", randomTensor(type, layout(k.batch, k.io[0], k.in, k.last), 1, -range, range)},
           {"weight", randomTensor(type, layout(k.io[1], k.io[0] / k.groups, k.kernel, k.last), 2, -range, range)}},
          {{"groups", static_cast<int32_t>(k.groups)},
           {"strides", k.stride},
           {"dilation_rate", k.dilation},
           {"padding_before", k.padding},
           {"data_format", k.last ? "channels_last" : "channels_first"}},
          {},
          {}};
      if (k.bias) call.inputs.push_back({"bias", randomTensor(type, {k.io[1]}, 3)});
      Shape shape;
      const auto expected =
          convolve(k, call.inputs[0].second, call.inputs[1].second, k.bias ? &call.inputs[2].second : nullptr, &shape);
      INFO(dataTypeName(type) << " " << call.inputs[0].second.shape().ToString() << " "
                              << call.inputs[1].second.shape().ToString() << k.last);
      const auto out = runEverywhere(call).at("out");
      REQUIRE(out.shape() == shape);
      const double tolerance = toleranceOf(type) * (k.io[0] == 256 ? 10 : 2);
      requireClose(out, expected, tolerance, tolerance);
    }
}

TEST_CASE("a convolution adds", "[library]") {
  OpCall call{"conv2d",
              {{"in", randomTensor(kFloat, {1, 8, 4, 4}, 1)},
               {"weight", randomTensor(kFloat, {8, 8, 1, 1}, 2)},
               {"_add_to_output", randomTensor(kFloat, {1, 8, 4, 4}, 3)}},
              {},
              {},
              {}};
  Shape shape;
  auto expected = convolve({{8, 8}, 1, 1, {4, 4}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false, false}, call.inputs[0].second,
                           call.inputs[1].second, nullptr, &shape);
  for (size_t i = 0; i < expected.size(); ++i) expected[i] += call.inputs[2].second.values[i];
  requireClose(runEverywhere(call).at("out"), expected, 1e-5, 1e-5);
}

TEST_CASE("convolutions say what does not fit", "[library]") {
  const auto error = [](Shape in, Shape weight, std::map<std::string, AttrValue> attrs) {
    return errorOf(
        {"conv2d", {{"in", randomTensor(kFloat, in, 1)}, {"weight", randomTensor(kFloat, weight, 2)}}, attrs, {}, {}});
  };
  CHECK_THAT(error({1, 3, 8}, {4, 3, 3, 3}, {}), Catch::Contains("in must have rank 4"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 2, 3, 3}, {}), Catch::Contains("weight is for 2 channels, in has 3"));
  CHECK_THAT(error({1, 8, 8, 8}, {4, 2, 3, 3}, {}), Catch::Contains("groups: 4 would fit"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"groups", int32_t{2}}}), Catch::Contains("must divide"));
  CHECK_THAT(error({1, 3, 2, 8}, {4, 3, 3, 3}, {}),
             Catch::Contains("the kernel spans 3 in spatial dimension 0, more than the padded input's 2") &&
                 Catch::Contains("padding_before of 1"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"strides", Ints{0, 1}}}),
             Catch::Contains("strides holds 0, expected 1 or more"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"strides", Ints{1}}}),
             Catch::Contains("strides has 1 element, expected 2"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"padding_before", Ints{-1, 0}}}),
             Catch::Contains("padding_before holds -1"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"filters", int32_t{5}}}),
             Catch::Contains("filters is 5, but weight, f32[4,3,3,3], has 4"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"kernel_size", Ints{3, 5}}}), Catch::Contains("kernel_size is 5"));
  CHECK_THAT(error({1, 3, 8, 8}, {4, 3, 3, 3}, {{"data_format", "NCHW"}}),
             Catch::Contains("expected \"channels_first\""));
}

TEST_CASE("transposed convolutions are the adjoint of convolutions", "[library]") {
  struct DeconvCase {
    int64_t batch, channels, filters, groups;
    std::vector<int64_t> in, kernel;
    Ints stride, dilation, padding, extra;
    bool last;
    std::vector<int64_t> out; // as torch gives it
  };
  const std::vector<DeconvCase> cases = {
      {2, 3, 4, 1, {7}, {3}, {2}, {1}, {0}, {0}, false, {15}},
      {1, 8, 16, 1, {5, 4}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, false, {5, 4}},
      {2, 16, 8, 1, {4, 6}, {4, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 1}, false, {8, 12}},
      {1, 4, 6, 2, {5, 5}, {2, 2}, {1, 3}, {2, 1}, {0, 0}, {0, 2}, false, {7, 16}},
      {2, 6, 5, 1, {4, 3}, {2, 2}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, true, {5, 4}},
      {1, 16, 16, 1, {6, 6}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, true, {12, 12}},
      {1, 2, 3, 1, {3, 4, 3}, {2, 2, 2}, {1, 2, 1}, {1, 1, 1}, {0, 0, 0}, {0, 0, 0}, false, {4, 8, 4}},
  };
  for (const DeconvCase &k : cases)
    for (DataType type : {kFloat, kDouble, kBFloat16}) {
      const TestTensor in = randomTensor(type, layout(k.batch, k.channels, k.in, k.last), 1);
      const TestTensor weight = randomTensor(type, layout(k.channels, k.filters / k.groups, k.kernel, k.last), 2);
      const OpCall call{"deconv" + std::to_string(k.in.size()) + "d",
                        {{"in", in}, {"weight", weight}},
                        {{"groups", static_cast<int32_t>(k.groups)},
                         {"strides", k.stride},
                         {"dilation_rate", k.dilation},
                         {"padding_before", k.padding},
                         {"output_padding", k.extra},
                         {"data_format", k.last ? "channels_last" : "channels_first"}},
                        {},
                        {}};
      INFO(dataTypeName(type) << " " << in.shape().ToString() << " " << weight.shape().ToString());
      const auto out = runEverywhere(call).at("out");
      REQUIRE(out.shape() == layout(k.batch, k.filters, k.out, k.last));
      int64_t inCount = 1, outCount = 1, kernelCount = 1;
      for (size_t i = 0; i < k.in.size(); ++i) inCount *= k.in[i], outCount *= k.out[i], kernelCount *= k.kernel[i];
      std::vector<double> expected(out.values.size());
      const int64_t own = k.channels / k.groups, made = k.filters / k.groups;
      for (int64_t n = 0; n < k.batch; ++n)
        for (int64_t c = 0; c < k.channels; ++c)
          for (int64_t p = 0; p < inCount; ++p)
            for (int64_t q = 0; q < kernelCount; ++q) {
              int64_t position = 0, restP = p, restQ = q, scale = 1;
              bool inside = true;
              for (size_t i = k.in.size(); i-- > 0;) {
                const int64_t v = restP % k.in[i] * k.stride[i] + restQ % k.kernel[i] * k.dilation[i] - k.padding[i];
                restP /= k.in[i];
                restQ /= k.kernel[i];
                inside = inside && v >= 0 && v < k.out[i];
                position += v * scale;
                scale *= k.out[i];
              }
              for (int64_t f = 0; inside && f < made; ++f)
                expected[at(n, c / own * made + f, position, k.filters, outCount, k.last)] +=
                    in.values[at(n, c, p, k.channels, inCount, k.last)] *
                    weight.values[at(c, f, q, made, kernelCount, k.last)];
            }
      requireClose(out, expected, toleranceOf(type) * 2, toleranceOf(type) * 4);
    }
  CHECK_THAT(errorOf({"deconv1d",
                      {{"in", randomTensor(kFloat, {1, 3, 4}, 1)}, {"weight", randomTensor(kFloat, {2, 3, 4}, 1)}},
                      {},
                      {},
                      {}}),
             Catch::Contains("weight is for 2 channels, in has 3"));
  CHECK_THAT(errorOf({"deconv1d",
                      {{"in", randomTensor(kFloat, {1, 3, 4}, 1)}, {"weight", randomTensor(kFloat, {3, 3, 4}, 1)}},
                      {{"output_padding", Ints{1}}},
                      {},
                      {}}),
             Catch::Contains("output_padding is 1"));
}

namespace {

struct FilteredCase {
  int64_t batch, channels, filters, rows, columns;
  int32_t padding;
  bool last;
};

/// 3x3 windows: conv2d of noise, or of such a result's gradient that by its images.
OpCall filtered(const FilteredCase &k, bool isGradient, DataType type) {
  const std::vector<int64_t> in = {k.rows, k.columns},
                             out = {k.rows + 2 * k.padding - 2, k.columns + 2 * k.padding - 2};
  const TestTensor image = randomTensor(type, layout(k.batch, k.channels, in, k.last), 1);
  const TestTensor weight = randomTensor(type, layout(k.filters, k.channels, {3, 3}, k.last), 2);
  OpCall call{"conv2d", {{"in", image}, {"weight", weight}, {"bias", randomTensor(type, {k.filters}, 3)}}, {}, {}, {}};
  if (isGradient)
    call = {"conv_data_grad",
            {{"dy", randomTensor(type, layout(k.batch, k.filters, out, k.last), 4)},
             {"filter", weight},
             {"x_like", image},
             {"_add_to_output", randomTensor(type, image.shape(), 5)}},
            {{"num_spatial_dims", int32_t{2}}, {"kernel_size", Ints{3, 3}}},
            {},
            {}};
  call.attrs["padding_before"] = Ints{k.padding, k.padding};
  call.attrs["data_format"] = std::string(k.last ? "channels_last" : "channels_first");
  return call;
}

std::vector<double> resultOf(const OpCall &call) {
  return runEverywhere(call).at(call.op == "conv2d" ? "out" : "dx").values;
}

} // namespace

TEST_CASE("convolutions by minimal filtering whose weight changes", "[library][winograd]") {
  const std::vector<FilteredCase> cases = {{4, 16, 32, 12, 12, 1, false}, {2, 48, 16, 17, 14, 1, true},
                                           {1, 64, 16, 30, 21, 1, false}, {8, 16, 16, 8, 8, 1, true},
                                           {2, 32, 48, 18, 19, 0, false}, {2, 32, 16, 16, 16, 2, false}};
  for (const FilteredCase &k : cases)
    for (const bool isGradient : {false, true}) {
      INFO(k.channels << " channels, " << k.filters << " filters, " << k.rows << " x " << k.columns << ", padding "
                      << k.padding << (isGradient ? ", gradient" : ""));
      OpCall call = filtered(k, isGradient, kFloat);
      const std::vector<double> direct = resultOf(call), exact = resultOf(filtered(k, isGradient, kDouble));
      call.attrs["winograd"] = true;
      const std::vector<double> fast = resultOf(call);
      const double rms = std::sqrt(static_cast<double>(9 * (isGradient ? k.filters : k.channels))) / 3;
      double most = 0;
      REQUIRE(fast.size() == exact.size());
      for (size_t i = 0; i < fast.size(); ++i) most = std::max(most, std::abs(fast[i] - exact[i]));
      CHECK(most < 2e-5 * rms);
      // Padding is 2 less it, where the gradient is computed.
      CHECK((fast != direct) == (k.padding == 1 || (k.padding == 2) == isGradient));
    }
}

TEST_CASE("convolutions by minimal filtering without filters or channels", "[library][winograd]") {
  for (const FilteredCase &k : {FilteredCase{2, 16, 0, 24, 24, 1, true}, FilteredCase{2, 16, 0, 24, 24, 1, false},
                                FilteredCase{2, 0, 16, 24, 24, 1, true}})
    for (const bool isGradient : {false, true}) {
      INFO(k.channels << " channels, " << k.filters << " filters" << (isGradient ? ", gradient" : ""));
      OpCall call = filtered(k, isGradient, kFloat);
      // A sum of nothing, to which one tensor is added: the bias of each filter, or _add_to_output.
      const std::vector<double> direct = resultOf(call), exact = resultOf(filtered(k, isGradient, kDouble));
      call.attrs["winograd"] = true;
      CHECK(resultOf(call) == direct);
      CHECK(direct.size() == exact.size());
    }
}

TEST_CASE("convolutions by minimal filtering whose weight changes: what is far from the rest", "[library][winograd]") {
  const FilteredCase k{4, 16, 16, 12, 12, 1, false};
  for (const bool isGradient : {false, true})
    for (const size_t input : {size_t{0}, size_t{1}})
      for (const double value : {double(INFINITY), double(NAN), 1e30, 1e7}) {
        INFO("input " << input << ": " << value << (isGradient ? ", gradient" : ""));
        OpCall call = filtered(k, isGradient, kFloat);
        call.inputs[input].second.values[100] = value;
        const std::vector<double> direct = resultOf(call);
        call.attrs["winograd"] = true;
        const std::vector<double> fast = resultOf(call);
        size_t differ = 0;
        for (size_t i = 0; i < fast.size(); ++i) {
          // What a large weight that is still in range makes has errors as large as a tile's sums.
          const bool isItsOwn = input == 1 && value == 1e7 && i / 144 % 16 == size_t{isGradient ? 11u : 0u};
          const double size = isItsOwn ? std::max(value, std::abs(direct[i])) : std::abs(direct[i]);
          differ += std::isnan(direct[i])
                        ? !std::isnan(fast[i])
                        : fast[i] != direct[i] && !(std::abs(fast[i] - direct[i]) <= 1e-4 + 1e-5 * size);
        }
        CHECK(differ == 0);
      }
}
