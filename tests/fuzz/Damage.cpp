// Truncates a graph (text and binary) and its plan at every byte, and flips every byte of both binary forms: each must
// be refused with a message or, for a flipped graph, at least do no harm.
// SPDX-License-Identifier: Apache-2.0
#include "Pipeline.h"
#include "Session.h"
#include "TestRegistry.h"

#include <cstdio>
#include <fstream>
#include <sstream>

using namespace opc;

namespace {

int failures = 0;

void report(const std::string &what, size_t at, const char *why) {
  if (++failures <= 20) std::printf("FAIL %s at byte %zu: %s\n", what.c_str(), at, why);
}

/// Runs a graph through all phases. True when it was accepted.
bool compiles(const Registry &registry, const std::string &bytes, std::string *plan, bool *silent) {
  CompileOptions options;
  options.maxGraphBytes = 1 << 20;
  Pipeline pipeline(registry, options);
  const bool ok = pipeline.import("damaged", bytes) && pipeline.run(Phase::kPlan);
  bool said = false;
  for (const Diagnostic &d : pipeline.diagnostics())
    said |= d.severity == Severity::kError && !d.code.empty() && !d.message.empty();
  *silent = !ok && !said;
  if (ok && plan) *plan = pipeline.emit(Emit::kPlan);
  return ok;
}

void truncateGraph(const Registry &registry, const std::string &what, const std::string &bytes) {
  for (size_t n = 0; n < bytes.size(); ++n) {
    bool silent = false;
    if (compiles(registry, bytes.substr(0, n), nullptr, &silent)) report(what, n, "a truncated graph was accepted");
    if (silent) report(what, n, "refused without an error");
  }
}

void flipGraph(const Registry &registry, const std::string &what, std::string bytes) {
  for (size_t n = 0; n < bytes.size(); ++n) {
    bool silent = false;
    bytes[n] = static_cast<char>(~bytes[n]);
    compiles(registry, bytes, nullptr, &silent); // a flipped bit of a name or a value may well give another good graph
    if (silent) report(what, n, "refused without an error");
    bytes[n] = static_cast<char>(~bytes[n]);
  }
}

void damagePlan(const Registry &registry, const std::string &bytes) {
  auto refused = [&](const std::string &plan, size_t at, const char *how) {
    SessionOptions options;
    options.threads = 1;
    Result<Session> session = Session::load(plan, registry, options);
    if (session) return report("plan", at, how);
    const StatusCode code = session.status().code();
    if (code != StatusCode::kUsage && code != StatusCode::kInvalidGraph && code != StatusCode::kUnsupported)
      report("plan", at, "refused, but not as a bad plan");
    if (session.status().message().empty()) report("plan", at, "refused without a message");
  };
  for (size_t n = 0; n < bytes.size(); ++n) refused(bytes.substr(0, n), n, "a truncated plan was accepted");
  std::string flipped = bytes;
  for (size_t n = 0; n < bytes.size(); ++n) {
    flipped[n] = static_cast<char>(~flipped[n]);
    refused(flipped, n, "a plan with a flipped byte was accepted");
    flipped[n] = bytes[n];
  }
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 2) {
    std::printf("usage: opc_damage_test GRAPH\n");
    return 2;
  }
  std::ifstream file(argv[1], std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  const std::string graph = text.str();

  const Registry &registry = test::registry();
  std::string plan;
  bool silent = false;
  if (!compiles(registry, graph, &plan, &silent)) return std::printf("the whole graph is refused\n"), 1;
  Pipeline pipeline(registry, {});
  if (!pipeline.import(argv[1], graph)) return 1;
  const std::string binary = pipeline.emit(Emit::kGraphBinary);

  truncateGraph(registry, "text graph", graph);
  flipGraph(registry, "binary graph", binary);
  // A binary list of ops is a valid list after each op; only whole ops may be accepted, and without an output none is.
  truncateGraph(registry, "binary graph", binary);
  damagePlan(registry, plan);
  std::printf("damage: text %zu, binary %zu, plan %zu bytes; %d failures\n", graph.size(), binary.size(), plan.size(),
              failures);
  return failures ? 1 : 0;
}
