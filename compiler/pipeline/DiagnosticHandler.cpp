// MLIR's diagnostics as findings of a compilation.
// SPDX-License-Identifier: Apache-2.0
#include "DiagnosticHandler.h"
#include "EmitStatus.h"

using namespace mlir;

namespace opc {

SourceRange rangeOf(const ir::OpLocation &l) { return {l.file, l.line, l.column, l.endLine, l.endColumn}; }

Diagnostic toFinding(mlir::Diagnostic &diagnostic) {
  Diagnostic d;
  unsigned ownNotes = 0;
  if (std::optional<Finding> finding = findingOf(diagnostic)) {
    d.code = std::move(finding->code);
    d.message = std::move(finding->message);
    d.help = std::move(finding->help);
    for (Finding::Operand &o : finding->operands)
      d.operands.push_back({std::move(o.text), std::move(o.madeBy), rangeOf(ir::readLocation(o.location))});
    ownNotes = finding->ownNotes;
    d.isOfRequest = finding->isOfRequest;
  } else {
    d.code = "OPC0901";
    d.message = diagnostic.str();
  }
  d.severity = diagnostic.getSeverity() == DiagnosticSeverity::Error     ? Severity::kError
               : diagnostic.getSeverity() == DiagnosticSeverity::Warning ? Severity::kWarning
                                                                         : Severity::kNote;
  const ir::OpLocation l = d.isOfRequest ? ir::OpLocation() : ir::readLocation(diagnostic.getLocation());
  d.range = rangeOf(l);
  if (!l.name.empty()) d.subject = "op " + l.name;
  if (l.line == 0 && !l.place.node.empty()) // of a model, which has no lines
    d.notes.push_back("at " + l.pythonLoc);
  else if (!l.pythonLoc.empty())
    d.notePython(l.pythonLoc);
  for (mlir::Diagnostic &n : llvm::drop_begin(diagnostic.getNotes(), ownNotes)) d.notes.push_back(n.str());
  return d;
}

} // namespace opc
