// The bytes that the simulator says a rank sends are those that the communication layer counts, for every rank.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "PlanBuilder.h"
#include "PlanFile.h"
#include "Session.h"
#include "Simulation.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>

using namespace opc;

namespace {

std::string digits(const std::string &name) {
  std::ifstream in(std::string(OPC_SOURCE_DIR) + "/docs/examples/digits/" + name, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string compiled(const std::string &graph, const MeshRequest &mesh, bool training) {
  CompileOptions options;
  options.mesh = mesh;
  if (graph.find("conv2d") == std::string::npos) options.shapes = {{"image", {24, 64}}, {"label", {24}}};
  if (training) {
    options.gradient.emplace();
    options.gradient->losses = {"loss"};
    options.gradient->training.emplace().groups.emplace_back().learningRate = 0.01;
  }
  Pipeline p(test::registry(), options);
  const bool done = p.import("digits.pbtxt", graph) && p.run(Phase::kPlan);
  for (const Diagnostic &d : p.diagnostics()) INFO(d.code + ": " + d.message);
  REQUIRE(done);
  return p.emit(Emit::kPlan);
}

void checkBytes(const std::string &bytes, int64_t ranks) {
  simulate::ClusterDescription c;
  c.flops[kFloat] = 1e10;
  c.memoryBandwidth = 1e10;
  c.memoryBytes = 1 << 30;
  simulate::NetworkLevel level;
  level.name = "wire";
  level.devices = 64;
  c.levels.push_back(level);
  const auto plan = decodePlan(bytes);
  REQUIRE(plan);
  const auto report = simulate::simulate(*plan, test::registry(), c);
  INFO(report.status().toString());
  REQUIRE(report);
  REQUIRE(report->exactBytes());

  SessionOptions options;
  options.ranks = ranks;
  options.threads = 1;
  auto session = Session::load(bytes, test::registry(), options);
  INFO(session.status().toString());
  REQUIRE(session);
  for (const PortInfo &in : session->interface().inputs)
    std::fill_n(static_cast<char *>(session->inputData(in.name)), *tensorBytes(in.desc), 0);
  for (const PortInfo &v : session->interface().variables)
    if (!v.hasInitializer) std::fill_n(static_cast<char *>(session->variableData(v.name)), *tensorBytes(v.desc), 0);
  REQUIRE(session->prepare().isOk());
  const auto before = session->rankStats();
  constexpr int64_t kSteps = 3;
  const Status ran = session->run(kSteps);
  INFO(ran.toString());
  REQUIRE(ran.isOk());
  const auto after = session->rankStats();
  REQUIRE(before);
  REQUIRE(after);
  uint64_t total = 0;
  for (size_t r = 0; r < after->size(); ++r) {
    const uint64_t sent = (*after)[r].bytesSent - (*before)[r].bytesSent;
    CHECK(sent == kSteps * report->bytesSent[r]);
    total += sent;
  }
  uint64_t links = 0;
  for (const simulate::LinkTraffic &l : report->links) links += l.bytes;
  CHECK(total == kSteps * links);
}

} // namespace

TEST_CASE("simulated bytes are the communication layer's", "[simulate][bytes]") {
  const std::string mlp = digits("mlp.pbtxt") + digits("mlp_loss.pbtxt");
  for (const std::vector<int64_t> &dims : {std::vector<int64_t>{2}, {3}, {4}, {2, 2}, {2, 3}}) {
    MeshRequest mesh;
    mesh.dims = dims;
    CAPTURE(dims);
    checkBytes(compiled(mlp, mesh, true), mesh.devices());
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      mesh.randomSeed = seed;
      CAPTURE(seed);
      checkBytes(compiled(mlp, mesh, seed % 2 == 0), mesh.devices());
    }
  }
}

TEST_CASE("simulated bytes of a convolutional network are the communication layer's", "[simulate][bytes]") {
  const std::string cnn = digits("cnn.pbtxt");
  for (uint64_t seed = 0; seed <= 4; ++seed) {
    MeshRequest mesh;
    mesh.dims = {2, 2};
    if (seed > 0) mesh.randomSeed = seed;
    CAPTURE(seed);
    checkBytes(compiled(cnn, mesh, false), 4);
  }
}
