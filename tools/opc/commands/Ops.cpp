// opc ops: the registered operators, as a table, as a page each, as JSON.
// SPDX-License-Identifier: Apache-2.0
#include "BuiltIn.h"
#include "Commands.h"

#include "OpReport.h"
#include "OpSuggestions.h"
#include "PluginOverrides.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>
#include <fnmatch.h>

namespace opc::cli {

namespace {

constexpr char kShow[] = "show";

struct OpsCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("list the registered operators, or describe one", "[GLOB] | show NAME", 0, 2);
    s.examples = {"opc ops 'reduce_*'", "opc ops show gelu", "opc ops --missing grad --plugin build/libmyops.so"};
    s.options = {Option{"--missing", 0, "PART",
                        "only ops that lack PART: grad, kernel, cases, doc, sbp or gpu (with the reason)", &missing_,
                        true}
                     .oneOf(opParts())};
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const bool page = positional.size() == 2;
    if (page && positional[0] != kShow)
      return usageError("too many arguments for opc ops: '" + positional[1] + "'", "usage: opc ops [GLOB] | show NAME");
    if (page && !missing_.empty())
      return usageError("--missing is of a list, and opc ops show " + positional[1] + " is one operator",
                        "opc ops --missing " + missing_ + " '" + positional[1] + "'");
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry());
    Terminal &terminal = invocation.terminal();

    if (page) {
      const user_op::OpDef *op = findGraphOp(registry, positional[1]);
      if (!op) return unknownOp(registry, positional[1]);
      if (invocation.flags().json)
        terminal.out(jsonText({{"schema", 1}, {"op", opJson(registry, *op)}}));
      else
        terminal.out(opPage(registry, *op, terminal.width()));
      return kExitOk;
    }

    const std::string glob = positional.empty() ? "*" : positional[0];
    std::vector<const user_op::OpDef *> ops;
    for (const user_op::OpDef *op : registry.ops()) {
      auto fits = [&](const std::string &name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; };
      const std::vector<std::string> overridden = overriddenBy(*op);
      if (!fits(op->name) && !std::any_of(op->aliases.begin(), op->aliases.end(), fits) &&
          !std::any_of(overridden.begin(), overridden.end(), fits))
        continue;
      if (!missing_.empty() && !lacks(registry, *op, missing_)) continue;
      ops.push_back(op);
    }
    if (ops.empty() && missing_.empty() && glob.find_first_of("*?[") == std::string::npos)
      return glob == kShow ? usageError("opc ops show needs the name of an operator", "opc ops lists them")
                           : unknownOp(registry, glob);
    if (invocation.flags().json) {
      Json list = Json::array();
      for (const user_op::OpDef *op : ops) list.push_back(opJson(registry, *op));
      terminal.out(jsonText({{"schema", 1}, {"types", elementTypesJson()}, {"ops", std::move(list)}}));
      return kExitOk;
    }
    terminal.out(missing_ == "gpu" ? reasons(registry, ops, outTableWidth()) : table(registry, ops, outTableWidth()));
    invocation.note(counted(ops.size(), "op"));
    return kExitOk;
  }

private:
  static Status unknownOp(const Registry &registry, const std::string &name) {
    const std::string help = suggestOps(registry, name);
    return Status(StatusCode::kUsage, "OPC0201", "unknown op type '" + name + "'")
        .withHelp(help.empty() ? "opc ops lists all" : help);
  }

  static std::string table(const Registry &registry, const std::vector<const user_op::OpDef *> &ops, size_t width) {
    std::vector<std::vector<std::string>> rows = {
        {"OP", "INPUTS -> OUTPUTS", "KERNELS", "GRAD", "ATTRIBUTES", "LIBRARY"}};
    for (const user_op::OpDef *op : ops) {
      const std::string attrs = joined(op->attrs, " ", [](const user_op::AttrDef &a) {
        return a.name + (a.defaultValue.empty() ? "" : "=" + a.defaultValue.toString());
      });
      rows.push_back({op->name,
                      argumentsText(op->inputs) + (op->inputs.empty() ? "-> " : " -> ") + argumentsText(op->outputs),
                      op->isView ? "view" : kernelsText(registry, *op), gradientText(registry, *op),
                      attrs.empty() ? "-" : attrs, libraryText(op->origin)});
    }
    return textTable(rows, width);
  }

  /// Of ops without a kernel for GPUs.
  static std::string reasons(const Registry &registry, const std::vector<const user_op::OpDef *> &ops, size_t width) {
    std::vector<std::vector<std::string>> rows = {{"OP", "KERNELS", "LIBRARY", "WHY IT HAS NO KERNEL FOR GPUS"}};
    for (const user_op::OpDef *op : ops) {
      const std::string kernels = kernelsText(registry, *op);
      rows.push_back(
          {op->name, kernels.empty() ? "-" : kernels, libraryText(op->origin), cpuOnlyReason(registry, *op)});
    }
    return textTable(rows, width);
  }

  std::string missing_;
};

} // namespace

std::unique_ptr<Command> makeOpsCommand() { return std::make_unique<OpsCommand>(); }

} // namespace opc::cli
