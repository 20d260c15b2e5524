// Settings of a check that mean nothing that was checked.
// SPDX-License-Identifier: Apache-2.0
#include "UnusedSettings.h"

#include "CommandLine.h"

#include <algorithm>
#include <fnmatch.h>

namespace opc::cli {

namespace {

/// Of a graph that was not run nobody knows what it would have had.
bool fitsOutput(const std::string &key, const std::vector<CheckedGraph> &checked) {
  return std::any_of(checked.begin(), checked.end(), [&](const CheckedGraph &c) {
    const std::vector<OutputValues> &all = c.now.numerics.outputs;
    return !c.isWhole || std::any_of(all.begin(), all.end(), [&](const OutputValues &o) {
      return fnmatch(key.c_str(), o.name.c_str(), 0) == 0;
    });
  });
}

} // namespace

std::vector<std::string> unusedSettings(const Config &config, const CheckSettings &settings, const CheckedAll &all,
                                        bool isAll) {
  const bool isComplete = all.removed.empty() && all.orphans.empty();
  std::vector<std::string> notes;
  for (const ToleranceRule &r : config.tolerances())
    if (isAll && settings.runs && isComplete && !r.folder.empty() && parseDataType(r.key) == kInvalidDataType &&
        !fitsOutput(r.key, all.graphs))
      notes.push_back("note: the tolerance of " + shellQuoted(r.key) + " (" + r.origin +
                      ") fits no output and no tensor that a lock has");
  for (const IgnoredRule &ignored : settings.ignored) {
    const auto fits = [&](const std::string &graph) { return isIgnored(settings, ignored.glob, graph); };
    const bool isFit =
        std::any_of(all.orphans.begin(), all.orphans.end(), fits) ||
        std::any_of(all.removed.begin(), all.removed.end(), [&](const GraphReport &r) { return fits(r.graph); }) ||
        std::any_of(all.graphs.begin(), all.graphs.end(), [&](const CheckedGraph &c) { return fits(c.report.graph); });
    const bool isOfProject = isAll && !settings.ignoreFolder.empty();
    if (!isFit && (isOfProject || ignored.place.empty()))
      notes.push_back("note: no graph that is checked fits " + shellQuoted(ignored.glob) + ", for which " +
                      (ignored.rule == "*" ? "all rules are" : ignored.rule + " is") + " left out" + ignored.place);
  }
  return notes;
}

} // namespace opc::cli
