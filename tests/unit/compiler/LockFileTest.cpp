// Lock files: what is written is read back, damage is found, a file is untrusted.
// SPDX-License-Identifier: Apache-2.0
#include "LockFile.h"
#include "Sha256.h"

#include <catch2/catch.hpp>

#include <cmath>
#include <limits>

using namespace opc;

namespace {

GraphTensor tensor(const std::string &name, const std::string &value, DataType type, Shape shape) {
  GraphTensor t;
  t.name = name;
  t.tensor = value;
  t.dtype = type;
  t.shape = std::move(shape);
  return t;
}

GraphOp op(const std::string &name, const std::string &type, const std::string &in, const std::string &out) {
  GraphOp o;
  o.name = name;
  o.type = type;
  o.inputs = {{{"x", 0}, in}};
  o.outputs = {tensor("y_0", out, kFloat, {2, 3})};
  return o;
}

Lock sample() {
  Lock lock;
  lock.graph = "g.pbtxt";
  for (const LockSection s : lockSections()) lock.sections.insert(s);
  GraphFacts &f = lock.facts;
  f.inputs = {tensor("x", "x/out", kFloat, {2, 3})};
  f.outputs = {tensor("y", "b/y_0", kFloat, {2, 3})};
  f.variables = {tensor("w", "w/out", kDouble, {})};
  f.variables[0].initializer = "constant_conf {value = 1.0 : f32}";
  f.ops = {op("b", "relu", "a/y_0", "b/y_0"), op("a", "exp", "x/out", "a/y_0")};
  f.mesh.placements = {Placement::dense({2})};
  f.mesh.ops = {{"a", "exp", "(S(0)) -> (S(0))", 0}};
  MeshFacts::Transition t;
  t.tensors = {"a/y_0"};
  t.kind = "all_gather", t.from = "S(0)", t.to = "B", t.meshDim = 0, t.bytes = 96;
  f.mesh.transitions = {t};
  f.tasks = {{"a", "cpu/exp/f32", 0, "libfast.so", 10}, {"b", "cpu/relu/f32", 1, "", 0}};
  lock.ir = "fedcba9876543210";
  lock.schedule = "0123456789abcdef";
  f.costs = {12, 48, 96, 4096, 64, 2};
  OutputValues out;
  out.name = "y", out.dtype = kFloat, out.shape = {2, 3};
  out.min = -0.1, out.max = 0.3, out.mean = 1.0 / 3, out.samples = {0.1, std::numeric_limits<double>::infinity()};
  OutputValues inside = out;
  inside.name = "a/y_0", inside.isInside = true;
  lock.numerics = {7, -1, 1, "0123", "4567", {out, inside}};
  lock.target.shapes["x"] = {2, 3};
  lock.warnings = {{"OPC0223", "op a"}};
  return lock;
}

} // namespace

TEST_CASE("SHA-256 of the vectors of FIPS 180-4", "[lock]") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("A lock that is written is read back, byte for byte", "[lock]") {
  const std::string text = lockText(sample());
  Result<Lock> read = readLock(text, "g.opc.lock");
  REQUIRE(read.isOk());
  CHECK(read->damaged.empty());
  CHECK(read->graph == "g.pbtxt");
  CHECK(read->facts.variables.at(0).dtype == kDouble);
  CHECK(read->facts.variables.at(0).shape.NumAxes() == 0);
  CHECK(read->facts.ops.at(0).name == "a"); // topological, not the graph's order
  CHECK(read->facts.ops.at(1).outputs.at(0).shape == Shape({2, 3}));
  CHECK(read->facts.mesh.transitions.at(0).bytes == 96);
  CHECK(read->facts.tasks.at(1).stream == 1);
  CHECK(read->facts.tasks.at(1).library == "");
  CHECK(read->facts.tasks.at(0).library == "libfast.so");
  CHECK(read->facts.tasks.at(0).priority == 10);
  CHECK(read->ir == "fedcba9876543210");
  CHECK(read->target.shapes.at("x") == std::vector<int64_t>{2, 3});
  CHECK(read->numerics.inputsFile == "0123");
  CHECK(read->numerics.valuesFile == "4567");
  CHECK(!read->numerics.outputs.at(0).isInside);
  CHECK(read->numerics.outputs.at(1).isInside);
  CHECK(read->schedule == "0123456789abcdef");
  CHECK(read->facts.costs.peakBytes == 4096);
  CHECK(read->numerics.outputs.at(0).mean == 1.0 / 3);
  CHECK(std::isinf(read->numerics.outputs.at(0).samples.at(1)));
  CHECK(read->warnings == sample().warnings);
  read->texts.clear();
  CHECK(lockText(*read) == text);
}

TEST_CASE("Kernels in Python are those of Python, whatever file earlier builds wrote into a lock", "[lock]") {
  Lock lock = sample();
  for (const auto &[written, read] : std::vector<std::pair<std::string, std::string>>{{"python", "python"},
                                                                                      {"g.ops.pbtxt", "python"},
                                                                                      {"python:ops", "python"},
                                                                                      {"libpython.so", "libpython.so"},
                                                                                      {"built-in", "built-in"}}) {
    lock.facts.tasks[0].library = written;
    const Result<Lock> again = readLock(lockText(lock), "g.opc.lock");
    REQUIRE(again.isOk());
    CHECK(again->facts.tasks.at(0).library == read);
    CHECK(again->facts.tasks.at(1).library == "");
  }
}

TEST_CASE("One record of a lock is one line", "[lock]") {
  const std::string text = lockText(sample());
  CHECK(text.find("\n{\"op\":\"a\",\"type\":\"exp\",\"in\":{\"x_0\":\"x/out\"},\"out\":{\"y_0\":\"a/y_0\"}},\n") !=
        std::string::npos);
  CHECK(text.back() == '\n');
}

TEST_CASE("Every kind of attribute keeps its type and value in a lock", "[lock]") {
  Lock lock = sample();
  auto &attrs = lock.facts.ops[0].attrs;
  attrs = {{"i32", int32_t{-3}},
           {"i64", int64_t{1} << 60},
           {"b", true},
           {"f32", 0.1f},
           {"f64", 1e-300},
           {"nan", std::numeric_limits<double>::quiet_NaN()},
           {"text", "a \"quoted\"\nline"},
           {"shape", Shape{4, 0}},
           {"dtype", kInt8},
           {"no_dtype", kInvalidDataType},
           {"i32s", std::vector<int32_t>{1, -2}},
           {"i64s", std::vector<int64_t>{}},
           {"f32s", std::vector<float>{0.5f, -std::numeric_limits<float>::infinity()}},
           {"dtypes", std::vector<DataType>{kFloat, kBool}},
           {"shapes", std::vector<Shape>{Shape{}, Shape{2}}},
           {"strings", std::vector<std::string>{"", "b"}},
           {"raw", RawAttr{kAtStride, std::string("\0\xff", 2)}}};
  Result<Lock> read = readLock(lockText(lock), "g.opc.lock");
  REQUIRE(read.isOk());
  auto found = read->facts.ops.at(1).attrs;
  CHECK(std::isnan(*found.at("nan").get<double>()));
  found.erase("nan");
  attrs.erase("nan");
  CHECK(found == attrs);
}

TEST_CASE("Long attributes are digests in facts and locks alike", "[lock]") {
  Lock lock = sample();
  lock.facts.ops[0].attrs["long"] = AttrValue(std::string(1000, 'x'));
  shortenAttributes(&lock.facts);
  Result<Lock> read = readLock(lockText(lock), "g.opc.lock");
  REQUIRE(read.isOk());
  CHECK(read->facts.ops.at(1).attrs == lock.facts.ops[0].attrs);
  lock.facts.ops[0].attrs["long"] = AttrValue(std::string(1000, 'y'));
  shortenAttributes(&lock.facts);
  CHECK_FALSE(read->facts.ops.at(1).attrs == lock.facts.ops[0].attrs);
}

TEST_CASE("Sections that are edited by hand are known", "[lock]") {
  std::string text = lockText(sample());
  text.replace(text.find("\"type\":\"relu\""), 13, "\"type\":\"tanh\"");
  Result<Lock> read = readLock(text, "g.opc.lock");
  REQUIRE(read.isOk());
  CHECK(read->damaged == std::set<LockSection>{LockSection::kOps});
}

TEST_CASE("An update takes the sections that are named alone", "[lock]") {
  Result<Lock> old = readLock(lockText(sample()), "g.opc.lock");
  REQUIRE(old.isOk());
  Lock now = sample();
  now.facts.costs.flops = 13;
  now.facts.ops[0].type = "tanh";
  takeSections(now, {LockSection::kCost}, &*old);
  const std::string text = lockText(*old);
  CHECK(text.find("\"flops\":13.0") != std::string::npos);
  CHECK(text.find("tanh") == std::string::npos);
}

TEST_CASE("What is no lock is refused with its line", "[lock]") {
  const std::string good = lockText(sample());
  auto refused = [](const std::string &text) {
    Result<Lock> read = readLock(text, "g.opc.lock");
    return read ? std::string("accepted") : read.status().toString();
  };
  CHECK(refused("") != "accepted");
  CHECK(refused("[]").find("OPC0120: g.opc.lock:1: ") == 0);
  CHECK(refused("{\"opc_lock\":0}").find("there is no version 0") != std::string::npos);
  std::string merged = good;
  merged.insert(merged.find("\"ops\":["), "<<<<<<< HEAD\n");
  const size_t line =
      1 + static_cast<size_t>(std::count(good.begin(), good.begin() + static_cast<long>(good.find("\"ops\":[")), '\n'));
  // The third line of the file is the digests'; the mark begins a line of its own.
  CHECK(refused(merged).find("g.opc.lock:" + std::to_string(line)) != std::string::npos);
  std::string typed = good;
  typed.replace(typed.find("f32[2,3]"), 8, "q32[2,3]");
  CHECK(refused(typed).find("record 1 of section interface: 'q32[2,3]' is no type of a tensor") != std::string::npos);
  for (size_t cut = 0; cut + 2 < good.size(); cut += 7) CHECK(refused(good.substr(0, cut)) != "accepted");
}

TEST_CASE("A lock of a newer version is known by its version alone", "[lock]") {
  Result<Lock> read = readLock("{\"opc_lock\":2,\"ops\":\"whatever\"}", "g.opc.lock");
  REQUIRE(read.isOk());
  CHECK(read->version == 2);
  CHECK(read->sections.empty());
}

TEST_CASE("A lock says which graph it is for, whatever else is damaged", "[lock]") {
  const std::string good = lockText(sample());
  const size_t line = good.find('\n');
  for (const std::string &text : {good, good.substr(0, line), good.substr(0, line + 7), "<<<<<<< HEAD\n" + good,
                                  std::string("{\"opc_lock\":99,\"graph\":\"g.pbtxt\",\"target\":7,\r\n"),
                                  std::string("{\n \"graph\": \"g.pbtxt\",\n \"opc_lock\": 1\n}\n")})
    CHECK(graphOfLock(text) == "g.pbtxt");
  for (const char *text : {"", "{}", "[", "{\"opc_lock\"", "{\"opc_lock\":1,", "{\"opc_lock\":1,\"graph\":[\"g\"]}"})
    CHECK(graphOfLock(text) == "");
}

TEST_CASE("A lock lies beside its graph", "[lock]") {
  CHECK(lockPathOf("graphs/mlp.pbtxt") == "graphs/mlp.opc.lock");
  CHECK(lockPathOf("a.b/mlp") == "a.b/mlp.opc.lock");
  CHECK(lockPathOf("a.b/.mlp") == "a.b/.mlp.opc.lock");
}
