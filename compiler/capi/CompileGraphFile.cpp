// What libopc_compiler has beyond libopc: a graph file's plan.
// SPDX-License-Identifier: Apache-2.0
#include "CapiCalls.h"
#include "Pipeline.h"

namespace opc::capi {

Result<std::string> compileGraphFile(const Registry &registry, const std::string &path) {
  OPC_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::open(path));
  Pipeline pipeline(registry, {});
  if (pipeline.import(path, std::string(file.view())) && pipeline.run(Phase::kPlan)) return pipeline.emit(Emit::kPlan);
  if (pipeline.diagnostics().empty())
    return Status(StatusCode::kInternal, "OPC0999", path + ": the compiler gave no reason");
  const Diagnostic &first = pipeline.diagnostics().front();
  Status failure(pipeline.errorClass(), first.code, first.message);
  if (first.range.line > 0)
    failure = std::move(failure).withContext("at " + path + ":" + std::to_string(first.range.line) + ":" +
                                             std::to_string(first.range.column));
  return std::move(failure).withHelp(first.help);
}

} // namespace opc::capi
