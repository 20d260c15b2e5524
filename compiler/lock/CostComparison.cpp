// What differs in what the compiler decided for two graphs.
// SPDX-License-Identifier: Apache-2.0
#include "CostComparison.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace opc {
namespace {

/// "1,234,567"; beyond what a lock of opc's own has, "1e+300".
std::string countOf(double value) {
  constexpr double kLargest = 1e18;
  char large[32];
  if (!(value <= kLargest)) return std::string(large, std::to_chars(large, large + sizeof large, value).ptr);
  std::string digits = std::to_string(static_cast<uint64_t>(std::max(value, 0.0)));
  for (size_t i = digits.size(); i > 3;) digits.insert(i -= 3, ",");
  return digits;
}

/// " (-17.7 %)"; nothing when there was nothing.
std::string percentOf(double was, double is) {
  if (!(was > 0)) return "";
  constexpr double kMost = 1e6, kLeast = 0.01; // beyond it the numbers themselves say more
  const double percent = 100 * (is / was - 1), size = std::abs(percent);
  if (!(size <= kMost)) return "";
  const std::string sign = percent > 0 ? "+" : "-";
  if (size < kLeast) return " (" + sign + "<0.01 %)";
  char text[32];
  constexpr double kThreeDigits = 999.5; // what is more would be written with an exponent
  const auto end = size < kThreeDigits
                       ? std::to_chars(text, text + sizeof text, size, std::chars_format::general, 3).ptr
                       : std::to_chars(text, text + sizeof text, size, std::chars_format::fixed, 0).ptr;
  return " (" + sign + std::string(text, end) + " %)";
}

class Decisions {
public:
  Decisions(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const ComparisonOptions &options,
            std::vector<GraphFinding> *findings)
      : a_(a), b_(b), options_(options), findings_(*findings) {
    for (size_t n = 0; n < b.size(); ++n) {
      const FactNode &now = b.nodes[n];
      nodes_.try_emplace(now.name, &now);
      for (const GraphTensor &t : tensorsOf(b, now)) makers_.try_emplace(t.tensor, &now);
      if (match.ofB[n] < 0) continue;
      const FactNode &old = a.nodes[static_cast<size_t>(match.ofB[n])];
      names_.try_emplace(old.name, now.name);
      const std::vector<GraphTensor> x = tensorsOf(a, old), y = tensorsOf(b, now);
      const bool isRetyped = old.type != now.type; // then outputs are called otherwise
      if (isRetyped) retyped_.insert(now.name);
      for (size_t i = 0; i < x.size(); ++i)
        for (size_t j = 0; j < y.size(); ++j)
          if (old.kind != NodeKind::kOp || (isRetyped ? i == j : x[i].name == y[j].name)) {
            tensors_.try_emplace(x[i].tensor, y[j].tensor);
            tensorsOfBoth_.insert(y[j].tensor);
          }
    }
  }

  void run() {
    const bool meshes = !a_.facts->mesh.ops.empty() && !b_.facts->mesh.ops.empty();
    if (options_.sbp && meshes) compareStates();
    if (options_.boxing && meshes) compareTransitions();
    if (options_.pieces && meshes) comparePieces();
    if (options_.tasks) compareKernels();
    if (options_.cost) compareCosts();
  }

private:
  static std::vector<GraphTensor> tensorsOf(const FactNodes &graph, const FactNode &node) {
    switch (node.kind) {
    case NodeKind::kInput: return {graph.facts->inputs[node.index]};
    case NodeKind::kVariable: return {graph.facts->variables[node.index]};
    case NodeKind::kOp: return graph.facts->ops[node.index].outputs;
    case NodeKind::kOutput: break;
    }
    return {};
  }

  /// What a's name is called in b.
  static std::string called(const std::map<std::string, std::string> &names, const std::string &name) {
    const auto found = names.find(name);
    return found == names.end() ? name : found->second;
  }

  GraphFinding &add(const char *rule, ChangeSubject subject, Severity severity, const std::string &op,
                    std::string message, std::string expected, std::string found) {
    GraphFinding f;
    f.rule = rule;
    f.subject = subject;
    f.severity = severity;
    f.op = op;
    if (const auto node = nodes_.find(op); node != nodes_.end()) f.range = node->second->range;
    f.message = std::move(message);
    f.expected = std::move(expected);
    f.found = std::move(found);
    findings_.push_back(std::move(f));
    return findings_.back();
  }

  void compareStates() {
    const MeshFacts &x = a_.facts->mesh, &y = b_.facts->mesh;
    const auto placementOf = [](const MeshFacts &mesh, const MeshFacts::Op &op) {
      return op.placement < mesh.placements.size() ? mesh.placements[op.placement].toString() : std::string("?");
    };
    std::map<std::string, const MeshFacts::Op *> before;
    for (const MeshFacts::Op &op : x.ops) before.try_emplace(called(names_, op.name), &op);
    for (const MeshFacts::Op &op : y.ops) {
      const auto found = before.find(op.name);
      if (found == before.end() || found->second->type != op.type) continue;
      const MeshFacts::Op &old = *found->second;
      if (old.signature != op.signature)
        add("SBP_CHANGED", ChangeSubject::kStates, Severity::kError, op.name,
            "signature " + old.signature + " => " + op.signature, old.signature, op.signature);
      const std::string was = placementOf(x, old), is = placementOf(y, op);
      if (was != is)
        add("PLACEMENT_CHANGED", ChangeSubject::kStates, Severity::kError, op.name, "placement " + was + " -> " + is,
            was, is);
    }
  }

  using Transition = std::tuple<std::string, std::string, std::string, std::string, int32_t>;
  static std::string tensorOf(const MeshFacts::Transition &t) { return t.tensors.empty() ? "?" : t.tensors[0]; }

  /// By what they are, and then by bytes: pairs of those that several transfers of a tensor are.
  std::map<Transition, std::vector<const MeshFacts::Transition *>> transitionsOf(const GraphFacts &facts, bool older) {
    std::map<Transition, std::vector<const MeshFacts::Transition *>> all;
    for (const MeshFacts::Transition &t : facts.mesh.transitions)
      all[{older ? called(tensors_, tensorOf(t)) : tensorOf(t), t.kind, t.from, t.to, t.meshDim}].push_back(&t);
    for (auto &one : all)
      std::stable_sort(one.second.begin(), one.second.end(),
                       [](const auto *x, const auto *y) { return x->bytes < y->bytes; });
    return all;
  }

  void compareTransitions() {
    auto before = transitionsOf(*a_.facts, true), now = transitionsOf(*b_.facts, false);
    for (const auto &[key, list] : now) {
      const std::vector<const MeshFacts::Transition *> &old = before[key];
      for (size_t i = 0; i < list.size(); ++i)
        if (i >= old.size())
          addTransition("BOXING_ADDED", ChangeKind::kAdded, *list[i]);
        else
          compareBytes(*old[i], *list[i]);
    }
    for (const auto &[key, list] : before)
      for (size_t i = now.count(key) ? now[key].size() : 0; i < list.size(); ++i)
        addTransition("BOXING_REMOVED", ChangeKind::kRemoved, *list[i]);
  }
  void compareBytes(const MeshFacts::Transition &old, const MeshFacts::Transition &now) {
    if (old.bytes == now.bytes) return;
    const auto was = static_cast<double>(old.bytes), is = static_cast<double>(now.bytes);
    GraphFinding &f = addTransition("BOXING_GREW", ChangeKind::kChanged, now);
    if (is <= was * (1 + options_.commTolerance)) f.severity = Severity::kNote;
    f.message = now.kind + " " + now.from + " -> " + now.to + ": " + countOf(was) + " -> " + countOf(is) +
                " bytes a step" + percentOf(was, is);
    f.expected = countOf(was) + " bytes a step";
    f.found = countOf(is) + " bytes a step";
  }

  void comparePieces() {
    std::map<std::string, std::string> before;
    for (const auto &[tensor, pieces] : a_.facts->pieces) before[called(tensors_, tensor)] = pieces;
    for (const GraphOp &op : b_.facts->ops)
      for (const GraphTensor &t : op.outputs) {
        const auto old = before.find(t.tensor);
        const auto now = b_.facts->pieces.find(t.tensor);
        const std::string was = old == before.end() ? "" : old->second,
                          is = now == b_.facts->pieces.end() ? "" : now->second;
        if (was == is || !tensorsOfBoth_.count(t.tensor)) continue;
        add("TENSOR_TYPE_CHANGED", ChangeSubject::kTensor, Severity::kError, op.name,
            "pieces " + orWhole(was) + " -> " + orWhole(is), was, is)
            .tensor = t.tensor;
      }
  }
  static std::string orWhole(const std::string &pieces) { return pieces.empty() ? "(whole)" : pieces; }

  GraphFinding &addTransition(const char *rule, ChangeKind change, const MeshFacts::Transition &t) {
    const std::string text = describe(t);
    const bool added = change != ChangeKind::kRemoved;
    GraphFinding &f =
        add(rule, ChangeSubject::kTransition, Severity::kError, "", text, added ? "" : text, added ? text : "");
    f.change = change;
    f.tensor = tensorOf(t);
    // Its maker's place: in b, or of what only a has, in a.
    if (const auto maker = makers_.find(added ? f.tensor : called(tensors_, f.tensor)); maker != makers_.end()) {
      f.op = maker->second->name;
      f.range = maker->second->range;
    }
    return f;
  }
  static std::string describe(const MeshFacts::Transition &t) {
    return t.kind + " " + t.from + " -> " + t.to + ", " + countOf(static_cast<double>(t.bytes)) + " bytes a step";
  }

  void compareKernels() {
    std::map<std::string, const GraphTask *> before;
    for (const GraphTask &t : a_.facts->tasks) before.try_emplace(called(names_, t.op), &t);
    for (const GraphTask &t : b_.facts->tasks) {
      const auto found = before.find(t.op);
      if (found == before.end() || retyped_.count(t.op)) continue; // another type has another kernel
      const GraphTask &old = *found->second;
      const bool known = old.library && t.library; // a plan does not say where its kernels come from
      const bool isFallback = known && t.priority < old.priority;
      if (!isFallback && old.kernel == t.kernel && (!known || old.library == t.library)) continue;
      const std::string was = kernelText(old), is = kernelText(t);
      GraphFinding &f = add(isFallback ? "KERNEL_FALLBACK" : "KERNEL_CHANGED", ChangeSubject::kKernel,
                            Severity::kWarning, t.op, "kernel " + was + " -> " + is, was, is);
      if (isFallback && old.library == kPythonLibrary && t.library != kPythonLibrary)
        f.help = "the kernel of the lock is in Python: a manifest beside the graph, or --op-path DIR";
      else if (isFallback && old.library != t.library && !old.library->empty())
        f.help = "the kernel of the lock is in " + *old.library + ": --plugin " + *old.library;
    }
  }
  /// "cpu/matmul/f32", with the plugin and the priority where there are any.
  static std::string kernelText(const GraphTask &task) {
    std::string more = task.library.value_or("");
    if (task.priority) more += (more.empty() ? "priority " : ", priority ") + std::to_string(task.priority);
    return task.kernel + (more.empty() ? "" : " (" + more + ")");
  }

  void compareCosts() {
    const CostFacts &x = a_.facts->costs, &y = b_.facts->costs;
    // Nothing is 0 of what was asked for.
    if (x.peakBytes && y.peakBytes)
      ratchet("PEAK_MEMORY_GREW", "peak memory", "bytes", static_cast<double>(x.peakBytes),
              static_cast<double>(y.peakBytes), options_.peakTolerance);
    if (x.flops > 0 && y.flops > 0)
      ratchet("FLOPS_GREW", "operations", "flops", x.flops, y.flops, options_.flopsTolerance);
    if (!a_.facts->mesh.ops.empty() && !b_.facts->mesh.ops.empty())
      ratchet("COMM_BYTES_GREW", "communication", "bytes a step", static_cast<double>(x.commBytes),
              static_cast<double>(y.commBytes), options_.commTolerance);
    if (x.tasks && y.tasks)
      ratchet("TASKS_GREW", "tasks", "tasks", static_cast<double>(x.tasks), static_cast<double>(y.tasks),
              options_.taskTolerance);
  }

  void ratchet(const char *rule, const char *what, const char *unit, double was, double is, double tolerance) {
    if (was == is) return;
    const bool grew = is > was * (1 + tolerance);
    GraphFinding &f =
        add(rule, ChangeSubject::kCost, grew ? Severity::kError : Severity::kNote, "",
            std::string(what) + " " + countOf(was) + " -> " + countOf(is) + " " + unit + percentOf(was, is),
            countOf(was) + " " + unit, countOf(is) + " " + unit);
    if (grew && tolerance > 0)
      f.help = "at most " + countOf(std::floor(was * (1 + tolerance))) + " " + unit + " are allowed";
  }

  const FactNodes &a_, &b_;
  const ComparisonOptions &options_;
  std::vector<GraphFinding> &findings_;
  std::map<std::string, std::string> names_, tensors_; // of a, and what they are called in b
  std::set<std::string> tensorsOfBoth_;                // of b
  std::set<std::string> retyped_;                      // ops of b
  std::map<std::string, const FactNode *> nodes_;      // of b, by name
  std::map<std::string, const FactNode *> makers_;     // of b's tensors
};

} // namespace

void compareDecisions(const FactNodes &a, const FactNodes &b, const GraphMatch &match, const ComparisonOptions &options,
                      std::vector<GraphFinding> *findings) {
  Decisions(a, b, match, options, findings).run();
}

} // namespace opc
