// Cluster files: what they mean, and what is wrong with those that mean nothing.
// SPDX-License-Identifier: Apache-2.0
#include "Cluster.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <random>

using namespace opc;
using namespace opc::simulate;

namespace {

std::string example(const char *name) {
  std::ifstream in(std::string(OPC_SOURCE_DIR) + "/docs/examples/clusters/" + name);
  return {std::istreambuf_iterator<char>(in), {}};
}
std::string small(const std::string &device = R"("memory_bandwidth": 1e10, "memory_bytes": 1e9)",
                  const std::string &more = "") {
  return R"({"schema": 1, "device": {"flops": {"f32": 1e11}, )" + device +
         R"(}, "levels": [{"name": "a", "devices": 4, "latency": 1e-6, "bandwidth": 1e9}])" + more + "}";
}
std::string idOf(const std::string &text) {
  const auto r = parseCluster(text, "c.json");
  return r ? "" : r.status().id();
}

} // namespace

TEST_CASE("cluster files are read and written back", "[cluster]") {
  for (const char *name : {"a100_superpod.json", "two_hosts.json"}) {
    const auto cluster = parseCluster(example(name), name);
    INFO(name << ": " << cluster.status().toString());
    REQUIRE(cluster);
    const auto again = parseCluster(clusterText(*cluster), name);
    REQUIRE(again);
    CHECK(clusterText(*again) == clusterText(*cluster));
  }
  const auto c = parseCluster(example("two_hosts.json"), "two_hosts.json");
  CHECK(c->flops.at(kFloat) == 100e9);
  CHECK(c->coresPerHost == 4);
  CHECK(c->levels[1].sharedBy == 4);
  CHECK(linkOf({&c->levels[1]}, BoxingKind::kAllReduce).bandwidth == 0.3e9);
  auto measured = *c;
  measured.ops["relu"] = {1e-6, 2.5};
  measured.levels[0].collectives[BoxingKind::kAllReduce] = {1e-6, 5e8};
  measured.axes = {"ethernet", "memory"};
  const auto back = parseCluster(clusterText(measured), "x");
  REQUIRE(back);
  CHECK(back->ops.at("relu").factor == 2.5);
  CHECK(linkOf({&back->levels[0]}, BoxingKind::kAllReduce).bandwidth == 5e8);
  CHECK(linkOf({&back->levels[0]}, BoxingKind::kAllGather).bandwidth == 4e9);
  CHECK(back->axes == measured.axes);
}

TEST_CASE("cluster files that are wrong name the field", "[cluster]") {
  CHECK(idOf(small()) == "");
  const auto message = [](const std::string &text) { return parseCluster(text, "c.json").status().toString(); };
  CHECK(idOf("") == "OPC0740");
  CHECK_THAT(message("{\n\"schema\": 1,\n\"device\" 3}"), Catch::Contains("c.json:3: this is not JSON"));
  CHECK(idOf("[]") == "OPC0741");
  CHECK(idOf(std::string(100000, '[')) == "OPC0740");
  CHECK(idOf(R"({"schema":)" + std::string(50, '[') + std::string(50, ']') + "}") == "OPC0740");
  CHECK(idOf(R"({"schema": 2, "device": {}, "levels": []})") == "OPC0742");
  CHECK_THAT(message(small(R"("memory_bandwidth": -1, "memory_bytes": 1e9)")),
             Catch::Contains("/device/memory_bandwidth") && Catch::Contains("above 0"));
  CHECK(idOf(small(R"("memory_bandwidth": 0, "memory_bytes": 1e9)")) == "OPC0742");
  CHECK(idOf(small(R"("memory_bandwidth": 1e999, "memory_bytes": 1e9)")) == "OPC0742");
  CHECK(idOf(small(R"("memory_bandwidth": "fast", "memory_bytes": 1e9)")) == "OPC0741");
  CHECK(idOf(small(R"("memory_bandwidth": 1, "memory_bandwidth": 2, "memory_bytes": 1e9)")) == "OPC0741");
  CHECK_THAT(message(small(R"("memory_bandwidth": 1e9)")),
             Catch::Contains("/device/memory_bytes") && Catch::Contains("missing"));
  CHECK_THAT(message(small(R"("memory_bandwidth": 1e9, "memory_bytes": 1e9, "speed": 1)")),
             Catch::Contains("/device/speed"));
  CHECK(idOf(small(R"("memory_bandwidth": 1e9, "memory_bytes": 1e9, "efficiency": {"peak": 1.5})")) == "OPC0742");
  CHECK(idOf(small(R"("memory_bandwidth": 1e9, "memory_bytes": 1e9, "task_overhead": -1e-6)")) == "OPC0742");
  const std::string ok = R"("memory_bandwidth": 1e9, "memory_bytes": 1e9)";
  CHECK(idOf(small(ok, R"(, "axes": ["b"])")) == "OPC0743");
  CHECK(idOf(small(ok, R"(, "axes": "a")")) == "OPC0741");
  CHECK(idOf(small(ok, R"(, "host": {"devices": 0})")) == "OPC0742");
  CHECK(idOf(small(ok, R"(, "host": {"devices": 1.5})")) == "OPC0741");
  CHECK(idOf(small(ok, R"(, "ops": {"relu": {"overhead": 0}})")) == "OPC0741");
  const std::string head =
      R"({"schema": 1, "device": {"flops": {"f32": 1}, "memory_bandwidth": 1, "memory_bytes": 1}, "levels": )";
  CHECK(idOf(head + "[]}") == "OPC0741");
  CHECK(idOf(head + "7}") == "OPC0741");
  const auto level = [](const char *name, const char *devices) {
    return std::string(R"({"name": ")") + name + R"(", "devices": )" + devices + R"(, "latency": 0, "bandwidth": 1})";
  };
  CHECK(idOf(head + "[" + level("a", "4") + "]}") == "");
  CHECK(idOf(head + "[" + level("a", "4") + "," + level("b", "4") + "]}") == "OPC0743");
  CHECK(idOf(head + "[" + level("a", "4") + "," + level("b", "6") + "]}") == "OPC0743");
  CHECK(idOf(head + "[" + level("a", "4") + "," + level("a", "8") + "]}") == "OPC0743");
  CHECK(idOf(head + "[" + level("a", "100000000000") + "]}") == "OPC0742");
  CHECK(idOf(head + "[" + level("a", "-4") + "]}") == "OPC0742");
}

TEST_CASE("any prefix and any damage of a cluster file is an error or a cluster, never a crash", "[cluster]") {
  const std::string text = example("two_hosts.json");
  for (size_t n = 0; n + 2 < text.size(); ++n) CHECK(!idOf(text.substr(0, n)).empty());
  std::mt19937 random(1);
  const std::string bytes = "0123456789-+.eE{}[],:\"\\ \n\x01\xff"
                            "abcz";
  for (int i = 0; i < 3000; ++i) {
    std::string t = text;
    for (int k = 0; k < 3; ++k) t[random() % t.size()] = bytes[random() % bytes.size()];
    const auto r = parseCluster(t, "c.json");
    if (r) {
      CHECK(parseCluster(clusterText(*r), "again"));
    } else {
      CHECK(r.status().id().rfind("OPC074", 0) == 0);
    }
  }
}

TEST_CASE("links of a mesh follow the distance of its ranks, or the axes that the file gives", "[cluster]") {
  auto c = *parseCluster(example("two_hosts.json"), "two_hosts.json");
  const auto names = [&](const Placement &p) {
    std::string text;
    const auto links = placementLinks(c, p);
    if (!links) return links.status().id();
    for (const PlacementLink &l : *links) text += l.level->name.substr(0, 1);
    return text;
  };
  CHECK(names(Placement::dense({2, 4})) == "eme");
  CHECK(names(Placement::dense({4, 2})) == "eme"); // pairs two apart: ranks 0, 2, 4, 6
  CHECK(names(Placement::dense({2, 2})) == "mmm");
  CHECK(names(Placement::dense({2, 2}, 2)) == "eme");
  CHECK(names(Placement::dense({8})) == "ee");
  CHECK(names(Placement::dense({16})) == "OPC0744");
  // A ring through both hosts has 4 ranks on each, which together have the one wire that they share.
  CHECK(meshLinks(c, Placement::dense({8}))->dims[0].bandwidth == Approx(1.2e9));
  CHECK(meshLinks(c, Placement::dense({2, 4}))->dims[0].bandwidth == Approx(0.3e9));
  CHECK(meshLinks(c, Placement::dense({2, 4}))->dims[1].bandwidth == Approx(4e9));
  c.axes = {"memory", "ethernet"};
  CHECK(names(Placement::dense({2, 4})) == "mee");
  CHECK(names(Placement::dense({8})) == "OPC0744");
}

TEST_CASE("parts of a mesh use the level that joins their ranks, and each kind of step its own link", "[cluster]") {
  auto c = *parseCluster(example("two_hosts.json"), "two_hosts.json");
  const Placement mesh = Placement::dense({2, 4});
  const auto names = [&](std::vector<int64_t> dims, std::vector<int64_t> ranks) {
    std::string text;
    const auto links = placementLinks(c, Placement{std::move(dims), std::move(ranks)}, &mesh);
    if (!links) return links.status().id();
    for (const PlacementLink &l : *links) text += l.level->name.substr(0, 1);
    return text;
  };
  const auto between = [&](const std::vector<int64_t> &a, const std::vector<int64_t> &b) {
    const RankLevels levels(c, mesh);
    return levels.levelOf(levels.spanOf(a) | levels.spanOf(b))->name.substr(0, 1);
  };
  CHECK(names({2}, {1, 3}) == "mm");
  CHECK(names({2}, {3, 4}) == "ee");
  CHECK(names({2, 2}, {0, 1, 4, 5}) == "eme");
  CHECK(between({0, 1}, {2, 3}) == "m");
  CHECK(between({0, 1}, {4}) == "e");
  c.axes = {"memory", "ethernet"}; // rows lie inside, columns outside
  CHECK(names({2}, {1, 3}) == "ee");
  CHECK(names({2}, {0, 4}) == "mm");
  CHECK(names({2, 2}, {0, 1, 4, 5}) == "mee");
  CHECK(between({0}, {4}) == "m");
  CHECK(between({0, 4}, {1, 5}) == "e");
  c.axes.clear();
  c.levels[0].collectives[BoxingKind::kAllToAll] = {1e-3, 1e6};
  const MeshLinks links = *meshLinks(c, Placement{{2}, {1, 3}}, &mesh);
  CHECK(links.of(0, BoxingKind::kAllToAll).bandwidth == Approx(1e6));
  CHECK(links.of(0, BoxingKind::kAllReduce).bandwidth == Approx(4e9));
  const BoxingStep step{
      BoxingKind::kAllToAll, 0, {SbpParallel::split(0)}, {SbpParallel::split(1)}, BoxingReduction::kSum};
  const Placement two = Placement::dense({2});
  CHECK(boxingSeconds({step, Shape{8, 4}, kFloat, two, two}, links) ==
        Approx(1e-3 + 32 / 1e6)); // a quarter of 128 bytes
}

TEST_CASE("an op takes the longer of its arithmetic and its memory, by the share of cores", "[cluster]") {
  auto c = *parseCluster(example("two_hosts.json"), "two_hosts.json");
  c.taskOverhead = 0;
  c.efficiency = {0.5, 10};
  const OpCost product{2.0 * 300 * 300 * 300, 4.0 * 3 * 300 * 300, true}; // width 200
  CHECK(opSeconds(c, "matmul", product, kFloat) == Approx(54e6 / (100e9 * 0.5 * 200 / 210)));
  CHECK(opSeconds(c, "relu", OpCost{1e6, 8e6}, kFloat) == Approx(8e6 / 10e9));
  CHECK(opSeconds(c, "tanh", OpCost{1e9, 8e6, false}, kFloat) == Approx(1e9 / 100e9));
  CHECK(opSeconds(c, "matmul", product, kFloat, 8) == Approx(2 * opSeconds(c, "matmul", product, kFloat, 4)));
  CHECK(opSeconds(c, "matmul", product, kFloat, 2) == opSeconds(c, "matmul", product, kFloat, 4));
  c.ops["relu"] = {1e-6, 3};
  CHECK(opSeconds(c, "relu", OpCost{1e6, 8e6}, kFloat) == Approx(1e-6 + 3 * 8e6 / 10e9));
  CHECK(opSeconds(c, "constant", OpCost{}, kFloat) == 0);
}
