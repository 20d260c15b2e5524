// --twice: a graph that is compiled and run again is the same.
// SPDX-License-Identifier: Apache-2.0
#include "TwiceCheck.h"

#include "LockFile.h"
#include "ParallelChecks.h"

#include <utility>

namespace opc::cli {

namespace {

/// What differs, or nothing.
std::string difference(const CheckedGraph &a, const CheckedGraph &b) {
  if (a.plan != b.plan) return "the plan has other bytes";
  for (const LockSection s : lockSections())
    if (lockSectionText(a.now, s) != lockSectionText(b.now, s))
      return std::string("section ") + lockSectionName(s) + " of the lock has other bytes";
  for (size_t i = 0; i < a.now.numerics.outputs.size() && i < b.now.numerics.outputs.size(); ++i)
    if (a.now.numerics.outputs[i].bits != b.now.numerics.outputs[i].bits)
      return "output " + a.now.numerics.outputs[i].name + " has other bits";
  return "";
}

} // namespace

void compareTwice(const CheckSettings &settings, const CheckedGraph &second, CheckedGraph *first) {
  const std::string what = second.isWhole ? difference(*first, second) : "the second time it fails";
  if (what.empty()) return;
  GraphFinding f;
  f.rule = "NONDETERMINISTIC";
  f.graph = first->report.graph;
  f.message = what;
  f.help = "opc verify finds operators that are not functions of their inputs";
  if (isWanted(settings, f)) first->report.findings.push_back(std::move(f));
}

void checkTwice(const Registry &registry, const CheckSettings &settings, std::vector<CheckedGraph> *checked) {
  for (size_t i = checked->size(); i-- > 0;) {
    CheckedGraph &first = (*checked)[i];
    if (!first.isWhole) continue;
    const CheckedGraph second = std::move(checkGraphs(registry, settings, {first.report.graph}, 1).front());
    compareTwice(settings, second, &first);
  }
}

} // namespace opc::cli
