// The pipeline through its one header: formats, positions, canonical text, determinism, errors.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "TestRegistry.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>

using namespace opc;
using opc::test::registry;

namespace {

std::string readFile(const std::string &path) {
  std::ifstream in(std::string(OPC_SOURCE_DIR) + "/" + path, std::ios::binary);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

const char *const kInput =
    "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }\n";
std::string output(const std::string &name, const std::string &in) {
  return "op { name: \"" + name + "\" output_conf { in: \"" + in + "\" } }\n";
}

std::string input(const std::string &name) {
  return "op { name: \"" + name +
         "\" input_conf { out: \"out\" blob_conf { shape { dim: 2 dim: 3 } data_type: kFloat } } }\n";
}
std::string unary(const std::string &type, const std::string &name, const std::string &in) {
  return "op { name: \"" + name + "\" user_conf { op_type_name: \"" + type + "\" input { key: \"x\" value { s: \"" +
         in + "\" } } } }\n";
}
std::string binary(const std::string &type, const std::string &name, const std::string &a, const std::string &b) {
  return "op { name: \"" + name + "\" user_conf { op_type_name: \"" + type + "\" input { key: \"x\" value { s: \"" + a +
         "\" } } input { key: \"y\" value { s: \"" + b + "\" } } } }\n";
}

std::string relu(const std::string &name, const std::string &in) { return unary("relu", name, in); }

/// Some orders of n ops: each op has been first and each last.
std::vector<std::vector<size_t>> orders(size_t n) {
  std::vector<std::vector<size_t>> all;
  for (size_t first = 0; first < n; ++first)
    for (size_t step = 1; step < n; ++step) {
      std::vector<size_t> order;
      for (size_t k = 0; k < n; ++k)
        for (size_t i = (first + k * step) % n;; i = (i + 1) % n)
          if (std::find(order.begin(), order.end(), i) == order.end()) {
            order.push_back(i);
            break;
          }
      all.push_back(std::move(order));
    }
  return all;
}
std::string joined(const std::vector<std::string> &ops, const std::vector<size_t> &order = {}) {
  std::string graph;
  for (size_t i = 0; i < ops.size(); ++i) graph += ops[order.empty() ? i : order[i]];
  return graph;
}

/// The imported ops without names: type, and what they read by its place in the order.
std::vector<std::string> pattern(const std::string &graph) {
  Pipeline p(registry(), {});
  REQUIRE(p.import("g.pbtxt", graph));
  const GraphFacts facts = p.facts();
  std::map<std::string, size_t> place;
  for (const GraphTensor &t : facts.inputs) place.emplace(t.tensor, place.size());
  std::vector<std::string> lines;
  for (const GraphOp &op : facts.ops) {
    lines.push_back(op.type);
    for (const auto &[argument, tensor] : op.inputs) lines.back() += " " + std::to_string(place.at(tensor));
    for (const GraphTensor &t : op.outputs) place.emplace(t.tensor, place.size());
  }
  for (const GraphTensor &t : facts.outputs) lines.push_back("output " + std::to_string(place.at(t.tensor)));
  return lines;
}

/// The first error's code; "" when the phase is reached.
std::string firstError(const std::string &graph, Phase to = Phase::kPlan) {
  Pipeline p(registry(), {});
  if (p.import("g.pbtxt", graph) && p.run(to)) return "";
  for (const Diagnostic &d : p.diagnostics())
    if (d.severity == Severity::kError) return d.code;
  return "no code";
}

std::string emitted(const std::string &graph, Phase to, Emit what) {
  Pipeline p(registry(), {});
  REQUIRE(p.import("g.pbtxt", graph));
  REQUIRE(p.run(to));
  return p.emit(what);
}

} // namespace

TEST_CASE("canonical text is a fixed point", "[pipeline]") {
  for (const char *file : {"docs/examples/digits/mlp.pbtxt", "docs/examples/digits/cnn.pbtxt"}) {
    const std::string once = emitted(readFile(file), Phase::kImport, Emit::kGraphText);
    REQUIRE(!once.empty());
    REQUIRE(emitted(once, Phase::kImport, Emit::kGraphText) == once);
    // And through the binary form.
    const std::string binary = emitted(once, Phase::kImport, Emit::kGraphBinary);
    REQUIRE(emitted(binary, Phase::kImport, Emit::kGraphText) == once);
  }
}

TEST_CASE("the order of ops in the file does not matter", "[pipeline]") {
  const std::string a = std::string(kInput) + relu("r1", "x/out") + relu("r2", "r1/y_0") + output("y", "r2/y_0");
  const std::string b = output("y", "r2/y_0") + relu("r2", "r1/y_0") + kInput + relu("r1", "x/out");
  REQUIRE(emitted(a, Phase::kImport, Emit::kGraphText) == emitted(b, Phase::kImport, Emit::kGraphText));
}

TEST_CASE("ops that differ in who reads what they read have an order", "[pipeline]") {
  // r1 and r2 compute the same; what tells x and y apart is the difference alone.
  const std::vector<std::string> ops = {input("x"),
                                        input("y"),
                                        unary("relu", "r1", "x/out"),
                                        unary("relu", "r2", "y/out"),
                                        binary("broadcast_sub", "d", "x/out", "y/out"),
                                        output("o1", "r1/y_0"),
                                        output("o2", "r2/y_0"),
                                        output("o3", "d/z_0")};
  const std::string expected = emitted(joined(ops), Phase::kImport, Emit::kGraphText);
  for (const std::vector<size_t> &order : orders(ops.size()))
    REQUIRE(emitted(joined(ops, order), Phase::kImport, Emit::kGraphText) == expected);
}

TEST_CASE("alike parts of a graph come one after the other, whichever is first", "[pipeline]") {
  const std::vector<std::string> ops = {input("x"),
                                        input("y"),
                                        unary("relu", "r1", "x/out"),
                                        unary("relu", "r2", "y/out"),
                                        unary("tanh", "t1", "x/out"),
                                        unary("tanh", "t2", "y/out"),
                                        unary("square", "s1", "t1/y_0"),
                                        unary("square", "s2", "t2/y_0"),
                                        output("a1", "r1/y_0"),
                                        output("a2", "r2/y_0"),
                                        output("b1", "s1/y_0"),
                                        output("b2", "s2/y_0")};
  const std::vector<std::string> expected = pattern(joined(ops));
  for (const std::vector<size_t> &order : orders(ops.size())) REQUIRE(pattern(joined(ops, order)) == expected);
}

TEST_CASE("equal graphs give equal plan bytes", "[pipeline]") {
  const std::string g = readFile("docs/examples/digits/cnn.pbtxt");
  REQUIRE(emitted(g, Phase::kPlan, Emit::kPlan) == emitted(g, Phase::kPlan, Emit::kPlan));
  Pipeline elsewhere(registry(), {});
  REQUIRE(elsewhere.import("some/other/folder/g.pbtxt", g));
  REQUIRE(elsewhere.run(Phase::kPlan));
  REQUIRE(elsewhere.emit(Emit::kPlan) == emitted(g, Phase::kPlan, Emit::kPlan));
}

TEST_CASE("every spelling of a graph file is recognised", "[pipeline]") {
  const std::string ops = std::string(kInput) + relu("r", "x/out") + output("y", "r/y_0");
  auto format = [](const std::string &bytes) {
    Pipeline p(registry(), {});
    if (!p.import("g", bytes) || !p.run(Phase::kPlan)) return std::string("failed");
    return p.facts().format;
  };
  REQUIRE(format(ops) == "list of op (text)");
  REQUIRE(format("# a comment with op { in it\n" + ops) == "list of op (text)");
  REQUIRE(format("\xef\xbb\xbf" + ops) == "list of op (text)");
  REQUIRE(format("net { " + ops + " } job_conf { job_name: \"j\" predict_conf {} }") == "Job (text)");
  std::string opList = ops;
  for (size_t at = 0; (at = opList.find("op {", at)) != std::string::npos; at += 9)
    if (at == 0 || opList[at - 1] == '\n') opList.replace(at, 4, "op_list {");
  REQUIRE(format(opList) == "GraphDef (text)");
  REQUIRE(format("name: \"m\" version: 1 checkpoint_dir: \"v\" graphs { key: \"g\" value { " + opList +
                 " } } default_graph_name: \"g\"") == "SavedModel (text)");
  REQUIRE(format(emitted(ops, Phase::kImport, Emit::kGraphBinary)) == "DLNetConf (binary)");
  REQUIRE(format(emitted("net { " + ops + " } job_conf { job_name: \"j\" predict_conf {} }", Phase::kImport,
                         Emit::kGraphBinary)) == "Job (binary)");
  std::string crlf;
  for (char c : ops) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  REQUIRE(format(crlf) == "list of op (text)");
}

TEST_CASE("errors carry code and place", "[pipeline]") {
  Pipeline p(registry(), {});
  REQUIRE_FALSE(p.import("g.pbtxt", std::string(kInput) + relu("r", "x/oout") + output("y", "r/y_0")));
  REQUIRE(p.diagnostics().size() == 1);
  const Diagnostic &d = p.diagnostics()[0];
  REQUIRE(d.code == "OPC0107");
  REQUIRE(d.subject == "op r");
  REQUIRE(d.help == "op x makes 'x/out'");
  REQUIRE(d.range.line == 2);
  // The place is that of the name within the op: `s: "x/oout"`.
  const std::string line = relu("r", "x/oout");
  REQUIRE(d.range.column == line.find("s: ") + 1);
  REQUIRE(p.errorClass() == StatusCode::kInvalidGraph);
}

TEST_CASE("bytes that are no text have a place in a text", "[pipeline]") {
  for (const char byte : {'\x01', '\x1b', '\x00'}) {
    Pipeline p(registry(), {});
    REQUIRE_FALSE(p.import("g.pbtxt", kInput + std::string(" ") + byte + relu("r", "x/out") + output("y", "r/y_0")));
    const Diagnostic &d = p.diagnostics().at(0);
    REQUIRE(d.code == "OPC0101");
    REQUIRE(d.range.line == 2);
    REQUIRE(d.range.column == 2);
  }
  // In a comment or a string they are what protobuf takes them for.
  Pipeline q(registry(), {});
  REQUIRE(q.import("g.pbtxt", std::string("# \x01\n") + kInput + relu("r", "x/out") + output("y", "r/y_0")));
}

TEST_CASE("each broken graph has its code", "[pipeline]") {
  const std::string in = kInput, out = output("y", "x/out");
  REQUIRE(firstError(in + out) == "");
  REQUIRE(firstError("") == "OPC0103");
  REQUIRE(firstError("hello { }") == "OPC0103");
  REQUIRE(firstError("op { name: \"x\"") == "OPC0101");
  REQUIRE(firstError(in + in + out) == "OPC0106");
  REQUIRE(firstError("op { input_conf { out: \"out\" } }") == "OPC0105");
  REQUIRE(firstError("op { name: \"a\" }") == "OPC0109");
  REQUIRE(firstError(in + "op { name: \"a\" user_conf { op_type_name: \"nosuch\" } }") == "OPC0201");
  REQUIRE(firstError(in + relu("a", "b/y_0") + relu("b", "a/y_0") + output("y", "a/y_0")) == "OPC0108");
  REQUIRE(firstError(in + relu("a", "x/out")) == "OPC0111");
  REQUIRE(firstError("op { name: \"x\" input_conf { out: \"out\" blob_conf { data_type: kFloat } } }\n" + out) ==
          "OPC0207");
  REQUIRE(firstError("op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: 2 } } } }\n" + out) ==
          "OPC0105");
  REQUIRE(
      firstError("op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: -3 } data_type: kFloat } } }\n" +
                 out) == "OPC0206");
  REQUIRE(
      firstError(
          "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: 9223372036854775807 dim: 9 } data_type: kFloat } } }\n" +
          out) == "OPC0206");
  REQUIRE(firstError(in + "op { name: \"a\" user_conf { op_type_name: \"relu\" input { key: \"x\" value { s: \"x/out\" "
                          "} } input { key: \"x\" value { s: \"x/out\" } } } }") == "OPC0106");
  REQUIRE(firstError(std::string("\x0a\x02\x08\x00", 4)) == "OPC0102");
}

TEST_CASE("unknown fields are noted and skipped", "[pipeline]") {
  Pipeline p(registry(), {});
  REQUIRE(p.import(
      "g.pbtxt",
      "op { name: \"x\" stream_name_hint: \"s\" input_conf { out: \"out\" blob_conf { shape { dim: 2 } data_type: kFloat } } }\n" +
          output("y", "x/out")));
  REQUIRE(p.diagnostics().size() == 1);
  REQUIRE(p.diagnostics()[0].severity == Severity::kNote);
  REQUIRE(p.diagnostics()[0].code == "OPC0104");
}

TEST_CASE("all errors of a phase, at most so many", "[pipeline]") {
  std::string g = kInput;
  for (int i = 0; i < 30; ++i) g += relu("r" + std::to_string(i), "missing" + std::to_string(i) + "/out");
  Pipeline p(registry(), {});
  REQUIRE_FALSE(p.import("g.pbtxt", g));
  REQUIRE(p.errorCount() == 30);
  REQUIRE(p.diagnostics().size() == 20);
  for (size_t i = 1; i < 20; ++i) REQUIRE(p.diagnostics()[i - 1].range.line < p.diagnostics()[i].range.line);
}

TEST_CASE("a tensor used twice by one op is not overwritten through one of its names", "[pipeline]") {
  const std::string g =
      "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: 4 } data_type: kFloat } } }\n" +
      relu("r", "x/out") +
      "op { name: \"b\" user_conf { op_type_name: \"bias_add\" input { key: \"a\" value { s: \"r/y_0\" } } "
      "input { key: \"b\" value { s: \"r/y_0\" } } attr { key: \"axis\" value { at_int32: 0 } } } }\n" +
      output("y", "b/out_0");
  CompileOptions options;
  options.regions = false; // in one loop nothing of it is in memory
  Pipeline p(registry(), options);
  REQUIRE(p.import("g.pbtxt", g));
  REQUIRE(p.run(Phase::kPlan));
  const MemoryFacts m = p.facts().memory;
  size_t activations = 0;
  for (const auto &s : m.slots) activations += s.kind == "activation";
  REQUIRE(activations == 2);
}

TEST_CASE("OneFlow's hints on input names are understood", "[pipeline]") {
  for (const char *hint : {":S0", ":B", "|n"})
    REQUIRE(firstError(std::string(kInput) + relu("r", std::string("x/out") + hint) + output("y", "r/y_0")) == "");
}

TEST_CASE("what no graph can be compiled with is refused before it is read", "[pipeline]") {
  const auto refusal = [](const std::function<void(CompileOptions *)> &change) {
    CompileOptions options;
    change(&options);
    Pipeline p(registry(), options), resumed(registry(), options);
    CHECK_FALSE(p.import("g.pbtxt", kInput + output("y", "x/out")));
    CHECK_FALSE(resumed.resume("g.mlir", "module {}", std::nullopt));
    CHECK(p.errorClass() == StatusCode::kUsage);
    REQUIRE(p.diagnostics().size() == 1);
    REQUIRE(resumed.diagnostics().size() == 1);
    CHECK(resumed.diagnostics()[0].message == p.diagnostics()[0].message);
    CHECK(p.diagnostics()[0].code == "OPC0001");
    return p.diagnostics()[0].message;
  };
  for (const char *device : {"tpu", "", "gpu:", "gpu:3-1", "GPU", "cpu:0"})
    CHECK(refusal([&](CompileOptions *o) { o->device = device; }) ==
          std::string("CompileOptions::device is '") + device +
              "', expected one of cpu, gpu, gpu:N, sim, sim:N; gpu:0-3 and sim:0-3 of several ranks");
  CHECK(refusal([](CompileOptions *o) { o->maxErrors = 0; }) ==
        "CompileOptions::maxErrors is 0, expected 1 or more: the first error says what is wrong");
  CHECK(refusal([](CompileOptions *o) { o->mesh.emplace(); }) ==
        "CompileOptions::mesh.dims is empty, expected 1 to 8 dimensions of 1 or more, 1,048,576 devices at most");
  CHECK(refusal([](CompileOptions *o) { o->mesh.emplace().dims = {2, -2}; }).find("mesh.dims is 2x-2, expected") !=
        std::string::npos);
  CHECK(refusal([](CompileOptions *o) {
          o->mesh.emplace().dims = {2};
          o->mesh->microBatches = 0;
        }) == "CompileOptions::mesh.microBatches is 0, expected a number from 1 to 1024");
  CHECK(refusal([](CompileOptions *o) { o->gradient.emplace().order = -1; }) ==
        "CompileOptions::gradient.order is -1, expected a number from 1 to 4");
  CHECK(refusal([](CompileOptions *o) {
          o->gradient.emplace().recompute.segments = -2;
        }).find("gradient.recompute.segments is -2, expected a number from -1") != std::string::npos);
  CHECK(refusal([](CompileOptions *o) { o->gradient.emplace().training.emplace().accumulate = 0; }) ==
        "CompileOptions::gradient.training.accumulate is 0, expected a number from 1 to 4294967295");
  CHECK(refusal([](CompileOptions *o) { o->sizes.sizes = {{"n", 4, 3}}; }) ==
        "CompileOptions::sizes: n is 4..3, expected a range that begins at 1 or later");
  CHECK(refusal([](CompileOptions *o) {
          o->sizes.sizes = {{"n", 1, 3}};
          o->sizes.dims["x"] = {1};
        }) == "CompileOptions::sizes.dims of x is 1, expected a number from -1 to 0; -1: fixed");
}

TEST_CASE("a shape from the command line replaces the graph's", "[pipeline]") {
  CompileOptions options;
  options.shapes["x"] = {7, 3};
  Pipeline p(registry(), options);
  REQUIRE(p.import(
      "g.pbtxt",
      "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: -1 dim: 3 } data_type: kFloat } } }\n" +
          output("y", "x/out")));
  REQUIRE(p.run(Phase::kShape));
  REQUIRE(p.facts().inputs[0].shape == Shape({7, 3}));
}

TEST_CASE("phases have their passes, whose times lie within them", "[pipeline]") {
  Pipeline pipeline(registry(), {});
  REQUIRE(pipeline.import("g.pbtxt", kInput + relu("r", "x/out") + output("y", "r/y_0")));
  REQUIRE(pipeline.run(Phase::kPlan));
  std::map<std::string, std::vector<std::string>> passes;
  for (const PhaseFacts &phase : pipeline.stats())
    for (const PassFacts &pass : phase.passes) {
      CHECK(pass.start >= phase.start);
      CHECK(pass.seconds >= 0);
      CHECK(pass.start + pass.seconds <= phase.start + phase.seconds);
      passes[phase.name].push_back(pass.name);
    }
  CHECK(passes["shape"].front() == "opc-infer-shapes");
  CHECK(passes["tasks"].back() == "opc-batch-updates");
  CHECK(passes.count("import") + passes.count("memory") + passes.count("plan") == 0);
}

TEST_CASE("IR says after which phase it was written", "[pipeline]") {
  const std::string graph = kInput + relu("r", "x/out") + output("y", "r/y_0");
  for (Phase phase : {Phase::kImport, Phase::kSimplify, Phase::kSchedule, Phase::kPlan}) {
    Pipeline first(registry(), {}), second(registry(), {});
    REQUIRE(first.import("g.pbtxt", graph));
    REQUIRE(first.run(phase));
    const std::string ir = first.emit(Emit::kMlirBytecode);
    CHECK(looksLikeIr(ir));
    CHECK(looksLikeIr(first.emit(Emit::kMlir)));
    CHECK_FALSE(looksLikeIr(graph));
    REQUIRE(second.resume("g.mlirbc", ir, std::nullopt));
    CHECK(second.source().name == "g.pbtxt");
    REQUIRE(second.run(Phase::kPlan));
    REQUIRE(first.run(Phase::kPlan));
    CHECK(first.emit(Emit::kPlan) == second.emit(Emit::kPlan));
  }
}

TEST_CASE("shapes that come after the import are as good as those before", "[pipeline]") {
  const std::string g =
      "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: -1 dim: 3 } data_type: kFloat } } }\n"
      "op { name: \"i\" input_conf { out: \"out\" blob_conf { data_type: kInt32 } } }\n"
      "op { name: \"w\" variable_conf { out: \"out\" shape { dim: 9 } data_type: kDouble initializer { "
      "constant_conf { value: 2 } } } }\n" +
      output("y", "x/out") + output("z", "i/out") + output("v", "w/out");
  CompileOptions options;
  options.shapes = {{"x", {7, 3}}, {"i", {5}}, {"w", {2, 2}}};
  Pipeline before(registry(), options);
  REQUIRE(before.import("g.pbtxt", g));
  int imports = 0;
  CompileOptions counted;
  counted.progress = [&](Phase phase) { imports += phase == Phase::kImport; };
  Pipeline after(registry(), counted);
  REQUIRE(after.import("g.pbtxt", g));
  REQUIRE(after.facts().inputs[0].shape == Shape({-1, 3}));
  REQUIRE(after.setShapes(options.shapes));
  for (Pipeline *p : {&before, &after}) REQUIRE(p->run(Phase::kPlan));
  for (Emit what : {Emit::kGraphText, Emit::kPlan}) REQUIRE(after.emit(what) == before.emit(what));
  REQUIRE(after.facts().inputs[1].dtype == kInt32);
  REQUIRE(after.facts().inputs[1].shape == Shape({5}));
  REQUIRE(imports == 1);
}

TEST_CASE("shapes that come after the import are checked", "[pipeline]") {
  auto error = [](const std::string &name, std::vector<int64_t> dims) {
    Pipeline p(registry(), {});
    REQUIRE(p.import("g.pbtxt", kInput + output("y", "x/out")));
    REQUIRE_FALSE(p.setShapes({{name, std::move(dims)}}));
    REQUIRE_FALSE(p.run(Phase::kPlan));
    REQUIRE(p.errorCount() == 1);
    return p.diagnostics()[0].code + " at line " + std::to_string(p.diagnostics()[0].range.line);
  };
  REQUIRE(error("x", {2, -5}) == "OPC0206 at line 1");
  REQUIRE(error("x", {INT64_MAX, 9}) == "OPC0206 at line 1");
  REQUIRE(error("x", std::vector<int64_t>(100, 1)) == "OPC0206 at line 1");
  REQUIRE(error("q", {2, 3}) == "OPC0005 at line 0");
}

TEST_CASE("a large list of ops is read part by part, with the lines of the whole", "[pipeline]") {
  std::string g = kInput, previous = "x/out";
  while (g.size() < (5u << 20)) {
    const std::string name = "r" + std::to_string(g.size());
    g += relu(name, previous);
    previous = name + "/y_0";
  }
  Pipeline good(registry(), {});
  REQUIRE(good.import("g.pbtxt", g + output("y", previous)));
  const GraphFacts info = good.facts();
  // The last op's line is that of its place in the whole file.
  const auto lines = static_cast<uint32_t>(std::count(g.begin(), g.end(), '\n'));
  REQUIRE(info.ops.size() == lines - 1);
  REQUIRE(info.ops.back().range.line == lines);
  Pipeline bad(registry(), {});
  REQUIRE_FALSE(bad.import("g.pbtxt", g + "op { name: 7 }\n"));
  REQUIRE(bad.diagnostics()[0].code == "OPC0101");
  REQUIRE(bad.diagnostics()[0].range.line == lines + 1);
}
