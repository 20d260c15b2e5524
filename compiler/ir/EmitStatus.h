// What passes report: MLIR diagnostics for people to read, with their parts as data beside the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Operation.h"

#include <optional>
#include <string>

namespace opc {

/// The parts of a diagnostic of ours.
struct Finding {
  struct Operand {
    std::string text;   // "a: relu0/out_0  f32[32,784]"
    std::string madeBy; // "made by relu0"
    mlir::Location location;
  };
  std::string code, message, help;
  llvm::SmallVector<Operand, 0> operands;
  /// How many of the diagnostic's notes, from the first, say what `operands` and `help` say.
  unsigned ownNotes = 0;
  bool isOfRequest = false; // as Diagnostic has it
};

/// The one door of reports: "CODE: message", with a note for each line of help. Its parts travel in the diagnostic's
/// metadata, where findingOf() reads them. The caller may attach notes of its own.
mlir::InFlightDiagnostic emitFinding(mlir::Location location, llvm::StringRef code, const llvm::Twine &message,
                                     const llvm::Twine &help = "",
                                     mlir::DiagnosticSeverity severity = mlir::DiagnosticSeverity::Error);

/// An error of what was asked for ("--loss lost"), and not of the graph. `location` is for MLIR's own output alone.
mlir::InFlightDiagnostic emitRequestFinding(mlir::Location location, llvm::StringRef code, const llvm::Twine &message,
                                            const llvm::Twine &help = "");

/// A Status at an op, with a note for each operand and its producer before the help.
mlir::InFlightDiagnostic emitStatus(mlir::Operation *op, const Status &status);

/// The parts of a diagnostic that came through emitFinding(); nothing for what MLIR itself complains of.
std::optional<Finding> findingOf(mlir::Diagnostic &diagnostic);

} // namespace opc
