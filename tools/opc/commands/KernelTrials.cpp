// Trials of kernels, written and read line by line, so that those before a crash count.
// SPDX-License-Identifier: Apache-2.0
#include "KernelTrials.h"

#include "ExitCodes.h"
#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>

namespace opc::cli {

namespace {

constexpr const char *kFaults[] = {"FAILS", "WRITES_BESIDE", "READS_BESIDE", "NOT_IN_PLACE", "CRASHES", "HANGS"};
/// What a process tells outside of cases: the end of an op or of all, that another process starts.
constexpr const char *kOthers[] = {"faults", "purity", "signatures", "starts"};
constexpr double kOtherSeconds = 60; // that a process has for this, as for its own start

/// What one process has told.
struct Told {
  KernelReport report;
  size_t finished = 0;                // ops that have a report
  std::optional<KernelFinding> begun; // the case of the next one that was begun last
};

/// Lines that are none of writeKernelTrials() are what kernels print.
Told read(const std::string &output) {
  Told told;
  for (const std::string &line : splitAt(output, '\n')) {
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object()) continue;
    if (document.contains("begins")) {
      told.begun = readKernelFinding(document["begins"]);
    } else if (document.contains("faults")) {
      ++told.finished, told.begun.reset();
      told.report.ops += document.value("ops", size_t{0}), told.report.samples += document.value("samples", size_t{0});
      for (const Json &f : document["faults"])
        if (auto finding = readKernelFinding(f)) told.report.findings.push_back(std::move(*finding));
    }
  }
  return told;
}

} // namespace

Json kernelFindingJson(const KernelFinding &f) {
  return {{"op", f.op},
          {"case", f.sample},
          {"type", f.type},
          {"fault", kFaults[static_cast<int>(f.fault)]},
          {"detail", f.detail}};
}

std::optional<KernelFinding> readKernelFinding(const Json &f) {
  const auto *const kind = std::find(std::begin(kFaults), std::end(kFaults), f.value("fault", ""));
  if (kind == std::end(kFaults)) return std::nullopt;
  return KernelFinding{static_cast<KernelFault>(kind - kFaults), f.value("op", ""), f.value("case", ""),
                       f.value("type", ""), f.value("detail", "")};
}

KernelFinding faultOfEnd(KernelFinding begun, const ProcessEnd &end, double seconds) {
  begun.fault = end.isLate ? KernelFault::kHangs : KernelFault::kCrashes;
  if (end.isLate)
    begun.detail = "it has not come to an end within " + roundedText(seconds, 3) + " s; --timeout gives it more";
  else if (end.signal != 0)
    begun.detail = std::string("it ends the process: ") + ::strsignal(end.signal);
  else if (end.code == kExitExecution) // what opc itself notices (OPC0603), with a code of its own
    begun.detail = "it ends the process, by exit() or _exit()";
  else
    begun.detail = "it ends the process with exit code " + std::to_string(end.code);
  return begun;
}

void writeBeginning(Terminal &terminal, const std::string &op, const std::string &sample, const std::string &type) {
  writeJsonLine(terminal, {{"begins", kernelFindingJson({KernelFault::kCrashes, op, sample, type, ""})}});
}

ProcessWatch watchBeginnings(double seconds) {
  const double others = std::max(seconds, kOtherSeconds);
  const auto progress = [=](std::string_view line) -> std::optional<double> {
    const Json document = Json::parse(line, nullptr, false);
    if (!document.is_object()) return std::nullopt;
    if (document.contains("begins")) return seconds;
    const auto isOne = [&](const char *key) { return document.contains(key); };
    return std::any_of(std::begin(kOthers), std::end(kOthers), isOne) ? std::optional(others) : std::nullopt;
  };
  return {others, progress};
}

void writeStart(Terminal &terminal) { writeJsonLine(terminal, {{"starts", true}}); }

void writeJsonLine(Terminal &terminal, const Json &line) {
  terminal.out("\n" + line.dump(-1, ' ', true, Json::error_handler_t::replace) + "\n");
  (void)terminal.flush(); // whoever does not read it has no use for it
}

void writeKernelTrials(Terminal &terminal, const Registry &registry, const std::vector<const user_op::OpDef *> &ops) {
  for (const user_op::OpDef *op : ops) {
    const KernelReport report = checkKernels(registry, *op, [&](const KernelFinding &begun) {
      writeBeginning(terminal, begun.op, begun.sample, begun.type);
    });
    writeJsonLine(terminal, {{"ops", report.ops}, {"samples", report.samples}, {"faults", kernelFaultsJson(report)}});
  }
}

Result<KernelReport> runKernelTrials(const std::vector<std::string> &arguments,
                                     const std::vector<const user_op::OpDef *> &ops, double seconds) {
  KernelReport all;
  for (size_t next = 0; next < ops.size();) {
    std::vector<std::string> words = arguments;
    for (size_t i = next; i < ops.size(); ++i) words.push_back(ops[i]->name);
    OPC_ASSIGN_OR_RETURN(const ProcessEnd end, runOwnProgram(words, watchBeginnings(seconds)));
    Told told = read(end.output);
    all.ops += told.report.ops, all.samples += told.report.samples;
    std::move(told.report.findings.begin(), told.report.findings.end(), std::back_inserter(all.findings));
    next += told.finished;
    if (next >= ops.size()) break;
    if (!told.begun) {
      OPC_RETURN_IF_ERROR(failureOf(end));
      return Status(StatusCode::kExecution, "OPC0604",
                    "a second process of opc has told nothing of op '" + ops[next]->name + "'");
    }
    all.findings.push_back(faultOfEnd(*std::move(told.begun), end, seconds));
    ++next;
  }
  return all;
}

Json kernelFaultsJson(const KernelReport &report) {
  Json list = Json::array();
  for (const KernelFinding &f : report.findings) list.push_back(kernelFindingJson(f));
  return list;
}

std::string kernelFaultsText(const KernelReport &report) {
  std::string text;
  for (const KernelFinding &f : report.findings)
    text += f.op + "  " + kFaults[static_cast<int>(f.fault)] + ": " + f.sample +
            (f.type.empty() ? "" : " in " + f.type) + "\n    " + f.detail + "\n";
  return text;
}

} // namespace opc::cli
