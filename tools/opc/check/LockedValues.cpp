// The values of a lock against those of a run.
// SPDX-License-Identifier: Apache-2.0
#include "LockedValues.h"

#include "BesideFiles.h"
#include "CommandLine.h"
#include "FileBytes.h"
#include "LockFile.h"
#include "TensorIo.h"

#include <algorithm>
#include <fnmatch.h>

namespace opc::cli {

namespace {

class ValueCheck {
public:
  ValueCheck(const CheckSettings &settings, std::vector<NamedOutput> older, CheckedGraph *checked)
      : settings_(settings), path_(checked->report.graph), older_(std::move(older)), checked_(*checked) {}

  /// Values on the same inputs alone say something.
  void run() {
    const NumericFacts &old = checked_.locked->numerics, &now = checked_.now.numerics;
    if (old.inputsFile != now.inputsFile) {
      const std::string file = inputsPathOf(path_);
      return stale(now.inputsFile.empty()   ? "the lock's values are for the inputs in " + file + ", which is not there"
                   : old.inputsFile.empty() ? "the lock's values are for generated inputs, and there is " + file
                                            : file + " has other inputs than those of the lock");
    }
    if (!old.valuesFile.empty()) readValues(old);
    std::vector<GraphFinding> findings = compareOutputs(
        old, now, settings_.tolerance, checked_.locked->target.device != checked_.now.target.device,
        [&](const std::string &name) { return OutputPair{named(older_, name), named(checked_.values, name)}; });
    std::string first;
    for (GraphFinding &f : findings) {
      placeValue(&f);
      if (first.empty() && !f.tensor.empty()) first = f.tensor;
    }
    for (GraphFinding &f : findings) {
      if (f.tensor.empty() && !first.empty())
        f.help += (f.help.empty() ? "" : "; ") + ("the first tensor that differs is " + first);
      checked_.report.findings.push_back(std::move(f));
    }
    compareWhich(old, now);
  }

private:
  /// Which tensors inside the graph have values in the lock, and which have them now.
  void compareWhich(const NumericFacts &old, const NumericFacts &now) {
    const bool isMesh = !checked_.now.target.mesh.empty();
    for (const OutputValues &o : old.outputs) {
      if (!o.isInside || has(now, o.name) || !isThere(o.name)) continue;
      if (isMesh) {
        stale("the lock has values of " + o.name + ", and those inside a graph are not locked on a mesh");
      } else if (settings_.tensors && !isNamed(o.name)) {
        stale("the lock has values of " + o.name + ", which --tensors does not name");
      } else {
        GraphFinding &f = add("NUMERIC_MISMATCH", "no task computes it any more: an op has taken it in",
                              command() + " --update=numerics");
        f.tensor = o.name;
        placeValue(&f);
      }
    }
    if (settings_.tensors && !settings_.isAgainst)
      for (const OutputValues &o : now.outputs)
        if (o.isInside && !has(old, o.name)) stale("the lock has no values of " + o.name + ", which --tensors names");
  }
  static bool has(const NumericFacts &facts, const std::string &tensor) {
    return std::any_of(facts.outputs.begin(), facts.outputs.end(),
                       [&](const OutputValues &o) { return o.isInside && o.name == tensor; });
  }
  bool isNamed(const std::string &tensor) const {
    return std::any_of(settings_.tensors->begin(), settings_.tensors->end(),
                       [&](const std::string &glob) { return fnmatch(glob.c_str(), tensor.c_str(), 0) == 0; });
  }

  GraphFinding &add(const char *rule, std::string message, std::string help) {
    return checked_.report.add(rule, std::move(message), std::move(help));
  }
  std::string command() const { return "opc check " + shellQuoted(path_); }
  void stale(const std::string &why) { add("LOCK_STALE", why, command() + " --update"); }

  /// The file with whole outputs.
  void readValues(const NumericFacts &old) {
    const std::string file = valuesPathOf(path_);
    const std::string other = otherThanFile(file);
    const Result<FileBytes> bytes = openBeside(file);
    if (!bytes)
      return stale("the whole outputs of the lock are in " + file + ", which is " +
                   (other.empty() ? "not there" : other));
    if (digestOf(bytes->view()) != old.valuesFile)
      return stale(file + " is not the file that the lock was written with");
    Result<std::unique_ptr<TensorArchive>> archive = openNpz(file);
    if (!archive) return stale(archive.status().message());
    for (const OutputValues &o : old.outputs)
      if (Result<HostTensor> t = (*archive)->read(o.name); t && t->dtype() == o.dtype && t->shape() == o.shape)
        older_.push_back({o.name, *std::move(t)});
  }

  static const HostTensor *named(const std::vector<NamedOutput> &list, const std::string &name) {
    for (const NamedOutput &o : list)
      if (o.name == name) return &o.tensor;
    return nullptr;
  }

  /// Whether it is a tensor of the graph.
  bool isThere(const std::string &tensor) const {
    for (const GraphOp &op : checked_.now.facts.ops)
      for (const GraphTensor &t : op.outputs)
        if (t.tensor == tensor) return true;
    return false;
  }

  /// The line of an output, or of the op that makes a tensor.
  void placeValue(GraphFinding *f) const {
    if (f->tensor.empty()) {
      for (const GraphTensor &t : checked_.now.facts.outputs)
        if (t.name == f->op) f->range = t.range;
      return;
    }
    for (const GraphOp &op : checked_.now.facts.ops)
      for (const GraphTensor &t : op.outputs)
        if (t.tensor == f->tensor) {
          f->op = op.name;
          f->range = op.range;
        }
  }

  const CheckSettings &settings_;
  const std::string path_;
  std::vector<NamedOutput> older_; // whole outputs of the lock, or of the older graph
  CheckedGraph &checked_;
};

} // namespace

void compareValues(const CheckSettings &settings, std::vector<NamedOutput> older, CheckedGraph *checked) {
  ValueCheck(settings, std::move(older), checked).run();
}

} // namespace opc::cli
