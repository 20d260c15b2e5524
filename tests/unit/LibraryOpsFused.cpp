// Fused ops against the steps that they stand for, in double.
// SPDX-License-Identifier: Apache-2.0
#include "ImageLayout.h"
#include "OpCall.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace opc;
using namespace opc::test;
using Ints = std::vector<int32_t>;

namespace {

struct FusedCase {
  int64_t batch, channels, filters, size, kernel, groups, stride;
  bool last, statistics, bias, add;
  std::string activation;
  bool winograd = false;
};

/// The outcome in the case's layout.
std::vector<double> expectedOf(const FusedCase &k, const OpCall &call) {
  const auto input = [&](const std::string &name) -> const TestTensor * {
    for (const auto &[n, t] : call.inputs)
      if (n == name) return &t;
    return nullptr;
  };
  const int64_t pad = k.kernel / 2, out = (k.size + 2 * pad - k.kernel) / k.stride + 1, own = k.channels / k.groups;
  const auto at = [&](int64_t n, int64_t c, int64_t h, int64_t w, int64_t channels, int64_t size) {
    return z(k.last ? ((n * size + h) * size + w) * channels + c : ((n * channels + c) * size + h) * size + w);
  };
  const TestTensor &in = *input("in"), &weight = *input("weight");
  std::vector<double> y(z(k.batch * k.filters * out * out));
  for (int64_t n = 0; n < k.batch; ++n)
    for (int64_t o = 0; o < k.filters; ++o)
      for (int64_t h = 0; h < out; ++h)
        for (int64_t w = 0; w < out; ++w) {
          double sum = k.bias ? input("bias")->values[z(o)] : 0;
          for (int64_t c = 0; c < own; ++c)
            for (int64_t i = 0; i < k.kernel; ++i)
              for (int64_t j = 0; j < k.kernel; ++j) {
                const int64_t ih = h * k.stride + i - pad, iw = w * k.stride + j - pad;
                if (ih < 0 || iw < 0 || ih >= k.size || iw >= k.size) continue;
                const int64_t channel = o / (k.filters / k.groups) * own + c;
                sum += in.values[at(n, channel, ih, iw, k.channels, k.size)] *
                       weight.values[z(((o * own + c) * k.kernel + i) * k.kernel + j)];
              }
          if (k.statistics)
            sum = (sum - input("moving_mean")->values[z(o)]) /
                      std::sqrt(input("moving_variance")->values[z(o)] + 1e-3f) * input("gamma")->values[z(o)] +
                  input("beta")->values[z(o)];
          const size_t to = at(n, o, h, w, k.filters, out);
          if (k.add) sum += input("_add_to_output")->values[to];
          if (k.activation == "relu") sum = std::max(sum, 0.0);
          if (k.activation == "clip") sum = std::min(std::max(sum, -0.5), 0.75);
          y[to] = sum;
        }
  return y;
}

/// Minimal filtering: errors are relative to the root mean square of sums, here of products of numbers in [-1, 1].
void requireNear(const TestTensor &got, const std::vector<double> &expected, int64_t channels) {
  double most = 0;
  REQUIRE(got.values.size() == expected.size());
  for (size_t i = 0; i < expected.size(); ++i) most = std::max(most, std::abs(got.values[i] - expected[i]));
  CHECK(most < 2e-5 * std::sqrt(static_cast<double>(9 * channels)) / 3);
}

void check(const FusedCase &k) {
  const auto image = [&](int64_t channels, int64_t size) {
    return k.last ? Shape{k.batch, size, size, channels} : Shape{k.batch, channels, size, size};
  };
  const int64_t pad = k.kernel / 2, out = (k.size + 2 * pad - k.kernel) / k.stride + 1;
  OpCall call;
  call.op = "fused_conv2d";
  call.inputs = {{"in", randomTensor(kFloat, image(k.channels, k.size), 1)},
                 {"weight", randomTensor(kFloat, {k.filters, k.channels / k.groups, k.kernel, k.kernel}, 2)}};
  call.constants = {"weight"};
  if (k.bias) call.inputs.push_back({"bias", randomTensor(kFloat, {k.filters}, 3)});
  if (k.statistics)
    for (const char *name : {"gamma", "beta", "moving_mean", "moving_variance"}) {
      call.inputs.push_back({name, randomTensor(kFloat, {k.filters}, 4, 0.5, 1.5)});
      call.constants.push_back(name);
    }
  if (k.add) call.inputs.push_back({"_add_to_output", randomTensor(kFloat, image(k.filters, out), 5)});
  const int32_t p = static_cast<int32_t>(pad), s = static_cast<int32_t>(k.stride);
  call.attrs = {{"padding_before", Ints{p, p}},
                {"strides", Ints{s, s}},
                {"groups", static_cast<int32_t>(k.groups)},
                {"data_format", std::string(k.last ? "channels_last" : "channels_first")},
                {"activation", k.activation},
                {"activation_min", -0.5},
                {"activation_max", 0.75},
                {"epsilon", 1e-3f},
                {"winograd", k.winograd}};
  if (k.winograd && k.bias) call.constants.push_back("bias"); // what is folded must be
  const auto runs = [&] { return k.winograd ? run(call) : runEverywhere(call); };
  const auto outputs = runs();
  const std::vector<double> expected = expectedOf(k, call);
  if (k.winograd)
    requireNear(outputs.at("out"), expected, k.channels);
  else
    requireClose(outputs.at("out"), expected, 1e-4, 1e-5);
  // The same weight in the other layout.
  TestTensor &weight = call.inputs[1].second;
  const int64_t own = k.channels / k.groups, pixels = k.kernel * k.kernel;
  std::vector<double> moved(weight.values.size());
  for (int64_t o = 0; o < k.filters; ++o)
    for (int64_t c = 0; c < own; ++c)
      for (int64_t p2 = 0; p2 < pixels; ++p2)
        moved[z((o * pixels + p2) * own + c)] = weight.values[z((o * own + c) * pixels + p2)];
  weight = tensorOf(kFloat, {k.filters, k.kernel, k.kernel, own}, moved);
  call.attrs["weight_format"] = std::string("channels_last");
  REQUIRE(runs().at("out").values == outputs.at("out").values);
}

} // namespace

TEST_CASE("fused convolutions", "[library][fused]") {
  for (bool last : {false, true}) {
    check({2, 3, 16, 9, 3, 1, 2, last, true, false, false, "relu"});
    check({1, 16, 32, 6, 1, 1, 1, last, true, true, true, "relu"});
    check({3, 8, 8, 7, 3, 8, 1, last, true, false, false, "clip"});
    check({1, 6, 4, 5, 3, 2, 1, last, false, true, true, ""});
    check({2, 5, 7, 4, 1, 1, 1, last, false, false, true, "clip"});
  }
}

TEST_CASE("fused convolutions by minimal filtering", "[library][fused]") {
  check({2, 32, 32, 28, 3, 1, 1, true, true, true, true, "relu", true});
  check({1, 48, 32, 37, 3, 1, 1, true, false, true, false, "clip", true}); // tiles over the edge
  check({3, 144, 80, 14, 3, 1, 1, true, false, false, true, "", true});
  // Other shapes are computed directly, whatever is asked for.
  check({1, 8, 32, 28, 3, 1, 1, true, false, true, false, "", true});
  check({1, 32, 32, 28, 3, 1, 2, true, false, false, false, "relu", true});
  check({1, 32, 32, 28, 3, 2, 1, true, false, false, false, "", true});
  check({1, 32, 40, 14, 3, 1, 1, false, true, false, false, "relu", true});
  check({2, 16, 16, 6, 3, 1, 1, true, true, false, false, "relu", true});
}

namespace {

/// 32 channels of noise, 3x3 windows on 28 x 28 pixels, and what becomes of it.
OpCall noise(bool winograd) {
  OpCall call;
  call.op = "fused_conv2d";
  call.inputs = {{"in", randomTensor(kFloat, {1, 28, 28, 32}, 1)}, {"weight", randomTensor(kFloat, {32, 32, 3, 3}, 2)}};
  call.constants = {"weight"};
  call.attrs = {{"padding_before", Ints{1, 1}},
                {"data_format", std::string("channels_last")},
                {"activation", std::string("relu")},
                {"winograd", winograd}};
  return call;
}

std::vector<double> valuesOf(const OpCall &call) { return run(call).at("out").values; }

} // namespace

TEST_CASE("fused convolutions by minimal filtering: what is far from the rest", "[library][fused]") {
  const size_t pixel = (z(9) * 28 + 13) * 32 + 5; // row 9, column 13, channel 5
  for (const double value : {double(INFINITY), -double(INFINITY), double(NAN), 1e30, 1e7}) {
    OpCall fast = noise(true), direct = noise(false);
    for (OpCall *call : {&fast, &direct}) call->inputs[0].second.values[pixel] = value;
    const std::vector<double> got = valuesOf(fast), expected = valuesOf(direct);
    size_t differ = 0;
    for (size_t i = 0; i < got.size(); ++i) {
      const bool same = std::isnan(expected[i]) ? std::isnan(got[i])
                        : std::isinf(expected[i])
                            ? got[i] == expected[i]
                            : std::abs(got[i] - expected[i]) <= 1e-4 + 1e-5 * std::abs(expected[i]);
      // A relu of the library loses NaN where nobody makes the run again (opc/NanKeeping.h).
      if (!same && !(std::isnan(got[i]) && expected[i] == 0)) ++differ;
    }
    INFO("a pixel of " << value);
    CHECK(differ == 0);
  }
  for (const double value : {double(INFINITY), double(NAN), 1e20}) {
    OpCall fast = noise(true), direct = noise(false);
    for (OpCall *call : {&fast, &direct}) call->inputs[1].second.values[100] = value; // of filter 0
    const std::vector<double> got = valuesOf(fast), expected = valuesOf(direct);
    size_t differ = 0;
    for (size_t i = 0; i < got.size(); ++i)
      if (i % 32 != 0 && std::abs(got[i] - expected[i]) > 1e-4) ++differ;
    INFO("a weight of " << value);
    CHECK(differ == 0);
  }
}

TEST_CASE("fused convolutions by minimal filtering are other sums", "[library][fused]") {
  CHECK(valuesOf(noise(true)) != valuesOf(noise(false)));
}

TEST_CASE("fused convolutions: what they refuse", "[library][fused]") {
  OpCall call;
  call.op = "fused_conv2d";
  call.inputs = {{"in", randomTensor(kFloat, {1, 2, 4, 4}, 1)}, {"weight", randomTensor(kFloat, {3, 2, 1, 1}, 2)}};
  OpCall bad = call;
  bad.attrs["activation"] = std::string("swish");
  CHECK(errorOf(bad).find("activation is \"swish\"") != std::string::npos);
  bad.attrs = {{"activation", std::string("clip")}, {"activation_min", 1.0}, {"activation_max", 0.5}};
  CHECK(errorOf(bad).find("activation_min is 1, expected activation_max or less, which is 0.5") != std::string::npos);
  bad = call;
  bad.inputs.push_back({"gamma", randomTensor(kFloat, {3}, 3)});
  CHECK(errorOf(bad).find("must be given together") != std::string::npos);
  bad = call;
  bad.inputs.push_back({"bias", randomTensor(kFloat, {2}, 3)});
  CHECK(errorOf(bad).find("one element for each of the 3 filters") != std::string::npos);
  bad = call;
  bad.inputs[0].second = randomTensor(kDouble, {1, 2, 4, 4}, 1);
  CHECK(errorOf(bad).find("expected f32") != std::string::npos);
}
