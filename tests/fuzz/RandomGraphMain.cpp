// Random graphs, compiled with everything on and with nothing: the outputs must agree.
//
//   opc_random_graphs [--kind any|images|gradients] [--seeds FIRST..LAST] [--seconds N] [--print SEED]
//
// The reference run has no simplification and no fusion, keeps every tensor as an output (so that no memory is used
// twice), and one thread. Kinds "any" and "gradients" must agree bit for bit: simplification removes and merges ops and
// never computes in another way, and kernels do not depend on the number of threads. With fusion, a graph that the
// phase has changed may differ by rounding: |a - b| <= tolerance * (1 + largest |b| of the tensor), and a tensor behind
// a step function is not compared, because there a last bit decides between two values. The reference has no machine
// code; the others have what OPC_CODE_LEVEL says.
// SPDX-License-Identifier: Apache-2.0
#include "CodeOfRun.h"
#include "FuzzTargets.h"
#include "RandomGraph.h"

#include "Pipeline.h"
#include "RegionCode.h"
#include "SessionCalls.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

using namespace opc;
using namespace opc::fuzz;

namespace {

struct Ran {
  bool compiled = false, loaded = false, ran = false;
  std::string error;
  std::map<std::string, HostTensor> outputs;
  std::vector<std::string> opTypes; // after the phase fuse, sorted
};

Result<HostTensor> inputValue(const RandomGraph::Input &input, uint64_t seed) {
  Result<HostTensor> t = HostTensor::create(input.desc.data_type(), input.desc.shape());
  if (!t) return t;
  const bool integer = IsIntegralDataType(input.desc.data_type());
  fillUniform(&*t, input.lo, integer && input.hi > input.lo ? input.hi - 1 : input.hi, {seed, stableHash(input.op)});
  return t;
}

void compileAndRunInto(Ran &r, const RandomGraph &graph, const std::string &text, CompileOptions options, int threads,
                       uint64_t seed) {
  Pipeline pipeline(test::registry(), std::move(options));
  if (!pipeline.import("random", text) || !pipeline.run(Phase::kPlan)) {
    for (const Diagnostic &d : pipeline.diagnostics())
      if (d.severity == Severity::kError) {
        r.error = d.code + ": " + d.subject + ": " + d.message;
        break;
      }
    return;
  }
  r.compiled = true;
  for (const GraphOp &op : pipeline.facts().ops) r.opTypes.push_back(op.type);
  std::sort(r.opTypes.begin(), r.opTypes.end());
  SessionOptions sessionOptions;
  sessionOptions.threads = threads;
  Result<Session> session = Session::load(pipeline.emit(Emit::kPlan), test::registry(), sessionOptions);
  if (!session) return (void)(r.error = session.status().toString());
  r.loaded = true;
  for (const PortInfo &port : session->interface().inputs) {
    const RandomGraph::Input *input = nullptr;
    for (const auto &i : graph.inputs)
      if (i.op == port.name) input = &i;
    if (!input) return (void)(r.error = "the plan has an input '" + port.name + "' that the graph has not");
    Result<HostTensor> value = inputValue(*input, seed);
    if (!value) return (void)(r.error = value.status().toString());
    if (Status s = session->feed(port.name, *value); !s) return (void)(r.error = s.toString());
  }
  // Twice: what a first step leaves behind must not change the second.
  for (int step = 0; step < 2; ++step)
    if (Status s = session->run(1); !s) return (void)(r.error = s.toString());
  r.ran = true;
  for (const PortInfo &port : session->interface().outputs) {
    Result<HostTensor> t = session->fetch(port.name);
    if (!t) {
      r.ran = false;
      r.error = t.status().toString();
      return;
    }
    r.outputs.emplace(port.name, std::move(*t));
  }
  return;
}

Ran compileAndRun(const RandomGraph &graph, const std::string &text, CompileOptions options, int threads,
                  uint64_t seed) {
  Ran r;
  compileAndRunInto(r, graph, text, std::move(options), threads, seed);
  return r;
}

Ran runWithoutCode(const RandomGraph &graph, const std::string &text, CompileOptions options, uint64_t seed) {
  const WithoutRegionCode none;
  return compileAndRun(graph, text, std::move(options), 1, seed);
}

/// "" when equal. `tolerance` 0: bit for bit, any NaN equal to any NaN.
std::string difference(const HostTensor &a, const HostTensor &b, double tolerance) {
  if (a.dtype() != b.dtype() || a.shape() != b.shape()) return "another type or shape";
  if (std::memcmp(a.data(), b.data(), a.bytes()) == 0) return "";
  if (!IsFloatingDataType(a.dtype())) return "integers differ";
  double largest = 0;
  for (int64_t i = 0; i < b.elemCount(); ++i)
    if (std::isfinite(test::element(b, i))) largest = std::max(largest, std::fabs(test::element(b, i)));
  const double limit = tolerance * (1 + largest);
  for (int64_t i = 0; i < a.elemCount(); ++i) {
    const double x = test::element(a, i), y = test::element(b, i);
    if (std::isnan(x) && std::isnan(y)) continue;
    // With a tolerance an overflow may come one rounding earlier.
    if (tolerance > 0 && (!std::isfinite(y) || !std::isfinite(x))) continue;
    const bool same = tolerance == 0 ? x == y && std::signbit(x) == std::signbit(y) : std::fabs(x - y) <= limit;
    if (!same) {
      char text[160];
      std::snprintf(text, sizeof text, "element %lld is %.17g, expected %.17g (limit %.3g)", static_cast<long long>(i),
                    x, y, limit);
      return text;
    }
  }
  return "";
}

/// Of graphs of several ops, relative to 1 + the tensor's largest number.
double toleranceOf(DataType type) { return 20 * elementType(type).atol; }

struct Counters {
  int graphs = 0, ops = 0, refused = 0, fused = 0, compared = 0, gradients = 0;
};

std::string compareForward(const RandomGraph &graph, uint64_t seed, Counters *counters) {
  CompileOptions plain;
  plain.simplify = plain.fuse = false;
  const Ran reference = runWithoutCode(graph, graph.text(true), plain, seed);
  if (!reference.compiled) return "the graph does not compile: " + reference.error;
  if (!reference.loaded) return "the plan does not load: " + reference.error;
  for (const bool fuse : {false, true}) {
    CompileOptions options;
    options.fuse = fuse;
    const Ran ran = compileAndRun(graph, graph.text(false), options, 2, seed);
    if (!ran.compiled || !ran.loaded) return "optimised, it does not compile: " + ran.error;
    if (!reference.ran) { // a kernel refuses these values; the same op may be dead in the other run
      ++counters->refused;
      return "";
    }
    if (!ran.ran) return "optimised, it fails: " + ran.error;
    if (ran.outputs.size() != graph.outputs.size()) return "the number of outputs differs";
    bool fused = false;
    if (fuse) {
      CompileOptions unfused;
      unfused.fuse = false;
      Pipeline pipeline(test::registry(), unfused);
      std::vector<std::string> types;
      if (pipeline.import("random", graph.text(false)) && pipeline.run(Phase::kPlan))
        for (const GraphOp &op : pipeline.facts().ops) types.push_back(op.type);
      std::sort(types.begin(), types.end());
      fused = types != ran.opTypes;
      counters->fused += fused;
    }
    for (size_t i : graph.outputs) {
      const std::string name = "o" + std::to_string(i);
      const auto a = ran.outputs.find(name), b = reference.outputs.find(name);
      if (a == ran.outputs.end() || b == reference.outputs.end()) return "output " + name + " is missing";
      if (fused && graph.tensors[i].discontinuous) continue;
      const std::string wrong = difference(a->second, b->second, fused ? toleranceOf(b->second.dtype()) : 0);
      if (!wrong.empty())
        return std::string(fuse ? "with" : "without") + " fusion, output " + name + " (" + graph.tensors[i].name +
               "): " + wrong;
      ++counters->compared;
    }
  }
  return "";
}

std::string compareGradients(const RandomGraph &graph, uint64_t seed, Counters *counters) {
  GradientRequest request;
  for (size_t i : graph.outputs)
    if (IsFloatingDataType(graph.tensors[i].desc.data_type())) request.losses.push_back("o" + std::to_string(i));
  if (request.losses.empty()) return "";
  for (const auto &input : graph.inputs)
    if (IsFloatingDataType(input.desc.data_type())) request.wrt.push_back(input.op);
  if (request.wrt.empty()) return "";
  CompileOptions plain, optimised;
  plain.simplify = plain.fuse = false;
  optimised.fuse = false;
  plain.gradient = optimised.gradient = request;
  const Ran reference = runWithoutCode(graph, graph.text(false), plain, seed);
  // A loss behind a step function, or one that reads integers only, has no gradient: the compiler must say so.
  // A rule may say that it has no second derivative.
  if (reference.error.find("derivatives") != std::string::npos &&
      reference.error.find("are not provided") != std::string::npos)
    return ++counters->refused, "";
  if (reference.error.rfind("OPC0505", 0) == 0) return ++counters->refused, "";
  if (!reference.compiled) return "no gradient graph: " + reference.error;
  const Ran ran = compileAndRun(graph, graph.text(false), optimised, 2, seed);
  if (!ran.compiled || !ran.loaded) return "optimised, the gradient graph does not compile: " + ran.error;
  if (!reference.ran) return ++counters->refused, "";
  if (!ran.ran) return "optimised, the gradient graph fails: " + ran.error;
  for (const auto &[name, expected] : reference.outputs) {
    const auto a = ran.outputs.find(name);
    if (a == ran.outputs.end()) return "gradient " + name + " is missing";
    const std::string wrong = difference(a->second, expected, 0);
    if (!wrong.empty()) return "gradient output " + name + ": " + wrong;
    ++counters->gradients;
  }
  return "";
}

} // namespace

int main(int argc, char **argv) {
  std::string kind = "any";
  unsigned long long first = 1, last = 50, print = 0;
  double seconds = 0;
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    const char *value = i + 1 < argc ? argv[++i] : "";
    bool ok = true;
    if (flag == "--kind")
      ok = (kind = value, kind == "any" || kind == "images" || kind == "gradients");
    else if (flag == "--seeds")
      ok = std::sscanf(value, "%llu..%llu", &first, &last) == 2;
    else if (flag == "--seconds")
      seconds = std::atof(value);
    else if (flag == "--print")
      print = std::strtoull(value, nullptr, 10);
    else
      ok = false;
    if (!ok) {
      std::fprintf(stderr, "usage: opc_random_graphs [--kind any|images|gradients] [--seeds FIRST..LAST] [--seconds N] "
                           "[--print SEED]\n");
      return 2;
    }
  }
  RandomGraphOptions options;
  options.images = kind == "images";
  options.differentiable = kind == "gradients";
  if (options.differentiable) options.maxOps = 12;
  if (print) return std::printf("%s", makeRandomGraph(test::registry(), print, options).text(false).c_str()), 0;

  const test::CodeOfRun code;
  Counters counters;
  int failures = 0;
  const auto start = std::chrono::steady_clock::now();
  for (uint64_t seed = first; seed <= last || seconds > 0; ++seed) {
    if (seconds > 0 && std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() > seconds) break;
    const RandomGraph graph = makeRandomGraph(test::registry(), seed, options);
    ++counters.graphs;
    counters.ops += static_cast<int>(graph.net.op_size() - static_cast<int>(graph.inputs.size()));
    const std::string wrong =
        options.differentiable ? compareGradients(graph, seed, &counters) : compareForward(graph, seed, &counters);
    if (wrong.empty()) continue;
    std::printf("FAIL seed %llu: %s\n", static_cast<unsigned long long>(seed), wrong.c_str());
    std::fflush(stdout);
    if (++failures == 20) break;
  }
  std::printf(
      "random graphs (%s): %d graphs of %d ops; %d outputs and %d gradients agree, %d graphs fused, %d not compared "
      "(no gradient, or a kernel refused the values); %d failures\n",
      kind.c_str(), counters.graphs, counters.ops, counters.compared, counters.gradients, counters.fused,
      counters.refused, failures);
  return code.report() && failures == 0 ? 0 : 1;
}
