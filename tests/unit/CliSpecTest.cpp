// The grammar of tensors on the command line, numbers, and what becomes of both.
// SPDX-License-Identifier: Apache-2.0
#include "NumberText.h"
#include "TensorSpec.h"

#include <catch2/catch.hpp>

#include <cmath>

using namespace opc;
using namespace opc::cli;

namespace {

Result<HostTensor> make(const std::string &text, std::optional<user_op::TensorDesc> expected = {}, bool cast = false) {
  Result<TensorSpec> spec = parseTensorSpec(text);
  if (!spec) return spec.status();
  return makeTensor(*spec, {"x", expected, 7, cast});
}

std::string valuesOf(const HostTensor &t) {
  std::string s;
  for (int64_t i = 0; i < t.elemCount(); ++i) s += (i ? " " : "") + elementText(t, i);
  return s;
}

user_op::TensorDesc desc(DataType type, Shape shape) { return user_op::TensorDesc(std::move(shape), type); }

} // namespace

TEST_CASE("typed numbers", "[cli][spec]") {
  auto t = make("f32[2,2]:1,2.5,-3e2,.5");
  REQUIRE(t);
  CHECK(t->desc() == desc(kFloat, Shape{2, 2}));
  CHECK(valuesOf(*t) == "1 2.5 -300 0.5");
  CHECK(valuesOf(*make("i64[2]:9223372036854775807,-9223372036854775808")) ==
        "9223372036854775807 -9223372036854775808");
  CHECK(valuesOf(*make("u64[1]:18446744073709551615")) == "18446744073709551615");
  CHECK(valuesOf(*make("bool[3]:true,0,1")) == "true false true");
  CHECK(valuesOf(*make("f32[]:0.1")) == "0.1");
  CHECK(valuesOf(*make("f64[3]:nan,-inf,inf")) == "nan -inf inf");
  CHECK(valuesOf(*make("i32[2]:1e3,2.0")) == "1000 2");
  CHECK(make("f32[0,3]:1")->elemCount() == 0);
  CHECK(valuesOf(*make("f16[5]:2")) == "2 2 2 2 2");
  CHECK(valuesOf(*make("f32[1]:1e-60")) == "0");
}

TEST_CASE("the graph's type stands in for a missing one", "[cli][spec]") {
  CHECK(valuesOf(*make("3.5", desc(kFloat, Shape{2}))) == "3.5 3.5");
  CHECK(valuesOf(*make("1,2,3", desc(kInt32, Shape{3}))) == "1 2 3");
  CHECK(valuesOf(*make("iota", desc(kInt64, Shape{2, 2}))) == "0 1 2 3");
  CHECK(make("3.5").status().id() == "OPC0003");
  CHECK(make("1,2", desc(kFloat, Shape{3})).status().id() == "OPC0003");
  CHECK(make("1", desc(kFloat, Shape{-1})).status().id() == "OPC0003"); // an open dimension has no size
}

TEST_CASE("generators", "[cli][spec]") {
  auto a = make("f32[1000]:rand(-2,3)"), b = make("f32[1000]:rand(-2,3)");
  REQUIRE(a);
  CHECK(valuesOf(*a) == valuesOf(*b));
  for (int64_t i = 0; i < 1000; ++i) {
    REQUIRE(elementAt(*a, i) >= -2);
    REQUIRE(elementAt(*a, i) < 3);
  }
  CHECK(make("f32[4]:randn"));
  CHECK(make("f32[4]:randn(1,0.5)"));
  CHECK(valuesOf(*make("f32[3]:ones")) == "1 1 1");
  CHECK(valuesOf(*make("bf16[2]:zeros")) == "0 0");
  for (const char *bad : {"f32[4]:rand(1)", "f32[4]:rand(3,1)", "f32[4]:rand(1,2", "f32[4]:randn(0,-1)",
                          "f32[4]:rand(nan,1)", "i32[4]:randn"})
    CHECK(make(bad).status().id() == "OPC0003");
  // Ranges in which a type has nothing, or of which it would leave out an end.
  for (const char *bad :
       {"i32[4]:rand(0.2,0.8)", "i8[4]:rand(200,300)", "u8[4]:rand(-3,-1)", "bool[4]:rand(1,1)", "bool[4]:rand(0,0.5)",
        "f16[4]:rand(-1e6,1e6)", "f32[4]:rand(-3e38,3e38)", "f32[4]:rand(0,1e39)", "f64[4]:rand(-1e308,1e308)",
        "f32[4]:randn(0,1e39)", "f16[4]:randn(1e5,1)"})
    CHECK(make(bad).status().id() == "OPC0003");
  for (const char *good : {"i32[4]:rand(0.2,1.8)", "u8[4]:rand(-3,1)", "bool[4]:rand(0,1)", "f16[4]:rand(-6e4,6e4)",
                           "f32[4]:rand(-1e38,1e38)", "u64[4]:rand(0,18446744073709551615)",
                           "i64[4]:rand(-9223372036854775808,9223372036854775807)"})
    CHECK(make(good));
  CHECK(valuesOf(*make("i32[3]:rand(0.2,1.8)")) == "1 1 1");
}

TEST_CASE("what does not fit is an error with the value in it", "[cli][spec]") {
  for (const char *bad : {"",
                          "f32[2]:",
                          "f32[-1]:1",
                          "f32[1,]:1",
                          "f32[99999999999999999999]:1",
                          "g32[2]:1",
                          "f32[2]:1,x",
                          "i8[1]:128",
                          "u8[1]:-1",
                          "i32[1]:2.5",
                          "f16[1]:70000",
                          "f32[1]:1e39",
                          "u64[1]:18446744073709551616",
                          "bool[1]:2",
                          "x.npy",
                          "@",
                          "f32[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]:0",
                          "f32[1]:1,5;2",
                          "++1",
                          "i64[1]:9223372036854775808"}) {
    INFO(bad);
    CHECK(make(bad, desc(kFloat, Shape{1})).status().id() == "OPC0003");
  }
}

TEST_CASE("files are told from values by '@', and names may hold anything", "[cli][spec]") {
  CHECK(parseTensorSpec("@a=b:c.npz:k/1")->path == "a=b:c.npz:k/1");
  CHECK(parseTensorSpec("@x.npy")->kind == TensorSpec::Kind::kFile);
  auto raw = parseTensorSpec("f32[2,3]:@dir/x.bin");
  CHECK(raw->kind == TensorSpec::Kind::kRaw);
  CHECK(raw->path == "dir/x.bin");
  CHECK(parseTensorSpec("@[odd]:name.npy")->kind == TensorSpec::Kind::kFile);
  auto named = splitNamed("a:b/c=f32[1]:1=2", "--input");
  CHECK(named->first == "a:b/c");
  CHECK(named->second == "f32[1]:1=2");
  CHECK(splitNamed("=x", "--input").status().id() == "OPC0003");
  CHECK(splitNamed("x", "--input").status().id() == "OPC0003");
  CHECK(make("@/nonexistent/x.npy").status().id() == "OPC0706");
}

TEST_CASE("conversion is asked for, and checked", "[cli][spec]") {
  auto f = make("f64[3]:1.5,-2.5,300");
  CHECK(valuesOf(*castTensor(*f, kFloat)) == "1.5 -2.5 300");
  CHECK(valuesOf(*castTensor(*f, kInt32)) == "1 -2 300");
  CHECK(make("f64[1]:1", desc(kFloat, Shape{1}))->dtype() == kDouble);
  CHECK(make("f64[1]:1", desc(kFloat, Shape{1}), true)->dtype() == kFloat);
  CHECK(castTensor(*f, kInt8).status().id() == "OPC0703");
  CHECK(castTensor(*f, kUInt16).status().id() == "OPC0703");
  CHECK(valuesOf(*castTensor(*make("f32[2]:0,-0.5"), kBool)) == "false true");
  CHECK(castTensor(*make("f64[1]:1e300"), kFloat).status().id() == "OPC0703");
  CHECK(castTensor(*make("f64[1]:nan"), kInt32).status().id() == "OPC0703");
  CHECK(valuesOf(*castTensor(*make("f64[1]:inf"), kFloat16)) == "inf");
  CHECK(castTensor(*make("f64[1]:9223372036854775808"), kInt64).status().id() == "OPC0703");
}

TEST_CASE("numbers as text", "[cli][numbers]") {
  CHECK(realText(0.1) == "0.1");
  CHECK(realText(1e-4) == "1e-4");
  CHECK(realText(1e22) == "1e22");
  CHECK(countText(1234567) == "1,234,567");
  CHECK(countText(123) == "123");
  CHECK(bytesText(1023) == "1023 B");
  CHECK(bytesText(1536) == "1.5 KiB");
  CHECK(bytesText(UINT64_MAX) == "16.0 EiB");
  CHECK(secondsText(0.0009999) == "1000 us");
  CHECK(*parseBytes("16G") == uint64_t{16} << 30);
  CHECK(*parseBytes("4096") == 4096);
  CHECK_FALSE(parseBytes("99999999999T"));
  CHECK_FALSE(parseBytes("G"));
  CHECK_FALSE(parseBytes("-1"));
  CHECK_FALSE(parseReal("1,5"));
  CHECK_FALSE(parseReal("0x10"));
  CHECK_FALSE(parseReal(""));
  CHECK_FALSE(parseInteger<int32_t>("2147483648"));
  CHECK(*parseInteger<int32_t>("+5") == 5);
}
