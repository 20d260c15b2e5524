// npy: every type, order and version; damaged headers.
// SPDX-License-Identifier: Apache-2.0
#include "TensorIo.h"
#include "opc/PackedElements.h"

#include <catch2/catch.hpp>

#include <cstring>

namespace {

using namespace opc;

std::string npy(const std::string &dict, const std::string &data, char major = 1) {
  std::string s = "\x93NUMPY";
  s += major;
  s += '\0';
  const size_t length = dict.size();
  s += static_cast<char>(length & 0xff);
  s += static_cast<char>(length >> 8);
  if (major > 1) s += std::string(2, '\0');
  return s + dict + data;
}
std::string header(const std::string &descr, bool fortran, const std::string &shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + (fortran ? "True" : "False") + ", 'shape': " + shape +
         ", }\n";
}
template <class T> std::string bytesOf(std::initializer_list<T> values) {
  std::string s;
  for (T v : values) s.append(reinterpret_cast<const char *>(&v), sizeof v);
  return s;
}
std::string idOf(const std::string &bytes, const TensorReadOptions &options = {}) {
  Result<HostTensor> t = decodeNpy(bytes, "f.npy", options);
  if (t) return "ok";
  CHECK(t.status().message().rfind("f.npy: ", 0) == 0);
  return t.status().id();
}

TEST_CASE("npy headers of numpy are understood", "[npy]") {
  Result<HostTensor> t = decodeNpy(npy(header("<f4", false, "(2, 3)"), bytesOf<float>({1, 2, 3, 4, 5, 6})), "f");
  REQUIRE(t.isOk());
  CHECK(t->desc().toString() == "f32[2,3]");
  CHECK(t->as<float>()[4] == 5);
  CHECK(reinterpret_cast<uintptr_t>(t->data()) % 64 == 0);
  for (char version : {2, 3})
    CHECK(decodeNpy(npy(header("<f4", false, "()"), bytesOf<float>({1}), version), "f").isOk());
  CHECK(decodeNpy(npy("{\"shape\":(0,7),\"descr\":\"|u1\",\"fortran_order\":False}", ""), "f")->shape() == Shape{0, 7});
  CHECK(decodeNpy(npy(header("<i8", false, "(2L,)"), bytesOf<int64_t>({1, -1})), "f")->as<int64_t>()[1] == -1);
}

TEST_CASE("npy in Fortran order and big endian becomes row-major and native", "[npy]") {
  // [[1,2,3],[4,5,6]] column by column
  Result<HostTensor> t = decodeNpy(npy(header("<i2", true, "(2, 3)"), bytesOf<int16_t>({1, 4, 2, 5, 3, 6})), "f");
  REQUIRE(t.isOk());
  CHECK(std::vector<int16_t>(t->as<int16_t>(), t->as<int16_t>() + 6) == std::vector<int16_t>{1, 2, 3, 4, 5, 6});
  t = decodeNpy(npy(header(">i4", false, "(2,)"), std::string("\0\0\1\2\xff\xff\xff\xfe", 8)), "f");
  REQUIRE(t.isOk());
  CHECK(t->as<int32_t>()[0] == 258);
  CHECK(t->as<int32_t>()[1] == -2);
  t = decodeNpy(npy(header(">f8", true, "(1, 2)"), std::string("\x3f\xf0\0\0\0\0\0\0\x40\0\0\0\0\0\0\0", 16)), "f");
  REQUIRE(t.isOk());
  CHECK(t->as<double>()[0] == 1);
  CHECK(t->as<double>()[1] == 2);
}

TEST_CASE("bools are 0 or 1, V2 is bf16 only when the caller says so", "[npy]") {
  Result<HostTensor> t = decodeNpy(npy(header("|b1", false, "(3,)"), std::string("\0\1\x80", 3)), "f");
  REQUIRE(t.isOk());
  CHECK(t->as<uint8_t>()[2] == 1);
  const std::string v2 = npy(header("|V2", false, "(1,)"), std::string("\x80\x3f", 2));
  CHECK(idOf(v2) == "OPC0709");
  TensorReadOptions options;
  options.voidType = kBFloat16;
  t = decodeNpy(v2, "f", options);
  REQUIRE(t.isOk());
  CHECK(t->dtype() == kBFloat16);
  CHECK(static_cast<float>(t->as<bfloat16>()[0]) == 1);
}

TEST_CASE("damaged npy files are refused with their name", "[npy]") {
  const std::string good = npy(header("<f4", false, "(2, 3)"), bytesOf<float>({1, 2, 3, 4, 5, 6}));
  for (size_t n = 0; n < good.size(); ++n) {
    const std::string id = idOf(good.substr(0, n));
    REQUIRE((id == "OPC0701" || id == "OPC0702"));
  }
  CHECK(idOf(good + "x") == "OPC0702");
  CHECK(idOf(npy(header("<f4", false, "(99999999999999999999,)"), "")) == "OPC0701");
  CHECK(idOf(npy(header("<f4", false, "(9223372036854775807, 9)"), "")) == "OPC0708");
  CHECK(idOf(npy(header("<f4", false, "(-1,)"), "")) == "OPC0701");
  CHECK(idOf(npy(header("<c8", false, "(1,)"), "")) == "OPC0709");
  CHECK(idOf(npy(header("|O", false, "(1,)"), "")) == "OPC0709");
  CHECK(idOf(npy("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}", "")) == "OPC0709");
  CHECK(idOf(npy("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "0000")) == "OPC0701");
  CHECK(idOf(npy("{'descr': '<f4', 'fortran_order': False}", "")) == "OPC0701");
  CHECK(idOf(npy("__import__('os')", "")) == "OPC0701");
  CHECK(idOf(npy(header("<f4", false, "(1,) and 3"), "")) == "OPC0701");
  CHECK(idOf(npy(header("<f4", false, "()"), "0000", 4)) == "OPC0701");
  CHECK(idOf(npy(header("|u1", false, "(" + std::string(60, '1') + ")"), "")) == "OPC0701");
  std::string ones;
  for (int i = 0; i < 25; ++i) ones += "1,";
  CHECK(idOf(npy(header("|u1", false, "(" + ones + ")"), "1")) == "OPC0701");
  TensorReadOptions small;
  small.maxBytes = 8;
  CHECK(idOf(good, small) == "OPC0708");
}

TEST_CASE("npy is written as numpy writes it", "[npy]") {
  Result<HostTensor> t = HostTensor::create(kFloat, Shape{2, 3});
  const std::string bytes = encodeNpy(*t);
  CHECK(bytes.size() == 128 + 24);
  CHECK(bytes.substr(10, 60) == "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), } ");
  CHECK(bytes[127] == '\n');
  CHECK(npyHeader(kInt64, Shape{}).find("'shape': (), }") != std::string::npos);
  CHECK(npyHeader(kBool, Shape{5}).find("'|b1', 'fortran_order': False, 'shape': (5,), }") != std::string::npos);
  for (DataType type : dataTypes<types::All>()) {
    Result<HostTensor> in = HostTensor::create(type, Shape{3, 1, 2});
    for (size_t i = 0; i < in->bytes(); ++i)
      in->as<uint8_t>()[i] = type == kBool ? i & 1 : static_cast<uint8_t>(37 * i + 1);
    normalizeElements(type, in->as<char>(), in->bytes());
    TensorReadOptions options;
    options.voidType = type;
    Result<HostTensor> out = decodeNpy(encodeNpy(*in), "f", options);
    REQUIRE(out.isOk());
    CHECK(out->desc() == in->desc());
    CHECK(std::memcmp(out->data(), in->data(), in->bytes()) == 0);
  }
}

} // namespace
