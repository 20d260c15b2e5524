// Manual pages from the commands' own descriptions.
// SPDX-License-Identifier: Apache-2.0
#include "ManPage.h"

#include "ErrorCatalog.h"
#include "opc/Version.h"

namespace opc::cli {

namespace {

/// Text as roff shows it: '-' as typed, no control lines.
std::string escaped(const std::string &text) {
  std::string out;
  bool lineStart = true;
  for (char c : text) {
    if (lineStart && (c == '.' || c == '\'')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
    lineStart = c == '\n';
  }
  return out;
}

std::string upper(std::string text) {
  for (char &c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c == ' ' ? '-' : c;
  return text;
}

std::string header(const std::string &page) {
  // No date: the same sources give the same page.
  return ".TH " + upper(page) + " 1 \"\" \"opc " OPC_VERSION_STRING "\" \"opc manual\"\n";
}

std::string optionEntries(const std::vector<Option> &options) {
  std::string text;
  for (const Option &o : options) {
    std::string names = o.letter ? std::string("\\fB\\-") + o.letter + "\\fR" : "";
    if (!o.name.empty()) names += (names.empty() ? "" : ", ") + ("\\fB" + escaped(o.name) + "\\fR");
    if (!o.value.empty()) names += (o.hasJoinedValue() ? "" : " ") + ("\\fI" + escaped(o.value) + "\\fR");
    text += ".TP\n" + names + "\n" + escaped(o.doc.empty() ? "(no description)" : o.doc) + "\n";
  }
  return text;
}

std::string preformatted(const std::string &text) {
  return ".nf\n" + escaped(text) + (text.back() == '\n' ? "" : "\n") + ".fi\n";
}

std::string exitStatus() {
  for (const ErrorTopic &t : errorTopics())
    if (t.name == "exit-codes") {
      std::string body = t.body;
      while (!body.empty() && body.front() == '\n') body.erase(0, 1);
      return ".SH EXIT STATUS\n" + preformatted(body);
    }
  return "";
}

} // namespace

std::string manPage(const CommandSpec &spec, const std::vector<Option> &commonOptions) {
  const std::string page = "opc-" + spec.name;
  std::string text = header(page) + ".SH NAME\n" + escaped(page) + " \\- " + escaped(spec.summary) + "\n";
  text += ".SH SYNOPSIS\n\\fBopc " + escaped(spec.name) + "\\fR " + escaped(spec.arguments) + " [\\fIoptions\\fR]\n";
  if (!spec.examples.empty()) {
    std::string lines;
    for (const std::string &e : spec.examples) lines += "    " + e + "\n";
    text += ".SH EXAMPLES\n" + preformatted(lines);
  }
  if (!spec.options.empty()) text += ".SH OPTIONS\n" + optionEntries(spec.options);
  if (!spec.details.empty()) {
    text += ".SH NOTES\n";
    std::string details = spec.details;
    for (size_t at = details.find('\n'); at != std::string::npos; at = details.find('\n', at + 5))
      details.replace(at, 1, "\n.PP\n");
    // The paragraphs' own control lines must stay what they are.
    std::string body;
    for (size_t start = 0; start < details.size();) {
      const size_t end = std::min(details.find("\n.PP\n", start), details.size());
      body += (body.empty() ? "" : ".PP\n") + escaped(details.substr(start, end - start)) + "\n";
      start = end + 5;
    }
    text += body;
  }
  text += ".SH COMMON OPTIONS\n" + optionEntries(commonOptions) + exitStatus();
  return text + ".SH SEE ALSO\n\\fBopc\\fR(1)\n";
}

std::string rootManPage(const std::vector<std::pair<std::string, std::string>> &commands,
                        const std::vector<Option> &commonOptions) {
  std::string text = header("opc") + ".SH NAME\nopc \\- compile and run static operator graphs\n";
  text += ".SH SYNOPSIS\n\\fBopc\\fR \\fICOMMAND\\fR [\\fIarguments\\fR] [\\fIoptions\\fR]\n.SH COMMANDS\n";
  std::string also;
  for (const auto &[name, summary] : commands) {
    text += ".TP\n\\fB" + escaped(name) + "\\fR\n" + escaped(summary) + "\n";
    also += (also.empty() ? "" : ",\n") + ("\\fB" + escaped("opc-" + name) + "\\fR(1)");
  }
  text += ".SH OPTIONS\n" + optionEntries(commonOptions) + exitStatus();
  text += ".SH ENVIRONMENT\nOPC_CONFIG, OPC_DEVICE, OPC_THREADS, OPC_PLUGINS, OPC_SEED and others set what opc config "
          "lists. NO_COLOR, FORCE_COLOR, TERM and COLUMNS mean what they mean elsewhere.\n";
  text += ".SH FILES\n.TP\nopc.toml\nthe settings of a project, in the working directory or above it\n.TP\n"
          "$XDG_CONFIG_HOME/opc/config.toml\nthe settings of the user\n";
  return text + ".SH SEE ALSO\n" + also + "\n";
}

} // namespace opc::cli
