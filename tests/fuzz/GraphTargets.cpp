// Graphs, text and binary: all phases, and the plan of a graph that is valid loads.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "Pipeline.h"
#include "Session.h"
#include "graph.pb.h"

namespace opc::fuzz {

namespace {

void expectProperDiagnostics(const char *target, const Pipeline &pipeline) {
  bool error = false;
  for (const Diagnostic &d : pipeline.diagnostics()) {
    if (d.severity != Severity::kError) continue;
    error = true;
    if (d.code.empty()) violated(target, "a diagnostic without a code: " + d.message);
    if (d.message.empty()) violated(target, "a diagnostic without a message: " + d.code);
  }
  if (!error) violated(target, "refused without an error");
  if (pipeline.errorClass() == StatusCode::kInternal)
    violated(target, "an internal error: " + pipeline.diagnostics().front().message);
}

void compileAndLoad(const char *target, std::string_view bytes) {
  CompileOptions options;
  options.maxGraphBytes = 1 << 20;
  Pipeline pipeline(test::registry(), options);
  const std::string owned(bytes);
  if (!pipeline.import("fuzz", owned) || !pipeline.run(Phase::kPlan)) return expectProperDiagnostics(target, pipeline);
  (void)pipeline.facts();
  (void)pipeline.facts().memory;
  (void)pipeline.emit(Emit::kMlir);
  (void)loadMade(target, pipeline.emit(Emit::kPlan));
}

/// What opc writes of a valid graph is the same graph again.
void emitAndReadAgain(const char *target, std::string_view bytes) {
  Pipeline first(test::registry(), {});
  if (!first.import("fuzz", std::string(bytes)) || !first.run(Phase::kShape)) return;
  const std::string text = first.emit(Emit::kGraphText);
  Pipeline second(test::registry(), {});
  if (!second.import("fuzz", text) || !second.run(Phase::kShape))
    violated(target, "the text that opc emits is refused: " + second.diagnostics().front().message + "\n" + text);
  if (second.emit(Emit::kGraphText) != text) violated(target, "emitting twice gives two texts:\n" + text);
}

} // namespace

void fuzzGraphText(std::string_view bytes) {
  compileAndLoad("graph_text", bytes);
  emitAndReadAgain("graph_text", bytes);
}

void fuzzGraphBinary(std::string_view bytes) { compileAndLoad("graph_binary", bytes); }

size_t mutateGraph(uint8_t *data, size_t size, size_t max, uint64_t seed) {
  return mutateAs<graph::DLNetConf>(data, size, max, seed);
}

} // namespace opc::fuzz
