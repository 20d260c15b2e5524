// One graph's check that cannot end those of the others.
// SPDX-License-Identifier: Apache-2.0
#include "GuardedCheck.h"

#include "CompilationPoint.h"
#include "CrashBundle.h"
#include "CrashRecord.h"
#include "ExitCodes.h"

#include <new>

namespace opc::cli {

CheckedGraph brokenCheck(const CheckSettings &settings, const std::string &path, const char *rule, int exitCode,
                         std::string message, std::string help) {
  GraphFinding f;
  f.rule = rule;
  f.severity = Severity::kError;
  f.graph = path;
  f.message = std::move(message);
  f.help = std::move(help);
  CheckedGraph checked;
  checked.report.graph = path;
  if (!isWanted(settings, f)) return checked;
  checked.report.exitCode = exitCode;
  checked.report.findings.push_back(std::move(f));
  return checked;
}

CheckedGraph checkGuarded(const Registry &registry, const CheckSettings &settings, const std::string &path) {
  clearCompilationPoint();
  noteGraph("", "");
  std::string what;
  try {
    CheckedGraph checked = checkGraph(registry, settings, path);
    if (checked.report.exitCode != kExitInternal || checked.report.findings.empty()) return checked;
    const GraphFinding first = checked.report.findings.front();
    if (const std::string replay = bundleOfError("OPC0901", first.message); !replay.empty())
      checked.report.findings.front().help = replay;
    return checked;
  } catch (const std::bad_alloc &) {
    return brokenCheck(settings, path, "RUN_FAILED", kExitExecution, "OPC0614: out of memory",
                       "check fewer at a time: -j 1");
  } catch (const std::exception &e) {
    what = e.what();
  } catch (...) {
    what = "an exception of unknown type";
  }
  const std::string message = "OPC0999: internal error" + crashPlace() + ": " + what;
  const std::string advice = reportAdvice(), replay = bundleOfError("OPC0999", message);
  return brokenCheck(settings, path, "INTERNAL_ERROR", kExitInternal, message, replay.empty() ? advice : replay);
}

} // namespace opc::cli
