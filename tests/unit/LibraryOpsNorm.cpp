// Softmax and the normalisations against plain loops.
// SPDX-License-Identifier: Apache-2.0
#include "OpCall.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

using namespace opc;
using namespace opc::test;

namespace {

const DataType kFloatingTypes[] = {kFloat, kDouble, kFloat16, kBFloat16};
size_t z(int64_t i) { return static_cast<size_t>(i); }

std::vector<double> softmaxOf(const std::vector<double> &x, int64_t n, bool log) {
  std::vector<double> y(x.size());
  for (size_t r = 0; r + z(n) <= x.size() && n > 0; r += z(n)) {
    double max = -INFINITY, sum = 0;
    for (size_t i = r; i < r + z(n); ++i) max = std::max(max, x[i]);
    for (size_t i = r; i < r + z(n); ++i) sum += std::exp(x[i] - max);
    for (size_t i = r; i < r + z(n); ++i) y[i] = log ? x[i] - max - std::log(sum) : std::exp(x[i] - max) / sum;
  }
  return y;
}

struct Statistics {
  double mean, inverse;
};
/// Over the elements `index(0..n-1)` of x.
template <class F> Statistics statistics(const std::vector<double> &x, int64_t n, double epsilon, F index) {
  double mean = 0, variance = 0;
  for (int64_t i = 0; i < n; ++i) mean += x[z(index(i))];
  mean /= static_cast<double>(n);
  for (int64_t i = 0; i < n; ++i) variance += (x[z(index(i))] - mean) * (x[z(index(i))] - mean);
  return {mean, 1 / std::sqrt(variance / static_cast<double>(n) + epsilon)};
}

} // namespace

TEST_CASE("softmax and log_softmax equal plain loops", "[library]") {
  for (DataType type : kFloatingTypes)
    for (Shape shape : {Shape{1}, Shape{3, 1}, Shape{5, 13}, Shape{2, 3, 100}, Shape{70, 257}, Shape{0, 4}, Shape{4, 0},
                        Shape{300, 10}})
      for (double range : {1.0, 80.0}) {
        INFO(dataTypeName(type) << " " << shape.ToString() << " " << range);
        const TestTensor x = randomTensor(type, shape, 7, -range, range);
        const int64_t n = shape.At(shape.NumAxes() - 1);
        requireClose(runEverywhere({"softmax", {{"in", x}}, {}, {}, {}}).at("out"), softmaxOf(x.values, n, false),
                     toleranceOf(type), 1e-6);
        requireClose(runEverywhere({"log_softmax", {{"in", x}}, {}, {}, {}}).at("prob"), softmaxOf(x.values, n, true),
                     toleranceOf(type), toleranceOf(type));
      }
}

TEST_CASE("softmax of extreme rows", "[library]") {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  for (DataType type : {kFloat, kDouble}) {
    auto run = [&](std::vector<double> v) {
      const int64_t n = static_cast<int64_t>(v.size());
      return test::run({"softmax", {{"in", tensorOf(type, {n}, v)}}, {}, {}, {}}).at("out");
    };
    requireClose(run({-inf, 0, 0, -inf}), {0, 0.5, 0.5, 0}, 1e-6, 0);
    requireClose(run({1e30, -1e30, 0}), {1, 0, 0}, 0, 0);
    requireClose(run({3e4, 3e4}), {0.5, 0.5}, 1e-6, 0);
    requireClose(run({0, nan, 1}), {nan, nan, nan}, 0, 0);
    requireClose(run({-inf, -inf}), {nan, nan}, 0, 0);
    requireClose(run({inf, 0}), {nan, nan}, 0, 0);
  }
  CHECK_THAT(errorOf({"softmax", {{"in", tensorOf(kFloat, {}, {1})}}, {}, {}, {}}), Catch::Contains("no last axis"));
  CHECK_THAT(errorOf({"softmax", {{"in", tensorOf(kInt32, {1}, {1})}}, {}, {}, {}}),
             Catch::Contains("expected a floating type"));
}

TEST_CASE("layer_norm equals plain loops", "[library]") {
  for (DataType type : kFloatingTypes)
    for (int variant = 0; variant < 4; ++variant) {
      const Shape shape{3, 5, 37};
      const int64_t normAxis = variant == 3 ? 1 : 2, paramAxis = variant == 2 ? 1 : 2;
      OpCall call{"layer_norm",
                  {{"x", randomTensor(type, shape, 1, -3, 5)}},
                  {{"begin_norm_axis", normAxis}, {"begin_params_axis", paramAxis - 3}, {"epsilon", 1e-3}},
                  {},
                  {}};
      const int64_t period = shape.Count(paramAxis), n = shape.Count(normAxis);
      const DataType paramType = variant == 1 && type == kFloat16 ? kFloat : type;
      const Shape paramShape(DimVector(shape.begin() + paramAxis, shape.end()));
      const TestTensor gamma = randomTensor(paramType, paramShape, 2, 0.5, 2),
                       beta = randomTensor(paramType, paramShape, 3);
      const bool affine = variant > 0;
      if (affine) {
        call.inputs.push_back({"beta", beta});
        call.inputs.push_back({"gamma", gamma});
        call.attrs["center"] = true;
        call.attrs["scale"] = true;
      }
      std::vector<double> y, mean, inverse;
      const auto &x = call.inputs[0].second.values;
      for (int64_t r = 0; r < shape.elem_cnt() / n; ++r) {
        const Statistics s = statistics(x, n, 1e-3, [&](int64_t i) { return r * n + i; });
        mean.push_back(s.mean);
        inverse.push_back(s.inverse);
        for (int64_t i = r * n; i < (r + 1) * n; ++i)
          y.push_back((x[z(i)] - s.mean) * s.inverse * (affine ? gamma.values[z(i % period)] : 1) +
                      (affine ? beta.values[z(i % period)] : 0));
      }
      INFO(dataTypeName(type) << " " << variant);
      const auto out = runEverywhere(call);
      requireClose(out.at("y"), y, toleranceOf(type), toleranceOf(type));
      requireClose(out.at("mean"), mean, 1e-5, 1e-5);
      requireClose(out.at("inv_variance"), inverse, 1e-5, 1e-5);
      REQUIRE(out.at("mean").type() == (type == kDouble ? kDouble : kFloat));
    }
  const TestTensor x = randomTensor(kFloat, {2, 3}, 1);
  CHECK_THAT(errorOf({"layer_norm", {{"x", x}}, {{"center", true}}, {}, {}}),
             Catch::Contains("center is true, but beta is not given"));
  CHECK_THAT(errorOf({"layer_norm", {{"x", x}}, {{"begin_norm_axis", int64_t{2}}}, {}, {}}),
             Catch::Contains("begin_norm_axis is 2"));
  CHECK_THAT(
      errorOf({"layer_norm", {{"x", x}, {"gamma", x}}, {{"scale", true}, {"begin_params_axis", int64_t{1}}}, {}, {}}),
      Catch::Contains("gamma is f32[2,3], expected the shape (3)"));
}

TEST_CASE("rms_norm and l2_normalize equal plain loops", "[library]") {
  for (DataType type : kFloatingTypes) {
    const TestTensor x = randomTensor(type, {4, 3, 21}, 1, -3, 3), weight = randomTensor(type, {21}, 2, 0.5, 2);
    auto out = runEverywhere({"rms_norm", {{"x", x}, {"weight", weight}}, {{"normalized_shape", Shape{21}}}, {}, {}});
    std::vector<double> y, inverse;
    for (int64_t r = 0; r < 12; ++r) {
      double sum = 0;
      for (int64_t i = 0; i < 21; ++i) sum += x.values[z(r * 21 + i)] * x.values[z(r * 21 + i)];
      inverse.push_back(1 / std::sqrt(sum / 21 + 1e-5));
      for (int64_t i = 0; i < 21; ++i) y.push_back(x.values[z(r * 21 + i)] * inverse.back() * weight.values[z(i)]);
    }
    requireClose(out.at("y"), y, toleranceOf(type), toleranceOf(type));
    requireClose(out.at("inv_rms"), inverse, 1e-5, 1e-5);
    for (int32_t axis : {0, 1, 2}) {
      out = runEverywhere({"l2_normalize", {{"x", x}}, {{"axis", axis}, {"epsilon", 1e-6f}}, {}, {}});
      const int64_t n = x.shape().At(axis), inner = x.shape().Count(axis + 1);
      y.assign(x.values.size(), 0);
      for (int64_t i = 0; i < 252; ++i) {
        double sum = 0;
        for (int64_t c = 0; c < n; ++c) {
          const double v = x.values[z(i / (n * inner) * n * inner + c * inner + i % inner)];
          sum += v * v;
        }
        y[z(i)] = x.values[z(i)] / std::sqrt(std::max(sum, 1e-6));
      }
      requireClose(out.at("y"), y, toleranceOf(type), toleranceOf(type));
      REQUIRE(out.at("square_x_sum").shape().At(axis) == 1);
    }
  }
}

TEST_CASE("normalization equals plain loops, given or computed statistics", "[library]") {
  for (DataType type : kFloatingTypes)
    for (int32_t axis : {1, 2})
      for (bool training : {false, true})
        for (bool adds : {false, true}) {
          const Shape shape{4, 9, 70};
          const int64_t channels = shape.At(axis), inner = shape.Count(axis + 1);
          OpCall call{"normalization",
                      {{"x", randomTensor(type, shape, 1, -3, 5)},
                       {"moving_mean", randomTensor(type, {channels}, 2)},
                       {"moving_variance", randomTensor(type, {channels}, 3, 0.5, 2)},
                       {"gamma", randomTensor(type, {channels}, 4, 0.5, 2)},
                       {"beta", randomTensor(type, {channels}, 5)}},
                      {{"axis", axis}, {"epsilon", 1e-3f}, {"training", training}},
                      {{"mean", 1}, {"inv_variance", 1}},
                      {}};
          if (adds) call.inputs.push_back({"_add_to_output", randomTensor(type, shape, 6)});
          const auto &in = call.inputs;
          const int64_t count = shape.elem_cnt() / channels;
          std::vector<double> y(z(shape.elem_cnt()));
          for (int64_t c = 0; c < channels; ++c) {
            const auto index = [&](int64_t i) { return (i / inner * channels + c) * inner + i % inner; };
            Statistics s = statistics(in[0].second.values, count, 1e-3, index);
            if (!training) s = {in[1].second.values[z(c)], 1 / std::sqrt(in[2].second.values[z(c)] + 1e-3)};
            for (int64_t i = 0; i < count; ++i) {
              const size_t at = z(index(i));
              y[at] = (in[0].second.values[at] - s.mean) * s.inverse * in[3].second.values[z(c)] +
                      in[4].second.values[z(c)] + (adds ? in[5].second.values[at] : 0);
            }
          }
          INFO(dataTypeName(type) << " " << axis << training << adds);
          requireClose(runEverywhere(call).at("y"), y, type == kDouble ? 1e-6 : toleranceOf(type),
                       type == kDouble ? 1e-6 : toleranceOf(type) * 2);
        }
  for (DataType type : {kFloat, kDouble}) { // of images without pixels there is nothing to read
    const TestTensor nothing = tensorOf(type, {2, 3, 0}, {}), one = randomTensor(type, {3}, 1);
    const auto out = runEverywhere({"normalization",
                                    {{"x", nothing}, {"gamma", one}, {"beta", one}},
                                    {{"axis", int32_t{1}}, {"training", true}},
                                    {{"mean", 1}, {"inv_variance", 1}},
                                    {}});
    for (const char *statistic : {"mean", "inv_variance"})
      for (double v : out.at(statistic).values) CHECK(std::isnan(v));
  }
  const TestTensor x = randomTensor(kFloat, {2, 3}, 1), c = randomTensor(kFloat, {3}, 1);
  CHECK_THAT(errorOf({"normalization", {{"x", x}, {"gamma", c}, {"beta", c}}, {{"axis", int32_t{1}}}, {}, {}}),
             Catch::Contains("moving_mean and moving_variance are missing"));
  CHECK_THAT(errorOf({"normalization", {{"x", x}, {"gamma", c}, {"beta", c}}, {{"training", true}}, {}, {}}),
             Catch::Contains("gamma is f32[3], expected the shape (2)"));
}

TEST_CASE("group_norm equals plain loops", "[library]") {
  for (DataType type : kFloatingTypes)
    for (bool last : {false, true})
      for (int32_t groups : {1, 2, 6}) {
        const int64_t samples = 3, channels = 6, spatial = 35;
        const Shape shape = last ? Shape{samples, 5, 7, channels} : Shape{samples, channels, 5, 7};
        OpCall call{"group_norm",
                    {{"x", randomTensor(type, shape, 1, -3, 5)},
                     {"beta", randomTensor(type, {channels}, 2)},
                     {"gamma", randomTensor(type, {channels}, 3, 0.5, 2)}},
                    {{"affine", true},
                     {"num_groups", groups},
                     {"epsilon", 1e-3},
                     {"data_format", last ? "channels_last" : "channels_first"},
                     {"activation", groups == 2 ? "silu" : "none"}},
                    {},
                    {}};
        const auto &x = call.inputs[0].second.values;
        const int64_t own = channels / groups;
        std::vector<double> y(x.size());
        for (int64_t n = 0; n < samples; ++n)
          for (int64_t g = 0; g < groups; ++g) {
            const auto index = [&](int64_t i) {
              const int64_t c = g * own + i / spatial, s = i % spatial;
              return last ? (n * spatial + s) * channels + c : (n * channels + c) * spatial + s;
            };
            const Statistics s = statistics(x, own * spatial, 1e-3, index);
            for (int64_t i = 0; i < own * spatial; ++i) {
              const int64_t c = g * own + i / spatial;
              double v = (x[z(index(i))] - s.mean) * s.inverse * call.inputs[2].second.values[z(c)] +
                         call.inputs[1].second.values[z(c)];
              if (groups == 2) v = v / (1 + std::exp(-v));
              y[z(index(i))] = v;
            }
          }
        INFO(dataTypeName(type) << last << groups);
        requireClose(runEverywhere(call).at("y"), y, toleranceOf(type), toleranceOf(type));
      }
  CHECK_THAT(errorOf({"group_norm", {{"x", randomTensor(kFloat, {1, 5, 2}, 1)}}, {{"num_groups", int32_t{2}}}, {}, {}}),
             Catch::Contains("has 5 channels"));
}
