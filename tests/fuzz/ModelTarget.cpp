// ONNX models: imported, planned and run once, without a word of what they mean.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "Pipeline.h"
#include "Session.h"
#include "onnx.pb.h"

namespace opc::fuzz {

void fuzzOnnxModel(std::string_view bytes) {
  const char *target = "onnx_model";
  CompileOptions options;
  options.maxGraphBytes = 1 << 20;
  options.model.dims = {{"n", 2}};
  std::string plan;
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
  }
  SessionOptions sessionOptions;
  sessionOptions.threads = 1;
  sessionOptions.maxMemory = 4 << 20;
  Result<Session> session = Session::load(plan, test::registry(), sessionOptions);
  if (session) return;
  expectProperError(target, session.status());
  if (session.status().code() != StatusCode::kUnsupported)
    violated(target, "the runtime refuses the compiler's plan: " + session.status().toString());
}

size_t mutateOnnxModel(uint8_t *data, size_t size, size_t max, uint64_t seed) {
  return mutateAs<onnx::Model>(data, size, max, seed);
}

} // namespace opc::fuzz
