// opc diff: what differs between two graphs, by what they compute.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "DiffDrawing.h"
#include "FactsInput.h"
#include "FileBytes.h"
#include "FileUse.h"
#include "LockFile.h"
#include "MeshFlags.h"
#include "ModelExplorer.h"
#include "OutputFiles.h"
#include "PrintableText.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>
#include <filesystem>

namespace opc::cli {

namespace {

constexpr size_t kPerRule = 20;

struct Ignored {
  bool names = false, sbp = false, cost = false;

  static std::optional<Ignored> read(const std::string &text) {
    Ignored ignored;
    for (const std::string &word : splitAt(text, ',')) {
      if (word != "names" && word != "sbp" && word != "cost") return std::nullopt;
      (word == "names" ? ignored.names : word == "sbp" ? ignored.sbp : ignored.cost) = true;
    }
    return ignored;
  }
  bool drops(const GraphFinding &f) const {
    const ChangeGroup group = changeGroupOf(f);
    return (names && group == ChangeGroup::kNames) || (sbp && group == ChangeGroup::kStates) ||
           (cost && group == ChangeGroup::kCost);
  }
};

struct DiffCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("semantic difference of two graphs, plans or lock files", "A B", 2, 2);
    s.examples = {"opc diff old.pbtxt mlp.pbtxt", "opc diff old.pbtxt mlp.pbtxt --ignore names,cost",
                  "opc diff git:HEAD:./mlp.pbtxt mlp.pbtxt", "opc diff a.plan b.plan --json | jq '.findings[].rule'"};
    s.options = {{"--stat", 0, "", "how many changes of each rule alone", &stat_, true},
                 {"--full", 0, "", "every change, not only the first 20 of each rule", &full_, true},
                 Option{"--ignore", 0, "KIND,...", "kinds of changes that do not count: names, sbp, cost",
                        into(&ignored_, Ignored::read), true}
                     .oneOf({"names", "sbp", "cost"})
                     .taking("a list of names, sbp, cost"),
                 Option{"--as", 0, "", "how it is shown (default text); html is one page of its own", &as_, true}.oneOf(
                     {"text", "json", "svg", "html", "model-explorer"}),
                 {"--output", 'o', "FILE", "where to write; - is standard output (the default)", &output_}};
    for (Option &o : mesh_.options()) s.options.push_back(std::move(o));
    for (Option &o : modelFlags_.options()) s.options.push_back(std::move(o));
    s.details =
        "A is the older, B the newer; - is standard input, for one of them, and git:REV:PATH is a file of a "
        "revision, PATH from the root of the repository or from ./here. Inputs, outputs and variables are "
        "matched by name, ops by name and structure: ops that are renamed or stand elsewhere in the file are "
        "the same ops. Both graphs are compiled for this machine, or the mesh that is given, and what was "
        "decided for them is compared, too. IR (opc compile --emit mlir, mlirbc) has the ops of its phase and says for which mesh. With a plan, what is compared are the ops that run; with a lock file (opc check), what it holds, for the mesh that it was "
        "made for. "
        "Exit code 0: no difference, 1: they differ, 2 and more: trouble. -q gives the code alone.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (invocation.flags().json && as_ != "text" && as_ != "json")
      return usageError("--json and --as " + as_ + " exclude each other");
    if (stat_ && full_) return usageError("--stat and --full exclude each other");
    if (stat_ && (invocation.flags().json || as_ != "text"))
      return usageError("--stat is for text: the other forms have every change", "leave it out");
    if (positional[0] == "-" && positional[1] == "-")
      return usageError("standard input is one graph, and both are -", "give a file for one of them");
    if (as_ == "model-explorer" && (output_.empty() || output_ == "-"))
      return usageError("the graphs and which node is which are two files",
                        "give -o FILE.json; the second is beside it");
    if (isFile()) {
      FileUse files; // no output replaces what is read
      for (const std::string &graph : positional) files.readsGraph(graph, "the graph");
      OPC_RETURN_IF_ERROR(files.writes(output_, "-o"));
      if (as_ == "model-explorer") OPC_RETURN_IF_ERROR(files.writes(secondPath(), "the file beside -o"));
      OPC_RETURN_IF_ERROR(checkEndingAs(invocation.flags().json ? "json" : as_, output_));
    }
    OPC_ASSIGN_OR_RETURN(GraphInput inputA, readGraphOrRevision(positional[0]));
    OPC_ASSIGN_OR_RETURN(GraphInput inputB, readGraphOrRevision(positional[1]));
    OPC_ASSIGN_OR_RETURN(Sides sides, read(invocation, std::move(inputA), std::move(inputB)));
    DiffReport report;
    report.a = sides.a.name;
    report.b = sides.b.name;
    const FactNodes a(sides.a.facts), b(sides.b.facts);
    const GraphMatch match = matchGraphs(a, b);
    report.difference = compareGraphs(a, b, match, both(sides.a.known, sides.b.known));
    invocation.watch().lap("compare");
    std::erase_if(report.difference.findings, [&](const GraphFinding &f) { return ignored_.drops(f); });
    if (as_ == "json" || invocation.flags().json)
      OPC_RETURN_IF_ERROR(write(invocation, jsonText(diffJson(report))));
    else if (as_ == "model-explorer")
      OPC_RETURN_IF_ERROR(writePair(invocation, modelExplorerPair(a, report.a, b, report.b, match)));
    else if (as_ == "svg" || as_ == "html")
      OPC_RETURN_IF_ERROR(
          write(invocation, as_ == "svg" ? diffSvg(a, b, match, report) : diffHtml(a, b, match, report)));
    else if (!invocation.flags().quiet || isFile())
      OPC_RETURN_IF_ERROR(write(invocation, stat_ ? diffStatText(report)
                                                  : diffText(report, full_ ? SIZE_MAX : kPerRule, tableWidth())));
    return report.same() ? kExitOk : kExitNo;
  }

private:
  size_t tableWidth() const { return output_.empty() ? outTableWidth() : 0; }

  bool isFile() const { return !output_.empty() && output_ != "-"; }

  Status write(Invocation &invocation, const std::string &text) const {
    if (isFile()) return writeFileAtomically(output_, text);
    if (as_ == "svg" || as_ == "html")
      invocation.terminal().file(text);
    else
      invocation.terminal().out(text);
    return Status::ok();
  }

  std::string secondPath() const {
    std::filesystem::path second = output_;
    second.replace_extension(".sync" + second.extension().string());
    return second.string();
  }

  /// The graphs in the file that was named, their nodes' partners in one beside it.
  Status writePair(Invocation &invocation, const ModelExplorerPair &pair) const {
    const std::string second = secondPath();
    OPC_RETURN_IF_ERROR(writeFileAtomically(second, jsonText(pair.navigation)));
    invocation.note("which node is which is in " + printableName(second));
    return writeFileAtomically(output_, jsonText(pair.graphs));
  }

  struct Sides {
    FactsInput a, b;
  };

  /// The mesh that IR was planned for; nothing for one device.
  static std::optional<MeshRequest> meshOf(const GraphFacts &facts) {
    if (facts.mesh.placements.empty()) return std::nullopt;
    MeshRequest mesh;
    mesh.dims = facts.mesh.placements[0].dims; // the whole one, before those of stages
    mesh.microBatches = facts.mesh.microBatches;
    return mesh;
  }

  /// A lock or IR says what mesh it is for, and the other one is compiled for that.
  Outcome<Sides> read(Invocation &invocation, GraphInput inputA, GraphInput inputB) {
    FactsRequest request;
    request.model = &modelFlags_;
    if (!inputA.isModel && !inputB.isModel) // which --dim and --const are for
      OPC_RETURN_IF_ERROR(modelFlags_.applied(inputA, {}).status());
    OPC_ASSIGN_OR_RETURN(request.mesh, mesh_.request());
    request.asPlanned = inputA.isPlan || inputB.isPlan;
    const bool locks[] = {looksLikeLock(inputA), looksLikeLock(inputB)};
    if (request.asPlanned && (locks[0] || locks[1]))
      return usageError("a lock file has the ops as they are written, and a plan those that run",
                        "compare the lock with the graph that the plan was compiled from");
    if (request.asPlanned && request.mesh)
      return usageError("--mesh has no effect on a plan: it is for what it was compiled for");
    Sides sides;
    std::optional<MeshRequest> locked = request.mesh;
    if (locks[0]) {
      OPC_ASSIGN_OR_RETURN(sides.a, factsOfLock(inputA, &locked));
    }
    if (locks[1]) {
      OPC_ASSIGN_OR_RETURN(sides.b, factsOfLock(inputB, &locked));
    }
    if (!request.mesh) request.mesh = std::move(locked);
    const bool isBFirst = inputB.isIr && !inputA.isIr; // which says what mesh it is for, too
    for (const bool isB : {isBFirst, !isBFirst}) {
      if (locks[isB]) continue;
      FactsInput &side = isB ? sides.b : sides.a;
      OPC_ASSIGN_OR_RETURN(side, factsOf(invocation, std::move(isB ? inputB : inputA), request));
      if (side.isIr && !request.mesh) request.mesh = meshOf(side.facts);
    }
    for (FactsInput *side : {&sides.a, &sides.b}) {
      if (!side->undecided.empty())
        invocation.note("note: " + printableName(side->name) + ": plan and costs are not compared: " + side->undecided);
      if (request.asPlanned) forgetWhatPlansLack(&side->facts);
      if ((locks[0] || locks[1]) && !side->isLock) shortenAttributes(&side->facts);
    }
    for (FactsInput *side : {&sides.a, &sides.b}) {
      FactsInput &other = side == &sides.a ? sides.b : sides.a;
      if (side->isLock) forgetWhatLockLacks(side->detailed, &side->facts, &other.facts);
      if (side->isLock && other.registry) completeAttributes(*other.registry, &side->facts);
      if (!other.hasConstants)
        forgetConstants(other.facts, &side->facts);
      else if (!other.isLock)
        takeConstantsAsVariables(other.facts, &side->facts);
    }
    // A graph that was written of a model holds no weights: nothing is said of them.
    if (!haveDigests(sides.a.facts)) forgetDigests(&sides.b.facts);
    if (!haveDigests(sides.b.facts)) forgetDigests(&sides.a.facts);
    return sides;
  }

  bool stat_ = false, full_ = false;
  Ignored ignored_;
  std::string as_ = "text", output_;
  MeshFlags mesh_;
  ModelFlags modelFlags_;
};

} // namespace

std::unique_ptr<Command> makeDiffCommand() { return std::make_unique<DiffCommand>(); }

} // namespace opc::cli
