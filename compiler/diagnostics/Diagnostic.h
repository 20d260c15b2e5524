// Diagnostics of the compiler as data: what the command line renders as text or JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace opc {

/// A range of a source file; line 0 means unknown. Lines and columns count from 1, columns in bytes; the end is
/// exclusive.
struct SourceRange {
  std::string file;
  uint32_t line = 0, column = 0, endLine = 0, endColumn = 0;
  bool known() const { return line != 0; }
};

enum class Severity { kError, kWarning, kNote };

/// One finding. `subject` names the op ("op fc1"); operands come with their producers; help is the way out.
struct Diagnostic {
  struct Operand {
    std::string text; // "a: relu0/out_0  f32[32,784]"
    std::string madeBy;
    SourceRange range;
  };
  Severity severity = Severity::kError;
  std::string code; // "OPC0203"
  std::string message;
  std::string subject;
  SourceRange range;
  std::vector<Operand> operands;
  std::vector<std::string> notes; // "python: train.py:41 (from OperatorConf.loc)"
  std::string help;
  std::string pythonLoc; // OperatorConf.loc of the op, of which a note tells: "train.py:41"
  /// What was asked for (an option, a parameter) is wrong, and not the graph: of no place, and a usage error.
  bool isOfRequest = false;

  void notePython(const std::string &loc) {
    pythonLoc = loc;
    notes.push_back(pythonNote());
  }
  std::string pythonNote() const { return "python: " + pythonLoc + " (from OperatorConf.loc)"; }
};

/// A graph file's text by lines, so that a renderer can show the line of a diagnostic.
struct SourceText {
  std::string name;
  std::string text; // empty for binary files
};

} // namespace opc
