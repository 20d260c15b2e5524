// --update: locks are written, and what that accepts is said.
// SPDX-License-Identifier: Apache-2.0
#include "LockUpdate.h"

#include "BesideFiles.h"
#include "FileBytes.h"
#include "LockFile.h"
#include "NearestNames.h"
#include "Option.h"
#include "TextParts.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace {

const std::string kBare = "true", kNo = "0", kFalse = "false"; // what the option's value may be beside sections

std::set<LockSection> everySection() {
  const std::vector<LockSection> &all = lockSections();
  return {all.begin(), all.end()};
}

/// The lock as it is to be: the present one, with the sections that are named taken from now.
Lock updated(const CheckedGraph &graph, const UpdateFlags &flags) {
  if (!flags.isNamed) {
    Lock lock = graph.now;
    // What was not looked at (--no-run) stays.
    if (graph.locked)
      for (const LockSection s : graph.locked->sections)
        if (!lock.sections.count(s)) {
          lock.sections.insert(s);
          lock.texts[s] = lockSectionText(*graph.locked, s);
        }
    return lock;
  }
  Lock lock = graph.locked ? *graph.locked : graph.now;
  takeSections(graph.now, flags.sections, &lock);
  return lock;
}

void accept(const UpdateFlags &flags, CheckedGraph *graph) {
  for (GraphFinding &f : graph->report.findings) {
    // What is of no section is of the lock itself, which any update mends.
    const Rule *rule = findRule(f.rule);
    if (rule && rule->section && !flags.sections.count(*rule->section)) continue;
    // A doubt is about the graph by itself, whatever its lock says.
    if (rule && f.severity == Severity::kWarning && (!rule->section || rule->severity == Severity::kError)) continue;
    f.severity = Severity::kNote;
    const bool saysWhat = rule && (rule->section || f.rule == "LOCK_STALE");
    f.message = saysWhat ? "accepted: " + f.message : "wrote " + lockPathOf(graph->report.graph);
    f.help.clear();
  }
  graph->report.exitCode = 0; // a lock that could not be read
}

/// A tree that is checked may be anybody's: through a link the update would write to a file elsewhere, and a pipe or a
/// device is no place for it either.
Status checkTarget(const std::string &path) {
  std::error_code error;
  if (const std::string other = otherThanFile(path); !other.empty())
    return Status(StatusCode::kUsage, "OPC0707", "cannot write " + path + ": it is " + other + ", and no regular file")
        .withHelp("remove it; what opc writes beside a graph is a file");
  if (!std::filesystem::is_symlink(path, error)) return Status::ok();
  return Status(StatusCode::kUsage, "OPC0707", path + " is a link, and nothing is written through it")
      .withHelp("remove the link; a lock lies beside its graph");
}

bool changesValues(const CheckedGraph &graph) {
  return graph.locked && graph.locked->sections.count(LockSection::kNumerics) &&
         graph.now.sections.count(LockSection::kNumerics) &&
         lockSectionText(*graph.locked, LockSection::kNumerics) != lockSectionText(graph.now, LockSection::kNumerics);
}

/// The whole outputs, where they are asked for, or lie there for the present lock.
Status writeValues(const UpdateFlags &flags, CheckedGraph *graph) {
  const std::string path = valuesPathOf(graph->report.graph);
  if (graph->values.empty() || (!flags.keepsValues && !openBeside(path))) return Status::ok();
  NamedTensors tensors;
  for (const NamedOutput &o : graph->values) tensors.push_back({o.name, &o.tensor});
  OPC_RETURN_IF_ERROR(checkTarget(path));
  OPC_RETURN_IF_ERROR(writeNpz(path, std::move(tensors)));
  OPC_ASSIGN_OR_RETURN(const FileBytes written, FileBytes::open(path));
  graph->now.numerics.valuesFile = digestOf(written.view());
  return Status::ok();
}

/// Of several graphs: other values are not accepted in passing.
Status checkValuesStay(const std::vector<CheckedGraph> &checked) {
  constexpr size_t kNamed = 5;
  std::vector<std::string> named;
  size_t changed = 0;
  for (const CheckedGraph &graph : checked)
    if (graph.isWhole && changesValues(graph) && ++changed <= kNamed) named.push_back(graph.report.graph);
  if (!changed) return Status::ok();
  const std::string more = changed > kNamed ? " and " + std::to_string(changed - kNamed) + " more" : "";
  return usageError("--update of " + std::to_string(checked.size()) + " graphs would accept other values in " +
                        joined(named, ", ") + more,
                    "name the graphs one by one, or --update=numerics, or give --all");
}

} // namespace

Result<bool> parseUpdate(const std::string &text, std::set<LockSection> *sections) {
  if (text.empty() || text == kNo || text == kFalse) return false;
  if (text == kBare) return true;
  std::vector<std::string> names;
  for (const LockSection s : lockSections()) names.push_back(lockSectionName(s));
  for (const std::string &word : splitAt(text, ',')) {
    const auto found = std::find(names.begin(), names.end(), word);
    if (found == names.end())
      return usageError("a lock has no section '" + word + "'",
                        didYouMean(word, names, "sections: " + joined(names, ", ")));
    sections->insert(lockSections()[static_cast<size_t>(found - names.begin())]);
    if (sections->count(LockSection::kOps)) sections->insert(LockSection::kConstants); // findings tell them as ops
  }
  return true;
}

Status updateLocks(const UpdateFlags &flags, std::vector<CheckedGraph> *checked) {
  if (!flags.isNamed && !flags.all && checked->size() > 1) OPC_RETURN_IF_ERROR(checkValuesStay(*checked));
  for (CheckedGraph &graph : *checked) {
    if (!graph.isWhole) continue;
    if (!flags.isNamed || flags.sections.count(LockSection::kNumerics)) OPC_RETURN_IF_ERROR(writeValues(flags, &graph));
    const std::string path = lockPathOf(graph.report.graph), text = lockText(updated(graph, flags));
    OPC_RETURN_IF_ERROR(checkTarget(path));
    Result<FileBytes> present = FileBytes::open(path);
    if (!present || present->view() != text) {
      OPC_RETURN_IF_ERROR(writeFileAtomically(path, text));
      graph.report.changed = true;
    }
    accept(flags.isNamed ? flags : UpdateFlags{true, false, everySection(), false, false, false}, &graph);
  }
  return Status::ok();
}

} // namespace opc::cli
