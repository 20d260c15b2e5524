// opc report: everything about a graph on one page.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "FactsInput.h"
#include "FileBytes.h"
#include "FileUse.h"
#include "GraphReport.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "PrintableText.h"

namespace opc::cli {

namespace {

struct ReportCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("everything about a graph on one page: drawing, costs, memory, states, tasks", "GRAPH|PLAN|IR|-", 1, 1);
    s.examples = {"opc report mlp.pbtxt -o mlp.html", "opc report train.pbtxt --mesh 2x4 -o train.html"};
    s.options = {{"--output", 'o', "FILE", "where to write; - is standard output", &output_, true}};
    for (Option &o : mesh_.options()) s.options.push_back(std::move(o));
    for (Option &o : modelFlags_.options()) s.options.push_back(std::move(o));
    s.details =
        "The page is one file of HTML: it loads nothing, works from a disk, has dark colours on a dark screen, and "
        "every part of it is reached by keyboard. The same graph gives the same bytes. IR is what opc compile --emit "
        "mlir and mlirbc write; git:REV:PATH is a file of a revision.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (output_.empty()) return usageError("opc report needs -o", "give -o FILE.html, or -o - for standard output");
    if (invocation.flags().json) return usageError("a report is a page and no JSON", "opc show GRAPH --json");
    FileUse files; // no output replaces what is read
    files.readsGraph(positional[0], "the graph");
    OPC_RETURN_IF_ERROR(files.writes(output_, "-o"));
    OPC_RETURN_IF_ERROR(checkEnding("-o", output_, {".html"}));
    OPC_ASSIGN_OR_RETURN(GraphInput input, readGraphOrRevision(positional[0]));
    FactsRequest request;
    request.withPlan = true;
    request.model = &modelFlags_;
    if (!input.isModel) OPC_RETURN_IF_ERROR(modelFlags_.applied(input, {}).status()); // which the flags are for
    OPC_ASSIGN_OR_RETURN(request.mesh, mesh_.request());
    if (input.isPlan && request.mesh)
      return usageError("--mesh has no effect on a plan: it is for what it was compiled for");
    const std::string file = input.path == "-" || input.isIr ? "" : input.path;
    OPC_ASSIGN_OR_RETURN(const FactsInput graph, factsOf(invocation, std::move(input), request));
    if (!graph.undecided.empty()) invocation.note("note: there is neither plan nor cost: " + graph.undecided);
    GraphPage parts{graph.facts, graph.name};
    parts.showsTimes = invocation.flags().timing;
    if (!graph.plan.empty()) OPC_RETURN_IF_ERROR(addTimeline(invocation, *graph.registry, mesh_, graph.plan, &parts));
    if (!graph.isPlan) addFindings(*graph.registry, file, &parts);
    const std::string page = graphHtml(parts);
    if (output_ == "-") return invocation.terminal().file(page), kExitOk;
    OPC_RETURN_IF_ERROR(writeFileAtomically(output_, page));
    invocation.note("wrote " + printableName(output_) + " (" + bytesText(page.size()) + ")");
    return kExitOk;
  }

private:
  std::string output_;
  MeshFlags mesh_;
  ModelFlags modelFlags_;
};

} // namespace

std::unique_ptr<Command> makeReportCommand() { return std::make_unique<ReportCommand>(); }

} // namespace opc::cli
