// Values by name: types from headers alone, elements straight to their place, casts by blocks.
// SPDX-License-Identifier: Apache-2.0
#include "NamedValues.h"
#include "OutputFiles.h"

#include "TensorIo.h"

#include <catch2/catch.hpp>

#include <filesystem>
#include <random>

using namespace opc;
using namespace opc::cli;

namespace {

/// A directory that goes away with the test.
struct Scratch {
  Scratch() {
    static std::random_device random;
    path = std::filesystem::temp_directory_path() / ("opc_values_" + std::to_string(random()));
    std::filesystem::create_directories(path);
  }
  ~Scratch() { std::filesystem::remove_all(path); }
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  std::filesystem::path path;
};

HostTensor iota(DataType type, const Shape &shape) {
  Result<HostTensor> t = HostTensor::create(type, shape);
  REQUIRE(t.isOk());
  fillIota(&*t);
  return std::move(*t);
}

NamedValues open(const std::vector<std::string> &specs, const std::string &archive = "") {
  Result<NamedValues> values = NamedValues::open(specs, archive, "--input");
  INFO(values.status().toString());
  REQUIRE(values.isOk());
  return std::move(*values);
}

Shape shapeOf(const NamedValues &values, const std::string &name) {
  const auto shape = values.shapeOf(name, kInvalidDataType);
  INFO(shape.status().toString());
  REQUIRE(shape.isOk());
  REQUIRE(shape->has_value());
  return **shape;
}

void flipLastByte(const std::string &path, size_t before) {
  Result<FileBytes> file = FileBytes::open(path);
  REQUIRE(file.isOk());
  std::string bytes(file->view());
  bytes[bytes.size() - before] ^= 1;
  REQUIRE(writeFileAtomically(path, bytes).isOk());
}

} // namespace

TEST_CASE("a shape comes from the header, whatever becomes of the elements", "[values]") {
  Scratch s;
  // A header that announces 4 TiB, and nothing after it.
  REQUIRE(writeFileAtomically(s / "huge.npy", npyHeader(kFloat, Shape({1 << 20, 1 << 20}))).isOk());
  NamedValues values = open({"x=@" + (s / "huge.npy"), "n=1,2,3", "t=f32[7]:iota"});
  const Result<TensorFile> huge = TensorFile::open(s / "huge.npy");
  REQUIRE(huge.isOk());
  CHECK(huge->describe()->shape() == Shape({1 << 20, 1 << 20}));
  CHECK(huge->read().status().id() == "OPC0702");
  CHECK(shapeOf(values, "x") == Shape({1 << 20, 1 << 20}));
  CHECK(shapeOf(values, "t") == Shape({7}));
  CHECK_FALSE(values.shapeOf("n", kInvalidDataType)->has_value());

  // A damaged element of an archive is no business of a shape; reading finds it.
  const HostTensor a = iota(kFloat, Shape({5, 3}));
  REQUIRE(writeNpz(s / "a.npz", {{"x", &a}}).isOk());
  const std::string directory = "PK\x01\x02";
  const std::string whole(FileBytes::open(s / "a.npz")->view());
  flipLastByte(s / "a.npz", whole.size() - whole.find(directory) + 1);
  NamedValues damaged = open({}, s / "a.npz");
  CHECK(shapeOf(damaged, "x") == Shape({5, 3}));
  CHECK(damaged.make({"x", std::nullopt, 0, false}).status().id() == "OPC0702");
  HostTensor to = iota(kFloat, Shape({5, 3}));
  CHECK(damaged.readInto({"x", a.desc(), 0, false}, to.data()).status().id() == "OPC0702");

  REQUIRE(writeOnnxTensor(s / "x.pb", "x", a).isOk());
  CHECK(shapeOf(open({"x=@" + (s / "x.pb")}), "x") == Shape({5, 3}));
  REQUIRE(writeSafetensors(s / "x.safetensors", {{"x", &a}}).isOk());
  CHECK(shapeOf(open({"x=@" + (s / "x.safetensors")}), "x") == Shape({5, 3}));
}

TEST_CASE("elements of every kind of file go straight to their place", "[values]") {
  Scratch s;
  const HostTensor a = iota(kFloat, Shape({4, 6}));
  REQUIRE(writeNpy(s / "a.npy", a).isOk());
  REQUIRE(writeNpz(s / "a.npz", {{"a", &a}}).isOk());
  REQUIRE(writeSafetensors(s / "a.safetensors", {{"a", &a}}).isOk());
  REQUIRE(writeOnnxTensor(s / "a.pb", "a", a).isOk());
  for (const char *spec : {"a.npy", "a.npz:a", "a.npz", "a.safetensors:a", "a.pb"}) {
    INFO(spec);
    NamedValues values = open({"x=@" + (s / spec)});
    HostTensor to = iota(kFloat, Shape({4, 6}));
    to.as<float>()[23] = -1;
    const Result<bool> done = values.readInto({"x", a.desc(), 0, false}, to.data());
    REQUIRE(done.isOk());
    CHECK(*done);
    CHECK(std::memcmp(to.data(), a.data(), a.bytes()) == 0);
    // Another shape or type is for make() and its message.
    CHECK_FALSE(*values.readInto({"x", user_op::TensorDesc(Shape({24}), kFloat), 0, true}, to.data()));
    CHECK_FALSE(*values.readInto({"x", user_op::TensorDesc(Shape({4, 6}), kDouble), 0, false}, to.data()));
  }
  CHECK_FALSE(*open({"x=1"}).readInto({"x", a.desc(), 0, false}, nullptr));
}

TEST_CASE("a cast goes by blocks and names the element that does not fit", "[values]") {
  Scratch s;
  const Shape shape({3, 200000}); // more than a block
  HostTensor a = iota(kInt32, shape);
  REQUIRE(writeNpy(s / "a.npy", a).isOk());
  NamedValues values = open({"x=@" + (s / "a.npy")});
  const user_op::TensorDesc real(shape, kDouble);
  HostTensor to = iota(kDouble, shape);
  std::memset(to.data(), 0, to.bytes());
  REQUIRE(*values.readInto({"x", real, 0, true}, to.data()));
  for (const int64_t i : {int64_t{0}, int64_t{262143}, int64_t{262144}, int64_t{599999}})
    CHECK(to.as<double>()[i] == static_cast<double>(i));
  const Result<bool> small = values.readInto({"x", user_op::TensorDesc(shape, kInt16), 0, true}, to.data());
  CHECK(small.status().id() == "OPC0703");
  CHECK(small.status().message() == "element 32768, 32768, does not fit i16");
}

TEST_CASE("outputs get files that stay in their directory", "[values]") {
  CHECK(outputPathIn("out", "a/b") == "out/a/b.npy");
  CHECK(outputPathIn("out", "../../etc/x") == "out/%2E%2E/%2E%2E/etc/x.npy");
  CHECK(outputPathIn("out", "/./x") == "out/%2E/x.npy");
  Scratch s;
  const std::vector<PortInfo> ports = {{"y", user_op::TensorDesc(Shape({2}), kFloat)},
                                       {"z", user_op::TensorDesc(Shape({2}), kFloat)}};
  CHECK(OutputFiles::plan({"w=@w.npy"}, "", ports, "g").status().id() == "OPC0005");
  CHECK(OutputFiles::plan({"y=" + (s / "a"), "z=" + (s / "a")}, "", ports, "g").status().id() == "OPC0002");
  const Result<OutputFiles> files = OutputFiles::plan({}, s / "out", ports, "g");
  REQUIRE(files.isOk());
  CHECK(files->files() ==
        std::vector<std::pair<std::string, std::string>>{{"y", s / "out/y.npy"}, {"z", s / "out/z.npy"}});
  PrintMode first;
  CHECK(printOption(&first).set({"3"}));
  CHECK(first.kind == PrintMode::Kind::kFirst);
  CHECK(first.count == 3);
  CHECK(printOption(&first).set({"-1"}).message() ==
        "--print takes none, summary, all or a number of values, not '-1'");
  CHECK(outputText({"y", iota(kInt32, Shape({5}))}, first) == "y  i32[5]  [0, 1, 2, ...]\n");
}
