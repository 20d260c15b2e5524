// opc __commands: commands, arguments, options, settings and imported ops as JSON, for pages that are made from it.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CommandList.h"
#include "Config.h"
#include "ImportedOps.h"
#include "JsonOutput.h"
#include "OnnxExport.h"

namespace opc::cli {

namespace {

Json optionJson(const Option &o) {
  Json j = {{"name", o.name},       {"letter", o.letter ? std::string(1, o.letter) : ""},
            {"value", o.value},     {"doc", o.doc},
            {"type", o.typeName()}, {"repeatable", o.isRepeatable()},
            {"brief", o.brief}};
  if (!o.takes().empty()) j["takes"] = o.takes();
  if (!o.choices.empty()) j["choices"] = o.choices;
  if (o.least && !o.isSize) j[o.isAbove ? "above" : "least"] = *o.least;
  if (o.most) j["most"] = *o.most;
  if (!o.standard().empty()) j["default"] = o.standard();
  for (const ConfigKey &k : configKeys()) {
    if (!o.isCalled(k.option)) continue;
    j["setting"] = k.name;
    j["environment"] = k.environment;
  }
  return j;
}

Json optionsJson(const std::vector<Option> &options) {
  Json list = Json::array();
  for (const Option &o : options) list.push_back(optionJson(o));
  return list;
}

Json commandJson(const CommandEntry &entry) {
  const std::unique_ptr<Command> command = entry.make();
  const CommandSpec spec = command->spec();
  return {{"name", entry.name},
          {"arguments", spec.arguments},
          {"least_arguments", spec.minArguments},
          {"most_arguments", spec.maxArguments},
          {"summary", entry.summary},
          {"description", spec.summary},
          {"examples", spec.examples},
          {"details", spec.details},
          {"hidden", entry.hidden},
          {"options", optionsJson(spec.options)}};
}

struct DescribeCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("every command, argument, option and setting as JSON");
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &) override {
    Json commands = Json::array(), settings = Json::array(), codes = Json::array();
    for (const CommandEntry &c : commandList()) commands.push_back(commandJson(c));
    for (const ConfigKey &k : configKeys())
      settings.push_back({{"name", k.name},
                          {"option", k.option},
                          {"environment", k.environment},
                          {"default", k.standard},
                          {"list", k.kind == ConfigKey::Kind::kList},
                          {"doc", k.doc}});
    Json onnx = Json::array();
    for (const ImportedOp &op : importedOnnxOps())
      onnx.push_back({{"domain", op.domain},
                      {"op", op.name},
                      {"versions", op.versions},
                      {"becomes", op.becomes},
                      {"refuses", op.refuses}});
    OPC_ASSIGN_OR_RETURN(const Registry registry, invocation.loadRegistry(""));
    Json exports = Json::array();
    for (const ExportedOp &op : exportedOnnxOps(registry))
      exports.push_back({{"op", op.op}, {"becomes", op.becomes}, {"note", op.note}});
    for (const ExitMeaning &m : kExitMeanings) codes.push_back({{"code", m.code}, {"meaning", m.meaning}});
    SharedFlags shared;
    invocation.terminal().out(jsonText({{"schema", 1},
                                        {"common_options", optionsJson(shared.options())},
                                        {"commands", std::move(commands)},
                                        {"settings", std::move(settings)},
                                        {"onnx_ops", std::move(onnx)},
                                        {"onnx_exports", std::move(exports)},
                                        {"exit_codes", std::move(codes)}}));
    return kExitOk;
  }
};

} // namespace

std::unique_ptr<Command> makeDescribeCommand() { return std::make_unique<DescribeCommand>(); }

} // namespace opc::cli
