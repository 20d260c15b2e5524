// The pass pipeline through its one header: the verifier after each pass, findings as data, the facts of a compiled
// graph.
// SPDX-License-Identifier: Apache-2.0
#include "DiagnosticList.h"
#include "MeshText.h"
#include "Pipeline.h"

#include "opc/Op.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <atomic>

using namespace opc;

namespace {

/// How often the rule below was asked, and from which question on it answers otherwise; 0: never.
std::atomic<int> gAsked{0}, gDriftsFrom{0};

REGISTER_USER_OP("pipeline_test_drifts")
    .Input("in")
    .Output("out")
    .SetTensorDescInferFn([](user_op::InferContext *ctx) -> Maybe<void> {
      const int asked = ++gAsked;
      const bool drifts = gDriftsFrom > 0 && asked >= gDriftsFrom;
      *ctx->Shape4ArgNameAndIndex("out", 0) = drifts ? Shape{1} : ctx->InputShape("in", 0);
      return Maybe<void>::Ok();
    });

const Registry &registry() {
  static const Registry r = [] {
    Registry fresh;
    REQUIRE(fresh.addLinked().isOk());
    fresh.freeze();
    return fresh;
  }();
  return r;
}

std::string input(const std::string &name, const std::string &dims) {
  return "op { name: \"" + name + "\" input_conf { out: \"out\" blob_conf { shape { " + dims +
         " } data_type: kFloat } } }\n";
}
std::string unary(const std::string &type, const std::string &name, const std::string &in, const std::string &arg) {
  return "op { name: \"" + name + "\" user_conf { op_type_name: \"" + type + "\" input { key: \"" + arg +
         "\" value { s: \"" + in + "\" } } } }\n";
}
std::string output(const std::string &name, const std::string &in) {
  return "op { name: \"" + name + "\" output_conf { in: \"" + in + "\" } }\n";
}

/// How often the rule is asked up to the order of tasks.
int asked(bool verifyEach) {
  CompileOptions options;
  options.verifyEach = verifyEach;
  Pipeline p(registry(), options);
  gAsked = 0;
  REQUIRE(
      p.import("g", input("x", "dim: 4") + unary("pipeline_test_drifts", "d", "x/out", "in") + output("y", "d/out_0")));
  REQUIRE(p.run(Phase::kSchedule));
  return gAsked;
}

} // namespace

TEST_CASE("the verifier runs after each pass, when it is asked to", "[pipeline]") {
  gDriftsFrom = 0;
  // Shape, folding, no-ops, dead ops, two of fuse, schedule: after each the rule is asked once more.
  const int unverified = asked(false);
  REQUIRE(asked(true) >= unverified + 7);
  // A rule that changes its answer is caught after some pass, and by nobody else before memory is planned.
  for (bool verify : {false, true}) {
    CompileOptions options;
    options.verifyEach = verify;
    Pipeline p(registry(), options);
    gAsked = 0;
    gDriftsFrom = 0;
    REQUIRE(p.import("g", input("x", "dim: 4") + unary("pipeline_test_drifts", "d", "x/out", "in") +
                              output("y", "d/out_0")));
    REQUIRE(p.run(Phase::kShape));
    gDriftsFrom = gAsked + 1;
    REQUIRE(p.run(Phase::kSchedule) == !verify);
    if (!verify) continue;
    REQUIRE(p.diagnostics().size() == 1);
    REQUIRE(p.diagnostics()[0].code == "OPC0203");
    REQUIRE(p.diagnostics()[0].subject == "op d");
    REQUIRE(p.diagnostics()[0].message.find("is declared f32[4], the shape rule gives f32[1]") != std::string::npos);
  }
  gDriftsFrom = 0;
}

TEST_CASE("what a pass reports arrives in its parts", "[pipeline]") {
  Pipeline p(registry(), {});
  REQUIRE(p.import(
      "g", input("a", "dim: 2 dim: 3") + input("b", "dim: 5 dim: 4") +
               "op { name: \"m\" user_conf { op_type_name: \"matmul\" input { key: \"a\" value { s: \"a/out\" } } "
               "input { key: \"b\" value { s: \"b/out\" } } } }\n" +
               output("y", "m/out_0")));
  REQUIRE_FALSE(p.run(Phase::kShape));
  REQUIRE(p.diagnostics().size() == 1);
  const Diagnostic &d = p.diagnostics()[0];
  REQUIRE(d.code == "OPC0203");
  REQUIRE(d.message == "matmul: inner dimensions differ (3 vs 5): a is f32[2,3], b is f32[5,4]");
  REQUIRE(d.subject == "op m");
  REQUIRE(d.notes.empty());
  REQUIRE(d.operands.size() == 2);
  REQUIRE(d.operands[1].text == "b: b/out  f32[5,4]");
  REQUIRE(d.operands[1].madeBy == "input");
  REQUIRE(d.operands[1].range.line == 2);
}

TEST_CASE("findings are in the order of the source, capped and classed", "[pipeline]") {
  REQUIRE(classOf("OPC0005") == StatusCode::kUsage);
  REQUIRE(classOf("OPC0099") == StatusCode::kUsage);
  REQUIRE(classOf("OPC0109") == StatusCode::kInvalidGraph);
  REQUIRE(classOf("OPC0110") == StatusCode::kUnsupported);
  REQUIRE(classOf("OPC0399") == StatusCode::kInvalidGraph);
  REQUIRE(classOf("OPC0411") == StatusCode::kUnsupported);
  REQUIRE(classOf("OPC0901") == StatusCode::kInternal);
  REQUIRE(classOf("OPC0920") == StatusCode::kInvalidGraph);
  REQUIRE(classOf("OPC0921") == StatusCode::kUnsupported);
  REQUIRE(classOf("OPC0923") == StatusCode::kUnsupported);
  REQUIRE(classOf("") == StatusCode::kInvalidGraph);
  DiagnosticList list(2);
  for (uint32_t line : {3u, 1u, 2u}) {
    Diagnostic d;
    d.code = line == 3 ? "OPC0411" : "OPC0203";
    d.range.line = line;
    list.incoming()->push_back(d);
  }
  REQUIRE(list.settle());
  REQUIRE(list.errors() == 3);
  REQUIRE(list.worst() == StatusCode::kUnsupported);
  REQUIRE(list.list().size() == 2);
  REQUIRE(list.list()[0].range.line == 1);
  REQUIRE(list.list()[1].range.line == 2);
  REQUIRE_FALSE(list.settle());
}

TEST_CASE("an error of what was asked for is a usage error, and of no place", "[pipeline]") {
  const auto found = [](const std::string &code, uint32_t line, bool isOfRequest) {
    DiagnosticList list(2);
    Diagnostic d;
    d.code = code;
    d.range.line = line;
    d.isOfRequest = isOfRequest;
    list.incoming()->push_back(d);
    REQUIRE(list.settle());
    REQUIRE(list.list()[0].isOfRequest == (list.worst() == StatusCode::kUsage));
    return list.worst();
  };
  REQUIRE(found("OPC0503", 0, true) == StatusCode::kUsage);
  REQUIRE(found("OPC0503", 4, false) == StatusCode::kInvalidGraph);
  REQUIRE(found("OPC0005", 0, false) == StatusCode::kUsage);
  CompileOptions options;
  options.gradient.emplace();
  options.gradient->losses = {"lost"};
  options.gradient->wrt = {"x"};
  Pipeline p(registry(), options);
  REQUIRE(p.import("g", input("x", "dim: 4") + unary("sin", "s", "x/out", "x") + output("loss", "s/y_0")));
  REQUIRE_FALSE(p.run(Phase::kGrad));
  REQUIRE(p.errorClass() == StatusCode::kUsage);
  REQUIRE(p.diagnostics()[0].code == "OPC0502");
  REQUIRE(p.diagnostics()[0].isOfRequest);
  REQUIRE_FALSE(p.diagnostics()[0].range.known());
  options.gradient->isOfGraph = true;
  Pipeline job(registry(), options);
  REQUIRE(job.import("g", input("x", "dim: 4") + unary("sin", "s", "x/out", "x") + output("loss", "s/y_0")));
  REQUIRE_FALSE(job.run(Phase::kGrad));
  REQUIRE(job.errorClass() == StatusCode::kInvalidGraph);
  REQUIRE(job.diagnostics()[0].message == "loss_lbn 'lost': the graph has no tensor, output or op of that name");
}

TEST_CASE("facts grow with the phases", "[pipeline]") {
  CompileOptions options;
  options.gradient.emplace();
  options.gradient->losses = {"y"};
  options.gradient->wrt = {"x"};
  Pipeline p(registry(), options);
  REQUIRE(p.import("g", input("x", "dim: 4") + unary("sin", "s", "x/out", "x") + output("y", "s/y_0")));
  GraphFacts facts = p.facts();
  REQUIRE(facts.format == "list of op (text)");
  REQUIRE(facts.inputs.size() == 1);
  REQUIRE(facts.inputs[0].tensor == "x/out");
  REQUIRE(facts.ops.size() == 1);
  REQUIRE(facts.gradients.empty());
  REQUIRE(facts.tasks.empty());
  REQUIRE(p.run(Phase::kMemory));
  facts = p.facts();
  REQUIRE(facts.gradients.size() == 1);
  REQUIRE(facts.gradients[0].name == "x");
  REQUIRE(facts.gradients[0].output == "x.grad");
  REQUIRE(facts.gradients[0].shape == Shape({4}));
  REQUIRE(facts.tasks.size() == facts.ops.size());
  REQUIRE(std::any_of(facts.tasks.begin(), facts.tasks.end(),
                      [](const GraphTask &t) { return t.op == "s" && t.kernel == "cpu/sin/f32" && t.stream == 0; }));
  // Four floats: 16 bytes, in a slot of 64.
  REQUIRE(facts.memory.arenaBytes >= facts.memory.persistentBytes + 16);
  REQUIRE(facts.mesh.ops.empty());
}

TEST_CASE("facts of a graph on a mesh", "[pipeline]") {
  CompileOptions options;
  options.mesh.emplace().dims = {2};
  options.mesh->pins = {*parsePin("x=S(0)"), *parsePin("s=S(0)")};
  Pipeline p(registry(), options);
  REQUIRE(p.import("g", input("x", "dim: 4") + unary("sin", "s", "x/out", "x") + output("y", "s/y_0")));
  REQUIRE(p.run(Phase::kMemory));
  const GraphFacts facts = p.facts();
  REQUIRE(facts.mesh.placements.size() == 1);
  REQUIRE(facts.mesh.transitions.size() == 1);
  REQUIRE(facts.mesh.transitions[0].kind == "all_gather");
  // A rank sends its two floats to the other one.
  REQUIRE(facts.mesh.transitions[0].bytes == 8);
  REQUIRE(facts.tasks.size() == 2);
  REQUIRE(facts.tasks[1].kernel == "comm/all_gather");
  REQUIRE(facts.inputs[0].shape == Shape({4})); // the whole graph's, not a rank's
}

TEST_CASE("pins and stages as text", "[pipeline]") {
  REQUIRE(parsePin("fc*.w=S(0)")->glob == "fc*.w");
  REQUIRE(parsePin("x=[S(0), B]")->states.size() == 2);
  for (const char *bad : {"", "x", "=S(0)", "x=", "x=S(", "x=Q"}) REQUIRE_FALSE(parsePin(bad));
  const auto stage = parseStage("emb*,layer0*=0-2,6");
  REQUIRE(stage->ops == std::vector<std::string>{"emb*", "layer0*"});
  REQUIRE(stage->placement.ranks == std::vector<int64_t>{0, 1, 2, 6});
  REQUIRE(stage->placement.dims == std::vector<int64_t>{4});
  for (const char *bad : {"", "a", "=0", "a=", "a=1-0", "a=0-x", "a=0,,1", "a=-1"}) REQUIRE_FALSE(parseStage(bad));
}
