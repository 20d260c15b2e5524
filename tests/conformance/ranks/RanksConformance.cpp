// Whether many ranks compute what one computes: graphs, compiled for meshes with planned and with random signatures,
// run on ranks in this process and compared with a plan for one device.
//
//   opc_ranks_conformance [--ops GLOB] [--folder DIR]... [--random KIND:FIRST..LAST] [--meshes 1,2,3,4,2x2,2x3]
//                         [--seeds N] [--first-seed K] [--all-types] [--alone] [--print] [-v] [--sim]
//
// Without --ops, --folder and --random: the cases of every operator. Seeds are K, K+1, ...; the planner's choice comes
// first unless K is above 1. --sim: a simulated GPU a rank. A failure is printed as the arguments that repeat it. The
// many have the machine code that OPC_CODE_LEVEL says, the one none.
// SPDX-License-Identifier: Apache-2.0
#include "CodeOfRun.h"
#include "RandomGraph.h"
#include "TestGraph.h"

#include "MeshRequest.h"
#include "Pipeline.h"
#include "Placement.h"
#include "RegionCode.h"
#include "SessionCalls.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fnmatch.h>
#include <set>

using namespace opc;
using namespace opc::ranks;

namespace {

struct Ran {
  std::string error;
  bool compiled = false;
  std::map<std::string, HostTensor> tensors; // outputs, and variables as "NAME afterwards"
};

Status feedAndRun(const TestGraph &graph, Session *session, Ran *ran) {
  auto given = [&](const std::string &name) -> const HostTensor * {
    for (const auto *list : {&graph.inputs, &graph.variables})
      if (auto it = list->find(name); it != list->end()) return &it->second;
    return nullptr;
  };
  for (const PortInfo &port : session->interface().inputs) {
    if (const HostTensor *value = given(port.name)) {
      if (Status s = session->feed(port.name, *value); !s) return s;
      continue;
    }
    OPC_ASSIGN_OR_RETURN(auto value, HostTensor::create(port.desc.data_type(), port.desc.shape()));
    fillUniform(&value, 0, IsIntegralDataType(port.desc.data_type()) ? 9 : 1, {1, stableHash(port.name)});
    if (Status s = session->feed(port.name, value); !s) return s;
  }
  for (const PortInfo &variable : session->interface().variables)
    if (const HostTensor *value = given(variable.name))
      if (Status s = session->setVariable(variable.name, *value); !s) return s;
  if (Status s = session->run(graph.steps); !s) return s;
  for (const PortInfo &port : session->interface().outputs) {
    OPC_ASSIGN_OR_RETURN(auto t, session->fetch(port.name));
    ran->tensors.emplace(port.name, std::move(t));
  }
  for (const PortInfo &variable : session->interface().variables) {
    OPC_ASSIGN_OR_RETURN(auto t, session->variable(variable.name));
    ran->tensors.emplace(variable.name + " afterwards", std::move(t));
  }
  return Status::ok();
}

/// On CPUs, or with a mesh on simulated GPUs, one a rank, but for ops that have no kernel there.
Ran run(const Registry &registry, const TestGraph &graph, const std::optional<MeshRequest> &mesh, bool isSimulated) {
  Ran ran;
  CompileOptions options;
  options.mesh = mesh;
  if (mesh && isSimulated) {
    options.device = mesh->devices() > 1 ? "sim:0-" + std::to_string(mesh->devices() - 1) : "sim";
    options.cpuFallback = true;
  }
  options.gradient = graph.gradient;
  Pipeline pipeline(registry, std::move(options));
  if (!pipeline.import(graph.name, graph.text) || !pipeline.run(Phase::kPlan)) {
    for (const Diagnostic &d : pipeline.diagnostics())
      if (d.severity == Severity::kError && ran.error.empty())
        ran.error = "does not compile: " + d.code + ": " + d.subject + ": " + d.message;
    if (ran.error.empty()) ran.error = "does not compile";
    return ran;
  }
  ran.compiled = true;
  SessionOptions sessionOptions;
  sessionOptions.threads = 1;
  sessionOptions.ranks = 0;
  sessionOptions.timeout = 60;
  const WithoutRegionCode none(!mesh);
  auto session = Session::load(pipeline.emit(Emit::kPlan), registry, sessionOptions);
  if (!session)
    ran.error = "does not load: " + session.status().toString();
  else if (Status s = feedAndRun(graph, &*session, &ran); !s)
    ran.error = "fails: " + s.toString();
  return ran;
}

/// "" when `a` equals `b`, one rank's, within the tolerance. With `sumsMayOverflow`, NaN is right where one rank has an
/// infinity: a sum that leaves the range is infinite in one order and inf - inf in another.
std::string difference(const HostTensor &a, const HostTensor &b, Tolerance tolerance, bool sumsMayOverflow) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return "another type or shape";
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return "";
  if (!IsFloatingDataType(a.dtype())) return "integers differ";
  // Parts of a sum are rounded to the element type before they are added: where that is short, what they add up to may
  // be much smaller than they are.
  double least = 0;
  if (a.dtype() == kFloat16 || a.dtype() == kBFloat16)
    for (int64_t i = 0; i < b.elemCount(); ++i)
      if (std::isfinite(test::element(b, i))) least = std::max(least, std::fabs(test::element(b, i)));
  int64_t wrong = 0, first = 0;
  for (int64_t i = 0; i < a.elemCount(); ++i) {
    const double x = test::element(a, i), y = test::element(b, i);
    if ((std::isnan(x) && std::isnan(y)) || x == y) continue;
    if (sumsMayOverflow && std::isnan(x) && std::isinf(y)) continue;
    if (std::fabs(x - y) <= tolerance.atol + tolerance.rtol * std::max(least, std::fabs(y))) continue;
    if (!wrong++) first = i;
  }
  if (!wrong) return "";
  char text[200];
  std::snprintf(text, sizeof text, "%lld of %lld differ, first %lld: %.9g, one rank has %.9g",
                static_cast<long long>(wrong), static_cast<long long>(a.elemCount()), static_cast<long long>(first),
                test::element(a, first), test::element(b, first));
  return text;
}

struct Options {
  std::string ops;
  std::vector<std::string> folders, random;
  std::vector<std::vector<int64_t>> meshes = {{1}, {2}, {3}, {4}, {2, 2}, {2, 3}};
  uint64_t seeds = 0, firstSeed = 1;
  bool allTypes = false, alone = false, print = false, verbose = false, isSimulated = false;
};

class Checker {
public:
  Checker(const Registry &registry, const Options &options) : registry_(registry), options_(options) {}

  void check(const TestGraph &graph) {
    if (options_.print) return (void)std::printf("# %s\n%s", graph.name.c_str(), graph.text.c_str());
    const Ran expected = run(registry_, graph, std::nullopt, options_.isSimulated);
    if (!expected.error.empty()) {
      ++refused;
      std::printf("%s: one rank %s\n", graph.name.c_str(), expected.error.c_str());
      return;
    }
    ++graphs;
    std::set<std::string> seen;
    for (const auto &dims : options_.meshes) {
      MeshRequest mesh;
      mesh.dims = dims;
      if (options_.firstSeed <= 1) compare(graph, expected, mesh, &seen);
      for (uint64_t k = 0; k < options_.seeds; ++k) {
        mesh.randomSeed = options_.firstSeed + k;
        compare(graph, expected, mesh, &seen);
      }
    }
    if (options_.verbose) std::printf("%s: %zu kinds of failures\n", graph.name.c_str(), seen.size());
    std::fflush(stdout);
  }

  size_t graphs = 0, refused = 0, runs = 0, tensors = 0, failures = 0, kinds = 0;

private:
  void compare(const TestGraph &graph, const Ran &expected, const MeshRequest &mesh, std::set<std::string> *seen) {
    ++runs;
    const Ran ran = run(registry_, graph, mesh, options_.isSimulated);
    if (!ran.error.empty()) return fail(graph, mesh, "", ran.error, seen);
    if (ran.tensors.size() != expected.tensors.size()) return fail(graph, mesh, "", "other outputs", seen);
    for (const auto &[name, want] : expected.tensors) {
      const auto got = ran.tensors.find(name);
      if (got == ran.tensors.end()) {
        fail(graph, mesh, name, "is missing", seen);
        continue;
      }
      ++tensors;
      Tolerance limit = toleranceOf(want.dtype());
      limit = {limit.rtol * graph.factor, limit.atol * graph.factor};
      const std::string plain = name.substr(0, name.find(' '));
      for (const std::string &key : {std::string(), plain})
        if (auto own = graph.tolerances.find(key); own != graph.tolerances.end())
          limit = {std::max(limit.rtol, own->second.rtol), std::max(limit.atol, own->second.atol)};
      const std::string wrong = difference(got->second, want, limit, graph.sumsMayOverflow);
      if (!wrong.empty()) fail(graph, mesh, name, wrong, seen);
    }
  }

  void fail(const TestGraph &graph, const MeshRequest &mesh, const std::string &tensor, const std::string &what,
            std::set<std::string> *seen) {
    ++failures;
    // One line for each kind: the same tensor, or the same beginning of an error.
    if (!seen->insert(tensor.empty() ? what.substr(0, 48) : tensor).second) return;
    ++kinds;
    std::string dims;
    for (int64_t d : mesh.dims) dims += (dims.empty() ? "" : "x") + std::to_string(d);
    std::printf("FAIL %s --meshes %s %s: %s %s\n", graph.name.c_str(), dims.c_str(),
                mesh.randomSeed ? ("--seeds 1 --first-seed " + std::to_string(*mesh.randomSeed)).c_str() : "planned",
                tensor.c_str(), what.c_str());
    std::fflush(stdout);
  }

  const Registry &registry_;
  const Options &options_;
};

TestGraph fromRandom(const std::string &kind, uint64_t seed, const Registry &registry) {
  fuzz::RandomGraphOptions options;
  options.images = kind == "images";
  options.differentiable = kind == "gradients";
  options.maxOps = 12;
  const fuzz::RandomGraph made = fuzz::makeRandomGraph(registry, seed, options);
  TestGraph graph;
  graph.name = kind + std::to_string(seed);
  graph.text = made.text(false);
  graph.factor = 30;
  graph.sumsMayOverflow = true;
  // A cast of what was rounded to 8 bits is no more exact than that.
  for (size_t i : made.outputs)
    if (const DataType coarsest = made.tensors[i].coarsest; coarsest != kInvalidDataType) {
      const Tolerance one = toleranceOf(coarsest);
      graph.tolerances["o" + std::to_string(i)] = {one.rtol * graph.factor, one.atol * graph.factor};
    }
  for (const auto &input : made.inputs) {
    auto value = HostTensor::create(input.desc.data_type(), input.desc.shape());
    if (!value) continue;
    const bool isInteger = IsIntegralDataType(input.desc.data_type());
    fillUniform(&*value, input.lo, isInteger && input.hi > input.lo ? input.hi - 1 : input.hi,
                {seed, stableHash(input.op)});
    graph.inputs.emplace(input.op, std::move(*value));
  }
  if (options.differentiable) {
    GradientRequest request;
    for (size_t i : made.outputs)
      if (IsFloatingDataType(made.tensors[i].desc.data_type())) request.losses.push_back("o" + std::to_string(i));
    for (const auto &input : made.inputs)
      if (IsFloatingDataType(input.desc.data_type())) request.wrt.push_back(input.op);
    if (!request.losses.empty() && !request.wrt.empty()) graph.gradient = std::move(request);
  }
  return graph;
}

bool parse(int argc, char **argv, Options *o) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    bool *const isSet = flag == "--all-types" ? &o->allTypes
                        : flag == "--alone"   ? &o->alone
                        : flag == "--print"   ? &o->print
                        : flag == "-v"        ? &o->verbose
                        : flag == "--sim"     ? &o->isSimulated
                                              : nullptr;
    if (isSet) {
      *isSet = true;
      continue;
    }
    if (++i == argc) return false;
    const std::string value = argv[i];
    if (flag == "--ops") {
      o->ops = value;
    } else if (flag == "--folder") {
      o->folders.push_back(value);
    } else if (flag == "--random") {
      o->random.push_back(value);
    } else if (flag == "--seeds") {
      o->seeds = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--first-seed") {
      o->firstSeed = std::strtoull(value.c_str(), nullptr, 10);
    } else if (flag == "--meshes") {
      o->meshes.clear();
      for (size_t at = 0; at <= value.size();) {
        const size_t end = std::min(value.find(',', at), value.size());
        const auto dims = parseMesh(value.substr(at, end - at));
        if (!dims) return false;
        o->meshes.push_back(*dims);
        at = end + 1;
      }
    } else {
      return false;
    }
  }
  return true;
}

} // namespace

int main(int argc, char **argv) {
  Options options;
  if (!parse(argc, argv, &options)) {
    std::fprintf(stderr,
                 "usage: opc_ranks_conformance [--ops GLOB] [--folder DIR] [--random KIND:FIRST..LAST] "
                 "[--meshes 2,2x3] [--seeds N] [--first-seed K] [--all-types] [--alone] [--print] [-v] [--sim]\n");
    return 2;
  }
  const Registry &registry = test::registry();
  if (options.ops.empty() && options.folders.empty() && options.random.empty()) options.ops = "*";

  const test::CodeOfRun code;
  const auto start = std::chrono::steady_clock::now();
  Checker checker(registry, options);
  if (!options.ops.empty()) {
    std::vector<DataType> types = {kFloat, kDouble, kInt32, kInt64, kUInt8, kBool};
    if (options.allTypes) types = {kFloat, kDouble, kFloat16, kBFloat16, kInt32, kInt64, kInt8, kUInt8, kBool};
    for (const user_op::OpDef *op : opsWithCases(registry)) {
      if (fnmatch(options.ops.c_str(), op->name.c_str(), 0) != 0) continue;
      const auto graphs = caseGraphs(registry, *op, types, options.alone);
      if (graphs.empty()) std::printf("%s: no case runs here\n", op->name.c_str());
      for (const TestGraph &graph : graphs) checker.check(graph);
    }
  }
  for (const std::string &folder : options.folders) {
    auto graphs = folderGraphs(folder);
    if (!graphs) return std::fprintf(stderr, "%s\n", graphs.status().toString().c_str()), 2;
    for (const TestGraph &graph : *graphs) checker.check(graph);
  }
  for (const std::string &range : options.random) {
    unsigned long long first = 0, last = 0;
    const size_t colon = range.find(':');
    if (colon == std::string::npos || std::sscanf(range.c_str() + colon, ":%llu..%llu", &first, &last) != 2) return 2;
    for (uint64_t seed = first; seed <= last; ++seed) checker.check(fromRandom(range.substr(0, colon), seed, registry));
  }
  if (options.print) return 0;
  std::printf("ranks: %zu graphs on %zu meshes, planned and with %llu random choices each: %zu runs, %zu tensors "
              "compared; %zu failures of %zu kinds; %zu graphs that one rank refuses; %.0f s\n",
              checker.graphs, options.meshes.size(), static_cast<unsigned long long>(options.seeds), checker.runs,
              checker.tensors, checker.failures, checker.kinds, checker.refused,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return code.report() && !checker.failures && checker.graphs ? 0 : 1;
}
