// opc check: graphs against their locks.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CheckFormats.h"
#include "DiagnosticText.h"
#include "Expectations.h"
#include "FileBytes.h"
#include "FileUse.h"
#include "GitFiles.h"
#include "GraphCheck.h"
#include "GraphFiles.h"
#include "LockFile.h"
#include "LockUpdate.h"
#include "MeshFlags.h"
#include "ModelFlags.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "ParallelChecks.h"
#include "PythonPlugins.h"
#include "Rules.h"
#include "ShapeFlags.h"
#include "SharedLocks.h"
#include "StrictnessFlags.h"
#include "TextParts.h"
#include "TextTable.h"
#include "TwiceCheck.h"
#include "UnusedSettings.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fnmatch.h>
#include <fstream>

namespace opc::cli {

namespace {

const std::string kStandardInput = "-", kStandardOutput = "-";
const std::string kPathsSetting = "check.paths", kGit = "git:";
const std::string kText = "text", kJson = "json";                       // of --format
const std::string kError = "error", kWarn = "warn", kDelete = "delete"; // of --unreferenced
const std::string kNone = "none";                                       // of --tensors
const std::string kYes = "true";                                        // of GITHUB_ACTIONS

/// Set, and not to what means no.
bool isCi() {
  const char *value = std::getenv("CI");
  const std::string text = value ? value : "";
  return !text.empty() && text != "0" && text != "false";
}

GraphReport notLoaded(const std::string &plugin, const std::string &place) {
  GraphFinding f;
  f.rule = "PLUGIN_NOT_LOADED";
  f.severity = Severity::kWarning;
  const size_t colon = place.rfind(':');
  f.graph = f.range.file = place.substr(0, colon);
  f.range.line = parseInteger<uint32_t>(place.substr(colon + 1)).value_or(0);
  f.range.column = 1;
  f.message = "the plugin " + plugin + " is not loaded: the tree that is checked names it";
  f.help = "opc check --trust-config, or --plugin " + shellQuoted(plugin);
  GraphReport report;
  report.graph = f.graph;
  report.isGraph = false;
  if (const Result<FileBytes> file = FileBytes::open(f.graph)) report.text = std::string(file->view());
  report.findings.push_back(std::move(f));
  return report;
}

/// A graph that the revision has and the tree has not.
GraphReport removedGraph(const CheckSettings &settings, const std::string &path) {
  GraphFinding f;
  f.rule = "GRAPH_REMOVED";
  f.severity = Severity::kError;
  f.graph = path;
  f.message = settings.revision + " has it, and it is gone";
  f.help = "put it back, or leave it out: --ignore " + shellQuoted(path + ":*");
  GraphReport removed;
  removed.graph = path;
  if (isWanted(settings, f)) removed.findings.push_back(std::move(f));
  return removed;
}

/// A lock without a graph; with kDelete it is removed, unless it is left out.
Result<GraphReport> orphanReport(const CheckSettings &settings, const std::string &lock, const std::string &what) {
  GraphFinding f;
  f.rule = "LOCK_UNREFERENCED";
  f.severity = what == kError ? Severity::kError : Severity::kWarning;
  f.graph = lock;
  f.message = "no graph lies beside the lock " + lock;
  f.help = "remove it (--unreferenced delete), or put its graph back";
  GraphReport orphan;
  orphan.graph = lock;
  orphan.isGraph = false;
  if (!isWanted(settings, f)) return orphan;
  std::error_code error;
  if (what == kDelete && std::filesystem::remove(lock, error)) {
    f.severity = Severity::kNote;
    f.message = "removed " + lock + ", which has no graph";
    f.help.clear();
  } else if (error) {
    return Status(StatusCode::kUsage, "OPC0707", "cannot remove " + lock + ": " + error.message());
  }
  orphan.findings.push_back(std::move(f));
  return orphan;
}

/// A glob of the settings that matches nothing of the tree, and what says so.
struct EmptyGlob {
  GraphGlob glob;
  Status status;
};

/// Those of the command line, else those of the settings. What has neither a graph nor a lock is in `empty`.
Result<GraphFiles> pathsOf(Invocation &invocation, const std::vector<std::string> &positional,
                           std::vector<EmptyGlob> *empty) {
  GraphFiles paths;
  paths.graphs = positional;
  if (!positional.empty()) return paths;
  for (const ConfigValue &v : invocation.config().values()) {
    if (v.isDefault() || v.key->name != kPathsSetting) continue;
    for (const std::string &glob : v.values) {
      OPC_ASSIGN_OR_RETURN(const GraphFiles found, filesOfGlob(v.folder, glob));
      if (found.graphs.empty() && found.orphans.empty())
        empty->push_back(
            {{v.folder, glob}, usageError("no file matches '" + glob + "', which " + v.origin + " names")});
      paths.graphs.insert(paths.graphs.end(), found.graphs.begin(), found.graphs.end());
      paths.orphans.insert(paths.orphans.end(), found.orphans.begin(), found.orphans.end());
    }
  }
  if (paths.graphs.empty() && paths.orphans.empty() && empty->empty())
    return usageError("opc check needs a graph or a folder", "opc check graphs/, or paths in opc.toml, [check]");
  return paths;
}

/// In a workflow of GitHub: annotations, and a table in the summary of the step.
Status tellGithub(Terminal &terminal, const CheckReport &report) {
  constexpr size_t kMostSummary = 1 << 20; // what GitHub takes
  const char *actions = std::getenv("GITHUB_ACTIONS"), *summary = std::getenv("GITHUB_STEP_SUMMARY");
  if (!actions || std::string(actions) != kYes) return Status::ok();
  terminal.out(githubText(report));
  if (!summary || !*summary) return Status::ok();
  const std::string text = markdownText(report);
  std::ofstream file(summary, std::ios::app | std::ios::binary);
  file << (text.size() > kMostSummary ? checkSummary(report) + "\n" : text);
  if (!file.flush()) return Status(StatusCode::kUsage, "OPC0707", std::string("cannot write ") + summary);
  return Status::ok();
}

struct CheckCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("verify graphs against the lock files beside them", "[PATH|DIR|-...]", 0, 100000);
    s.examples = {"opc check mlp.pbtxt", "opc check graphs/ --report junit=check.xml --report sarif=check.sarif",
                  "opc check mlp.pbtxt --update", "opc check mlp.pbtxt --update=cost,numerics"};
    s.options = {
        {"--update", 0, "[=SECTION,...]", "write the locks, or these sections of them; says what it accepts", &update_,
         true},
        {"--update-in-ci", 0, "", "--update also where CI is set", &updateFlags_.inCi},
        {"--all", 0, "", "--update of several graphs also takes values that have changed", &updateFlags_.all},
        {"--against", 0, "REV|FILE",
         "compare with the same files of a revision (git:REV, or REV), or with another graph; no lock is read",
         &against_, true},
        shapeOption(&shapes_, false, false),
        {"--tensors", 0, "GLOB",
         "values of tensors inside the graph as well, by name (repeatable); without it, those that the lock has",
         &tensors_},
        {"--keep-outputs", 0, "", "--update also writes whole outputs to GRAPH.opc.outputs.npz, for later checks",
         &updateFlags_.keepsValues},
        {"--no-run", 0, "", "compare structure alone: nothing is executed", &noRun_, true},
        {"--twice", 0, "", "compile and run every graph a second time: the same bytes and bits must come of it",
         &settings_.isTwice},
        Option{"--format", 0, "", "what goes to standard output (default text)", &format_, true}.oneOf(checkFormats()),
        {"--report", 0, "FORMAT=FILE", "write a format to a file as well (repeatable)", &reports_, true},
        Option{"--unreferenced", 0, "", "locks without a graph: a warning, in CI an error", &unreferenced_}.oneOf(
            {"error", "warn", "delete"}),
        {"--trust-config", 0, "", "load the plugins that the tree's own opc.toml names", &trustConfig_},
        {"--list-rules", 0, "", "every rule with its category and severity", &listRules_}};
    for (Option &o : modelFlags_.options()) s.options.push_back(std::move(o));
    for (Option &o : strictness_.options()) s.options.push_back(std::move(o));
    for (Option &o : mesh_.options()) s.options.push_back(std::move(o));
    s.details =
        "The lock of mlp.pbtxt is mlp.opc.lock beside it: text, one record a line, for version control. It holds what the "
        "graph is (interface, ops, tensors), what was decided for it (sbp, boxing, grad, tasks), what it costs, and what "
        "its outputs are on generated inputs. opc check writes nothing without --update, which is refused where CI is "
        "set. Costs may fall, and may not grow. A graph in a folder is a file that ends in .pbtxt, .prototxt, .pb or "
        ".onnx. Exit codes: 0 as locked, 1 a finding, 2 usage, 3 an invalid graph or lock, 4 not possible here, 5 the run "
        "failed; of several graphs the worst.";
    s.executesKernels = true;
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (listRules_) return listRules(invocation);
    OPC_RETURN_IF_ERROR(readFlags(invocation));
    OPC_RETURN_IF_ERROR(readAgainst(positional));
    std::vector<EmptyGlob> empty;
    OPC_ASSIGN_OR_RETURN(GraphFiles named, pathsOf(invocation, positional, &empty));
    CheckReport report;
    if (!settings_.revision.empty()) OPC_RETURN_IF_ERROR(addRemoved(invocation, positional.empty(), &named, &report));
    for (const EmptyGlob &e : empty) // all of whose graphs the revision may have had
      if (std::none_of(report.graphs.begin(), report.graphs.end(),
                       [&](const GraphReport &gone) { return matchesGlob(e.glob, gone.graph); }))
        return e.status;
    OPC_ASSIGN_OR_RETURN(GraphFiles files, findGraphs(named.graphs));
    joinOrphans(named.orphans, &files);
    OPC_RETURN_IF_ERROR(checkReports(invocation, files.graphs));
    if (!settings_.againstFile.empty() && files.graphs.size() != 1)
      return usageError("--against " + *against_ + " is one graph, and more are checked");
    const bool isPart = !settings_.isAgainst && takeSharedLocks(settings_, &files.graphs, &report);
    OPC_RETURN_IF_ERROR(readStandardInput(files.graphs));
    invocation.watch().lap("find graphs");
    OPC_ASSIGN_OR_RETURN(Registry registry, trustedRegistry(invocation, &report));
    std::vector<CheckedGraph> checked = checkGraphs(registry, settings_, files.graphs, invocation.threads());
    if (settings_.isTwice && !settings_.hasForeignCode) checkTwice(registry, settings_, &checked);
    invocation.watch().lap("check");
    if (!isPart) OPC_RETURN_IF_ERROR(checkShapes(checked)); // those that were not looked at may have what is named
    if (!isPart) noteTensors(invocation, checked);
    const CheckedAll all{checked, report.graphs, files.orphans};
    for (const std::string &n : unusedSettings(invocation.config(), settings_, all, positional.empty()))
      invocation.note(n);
    if (updateFlags_.wanted) OPC_RETURN_IF_ERROR(updateLocks(updateFlags_, &checked));
    for (CheckedGraph &c : checked) report.graphs.push_back(std::move(c.report));
    if (!settings_.isAgainst) OPC_RETURN_IF_ERROR(addOrphans(files.orphans, &report));
    return finish(invocation, report);
  }

private:
  Status readFlags(Invocation &invocation) {
    OPC_ASSIGN_OR_RETURN(updateFlags_.wanted, parseUpdate(update_, &updateFlags_.sections));
    updateFlags_.isNamed = !updateFlags_.sections.empty();
    if (updateFlags_.wanted && !updateFlags_.inCi && isCi())
      return usageError("--update where CI is set: a check that accepts what it finds, finds nothing",
                        "run it on your machine and commit the lock, or give --update-in-ci");
    OPC_RETURN_IF_ERROR(strictness_.apply(invocation.config(), &settings_));
    OPC_RETURN_IF_ERROR(readReports());
    OPC_ASSIGN_OR_RETURN(settings_.mesh, mesh_.request());
    if (settings_.mesh)
      settings_.meshText = joined(settings_.mesh->dims, "x", [](int64_t d) { return std::to_string(d); });
    settings_.runs = !noRun_;
    OPC_ASSIGN_OR_RETURN(settings_.shapes, parseFixedShapes(shapes_, "a lock is of one size"));
    OPC_ASSIGN_OR_RETURN(settings_.model, modelFlags_.request());
    if (!tensors_.empty()) settings_.tensors = tensors_;
    settings_.keepsValues = updateFlags_.keepsValues;
    if (updateFlags_.keepsValues && !updateFlags_.wanted)
      return usageError("--keep-outputs is of --update", "opc check GRAPH --update --keep-outputs");
    OPC_RETURN_IF_ERROR(tolerances_.parse(invocation.config().tolerances()));
    settings_.tolerance = [this](const std::string &output, DataType type, bool isOtherDevice) {
      const Tolerance standard = isOtherDevice ? otherDeviceTolerance(type) : defaultTolerance(type);
      return OutputTolerance{tolerances_.toleranceOf(output, type, standard), tolerances_.metricsOf(output, type),
                             tolerances_.nanEquals(output, type)};
    };
    return Status::ok();
  }

  Status readReports() {
    for (const std::string &text : reports_) {
      const size_t equals = text.find('=');
      const std::string name = text.substr(0, equals);
      const std::vector<std::string> &names = checkFormats();
      const bool isKnown = std::find(names.begin(), names.end(), name) != names.end();
      if (!isKnown || equals == std::string::npos || equals + 1 == text.size())
        return usageError("--report " + text + " is no FORMAT=FILE",
                          isKnown ? "say where it goes: --report " + name + "=FILE"
                                  : didYouMean(name, names, "formats: " + joined(names, ", ")));
      if (text.substr(equals + 1) == kStandardOutput)
        return usageError("--report " + text + ": what goes to standard output is that of --format",
                          "--format " + name + ", or a file");
      OPC_RETURN_IF_ERROR(checkOutputPath(text.substr(equals + 1), ""));
      files_.push_back({name, text.substr(equals + 1)});
    }
    return Status::ok();
  }

  /// A report is a file of its own.
  Status checkReports(const Invocation &invocation, const std::vector<std::string> &graphs) const {
    if (files_.empty()) return Status::ok();
    FileUse use;
    for (const std::string &graph : graphs) {
      if (graph == kStandardInput) continue;
      use.readsGraph(graph, "a graph");
      for (const std::string &beside : {lockPathOf(graph), inputsPathOf(graph), valuesPathOf(graph)})
        use.reads(beside, "beside a graph"); // --update may write what is not there yet
    }
    use.readsGraph(settings_.againstFile, "--against");
    use.readsSettings(invocation);
    for (const auto &[name, path] : files_) OPC_RETURN_IF_ERROR(use.writes(path, "--report " + name));
    return Status::ok();
  }

  /// Graphs that the revision has and the tree has not.
  Status addRemoved(Invocation &invocation, bool isConfigured, GraphFiles *named, CheckReport *report) const {
    std::vector<GraphGlob> globs;
    for (const ConfigValue &v : invocation.config().values())
      if (isConfigured && !v.isDefault() && v.key->name == kPathsSetting)
        for (const std::string &glob : v.values) globs.push_back({v.folder, glob});
    OPC_ASSIGN_OR_RETURN(const std::vector<std::string> gone,
                         takeRemovedGraphs(settings_.revision, globs, &named->graphs));
    for (const std::string &path : gone) report->graphs.push_back(removedGraph(settings_, path));
    return Status::ok();
  }

  Status readAgainst(const std::vector<std::string> &paths) {
    if (!against_) return Status::ok();
    if (against_->empty())
      return usageError("--against has no revision", "is a variable empty? --against HEAD, or --against old.pbtxt");
    if (updateFlags_.wanted) return usageError("--update writes locks, and --against reads none");
    settings_.isAgainst = true;
    std::error_code error;
    const bool isRevision = against_->rfind(kGit, 0) == 0;
    if (!isRevision && std::filesystem::exists(*against_, error)) {
      settings_.againstFile = *against_;
      return Status::ok();
    }
    settings_.revision = isRevision ? against_->substr(kGit.size()) : *against_;
    return checkGitRevision(settings_.revision, paths);
  }

  /// A pipe is read once, and --twice looks at it twice.
  Status readStandardInput(const std::vector<std::string> &graphs) {
    if (std::find(graphs.begin(), graphs.end(), kStandardInput) == graphs.end()) return Status::ok();
    if (updateFlags_.wanted) return usageError("a graph on standard input has no lock that could be written");
    if (settings_.isAgainst && settings_.againstFile.empty())
      return usageError("a graph on standard input is in no revision", "--against FILE");
    OPC_ASSIGN_OR_RETURN(const FileBytes bytes, FileBytes::open(kStandardInput));
    settings_.standardInput = std::string(bytes.view());
    return Status::ok();
  }

  /// A shape that no graph has taken is for an input that there is not.
  Status checkShapes(const std::vector<CheckedGraph> &checked) const {
    std::vector<std::string> names;
    if (modelFlags_.isGiven() && std::none_of(checked.begin(), checked.end(), [](const auto &c) { return c.isModel; }))
      return usageError("--dim and --const are for ONNX models, and none is checked",
                        "--shape NAME=DIMS gives an input its shape");
    for (const CheckedGraph &c : checked) {
      if (!c.inputs) return Status::ok(); // it may be that one's
      names.insert(names.end(), c.inputs->begin(), c.inputs->end());
    }
    for (const auto &shape : settings_.shapes)
      if (std::find(names.begin(), names.end(), shape.first) == names.end())
        return noSuchName("input", shape.first, names, "--shape " + shape.first);
    return Status::ok();
  }

  /// A glob of tensors that fits none, which may be a misspelt one.
  void noteTensors(Invocation &invocation, const std::vector<CheckedGraph> &checked) const {
    if (!settings_.runs) return;
    for (const std::string &glob : tensors_) {
      if (glob == kNone) continue;
      const bool fits = std::any_of(checked.begin(), checked.end(), [&](const CheckedGraph &c) {
        const std::vector<OutputValues> &all = c.now.numerics.outputs;
        return !c.isWhole || std::any_of(all.begin(), all.end(), [&](const OutputValues &o) {
          return o.isInside && fnmatch(glob.c_str(), o.name.c_str(), 0) == 0;
        });
      });
      if (!fits)
        invocation.note("note: --tensors " + shellQuoted(glob) +
                        " fits no tensor that a task computes on one device; opc show GRAPH --what tensors lists them");
    }
  }

  /// Without the plugins that a file of the tree names: a tree that is checked runs no code.
  Result<Registry> trustedRegistry(Invocation &invocation, CheckReport *report) {
    std::vector<std::string> plugins = invocation.flags().plugins;
    for (const ConfigValue &v : invocation.config().values()) {
      if (!v.key->isPath || v.folder.empty() || trustConfig_) continue;
      for (size_t i = 0; i < v.values.size(); ++i) {
        if (const auto at = std::find(plugins.begin(), plugins.end(), v.values[i]); at != plugins.end())
          plugins.erase(at);
        report->graphs.push_back(notLoaded(v.values[i], v.places[i]));
      }
    }
    if (trustConfig_) invocation.notePlugins();
    settings_.plugins = plugins;
    const std::vector<std::string> all = withPythonOps(plugins, invocation.flags().opPaths, "");
    settings_.hasForeignCode = !all.empty();
    return opc::cli::loadRegistry(all);
  }

  Status addOrphans(const std::vector<std::string> &orphans, CheckReport *report) const {
    const std::string what = unreferenced_.empty() ? (isCi() ? kError : kWarn) : unreferenced_;
    for (const std::string &lock : orphans) {
      OPC_ASSIGN_OR_RETURN(GraphReport orphan, orphanReport(settings_, lock, what));
      report->graphs.push_back(std::move(orphan));
    }
    return Status::ok();
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
    const std::string format = invocation.flags().json ? kJson : format_;
    Status written;
    for (const auto &[name, path] : files_)
      if (Status s = writeFileAtomically(path, formattedCheck(name, report)); !s && written) written = std::move(s);
    if (!written && invocation.flags().json) return written; // which is a document, too
    if (format != kText) {
      terminal.file(formattedCheck(format, report));
    } else if (!invocation.flags().quiet) {
      terminal.out(checkText(report, terminal.colorOut(), terminal.width()));
      OPC_RETURN_IF_ERROR(tellGithub(terminal, report));
    }
    if (format == kText) invocation.note(checkSummary(report));
    OPC_RETURN_IF_ERROR(written);
    return invocation.flags().exitZero ? kExitOk : report.exitCode();
  }

  std::string update_, format_ = kText, unreferenced_;
  std::optional<std::string> against_;
  std::vector<std::string> reports_, shapes_, tensors_;
  std::vector<std::pair<std::string, std::string>> files_; // format, path
  bool noRun_ = false, listRules_ = false, trustConfig_ = false;
  UpdateFlags updateFlags_;
  StrictnessFlags strictness_;
  CheckSettings settings_;
  ExpectFlags tolerances_;
  MeshFlags mesh_;
  ModelFlags modelFlags_;
};

} // namespace

std::unique_ptr<Command> makeCheckCommand() { return std::make_unique<CheckCommand>(); }

} // namespace opc::cli
