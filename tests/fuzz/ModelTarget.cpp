// ONNX models: imported, planned, loaded and, but for loops, run once, without a word of what they mean.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "Pipeline.h"
#include "Session.h"
#include "onnx.pb.h"

#include <algorithm>

namespace opc::fuzz {

void fuzzOnnxModel(std::string_view bytes) {
  const char *target = "onnx_model";
  CompileOptions options;
  options.maxGraphBytes = 1 << 20;
  options.model.dims = {{"n", 2}};
  std::string plan;
  bool hasLoop = false;
  {
    // Like a model from a pipe, of which nothing lies beside it.
    Pipeline pipeline(test::registry(), options);
    const bool ok = pipeline.import("<stdin>", std::string(bytes)) && pipeline.run(Phase::kPlan);
    if (ok) plan = pipeline.emit(Emit::kPlan);
    bool hasError = false;
    for (const Diagnostic &d : pipeline.diagnostics()) {
      hasError |= d.severity == Severity::kError;
      if (d.code.empty() || d.message.empty()) violated(target, "a diagnostic without a code or message: " + d.message);
    }
    if (!ok && !hasError) violated(target, "refused without an error");
    if (!ok && pipeline.errorClass() == StatusCode::kInternal)
      violated(target, "an internal error: " + pipeline.diagnostics().front().message);
    if (!ok) return;
    const std::vector<GraphOp> &ops = pipeline.facts().ops;
    hasLoop = std::any_of(ops.begin(), ops.end(), [](const GraphOp &op) { return op.type == "loop"; });
  }
  Result<Session> session = loadMade(target, plan);
  if (!session) return;
  if (hasLoop) return; // which may make billions of turns, and is right to
  fillInputs(target, *session);
  expectProperError(target, session->prepare());
  if (Status s = session->run(1); !s) return expectProperError(target, s);
  for (const PortInfo &port : session->interface().outputs)
    expectProperError(target, session->fetch(port.name).status());
}

size_t mutateOnnxModel(uint8_t *data, size_t size, size_t max, uint64_t seed) {
  return mutateAs<onnx::Model>(data, size, max, seed);
}

} // namespace opc::fuzz
