// How strict a check is.
// SPDX-License-Identifier: Apache-2.0
#include "StrictnessFlags.h"

#include "NearestNames.h"
#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>

namespace opc::cli {

namespace {

const std::string kNone = "none"; // in place of what the settings say

/// " (opc.toml:4)" where the values of an option are those of the settings; "" where the command line has them.
std::string placeOf(const Config &config, const std::string &key, const std::vector<std::string> &given, size_t i) {
  for (const ConfigValue &v : config.values())
    if (v.key->name == key && !v.isDefault() && v.values == given)
      return " (" + (v.places.size() == given.size() ? v.places[i] : v.origin) + ")";
  return "";
}

Status checkRule(const std::string &name, const std::string &place) {
  if (findRule(name)) return Status::ok();
  std::vector<std::string> names;
  for (const Rule &r : allRules()) names.push_back(r.name);
  return usageError("no rule is called '" + name + "'" + place,
                    didYouMean(name, names, "opc check --list-rules lists them"));
}

} // namespace

std::vector<Option> StrictnessFlags::options() {
  return {
      Option{"--use", 0, "CATEGORY",
             "how strict: INTERFACE, SEMANTIC, PARALLEL, COST (the default) or EXACT; each has the rules of those "
             "before it",
             &use_, true}
          .oneOf({"INTERFACE", "SEMANTIC", "PARALLEL", "COST", "EXACT"}),
      {"--except", 0, "RULE", "leave a rule out, in place of the settings' rules; none for none (repeatable)", &except_,
       true},
      {"--ignore", 0, "GLOB:RULE", "leave a rule, or *, out for some graphs, in place of the settings' (repeatable)",
       &ignore_},
      {"--grow", 0, "COST=X%", "what a cost may grow by: peak_bytes, flops, comm_bytes or tasks (repeatable)", &grow_}};
}

Status StrictnessFlags::apply(const Config &config, CheckSettings *settings) const {
  for (const ConfigValue &v : config.values()) // a file's globs begin in its folder
    if (v.key->name == std::string("check.ignore") && !v.isDefault() && v.values == ignore_)
      settings->ignoreFolder = v.folder;
  if (!use_.empty()) settings->use = RuleCategory::kInterface;
  for (size_t i = 0; i < use_.size(); ++i) {
    const std::string &name = use_[i];
    const auto category = parseRuleCategory(name);
    if (!category || *category == RuleCategory::kAlways)
      return usageError("there is no category '" + name + "' of rules" + placeOf(config, "check.use", use_, i),
                        "INTERFACE, SEMANTIC, PARALLEL, COST or EXACT");
    settings->use = std::max(settings->use, *category);
  }
  for (size_t i = 0; i < except_.size(); ++i) {
    const std::string &rule = except_[i];
    if (rule == kNone) continue;
    OPC_RETURN_IF_ERROR(checkRule(rule, placeOf(config, "check.except", except_, i)));
    settings->except.insert(rule);
  }
  for (size_t i = 0; i < ignore_.size(); ++i) {
    const std::string &text = ignore_[i];
    if (text == kNone) continue;
    const size_t colon = text.rfind(':');
    const std::string place = placeOf(config, "check.ignore", ignore_, i);
    if (colon == 0) return usageError("a glob of graphs is empty" + place, "*:RULE for all graphs, or a name");
    if (colon == std::string::npos)
      return usageError("--ignore " + text + " has no rule", "--ignore 'experimental/*:OP_ADDED', or :* for all rules");
    const std::string rule = text.substr(colon + 1);
    if (rule != "*") OPC_RETURN_IF_ERROR(checkRule(rule, place));
    settings->ignored.push_back({text.substr(0, colon), rule, place});
  }
  return applyGrowth(config, settings);
}

Status StrictnessFlags::applyGrowth(const Config &config, CheckSettings *settings) const {
  for (size_t i = 0; i < grow_.size(); ++i) {
    const std::string &text = grow_[i];
    const std::string place = placeOf(config, "check.cost", grow_, i);
    const size_t equals = text.find('=');
    const std::string name = text.substr(0, equals);
    const std::vector<std::string> &names = costNames();
    if (std::find(names.begin(), names.end(), name) == names.end())
      return usageError("'" + text + "' names no cost" + place,
                        didYouMean(name, names, "costs: " + joined(names, ", ")));
    const std::string amount = equals == std::string::npos ? "" : text.substr(equals + 1);
    const auto percent =
        amount.empty() || amount.back() != '%' ? std::nullopt : parseReal(amount.substr(0, amount.size() - 1));
    if (!percent || !(*percent >= 0 && *percent <= 1e6))
      return usageError("'" + text + "' does not say by how much" + place, name + "=2%");
    settings->growth[name] = *percent / 100;
  }
  return Status::ok();
}

} // namespace opc::cli
