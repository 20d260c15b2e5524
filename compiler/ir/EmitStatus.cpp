// What passes report: the text, and its parts in the metadata.
// SPDX-License-Identifier: Apache-2.0
#include "EmitStatus.h"
#include "AttrBridge.h"
#include "Locations.h"
#include "OpcDialect.h"

using namespace mlir;

namespace opc {
namespace {

InFlightDiagnostic emit(Location location, DiagnosticSeverity severity, const Finding &finding) {
  InFlightDiagnostic diag = location.getContext()->getDiagEngine().emit(location, severity);
  diag << finding.code << ": " << finding.message;
  Builder b(location.getContext());
  SmallVector<Attribute> operands;
  unsigned notes = 0;
  for (const Finding::Operand &o : finding.operands) {
    diag.attachNote(o.location) << "operand: " << o.text << "  (" << o.madeBy << ")";
    ++notes;
    operands.push_back(b.getDictionaryAttr({b.getNamedAttr("text", b.getStringAttr(o.text)),
                                            b.getNamedAttr("made_by", b.getStringAttr(o.madeBy)),
                                            b.getNamedAttr("location", LocationAttr(o.location))}));
  }
  SmallVector<StringRef> lines;
  StringRef(finding.help).split(lines, '\n', -1, /*KeepEmpty=*/false);
  for (StringRef line : lines) {
    diag.attachNote() << "help: " << line;
    ++notes;
  }
  diag.getUnderlyingDiagnostic()->getMetadata().push_back(DiagnosticArgument(b.getDictionaryAttr(
      {b.getNamedAttr("code", b.getStringAttr(finding.code)),
       b.getNamedAttr("message", b.getStringAttr(finding.message)),
       b.getNamedAttr("help", b.getStringAttr(finding.help)), b.getNamedAttr("operands", b.getArrayAttr(operands)),
       b.getNamedAttr("own_notes", b.getI32IntegerAttr(notes)),
       b.getNamedAttr("of_request", b.getBoolAttr(finding.isOfRequest))})));
  return diag;
}

/// The first operands of an op with their types and producers.
void addOperands(ir::UserOp op, Finding *finding) {
  op.forEachInputArg([&](StringRef name, ValueRange values) {
    for (auto [i, v] : llvm::enumerate(values)) {
      if (finding->operands.size() == 8) return;
      user_op::TensorDesc desc;
      const std::string arg = name.str() + (values.size() > 1 ? "_" + std::to_string(i) : "");
      const std::string type = ir::describe(v.getType(), &desc) ? desc.toString() : "unknown type";
      Operation *producer = v.getDefiningOp();
      finding->operands.push_back({arg + ": " + ir::tensorName(v) + "  " + type,
                                   isa<ir::InputOp>(producer)      ? "input"
                                   : isa<ir::VariableOp>(producer) ? "variable"
                                                                   : "made by " + ir::opName(producer),
                                   producer->getLoc()});
    }
  });
}

} // namespace

InFlightDiagnostic emitFinding(Location location, StringRef code, const Twine &message, const Twine &help,
                               DiagnosticSeverity severity) {
  Finding finding;
  finding.code = code.str();
  finding.message = message.str();
  finding.help = help.str();
  return emit(location, severity, finding);
}

InFlightDiagnostic emitRequestFinding(Location location, StringRef code, const Twine &message, const Twine &help) {
  Finding finding;
  finding.code = code.str();
  finding.message = message.str();
  finding.help = help.str();
  finding.isOfRequest = true;
  return emit(location, DiagnosticSeverity::Error, finding);
}

InFlightDiagnostic emitStatus(Operation *op, const Status &status) {
  Finding finding;
  finding.code = status.id();
  finding.message = status.message();
  finding.help = status.help();
  if (auto user = dyn_cast<ir::UserOp>(op)) addOperands(user, &finding);
  return emit(op->getLoc(), DiagnosticSeverity::Error, finding);
}

std::optional<Finding> findingOf(Diagnostic &diagnostic) {
  for (const DiagnosticArgument &argument : diagnostic.getMetadata()) {
    if (argument.getKind() != DiagnosticArgument::DiagnosticArgumentKind::Attribute) continue;
    auto parts = dyn_cast<DictionaryAttr>(argument.getAsAttribute());
    if (!parts) continue;
    Finding finding;
    finding.code = parts.getAs<StringAttr>("code").str();
    finding.message = parts.getAs<StringAttr>("message").str();
    finding.help = parts.getAs<StringAttr>("help").str();
    finding.ownNotes = static_cast<unsigned>(parts.getAs<IntegerAttr>("own_notes").getInt());
    finding.isOfRequest = parts.getAs<BoolAttr>("of_request").getValue();
    for (auto o : parts.getAs<ArrayAttr>("operands").getAsRange<DictionaryAttr>())
      finding.operands.push_back({o.getAs<StringAttr>("text").str(), o.getAs<StringAttr>("made_by").str(),
                                  Location(o.getAs<LocationAttr>("location"))});
    return finding;
  }
  return std::nullopt;
}

} // namespace opc
