// Diagnostics as text.
// SPDX-License-Identifier: Apache-2.0
#include "DiagnosticText.h"

#include "PrintableText.h"
#include "Terminal.h"
#include "TextParts.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace opc::cli {

const char *severityName(Severity s) {
  return s == Severity::kError ? "error" : s == Severity::kWarning ? "warning" : "note";
}

namespace {

Style severityStyle(Severity s) {
  return s == Severity::kError ? Style::kError : s == Severity::kWarning ? Style::kWarning : Style::kNote;
}

std::string position(const SourceRange &range, const SourceText &source) {
  std::string text = printableName(range.file.empty() ? source.name : range.file);
  if (range.known()) text += ":" + std::to_string(range.line) + ":" + std::to_string(range.column);
  return text;
}

std::string_view lineOf(const std::string &text, uint32_t line) {
  size_t start = 0;
  for (uint32_t i = 1; i < line; ++i) {
    start = text.find('\n', start);
    if (start == std::string::npos) return {};
    ++start;
  }
  size_t end = text.find('\n', start);
  if (end == std::string::npos) end = text.size();
  if (end > start && text[end - 1] == '\r') --end;
  return std::string_view(text).substr(start, end - start);
}

/// One terminal column of a line: the bytes of a character, made safe to print.
struct Cell {
  std::string text;
  size_t byte; // offset in the line
};

std::vector<Cell> cellsOf(std::string_view line, size_t fromByte, size_t limit) {
  std::vector<Cell> cells;
  for (size_t i = fromByte; i < line.size() && cells.size() < limit;) {
    const unsigned char c = static_cast<unsigned char>(line[i]);
    size_t length = c < 0x80 ? 1 : c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : c >= 0xc0 ? 2 : 1;
    bool valid = c < 0x80 || c >= 0xc2;
    for (size_t k = 1; k < length; ++k)
      if (i + k >= line.size() || (static_cast<unsigned char>(line[i + k]) & 0xc0) != 0x80) valid = false;
    if (!valid) length = 1;
    std::string text(line.substr(i, length));
    if (c == '\t')
      text = " ";
    else if (!valid || c < 0x20 || c == 0x7f)
      text = "?"; // an escape sequence in a file must not reach the terminal
    cells.push_back({text, i});
    i += length;
  }
  return cells;
}

/// The source line and the caret line under it. Long lines are cut around the range.
void appendExcerpt(std::string &out, const Diagnostic &d, const SourceText &source, const TextStyle &style) {
  if (!d.range.known() || source.text.empty()) return;
  if (!d.range.file.empty() && d.range.file != source.name) return;
  const std::string_view line = lineOf(source.text, d.range.line);
  if (line.empty() || d.range.column == 0 || d.range.column > line.size() + 1) return;
  const size_t begin = d.range.column - 1;
  size_t end = d.range.endLine == d.range.line ? d.range.endColumn - std::min(d.range.endColumn, 1u) : line.size();
  if (d.range.endLine == 0) end = begin + 1;
  end = std::clamp(end, begin + 1, std::max(line.size(), begin + 1));

  const std::string number = std::to_string(d.range.line);
  const size_t taken = number.size() + 3;
  const size_t room = std::max<size_t>(
      static_cast<size_t>(style.width) > taken + 16 ? static_cast<size_t>(style.width) - taken : 16, 16);
  size_t from = 0;
  if (line.size() > room && begin > room / 3) {
    from = begin - room / 3;
    while (from < begin && (static_cast<unsigned char>(line[from]) & 0xc0) == 0x80) ++from;
  }
  const bool cutLeft = from > 0;
  std::vector<Cell> cells = cellsOf(line, from, room + 1);
  const bool cutRight = cells.size() > room;
  if (cutRight) cells.resize(room - 3);
  std::string text, marks;
  for (size_t i = 0; i < cells.size(); ++i) {
    const bool hidden = cutLeft && i < 3;
    text += hidden ? "." : cells[i].text;
    marks += !hidden && cells[i].byte >= begin && cells[i].byte < end ? "^" : " ";
  }
  if (cutRight) text += "...";
  if (marks.find('^') == std::string::npos) marks += "^"; // the range begins at the end of the line
  marks.erase(marks.find_last_of('^') + 1);
  const size_t first = marks.find('^');
  const size_t width = marks.size() + (d.subject.empty() ? 0 : 1 + d.subject.size());
  if (width > room && marks.size() > first + 40) marks.resize(first + 40); // of a whole op the beginning says which
  const std::string gutter(number.size() + 1, ' ');
  const std::string bar = paint("|", Style::kDim, style.color);
  out += gutter + bar + "\n";
  out += paint(number, Style::kDim, style.color) + " " + bar + " " + text + "\n";
  out +=
      gutter + bar + " " + marks.substr(0, first) + paint(marks.substr(first), severityStyle(d.severity), style.color);
  if (!d.subject.empty()) out += " " + paint(d.subject, severityStyle(d.severity), style.color);
  out += "\n";
}

/// The lines of a text, `each` of them as that has it.
std::string linesOf(const std::string &text, const std::string &indent, std::string (*each)(const std::string &)) {
  std::string out;
  bool isFirst = true;
  for (const std::string &line : splitAt(text, '\n')) {
    // To a runner of GitHub such a line is a command, however far it is indented; texts have it from names of files.
    const size_t begin = line.find_first_not_of(" \t\r");
    const bool isCommand = begin != std::string::npos && line.compare(begin, 2, "::") == 0;
    out += (isFirst ? "" : isCommand ? "\\n" : "\n" + indent) + each(line);
    isFirst = false;
  }
  return out;
}
std::string asItIs(const std::string &line) { return line; }
std::string printable(const std::string &line) { return printableName(line); }

void appendLines(std::string &out, const std::string &label, Style style, const std::string &text, bool color) {
  out += paint(label, style, color) + linesOf(text, std::string(label.size(), ' '), asItIs) + "\n";
}

std::string render(const Diagnostic &d, const SourceText &source, const TextStyle &style) {
  std::string head = severityName(d.severity);
  if (!d.code.empty()) head += "[" + d.code + "]";
  std::string out = paint(head + ":", severityStyle(d.severity), style.color) + " " +
                    paint(printableName(d.message), Style::kBold, style.color) + "\n";
  const std::string where = d.isOfRequest ? "" : position(d.range, source);
  if (!where.empty()) out += paint("  -->", Style::kDim, style.color) + " " + where;
  const size_t before = out.size();
  if (!where.empty()) out += "\n";
  std::string excerpt;
  appendExcerpt(excerpt, d, source, style);
  if (!excerpt.empty())
    out += excerpt;
  else if (!d.subject.empty() && !where.empty())
    out.insert(before, "  (" + d.subject + ")");
  else if (!d.subject.empty())
    out += "  in " + d.subject + "\n";

  size_t textWidth = 0, madeWidth = 0;
  for (const Diagnostic::Operand &o : d.operands) {
    textWidth = std::max(textWidth, o.text.size());
    madeWidth = std::max(madeWidth, o.madeBy.size());
  }
  for (const Diagnostic::Operand &o : d.operands) {
    std::string line = "   = " + printableName(o.text);
    if (!o.madeBy.empty() || o.range.known()) {
      line += std::string(textWidth - o.text.size() + 3, ' ') + o.madeBy;
      if (o.range.known()) line += std::string(madeWidth - o.madeBy.size() + 2, ' ') + position(o.range, source);
    }
    out += line + "\n";
  }
  if (!d.help.empty()) appendLines(out, "help: ", Style::kHelp, d.help, style.color);
  for (const std::string &n : d.notes) appendLines(out, "note: ", Style::kNote, n, style.color);
  return out;
}

std::string moreLine(const std::string &code, bool color) {
  return code.empty() ? "" : paint("more: opc explain " + code, Style::kDim, color) + "\n";
}

} // namespace

std::string diagnosticText(const Diagnostic &d, const SourceText &source, const TextStyle &style, bool pointsToMore) {
  return render(d, source, style) +
         (pointsToMore && d.severity == Severity::kError ? moreLine(d.code, style.color) : "");
}

std::string diagnosticsText(const std::vector<Diagnostic> &diagnostics, size_t errorCount, const SourceText &source,
                            const TextStyle &style) {
  std::string out;
  std::set<std::string> explained; // one pointer to the long text for each code is enough
  size_t errors = 0;
  bool isOfGraph = false;
  for (const Diagnostic &d : diagnostics) {
    if (!out.empty() && d.severity == Severity::kError) out += "\n";
    out += render(d, source, style);
    if (d.severity == Severity::kError) {
      ++errors;
      isOfGraph |= !d.isOfRequest;
      if (explained.insert(d.code).second) out += moreLine(d.code, style.color);
    }
  }
  errorCount = std::max(errorCount, errors);
  if (errorCount) {
    out += "\n" + counted(errorCount, "error");
    if (isOfGraph && !source.name.empty()) out += " in " + printableName(source.name);
    if (errorCount > errors) out += "; the first " + std::to_string(errors) + " are shown";
    out += "\n";
  }
  return out;
}

std::string statusText(const Status &status, bool color) {
  std::string head = "error";
  if (!status.id().empty()) head += "[" + status.id() + "]";
  std::string out = paint(head + ":", Style::kError, color) + " " +
                    paint(linesOf(status.message(), "", printable), Style::kBold, color) + "\n";
  if (!status.context().empty()) out += "  while: " + linesOf(status.context(), "", printable) + "\n";
  if (!status.help().empty()) appendLines(out, "help: ", Style::kHelp, status.help(), color);
  // A mistyped flag needs no article.
  if (status.id() != "OPC0001") out += moreLine(status.id(), color);
  return out;
}

} // namespace opc::cli
