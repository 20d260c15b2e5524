// The facts of a compiled graph: positions, roles, initializers, costs, what ranks need.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "TestRegistry.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace opc;
using opc::test::registry;

namespace {

const char *const kGraph =
    "op { name: \"x\" input_conf { out: \"out\" blob_conf { shape { dim: 4 dim: 3 } data_type: kFloat } } }\n"
    "op { name: \"w\" variable_conf { out: \"out\" shape { dim: 3 dim: 5 } data_type: kFloat random_seed: 7\n"
    "  initializer { constant_conf { value: 0.5 } } } }\n"
    "op { name: \"fc\" user_conf { op_type_name: \"matmul\" input { key: \"a\" value { s: \"x/out\" } }\n"
    "  input { key: \"b\" value { s: \"w/out\" } } } }\n"
    "op { name: \"y\" output_conf { in: \"fc/out_0\" } }\n";

} // namespace

TEST_CASE("Facts say where inputs, variables and outputs stand", "[facts]") {
  Pipeline pipeline(registry(), {});
  REQUIRE(pipeline.import("g.pbtxt", kGraph));
  const GraphFacts facts = pipeline.facts();
  CHECK(facts.inputs.at(0).range.line == 1);
  CHECK(facts.variables.at(0).range.line == 2);
  CHECK(facts.variables.at(0).initializer == "constant_conf {value = 5.000000e-01 : f32} seed 7");
  CHECK(facts.outputs.at(0).range.line == 6);
  CHECK(facts.ops.at(0).role == "forward");
  CHECK(facts.costs.flops == 0); // not asked for
}

TEST_CASE("Facts have the costs of ops, their sums and the memory of the ranks", "[facts]") {
  CompileOptions options;
  options.gradient.emplace();
  options.gradient->losses = {"y"};
  Pipeline pipeline(registry(), options);
  REQUIRE(pipeline.import("g.pbtxt", kGraph));
  REQUIRE(pipeline.run(Phase::kShape));
  // A product of 4x3 and 3x5: 2 operations for each of 4*3*5 pairs; 12 + 15 + 20 elements of 4 bytes.
  GraphFacts facts = pipeline.facts(/*costs=*/true);
  CHECK(facts.ops.at(0).flops == 2 * 4 * 3 * 5);
  CHECK(facts.ops.at(0).bytes == 4 * (12 + 15 + 20));
  CHECK(facts.costs.flops == facts.ops.at(0).flops);
  REQUIRE(pipeline.run(Phase::kGrad));
  facts = pipeline.facts();
  CHECK(std::any_of(facts.ops.begin(), facts.ops.end(), [](const GraphOp &op) { return op.role == "backward"; }));
  REQUIRE(pipeline.run(Phase::kMemory));
  facts = pipeline.facts();
  REQUIRE(facts.parts.size() == 1);
  CHECK(facts.parts[0].ranks == std::vector<uint32_t>{0});
  CHECK(facts.costs.peakBytes == facts.memory.arenaBytes);
  CHECK(facts.costs.tasks == facts.tasks.size());
}

TEST_CASE("Facts of a graph on a mesh know every rank and what is sent", "[facts]") {
  CompileOptions options;
  options.mesh.emplace();
  options.mesh->dims = {2};
  options.gradient.emplace();
  options.gradient->losses = {"y"};
  Pipeline pipeline(registry(), options);
  REQUIRE(pipeline.import("g.pbtxt", kGraph));
  REQUIRE(pipeline.run(Phase::kMemory));
  const GraphFacts facts = pipeline.facts();
  std::vector<uint32_t> ranks;
  for (const PartFacts &part : facts.parts) ranks.insert(ranks.end(), part.ranks.begin(), part.ranks.end());
  std::sort(ranks.begin(), ranks.end());
  CHECK(ranks == std::vector<uint32_t>{0, 1});
  int64_t sent = 0;
  for (const MeshFacts::Transition &t : facts.mesh.transitions) sent += t.bytes;
  CHECK(facts.costs.commBytes == sent);
}
