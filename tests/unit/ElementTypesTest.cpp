// The table of element types: numbers as in graph files, lists, dispatch, conversions of 8-bit floats.
// SPDX-License-Identifier: Apache-2.0
#include "graph.pb.h"
#include "opc/Convert.h"
#include "opc/PackedElements.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <set>

using namespace opc;

TEST_CASE("graph files have the table's types under the table's numbers", "[types]") {
  const auto *names = graph::DataTypeProto_descriptor();
  std::set<std::string> known;
#define OPC_ELEMENT(enumerator, ...) known.insert(#enumerator);
  OPC_OTHER_DATA_TYPES(OPC_ELEMENT)
  OPC_ELEMENT_TYPES(OPC_ELEMENT)
#undef OPC_ELEMENT
  CHECK(static_cast<size_t>(names->value_count()) == known.size());
  for (int i = 0; i < names->value_count(); ++i) {
    const auto type = static_cast<DataType>(names->value(i)->number());
    INFO(names->value(i)->name());
    CHECK(known.count(std::string(names->value(i)->name())) == 1);
    CHECK(DataType_Name(type) == names->value(i)->name());
    CHECK((type == kInvalidDataType || parseDataType(DataType_Name(type)) == type));
  }
  CHECK(std::string(dataTypeName(static_cast<DataType>(999))) == "invalid");
  CHECK(parseDataType("") == kInvalidDataType);
  CHECK(parseDataType("float8_e5m2") == kFloat8E5M2);
}

TEST_CASE("every type has one name of each kind, and its size", "[types]") {
  std::set<std::string> names;
  for (DataType type : dataTypes<types::All>()) {
    const ElementType &t = elementType(type);
    INFO(t.name);
    CHECK(t.type == type);
    for (const char *name : {t.name, t.graphName, t.safetensors}) CHECK(names.insert(name).second);
    CHECK(names.insert("onnx " + std::to_string(t.onnx)).second);
    CHECK(visit(type, [](auto tag) { return sizeof(typename decltype(tag)::type); }) == GetSizeOfDataType(type));
    CHECK(isTensorDataType(type));
  }
  CHECK_FALSE(isTensorDataType(kComplex64));
  CHECK(dataTypes<types::Integers>().size() == 8);
  CHECK(contains<types::Numbers>(kUInt64));
  CHECK_FALSE(contains<types::Computed>(kFloat8E5M2));
  int called = 0;
  visit<types::Floating>(kInt32, [&](auto) { ++called; });
  CHECK(called == 0);
  CHECK_FALSE(visit<types::Floating>(kInt32, [](auto) { return true; }));
}

// The value of a code from the definition: sign, then 2^(e-bias) (1 + m / 2^M), or m / 2^M of the least exponent.
template <class F> static double defined(int code, int mantissa, int bias) {
  const int e = (code & 0x7f) >> mantissa, m = code & ((1 << mantissa) - 1);
  const double v = e ? std::ldexp(1 + std::ldexp(m, -mantissa), e - bias) : std::ldexp(m, 1 - bias - mantissa);
  return code & 0x80 ? -v : v;
}

TEMPLATE_TEST_CASE("8-bit floats are what their definition says", "[types]", float8_e4m3fn, float8_e5m2) {
  constexpr bool fn = std::is_same_v<TestType, float8_e4m3fn>;
  const int largest = fn ? 0x7e : 0x7b;
  auto at = [](int code) {
    TestType v;
    v.bits = static_cast<uint8_t>(code);
    return v;
  };
  for (int code = 0; code < 256; ++code) {
    const float got = static_cast<float>(at(code));
    INFO(code);
    if ((code & 0x7f) > largest) {
      CHECK((!fn && (code & 0x7f) == 0x7c ? std::isinf(got) : std::isnan(got)));
    } else {
      CHECK(static_cast<double>(got) == defined<TestType>(code, fn ? 3 : 2, fn ? 7 : 15));
      CHECK(std::signbit(got) == (code >= 128));
    }
    CHECK((std::isnan(got) || convertElement<TestType>(got, false).bits == code));
  }
  // Halfway between neighbours goes to the even one; a little more or less does not.
  for (int code = 0; code < largest; ++code) {
    const double a = static_cast<float>(at(code)), b = static_cast<float>(at(code + 1)), half = (a + b) / 2;
    INFO(code);
    CHECK(convertElement<TestType>(half).bits == (code % 2 ? code + 1 : code));
    CHECK(convertElement<TestType>(std::nextafter(half, a)).bits == code);
    CHECK(convertElement<TestType>(std::nextafter(half, b)).bits == code + 1);
    CHECK(convertElement<TestType>(-half).bits == (0x80 | (code % 2 ? code + 1 : code)));
  }
  CHECK(convertElement<TestType>(1e30).bits == largest);
  CHECK(convertElement<TestType>(-INFINITY).bits == (0x80 | largest));
  CHECK(convertElement<TestType>(1e30, false).bits == (fn ? 0x7f : 0x7c));
  CHECK(convertElement<TestType>(uint64_t{1} << 63, false).bits == (fn ? 0x7f : 0x7c));
  CHECK(std::isnan(static_cast<float>(convertElement<TestType>(NAN))));
  CHECK_FALSE(fitsElement<TestType>(1e30));
  CHECK(fitsElement<TestType>(INFINITY) == !fn);
}

TEST_CASE("floats of other formats are what their definitions say", "[types]") {
  // Without a negative zero or infinities; NaN is the code of -0; the bias is one larger.
  auto check = [](auto tag, int mantissa, int bias) {
    using T = decltype(tag);
    for (int code = 0; code < 256; ++code) {
      T v;
      v.bits = static_cast<uint8_t>(code);
      const float got = static_cast<float>(v);
      INFO(code);
      CHECK((code == 0x80 ? std::isnan(got) : static_cast<double>(got) == defined<T>(code, mantissa, bias)));
      CHECK((code == 0x80 || convertElement<T>(got, false).bits == code));
    }
    CHECK(convertElement<T>(-0.0f).bits == 0);
    CHECK(convertElement<T>(-1e-30f).bits == 0);
    CHECK(convertElement<T>(INFINITY).bits == 0x7f);
    CHECK(convertElement<T>(-1e30).bits == 0xff);
    CHECK(convertElement<T>(-1e30, false).bits == 0x80);
    CHECK(convertElement<T>(NAN).bits == 0x80);
  };
  check(float8_e4m3fnuz(), 3, 8);
  check(float8_e5m2fnuz(), 2, 16);
  for (int code = 0; code < 255; ++code) {
    const double v = std::ldexp(1.0, code - 127);
    INFO(code);
    CHECK(convertElement<float8_e8m0>(v).bits == code);
    CHECK(convertElement<float8_e8m0>(-v).bits == code);
    CHECK(static_cast<double>(numberOf(convertElement<float8_e8m0>(v))) == v);
    CHECK(convertElement<float8_e8m0>(std::nextafter(v, 0.0)).bits == code);
    if (code < 254) CHECK(convertElement<float8_e8m0>(std::nextafter(v, 1e300)).bits == code + 1);
  }
  CHECK(convertElement<float8_e8m0>(0x1.8p127).bits == 254);
  CHECK(convertElement<float8_e8m0>(0x1.8p127, false).bits == 255);
  CHECK(convertElement<float8_e8m0>(INFINITY).bits == 255);
  const double quarter[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
  for (int code = 0; code < 8; ++code) {
    CHECK(convertElement<float4_e2m1>(quarter[code]).bits == code);
    CHECK(convertElement<float4_e2m1>(-quarter[code]).bits == (code | 8));
    if (code < 7) CHECK(convertElement<float4_e2m1>((quarter[code] + quarter[code + 1]) / 2).bits == code + code % 2);
  }
  CHECK(convertElement<float4_e2m1>(NAN).bits == 7);
  CHECK(convertElement<float4_e2m1>(-INFINITY, false).bits == 15);
  CHECK(fitsElement<float4_e2m1>(6.99));
  CHECK_FALSE(fitsElement<float4_e2m1>(7.0));
  CHECK_FALSE(fitsElement<float4_e2m1>(NAN));
}

TEST_CASE("integers under a byte keep low bits, cut and saturate", "[types]") {
  CHECK(numberOf(convertElement<narrow_i4>(7)) == 7);
  CHECK(numberOf(convertElement<narrow_i4>(8)) == -8);
  CHECK(numberOf(convertElement<narrow_i4>(-9)) == 7);
  CHECK(numberOf(convertElement<narrow_u4>(-1)) == 15);
  CHECK(numberOf(convertElement<narrow_i2>(uint64_t{6})) == -2);
  CHECK(numberOf(convertElement<narrow_u2>(int8_t{-1})) == 3);
  CHECK(numberOf(convertElement<narrow_i4>(7.9)) == 7);
  CHECK(numberOf(convertElement<narrow_i4>(-7.9f)) == -7);
  CHECK(numberOf(convertElement<narrow_i4>(1e30)) == 7);
  CHECK(numberOf(convertElement<narrow_i4>(-INFINITY)) == -8);
  CHECK(numberOf(convertElement<narrow_u2>(NAN)) == 0);
  CHECK(convertElement<bool>(narrow_i2(-2)));
  CHECK(convertElement<float>(narrow_i2(-2)) == -2);
  CHECK(fitsElement<narrow_i4>(-8.5));
  CHECK_FALSE(fitsElement<narrow_i4>(8));
  CHECK_FALSE(fitsElement<narrow_u4>(-1));
  // Whatever stands in the upper bits of a byte.
  narrow_i4 v;
  v.value = 0x6d;
  CHECK(numberOf(v) == -3);
  const char bytes[] = {1, -1, 7, -8, 0};
  const std::string packed = packElements(kInt4, {bytes, 5});
  CHECK(packed == std::string("\xf1\x87\x00", 3));
  char back[5];
  unpackElements(kInt4, packed, back, 5);
  CHECK(std::equal(back, back + 5, bytes));
  CHECK(packedBytes(kUInt2, 5) == 2);
  CHECK(packedBytes(kInt8, 5) == 5);
}

TEST_CASE("numbers round once on the way to a short float", "[types]") {
  // Each is a little above halfway, by less than f32 or f64 can hold.
  CHECK(numberOf(convertElement<float16>(1 + 0x1p-11 + 0x1p-30)) == 1 + 0x1p-10f);
  CHECK(numberOf(convertElement<bfloat16>((int64_t{1} << 60) + (int64_t{1} << 52) + 1)) == 0x1.02p60f);
  CHECK(numberOf(convertElement<bfloat16>(-(int64_t{1} << 60) - (int64_t{1} << 52) - 1)) == -0x1.02p60f);
  CHECK(numberOf(convertElement<bfloat16>((uint64_t{1} << 63) + (uint64_t{1} << 55) + 1)) == 0x1.02p63f);
  CHECK(numberOf(convertElement<bfloat16>((int64_t{1} << 60) + (int64_t{1} << 52))) == 0x1p60f); // a tie
  CHECK(numberOf(convertElement<bfloat16>(INT64_MIN)) == -0x1p63f);
  CHECK(numberOf(convertElement<float16>((int32_t{1} << 11) + 1)) == 2048);
}
