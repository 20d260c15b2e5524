// opc config: each setting with its value and where it comes from.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Config.h"
#include "JsonOutput.h"
#include "NearestNames.h"
#include "NumberText.h"
#include "PrintableText.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>

namespace opc::cli {

namespace {

std::string valueText(const ConfigValue &v) { return printableName(joined(v.values, ", ")); }

struct ConfigCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("settings, with the file, the variable or the default that each comes from", "[SETTING]", 0, 1);
    s.examples = {"opc config", "opc config run.seed", "opc config --json"};
    s.details =
        "A flag wins over OPC_* in the environment, that over the nearest opc.toml (in the working directory or "
        "above it), that over $XDG_CONFIG_HOME/opc/config.toml, that over the default. --config FILE reads "
        "that file alone, --config none reads none.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    const Config &config = invocation.config();
    std::vector<std::string> names;
    size_t width = 0, valueWidth = 0;
    for (const ConfigValue &v : config.values()) {
      names.push_back(v.key->name);
      width = std::max(width, names.back().size());
      valueWidth = std::max(valueWidth, std::min<size_t>(valueText(v).size(), 40));
    }
    Terminal &terminal = invocation.terminal();
    if (!positional.empty()) {
      const auto it = std::find(names.begin(), names.end(), positional[0]);
      if (it == names.end())
        return usageError("there is no setting '" + positional[0] + "'",
                          didYouMean(positional[0], names, "opc config lists them"));
      const ConfigValue &v = config.values()[static_cast<size_t>(it - names.begin())];
      if (!invocation.flags().json) return terminal.out(valueText(v) + "\n"), kExitOk;
      terminal.out(jsonText({{"schema", 1}, {"setting", valueJson(v)}}));
      return kExitOk;
    }
    if (invocation.flags().json) {
      Json list = Json::array(), tolerances = Json::array();
      for (const ConfigValue &v : config.values()) list.push_back(valueJson(v));
      for (const ToleranceRule &r : config.tolerances()) {
        Json j = {{"for", r.key}};
        if (r.rtol) j["rtol"] = realJson(*r.rtol);
        if (r.atol) j["atol"] = realJson(*r.atol);
        if (!r.metric.empty()) j["metric"] = r.metric;
        if (r.nanEqual) j["nan"] = nanText(r);
        j["origin"] = r.origin;
        tolerances.push_back(std::move(j));
      }
      terminal.out(jsonText({{"schema", 1},
                             {"files", config.files()},
                             {"settings", std::move(list)},
                             {"tolerances", std::move(tolerances)}}));
      return kExitOk;
    }
    for (const ConfigValue &v : config.values()) {
      const std::string line = padded(v.key->name, width + 2) + valueText(v);
      terminal.out(padded(line, width + 2 + valueWidth) + "  " + v.origin + "\n");
    }
    for (const ToleranceRule &r : config.tolerances()) {
      std::string text = "tolerance " + printableName(r.key) + ":";
      if (r.rtol) text += " rtol " + realText(*r.rtol);
      if (r.atol) text += " atol " + realText(*r.atol);
      if (!r.metric.empty()) text += " " + r.metric;
      if (r.nanEqual) text += std::string(" nan ") + nanText(r);
      terminal.out(text + "  " + r.origin + "\n");
    }
    return kExitOk;
  }

private:
  /// As files have it.
  static const char *nanText(const ToleranceRule &rule) { return *rule.nanEqual ? "equal" : "fail"; }

  static Json valueJson(const ConfigValue &v) {
    Json j = {{"name", v.key->name}};
    if (v.key->kind == ConfigKey::Kind::kList)
      j["value"] = v.isDefault() ? Json::array() : Json(v.values);
    else
      j["value"] = v.values.front();
    j["origin"] = v.origin;
    j["flag"] = v.key->option;
    j["environment"] = v.key->environment;
    j["doc"] = v.key->doc;
    return j;
  }
};

} // namespace

std::unique_ptr<Command> makeConfigCommand() { return std::make_unique<ConfigCommand>(); }

} // namespace opc::cli
