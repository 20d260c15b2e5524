// opc check: graphs against their locks.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CheckReport.h"
#include "DiagnosticText.h"
#include "GraphCheck.h"
#include "GraphFiles.h"
#include "LockUpdate.h"
#include "MeshFlags.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "ParallelChecks.h"
#include "Rules.h"
#include "TextParts.h"
#include "TextTable.h"

#include <cstdlib>

namespace opc::cli {

namespace {

class CheckCommand final : public Command {
public:
  CommandSpec spec() override {
    CommandSpec s;
    s.arguments = "PATH|DIR...";
    s.summary = "verify graphs against the lock files beside them";
    s.examples = {"opc check mlp.pbtxt", "opc check graphs/ --json", "opc check mlp.pbtxt --update",
                  "opc check mlp.pbtxt --update=cost,numerics"};
    s.options = {{"--update", 0, "[=SECTION,...]", "write the locks, or these sections of them; says what it accepts",
                  &update_, true},
                 {"--update-in-ci", 0, "", "--update also where CI is set", &updateFlags_.inCi},
                 {"--all", 0, "", "--update of a folder also takes values that have changed", &updateFlags_.all},
                 Option{"--use", 0, "CATEGORY",
                        "how strict: each category has the rules of those before it (default COST)",
                        into(&settings_.use, parseRuleCategory), true}
                     .oneOf({"INTERFACE", "SEMANTIC", "PARALLEL", "COST", "EXACT"}),
                 {"--except", 0, "RULE", "leave a rule out (repeatable)", &except_, true},
                 {"--ignore", 0, "GLOB:RULE", "leave a rule, or *, out for some graphs (repeatable)", &ignore_},
                 {"--no-run", 0, "", "compare structure alone: nothing is executed", &noRun_, true},
                 {"--exit-zero", 0, "", "exit 0 whatever is found", &exitZero_},
                 {"--list-rules", 0, "", "every rule with its category and severity", &listRules_}};
    for (Option &o : mesh_.options()) s.options.push_back(std::move(o));
    s.details =
        "The lock of mlp.pbtxt is mlp.opc.lock beside it: text, one record a line, for version control. It holds what the "
        "graph is (interface, ops, tensors), what was decided for it (sbp, boxing, grad, tasks), what it costs, and what "
        "its outputs are on generated inputs. opc check writes nothing without --update, which is refused where CI is "
        "set. Costs may fall, and may not grow. A graph in a folder is a file that ends in .pbtxt, .prototxt or .pb. "
        "Exit codes: 0 as locked, 1 a finding, 2 usage, 3 an invalid graph or lock, 4 not possible here, 5 the run "
        "failed; of several graphs the worst.";
    s.maxArguments = 100000;
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (listRules_) return listRules(invocation);
    if (positional.empty()) return usageError("opc check needs a graph or a folder", "opc check graphs/");
    OPC_RETURN_IF_ERROR(readFlags(invocation));
    OPC_ASSIGN_OR_RETURN(const GraphFiles files, findGraphs(positional));
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry());
    std::vector<CheckedGraph> checked = checkGraphs(registry, settings_, files.graphs, invocation.threads());
    if (updateFlags_.wanted) OPC_RETURN_IF_ERROR(updateLocks(updateFlags_, &checked));
    CheckReport report;
    for (CheckedGraph &c : checked) report.graphs.push_back(std::move(c.report));
    addOrphans(files.orphans, &report);
    return finish(invocation, report);
  }

private:
  Status readFlags(Invocation &invocation) {
    OPC_ASSIGN_OR_RETURN(updateFlags_.wanted, parseUpdate(update_, &updateFlags_.sections));
    updateFlags_.isNamed = !updateFlags_.sections.empty();
    if (updateFlags_.wanted && !updateFlags_.inCi && isCi())
      return usageError("--update where CI is set: a check that accepts what it finds, finds nothing",
                        "run it on your machine and commit the lock, or give --update-in-ci");
    for (const std::string &rule : except_) {
      OPC_RETURN_IF_ERROR(checkRule(rule));
      settings_.except.insert(rule);
    }
    for (const std::string &text : ignore_) {
      const size_t colon = text.rfind(':');
      if (colon == std::string::npos || !colon)
        return usageError("--ignore " + text + " has no rule",
                          "--ignore 'experimental/*:OP_ADDED', or :* for all rules");
      const std::string rule = text.substr(colon + 1);
      if (rule != "*") OPC_RETURN_IF_ERROR(checkRule(rule));
      settings_.ignored.push_back({text.substr(0, colon), rule});
    }
    OPC_ASSIGN_OR_RETURN(settings_.mesh, mesh_.request());
    if (settings_.mesh)
      settings_.meshText = joined(settings_.mesh->dims, "x", [](int64_t d) { return std::to_string(d); });
    settings_.runs = !noRun_;
    settings_.tolerance = [](const std::string &, DataType type) { return defaultTolerance(type); };
    (void)invocation;
    return Status::ok();
  }

  static Status checkRule(const std::string &name) {
    if (findRule(name)) return Status::ok();
    std::vector<std::string> names;
    for (const Rule &r : allRules()) names.push_back(r.name);
    return usageError("no rule is called '" + name + "'", didYouMean(name, names, "opc check --list-rules lists them"));
  }

  /// Set, and not to what means no.
  static bool isCi() {
    const char *value = std::getenv("CI");
    const std::string text = value ? value : "";
    return !text.empty() && text != "0" && text != "false";
  }

  static void addOrphans(const std::vector<std::string> &orphans, CheckReport *report) {
    for (const std::string &lock : orphans) {
      GraphFinding f;
      f.rule = "LOCK_UNREFERENCED";
      f.severity = Severity::kWarning;
      f.graph = lock;
      f.message = "no graph lies beside the lock " + lock;
      f.help = "remove it, or put its graph back";
      report->graphs.push_back({lock, {std::move(f)}});
    }
  }

  Outcome<int> listRules(Invocation &invocation) const {
    Json list = Json::array();
    std::vector<std::vector<std::string>> rows = {{"RULE", "CATEGORY", "SEVERITY", "WHAT"}};
    for (const Rule &r : allRules()) {
      list.push_back({{"rule", r.name},
                      {"category", ruleCategoryName(r.category)},
                      {"severity", severityName(r.severity)},
                      {"doc", r.doc}});
      rows.push_back({r.name, ruleCategoryName(r.category), severityName(r.severity), r.doc});
    }
    if (invocation.flags().json)
      invocation.terminal().out(jsonText({{"schema", 1}, {"rules", std::move(list)}}));
    else
      invocation.terminal().out(textTable(rows, outTableWidth()));
    return kExitOk;
  }

  Outcome<int> finish(Invocation &invocation, const CheckReport &report) const {
    Terminal &terminal = invocation.terminal();
    if (invocation.flags().json) {
      terminal.out(jsonText(checkJson(report)));
    } else {
      if (!invocation.flags().quiet) terminal.out(checkText(report, terminal.colorOut(), terminal.width()));
      invocation.note(checkSummary(report));
    }
    return exitZero_ ? kExitOk : report.exitCode();
  }

  std::string update_;
  std::vector<std::string> except_, ignore_;
  bool noRun_ = false, exitZero_ = false, listRules_ = false;
  UpdateFlags updateFlags_;
  CheckSettings settings_;
  MeshFlags mesh_;
};

} // namespace

std::unique_ptr<Command> makeCheckCommand() { return std::make_unique<CheckCommand>(); }

} // namespace opc::cli
