// Sessions that give back the memory of weights once the kernels have packed them.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "Session.h"
#include "TensorIo.h"
#include "TestRegistry.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>

using namespace opc;
using opc::test::registry;

namespace {

/// y = (a w) w^T's first rows: w is read packed by one product and as it lies by another; v by one only.
const char *const kGraph = R"(
op { name: "a" input_conf { out: "out" blob_conf { shape { dim: 16 dim: 256 } data_type: kFloat } } }
op { name: "v" variable_conf { out: "out" shape { dim: 256 dim: 256 } data_type: kFloat initializer { random_uniform_conf { min: -1 max: 1 } } } }
op { name: "w" variable_conf { out: "out" shape { dim: 256 dim: 256 } data_type: kFloat initializer { random_uniform_conf { min: -1 max: 1 } } } }
op { name: "p" user_conf { op_type_name: "matmul" input { key: "a" value { s: "a/out" } } input { key: "b" value { s: "v/out" } } output { key: "out" value { s: "p/out_0" } } } }
op { name: "q" user_conf { op_type_name: "matmul" input { key: "a" value { s: "p/out_0" } } input { key: "b" value { s: "w/out" } } output { key: "out" value { s: "q/out_0" } } } }
op { name: "e" user_conf { op_type_name: "square" input { key: "x" value { s: "w/out" } } output { key: "y" value { s: "e/y_0" } } } }
op { name: "y" output_conf { in: "q/out_0" out: "out" } }
op { name: "squares" output_conf { in: "e/y_0" out: "out" } }
)";

/// All rows that `a` has at most; the session's size decides how many are read.
void feed(Session &session) {
  auto *a = static_cast<float *>(session.inputData("a"));
  for (int i = 0; i < 16 * 256; ++i) a[i] = static_cast<float>(i % 7) - 3;
}

Session sessionOf(const std::string &graph, const CompileOptions &compile, bool keep) {
  Pipeline p(registry(), compile);
  REQUIRE(p.import("g", graph));
  REQUIRE(p.run(Phase::kPlan));
  SessionOptions options;
  options.threads = 1;
  options.keepPackedVariables = keep;
  auto s = Session::load(p.emit(Emit::kPlan), registry(), options);
  REQUIRE(s.isOk());
  return std::move(*s);
}

Session loaded(bool keep, int64_t fewestRows = 16) {
  CompileOptions compile;
  compile.shapes["a"] = {16, 256};
  if (fewestRows < 16) compile.sizes = {{{"rows", fewestRows, 16}}, {{"a", {0, -1}}}};
  Session s = sessionOf(kGraph, compile, keep);
  feed(s);
  return s;
}

bool sameBytes(const HostTensor &a, const HostTensor &b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

} // namespace

TEST_CASE("packed variables may be given back", "[session][packed]") {
  Session kept = loaded(true), lean = loaded(false);
  const HostTensor v = std::move(*lean.variable("v"));
  for (int i = 0; i < 2; ++i) {
    REQUIRE(kept.run().isOk());
    REQUIRE(lean.run().isOk());
    for (const char *output : {"y", "squares"}) REQUIRE(sameBytes(*kept.fetch(output), *lean.fetch(output)));
  }
  REQUIRE(sameBytes(*kept.variable("v"), v));
  REQUIRE(lean.variable("v").status().id() == "OPC0617");
  REQUIRE(lean.setVariable("v", v).id() == "OPC0617");
  // A variable that somebody reads as it lies stays.
  REQUIRE(sameBytes(*lean.variable("w"), *kept.variable("w")));
  REQUIRE(kept.setVariable("v", v).isOk());
  REQUIRE(lean.variableData("w") == nullptr);
}

TEST_CASE("a compiled plan whose weights were given back stays at its size", "[session][packed][sizes]") {
  Session kept = loaded(true, 1), lean = loaded(false, 1);
  REQUIRE(lean.setInputShape("a", Shape{4, 256}).isOk());
  REQUIRE(lean.setInputShape("a", Shape{16, 256}).isOk()); // nothing has been packed yet
  feed(kept), feed(lean);
  REQUIRE(kept.run().isOk());
  REQUIRE(lean.run().isOk());
  for (Session *s : {&kept, &lean}) {
    REQUIRE(s->setInputShape("a", Shape{4, 256}).isOk());
    feed(*s);
  }
  REQUIRE(kept.run().isOk());
  const Status refused = lean.run();
  REQUIRE(refused.id() == "OPC0617");
  REQUIRE(refused.message().find("from rows = 16 to rows = 4") != std::string::npos);
  for (Session *s : {&kept, &lean}) {
    REQUIRE(s->setInputShape("a", Shape{16, 256}).isOk());
    feed(*s);
    REQUIRE(s->run().isOk());
  }
  REQUIRE(sameBytes(*kept.fetch("y"), *lean.fetch("y")));
}

TEST_CASE("variables are filled in place", "[session][packed]") {
  Session s = loaded(false), other = loaded(true);
  REQUIRE(s.variableData("no") == nullptr);
  auto *w = static_cast<float *>(s.variableData("w"));
  auto tensor = HostTensor::create(kFloat, Shape{256, 256});
  for (int i = 0; i < 256 * 256; ++i) w[i] = tensor->as<float>()[i] = static_cast<float>(i % 5);
  REQUIRE(other.setVariable("w", *tensor).isOk());
  REQUIRE(s.run().isOk());
  REQUIRE(other.run().isOk());
  REQUIRE(sameBytes(*s.fetch("y"), *other.fetch("y")));
}

TEST_CASE("variables may be written when they are wanted", "[session][packed]") {
  Session at = loaded(true), later = loaded(false), kept = loaded(true);
  auto value = HostTensor::create(kFloat, Shape{256, 256});
  for (int i = 0; i < 256 * 256; ++i) value->as<float>()[i] = static_cast<float>(i % 11) - 5;
  int calls = 0;
  bool fails = true;
  const auto fill = [&](void *to) {
    ++calls;
    if (fails) return Status(StatusCode::kUsage, "OPC0706", "the file is gone");
    std::memcpy(to, value->data(), value->bytes());
    return Status::ok();
  };
  REQUIRE(later.setVariableLater("no", fill).id() == "OPC0611");
  for (const char *name : {"v", "w"}) {
    REQUIRE(at.setVariable(name, *value).isOk());
    REQUIRE(later.setVariableLater(name, fill).isOk());
    REQUIRE(kept.setVariableLater(name, fill).isOk());
  }
  REQUIRE(calls == 0);
  REQUIRE(later.run().id() == "OPC0706"); // and is tried again
  fails = false;
  REQUIRE(at.run().isOk());
  REQUIRE(later.run().isOk());
  REQUIRE(calls == 3);
  for (const char *output : {"y", "squares"}) REQUIRE(sameBytes(*at.fetch(output), *later.fetch(output)));
  REQUIRE(later.variable("v").status().id() == "OPC0617");
  REQUIRE(sameBytes(*later.variable("w"), *value));
  // Whoever asks before gets the value, and another value takes its place.
  REQUIRE(sameBytes(*kept.variable("v"), *value));
  REQUIRE(calls == 4);
  auto other = HostTensor::create(kFloat, Shape{256, 256});
  REQUIRE(kept.setVariable("w", *other).isOk());
  REQUIRE(kept.run().isOk());
  REQUIRE(calls == 4);
  REQUIRE(sameBytes(*kept.variable("v"), *value));
  REQUIRE(sameBytes(*kept.variable("w"), *other));
  // After the run it is a new value like any other.
  REQUIRE(kept.setVariableLater("w", fill).isOk());
  REQUIRE(calls == 5);
  REQUIRE(kept.run().isOk());
  REQUIRE(sameBytes(*at.fetch("y"), *kept.fetch("y")));
}

TEST_CASE("rows of a variable are read where it lies", "[session][packed]") {
  // t: looked up alone. w: looked up, and packed by a product. e: looked up, and read by another op.
  const char *const text = R"(
op { name: "i" input_conf { out: "out" blob_conf { shape { dim: 6 } data_type: kInt64 } } }
op { name: "t" variable_conf { out: "out" shape { dim: 300 dim: 64 } data_type: kFloat } }
op { name: "w" variable_conf { out: "out" shape { dim: 300 dim: 64 } data_type: kFloat } }
op { name: "e" variable_conf { out: "out" shape { dim: 300 dim: 64 } data_type: kFloat } }
op { name: "a" user_conf { op_type_name: "gather" input { key: "in" value { s: "t/out" } } input { key: "indices" value { s: "i/out" } } output { key: "out" value { s: "a/out_0" } } } }
op { name: "b" user_conf { op_type_name: "gather" input { key: "in" value { s: "w/out" } } input { key: "indices" value { s: "i/out" } } output { key: "out" value { s: "b/out_0" } } } }
op { name: "c" user_conf { op_type_name: "gather" input { key: "in" value { s: "e/out" } } input { key: "indices" value { s: "i/out" } } output { key: "out" value { s: "c/out_0" } } } }
op { name: "d" user_conf { op_type_name: "square" input { key: "x" value { s: "e/out" } } output { key: "y" value { s: "d/y_0" } } } }
op { name: "p" user_conf { op_type_name: "matmul" attr { key: "transpose_b" value { at_bool: true } } input { key: "a" value { s: "b/out_0" } } input { key: "b" value { s: "w/out" } } output { key: "out" value { s: "p/out_0" } } } }
op { name: "ya" output_conf { in: "a/out_0" out: "out" } }
op { name: "yp" output_conf { in: "p/out_0" out: "out" } }
op { name: "yc" output_conf { in: "c/out_0" out: "out" } }
op { name: "yd" output_conf { in: "d/y_0" out: "out" } }
)";
  const auto load = [&](bool keep) {
    Session s = sessionOf(text, CompileOptions(), keep);
    for (int k = 0; k < 6; ++k) static_cast<int64_t *>(s.inputData("i"))[k] = (k * 77) % 300;
    return s;
  };
  Session at = load(true), kept = load(true), lean = load(false);
  auto value = HostTensor::create(kFloat, Shape{300, 64});
  for (int i = 0; i < 300 * 64; ++i) value->as<float>()[i] = static_cast<float>(i % 97) - 40;
  const auto file = std::make_shared<std::vector<char>>(static_cast<size_t>(value->bytes()) + 3); // aligned to nothing
  std::memcpy(file->data() + 3, value->data(), static_cast<size_t>(value->bytes()));
  std::vector<std::string> filled;
  for (const std::string name : {"t", "w", "e"}) {
    REQUIRE(at.setVariable(name, *value).isOk());
    const auto fill = [&filled, &value, name](void *to) {
      filled.push_back(name);
      std::memcpy(to, value->data(), static_cast<size_t>(value->bytes()));
      return Status::ok();
    };
    for (Session *s : {&kept, &lean})
      REQUIRE(s->setVariableLater(name, fill, std::shared_ptr<const void>(file, file->data() + 3)).isOk());
  }
  const auto same = [&](Session &one) {
    REQUIRE(at.run().isOk());
    REQUIRE(one.run().isOk());
    for (const char *output : {"ya", "yp", "yc", "yd"}) REQUIRE(sameBytes(*at.fetch(output), *one.fetch(output)));
  };
  same(kept);
  std::sort(filled.begin(), filled.end());
  REQUIRE(filled == std::vector<std::string>{"e", "t", "w"});
  filled.clear();
  same(lean);
  std::sort(filled.begin(), filled.end());
  REQUIRE(filled == std::vector<std::string>{"e", "w"}); // to be packed, and to be squared
  REQUIRE(lean.variable("t").status().id() == "OPC0617");
  REQUIRE(file.use_count() > 1);
  REQUIRE(sameBytes(*lean.variable("e"), *value)); // others read it as it is
  // Another value before the first run takes the place of the one in the file.
  Session changed = load(false);
  auto other = HostTensor::create(kFloat, Shape{300, 64});
  for (int i = 0; i < 300 * 64; ++i) other->as<float>()[i] = static_cast<float>(i % 89);
  for (const char *name : {"t", "w", "e"}) {
    const auto never = [](void *) { return Status(StatusCode::kUsage, "OPC0706", "the file is gone"); };
    REQUIRE(changed.setVariableLater(name, never, std::shared_ptr<const void>(file, file->data() + 3)).isOk());
    for (Session *s : {&at, &changed}) REQUIRE(s->setVariable(name, *other).isOk());
  }
  same(changed);
}

TEST_CASE("an archive reads into memory of the right type", "[tensorio]") {
  const std::filesystem::path folder = std::filesystem::temp_directory_path() / "opc_read_into";
  std::filesystem::create_directories(folder);
  auto t = HostTensor::create(kFloat, Shape{3, 700000}); // several steps of the safetensors reader
  for (int64_t i = 0; i < t->elemCount(); ++i) t->as<float>()[i] = static_cast<float>(i);
  for (const char *file : {"w.safetensors", "w.npz"}) {
    const std::string path = folder / file;
    const NamedTensors tensors{{"t", &*t}};
    REQUIRE((std::strcmp(file, "w.npz") == 0 ? writeNpz(path, tensors) : writeSafetensors(path, tensors)).isOk());
    auto archive = openTensorArchive(path);
    REQUIRE(archive.isOk());
    std::vector<float> to(static_cast<size_t>(t->elemCount()));
    REQUIRE((*archive)->readInto("t", t->desc(), to.data()).isOk());
    REQUIRE(std::memcmp(to.data(), t->data(), t->bytes()) == 0);
    REQUIRE((*archive)->readInto("u", t->desc(), to.data()).id() == "OPC0705");
    REQUIRE((*archive)->readInto("t", {Shape{700000, 3}, kFloat}, to.data()).id() == "OPC0704");
    REQUIRE((*archive)->readInto("t", {t->shape(), kInt32}, to.data()).id() == "OPC0703");
  }
  std::filesystem::remove_all(folder);
}
