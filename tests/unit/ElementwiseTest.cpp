// Elementwise operators run through their kernels: every op, case and dtype against its expression, and the edges.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Elementwise.h"
#include "OpCall.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <random>

using namespace opc;
using namespace opc::test;
using user_op::Case;
using user_op::OpDef;
using user_op::TensorDesc;

namespace {

struct Run {
  Status status;
  TestTensor out;
};

Run run(const std::string &name, const std::vector<TestTensor> &inputs,
        const std::map<std::string, AttrValue> &attrs = {}, int threads = 1, int inplace = -1) {
  const OpDef *def = registry().findOp(name);
  REQUIRE(def);
  OpCall call{name, {}, attrs, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) call.inputs.emplace_back(def->inputs[i].name, inputs[i]);
  CallOptions options{threads, 1, {}};
  if (inplace >= 0) options.inplace = {{0, inplace}};
  auto outputs = tryOp(call, options);
  if (!outputs) return {outputs.status(), {}};
  return {Status::ok(), (*outputs)[0]};
}

/// The element of a broadcast input that belongs to output element i.
int64_t sourceIndex(const Shape &in, const Shape &out, int64_t i) {
  int64_t index = 0, step = 1;
  for (int64_t axis = out.NumAxes(); axis-- > 0;) {
    const int64_t at = i % out.At(axis);
    i /= out.At(axis);
    const int64_t own = axis - (out.NumAxes() - in.NumAxes());
    if (own < 0) continue;
    if (in.At(own) != 1) index += at * step;
    step *= in.At(own);
  }
  return index;
}

double tolerance(DataType type) {
  switch (type) {
  case kDouble: return 1e-12;
  case kFloat16: return 2e-3;
  case kBFloat16: return 1.6e-2;
  default: return 4e-6;
  }
}

std::vector<DataType> kernelTypes(const OpDef &def) {
  std::vector<DataType> types;
  for (const auto *k : registry().kernels(def.name)) {
    const KernelTarget t = kernelTarget(*k);
    if (t.device == "cpu" && !t.dtype.empty()) types.push_back(parseDataType(t.dtype));
  }
  return types;
}

} // namespace

TEST_CASE("every elementwise op computes its expression, for each case and dtype", "[elementwise]") {
  std::mt19937 random(11);
  int ops = 0;
  for (const OpDef *def : registry().ops()) {
    if (!def->scalar) continue;
    ++ops;
    std::vector<DataType> types = kernelTypes(*def);
    if (types.empty())
      types = {kFloat, kDouble, kFloat16, kBFloat16, kInt8, kUInt8, kInt32, kInt64, kBool}; // where, masked_fill
    for (const Case &c : def->cases)
      for (DataType type : types) {
        INFO(def->name << ", case " << c.name() << ", " << dataTypeName(type));
        std::vector<TestTensor> inputs;
        for (const auto &in : c.inputs()) {
          const DataType own = in.type == kInvalidDataType ? type : in.type;
          inputs.push_back(tensorFrom(own, in.shape, [&](int64_t) {
            const double u = static_cast<double>(random()) / 4294967296.0;
            return own == kBool ? static_cast<double>(random() % 2) : in.lo + (in.hi - in.lo) * u;
          }));
        }
        const Run r = run(def->name, inputs, c.attrs());
        INFO(r.status.toString());
        REQUIRE(r.status.isOk());
        const Run again = run(def->name, inputs, c.attrs(), 3);
        REQUIRE(again.out == r.out);

        user_op::OpConf conf;
        for (const auto &a : def->attrs)
          if (!a.defaultValue.empty()) conf.attrs[a.name] = a.defaultValue;
        for (const auto &[n, v] : c.attrs()) conf.attrs[n] = v;
        std::vector<double> attrs;
        if (def->scalar->attributes)
          for (const auto &v : def->scalar->attributes(user_op::UserOpConfWrapper(conf), type))
            attrs.push_back(IsFloatingDataType(type) ? v.real : static_cast<double>(v.as<int64_t>()));
        for (int64_t i = 0; i < r.out.elements(); ++i) {
          std::vector<double> at;
          for (const TestTensor &v : inputs) at.push_back(element(v, sourceIndex(v.shape(), r.out.shape(), i)));
          at.insert(at.end(), attrs.begin(), attrs.end());
          double expected = def->scalar->evaluate(at);
          if (def->name == "bitwise_not" && type == kBool) expected = 1 - at[0]; // the expression is for integers
          const double got = element(r.out, i);
          INFO("element " << i << ": got " << got << ", expected " << expected);
          if (r.out.type() == kBool) expected = expected != 0;
          if (r.out.type() == kBool || IsFloatingDataType(r.out.type())) {
            if (std::isnan(expected)) {
              REQUIRE(std::isnan(got));
            } else {
              // 16-bit outputs are compared after rounding once more; the largest finite f16 is a bound too.
              if (r.out.type() == kFloat16 && std::fabs(expected) > 65519) continue;
              REQUIRE(std::fabs(got - expected) <= tolerance(r.out.type()) * std::max(1.0, std::fabs(expected)));
            }
          } else {
            // Division by zero and negative powers are the integers' own (see the next tests); wrapping is modulo 2^n.
            if (!std::isfinite(expected)) continue;
            if (def->name.find("div") != std::string::npos || def->name.find("pow") != std::string::npos)
              expected = std::trunc(expected);
            const double range = std::ldexp(1.0, static_cast<int>(GetSizeOfDataType(r.out.type())) * 8);
            if (range > 1e15) {
              // The rounding to double takes the small remainder of what wrapped.
              REQUIRE((got == expected || (r.out.type() == kUInt64 && got - expected == range)));
            } else {
              REQUIRE(std::fmod(got - expected, range) == 0);
            }
          }
        }
      }
  }
  CHECK(ops >= 100);
}

TEST_CASE("integer kernels define division by zero and wrap around", "[elementwise]") {
  auto ints = [](const std::string &op, std::vector<double> x, std::vector<double> y) {
    const Run r = run(op, {tensorOf(kInt32, {static_cast<int64_t>(x.size())}, x),
                           tensorOf(kInt32, {static_cast<int64_t>(y.size())}, y)});
    REQUIRE(r.status.isOk());
    std::vector<double> v;
    for (int64_t i = 0; i < r.out.elements(); ++i) v.push_back(element(r.out, i));
    return v;
  };
  using V = std::vector<double>;
  const double low = -2147483648.0;
  CHECK(ints("broadcast_div", {7, -7, 5, low}, {2, 2, 0, -1}) == V{3, -3, 0, low});
  CHECK(ints("floordiv", {7, -7, 5, 7}, {2, 2, 0, -2}) == V{3, -4, 0, -4});
  CHECK(ints("broadcast_floor_mod", {7, -7, 5, 7}, {3, 3, 0, -3}) == V{1, 2, 0, -2});
  CHECK(ints("broadcast_fmod", {7, -7, 5, low}, {3, 3, 0, -1}) == V{1, -1, 0, 0});
  CHECK(ints("broadcast_pow", {2, 2, -1, 0}, {10, -1, -3, -1}) == V{1024, 0, -1, 0});
  CHECK(ints("broadcast_add", {2147483647}, {1}) == V{low});
}

TEST_CASE("scalar operands keep 64-bit integers exact and check their flags", "[elementwise]") {
  const int64_t big = (int64_t{1} << 53) + 1;
  const Run r = run("scalar_add", {tensorOf(kInt64, {2}, {0, 1})},
                    {{"has_int_operand", AttrValue(true)}, {"int_operand", AttrValue(big)}});
  REQUIRE(r.status.isOk());
  int64_t v[2];
  std::memcpy(v, r.out.data(), sizeof v);
  CHECK(v[0] == big);
  CHECK(v[1] == big + 1);
  CHECK(run("scalar_add", {tensorOf(kFloat, {1}, {0})})
            .status.toString()
            .find("neither has_int_operand nor has_float_operand") != std::string::npos);
  const Run old = run("scalar_pow", {tensorOf(kFloat, {2}, {3, 4})}, {{"exponent", AttrValue(2.0)}});
  REQUIRE(old.status.isOk());
  CHECK(element(old.out, 1) == 16);
}

TEST_CASE("broadcasting reaches every layout, in any number of threads, and in place", "[elementwise]") {
  struct Pair {
    Shape x, y;
  };
  const Pair pairs[] = {{{40000}, {40000}},
                        {{300, 200}, {200}},
                        {{300, 200}, {300, 1}},
                        {{1, 200}, {300, 1}},
                        {{3, 1, 5, 1}, {4, 1, 6}},
                        {{70, 2, 3, 100}, {1}},
                        {{2, 30000}, {30000}},
                        {{}, {50000}},
                        {{5, 1, 4000, 3}, {5, 7, 1, 3}}};
  for (DataType type : {kFloat, kFloat16, kInt8})
    for (const Pair &p : pairs) {
      INFO(p.x.ToString() << " " << p.y.ToString() << " " << dataTypeName(type));
      const TestTensor x = tensorFrom(type, p.x, [](int64_t i) { return static_cast<double>(i * 7 % 23) - 11; });
      const TestTensor y = tensorFrom(type, p.y, [](int64_t i) { return static_cast<double>(i * 5 % 17) - 8; });
      const Run r = run("broadcast_sub", {x, y});
      REQUIRE(r.status.isOk());
      bool equal = true;
      for (int64_t i = 0; i < r.out.elements(); ++i)
        equal = equal && element(r.out, i) == element(x, sourceIndex(p.x, r.out.shape(), i)) -
                                                  element(y, sourceIndex(p.y, r.out.shape(), i));
      CHECK(equal);
      CHECK(run("broadcast_sub", {x, y}, {}, 2).out == r.out);
      if (r.out.shape() == p.x) CHECK(run("broadcast_sub", {x, y}, {}, 2, 0).out == r.out);
      if (r.out.shape() == p.y) CHECK(run("broadcast_sub", {x, y}, {}, 1, 1).out == r.out);
    }
}

TEST_CASE("shape and dtype errors name the operands", "[elementwise]") {
  const TestTensor a = tensorOf(kFloat, {2, 3}, {1, 2, 3, 4, 5, 6}), b = tensorOf(kFloat, {2, 2}, {1, 2, 3, 4});
  const TestTensor c = tensorOf(kInt32, {2, 3}, {1, 2, 3, 4, 5, 6}), d = tensorOf(kFloat, {3}, {1, 2, 3});
  CHECK(run("broadcast_add", {a, b}).status.toString().find("x (2,3) and y (2,2)") != std::string::npos);
  CHECK(run("broadcast_add", {a, c}).status.toString().find("x is f32, y is i32") != std::string::npos);
  CHECK(run("multiply", {a, d}).status.toString().find("the shapes of x and y differ ((2,3) vs (3))") !=
        std::string::npos);
  CHECK(run("where", {a, a, a}).status.toString().find("condition is f32, expected bool") != std::string::npos);
}

TEST_CASE("limits beyond an integer type limit nothing, or everything", "[elementwise]") {
  const std::map<std::string, AttrValue> low{{"integral_min", AttrValue(int64_t{-1000})}},
      high{{"integral_max", AttrValue(int64_t{1000})}};
  for (DataType type : {kUInt8, kInt8}) {
    const TestTensor x = tensorOf(type, {3}, {0, 5, 100});
    CHECK(run("clip_by_scalar", {x}, {*low.begin(), *high.begin()}).out.values == x.values);
    CHECK(run("clip_by_scalar_min", {x}, low).out.values == x.values);
    CHECK(run("clip_by_scalar_max", {x}, high).out.values == x.values);
  }
  const TestTensor large = tensorOf<uint64_t>({2}, {3, UINT64_MAX});
  CHECK(run("clip_by_scalar_min", {large}, {{"integral_min", AttrValue(int64_t{-1})}}).out.as<uint64_t>() ==
        large.as<uint64_t>());
  const TestTensor bytes = tensorOf<uint8_t>({2}, {3, 255});
  CHECK(run("clip_by_scalar_min", {bytes}, {{"integral_min", AttrValue(int64_t{256})}}).out.as<uint8_t>() ==
        std::vector<uint8_t>{255, 255});
  CHECK(run("clip_by_scalar_max", {bytes}, {{"integral_max", AttrValue(int64_t{-1})}}).out.as<uint8_t>() ==
        std::vector<uint8_t>{0, 0});
}

TEST_CASE("NaN passes through relu, clip and the extrema", "[elementwise]") {
  const double nan = std::nan("");
  CHECK(std::isnan(run("relu", {tensorOf(kFloat, {1}, {nan})}).out.values[0]));
  CHECK(std::isnan(run("clip_by_scalar", {tensorOf(kFloat, {1}, {nan})},
                       {{"floating_min", AttrValue(0.0)}, {"floating_max", AttrValue(1.0)}})
                       .out.values[0]));
  CHECK(
      std::isnan(run("broadcast_maximum", {tensorOf(kDouble, {1}, {nan}), tensorOf(kDouble, {1}, {1})}).out.values[0]));
  CHECK(std::isnan(
      run("broadcast_minimum", {tensorOf(kBFloat16, {1}, {1}), tensorOf(kBFloat16, {1}, {nan})}).out.values[0]));
}
