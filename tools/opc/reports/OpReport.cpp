// What the registry says about an operator.
// SPDX-License-Identifier: Apache-2.0
#include "OpReport.h"

#include "OpSnippet.h"
#include "PluginOverrides.h"

#include "BuiltIn.h"
#include "CommandLine.h"
#include "ControlOp.h"
#include "DeviceLoop.h"
#include "Devices.h"
#include "NumberText.h"
#include "PluginOverrides.h"
#include "TextParts.h"
#include "TextTable.h"

#include "opc/ElementTypes.h"
#include "opc/Scalar.h"

#include <algorithm>
#include <map>

namespace opc::cli {

using user_op::ArgDef;
using user_op::AttrDef;
using user_op::Case;
using user_op::KernelDef;
using user_op::OpDef;

std::set<std::string> writtenInputs(const OpDef &op) {
  if (!op.modifyInputs) return {};
  std::map<std::string, user_op::InputBlobModifier> modifiers;
  user_op::OpConf conf;
  conf.name = conf.type = op.name;
  for (const ArgDef &a : op.inputs) conf.inputs.push_back({a.name, std::vector<std::string>(1, a.name)});
  for (const AttrDef &a : op.attrs)
    if (!a.defaultValue.empty()) conf.attrs[a.name] = a.type == kAtBool ? AttrValue(true) : a.defaultValue;
  const user_op::UserOpConfWrapper wrapper(conf);
  (void)user_op::detail::guarded([&] {
    op.modifyInputs([&](const std::string &arg, int32_t) { return &modifiers[arg]; }, wrapper);
    return Status();
  });
  std::set<std::string> written;
  for (const auto &[arg, modifier] : modifiers)
    if (modifier.isMutable) written.insert(arg);
  return written;
}

namespace {

Json argsJson(const std::vector<ArgDef> &args) {
  Json list = Json::array();
  for (const ArgDef &a : args)
    list.push_back({{"name", a.name},
                    {"optional", a.optional},
                    {"count", a.count},
                    {"at_least", a.atLeast},
                    {"aliases", a.aliases}});
  return list;
}

Json inputsJson(const OpDef &op) {
  Json list = argsJson(op.inputs);
  const std::set<std::string> written = writtenInputs(op);
  for (Json &input : list) input["mutable"] = written.count(input["name"]) > 0;
  return list;
}
Json textOrNull(const std::string &text) { return text.empty() ? Json(nullptr) : Json(text); }

Json caseJson(const Case &c) {
  Json inputs = Json::array(), attrs = Json::object(), outputs = Json::object(), types = Json::array();
  for (const user_op::CaseInput &i : c.inputs())
    inputs.push_back({{"arg", i.arg},
                      {"index", i.index},
                      {"dtype", dtypeJson(i.type)},
                      {"shape", shapeJson(i.shape)},
                      {"lo", realJson(i.lo)},
                      {"hi", realJson(i.hi)}});
  for (const auto &a : c.attrs()) attrs[a.first] = attrJson(a.second);
  for (const auto &o : c.outputs()) outputs[o.first] = o.second;
  for (DataType t : c.types()) types.push_back(dtypeJson(t));
  return {{"name", c.name()},
          {"inputs", std::move(inputs)},
          {"attrs", std::move(attrs)},
          {"outputs", std::move(outputs)},
          {"types", std::move(types)}};
}

/// Dtypes by device, "any" for a kernel that does not say.
std::map<std::string, std::vector<std::string>> kernelTypes(const Registry &registry, const OpDef &op) {
  std::map<std::string, std::vector<std::string>> devices;
  for (const KernelDef *k : registry.kernels(op.name)) {
    const KernelTarget target = kernelTarget(*k);
    auto &types = devices[target.device.empty() ? "any" : target.device];
    const std::string type = target.dtype.empty() ? "any" : target.dtype;
    if (std::find(types.begin(), types.end(), type) == types.end()) types.push_back(type);
  }
  return devices;
}

const char *reductionName(user_op::ReductionKind kind) {
  switch (kind) {
  case user_op::ReductionKind::kSum: return "sum";
  case user_op::ReductionKind::kMax: return "max";
  case user_op::ReductionKind::kMin: return "min";
  case user_op::ReductionKind::kProd: return "prod";
  case user_op::ReductionKind::kAnd: return "and";
  case user_op::ReductionKind::kOr: return "or";
  }
  return "?";
}

std::string row(const std::string &label, const std::string &text) { return padded("  " + label, 14) + text + "\n"; }

/// The file of a definition as the repository names it; of a plugin's, the file's own name.
std::string sourceText(const user_op::Origin &origin) {
  const size_t at = origin.file.rfind("kernels/ops/");
  return origin.file.substr(at != std::string::npos ? at : origin.file.rfind('/') + 1);
}

} // namespace

std::string argumentsText(const std::vector<ArgDef> &args) {
  return joined(args, ", ", [](const ArgDef &a) {
    std::string text = a.name;
    if (a.atLeast)
      text += "..." + (a.count > 1 ? std::to_string(a.count) + "+" : std::string());
    else if (a.count > 1)
      text += "*" + std::to_string(a.count);
    return text + (a.optional ? "?" : "");
  });
}

std::string kernelsText(const Registry &registry, const OpDef &op) {
  return joined(kernelTypes(registry, op), " ",
                [](const auto &device) { return device.first + "{" + joined(device.second, ",") + "}"; });
}

std::string sbpText(const OpDef &op) {
  if (op.sharding.empty()) return op.getSbp || op.shardingOf || op.inferSbpSignature ? "by its own rule" : "";
  std::string text = op.sharding.einsum;
  for (const user_op::FactorReduction &r : op.sharding.reductions)
    text += "; " + r.factor + " reduced by " + reductionName(r.kind);
  for (const user_op::LinearGroup &g : op.sharding.linear) {
    text += "; linear in input " + joined(g.inputs, "+");
  }
  return text;
}

std::string scalarText(const OpDef &op) { return op.scalar ? op.scalar->text() : ""; }

const std::vector<std::string> &opParts() {
  static const std::vector<std::string> parts = {"grad", "kernel", "cases", "doc", "sbp", "gpu"};
  return parts;
}

std::string gradientText(const Registry &registry, const OpDef &op) {
  if (registry.findGrad(op.name)) return "yes";
  if (op.noGrad) return "-";
  if (!op.scalar) return "no";
  for (size_t i = 0; i < op.inputs.size(); ++i)
    if (!registry.derivedGradient(op, static_cast<int32_t>(i))) return "no";
  return "derived";
}

static bool hasGpuKernel(const Registry &registry, const OpDef &op) {
  const auto &kernels = registry.kernels(op.name);
  return std::any_of(kernels.begin(), kernels.end(), [](const KernelDef *k) {
    const std::string device = kernelTarget(*k).device;
    return device.empty() || device == "gpu";
  });
}

/// The functions of an expression for which no code is generated on GPUs, not even in f32.
static std::set<std::string> functionsWithoutCode(const OpDef &op) {
  std::set<std::string> names;
  for (const auto &node : op.scalar->nodes())
    if (!hasDeviceFunction(node.op, kFloat)) names.insert(scalar::scalarOpName(node.op));
  return names;
}

std::string cpuOnlyReason(const Registry &registry, const OpDef &op) {
  if (!lacks(registry, op, "gpu")) return "";
  if (controlKind(op.name) != ControlKind::kNone) return "its graphs run on the CPU";
  if (op.cpuOnly) return "its library says that it is for the CPU alone";
  if (isBuiltIn(op.origin) && deviceKernelCount() == 0) return "this build has no kernels for GPUs (nvcc)";
  if (registry.kernels(op.name).empty()) return "it has no kernel at all";
  if (!op.scalar) return "its kernels are for the CPU";
  const std::set<std::string> functions = functionsWithoutCode(op);
  if (functions.empty()) return "code is generated for its expression in a region, and it has no kernel beside that";
  return "no code is generated for " + joined(functions, ", ") + " of its expression, and it has no kernel beside that";
}

bool lacks(const Registry &registry, const OpDef &op, const std::string &part) {
  if (part == "grad") return gradientText(registry, op) == "no";
  if (part == "kernel") return !op.isView && registry.kernels(op.name).empty();
  if (part == "cases") return op.cases.empty();
  if (part == "doc") return op.doc.empty();
  if (part == "sbp") return sbpText(op).empty();
  if (part == "gpu") return !op.isView && !hasGpuKernel(registry, op);
  return false;
}

Json opJson(const Registry &registry, const OpDef &op) {
  Json attrs = Json::array(), kernels = Json::array(), cases = Json::array(), tolerances = Json::object();
  for (const AttrDef &a : op.attrs)
    attrs.push_back({{"name", a.name},
                     {"type", attrTypeName(a.type)},
                     {"default", a.defaultValue.empty() ? Json(nullptr) : attrJson(a.defaultValue)["value"]},
                     {"required", a.defaultValue.empty()},
                     {"aliases", a.aliases}});
  for (const KernelDef *k : registry.kernels(op.name)) {
    const KernelTarget target = kernelTarget(*k);
    kernels.push_back({{"device", textOrNull(target.device)},
                       {"dtype", textOrNull(target.dtype)},
                       {"origin", libraryText(k->origin)},
                       {"source", sourceText(k->origin)},
                       {"priority", k->priority},
                       {"condition", k->condition ? k->condition->text() : ""}});
  }
  for (const Case &c : op.cases) cases.push_back(caseJson(c));
  for (const auto &t : op.tolerances)
    tolerances[dataTypeName(t.first)] = {{"rtol", t.second.first}, {"atol", t.second.second}};
  return {{"name", op.name},
          {"aliases", op.aliases},
          {"doc", op.doc},
          {"inputs", inputsJson(op)},
          {"outputs", argsJson(op.outputs)},
          {"attrs", std::move(attrs)},
          {"kernels", std::move(kernels)},
          {"gradient", gradientText(registry, op) == "yes" || gradientText(registry, op) == "derived"},
          {"no_grad", op.noGrad ? Json(op.noGradReason) : Json(nullptr)},
          {"no_gpu", textOrNull(cpuOnlyReason(registry, op))},
          {"sharding", textOrNull(sbpText(op))},
          {"scalar", textOrNull(scalarText(op))},
          {"view", op.isView},
          {"pure", op.pure},
          {"pure_reason", op.pureReason},
          {"library", libraryText(op.origin)},
          {"source", sourceText(op.origin)},
          {"tolerances", std::move(tolerances)},
          {"snippet", opSnippet(registry, op)},
          {"cases", std::move(cases)}};
}

Json elementTypesJson() {
  static const std::map<ElementClass, const char *> classes = {{ElementClass::kFloating, "floating"},
                                                               {ElementClass::kInteger, "integer"},
                                                               {ElementClass::kBool, "bool"},
                                                               {ElementClass::kStorage, "storage"}};
  Json list = Json::array();
  for (DataType type : dataTypes<types::All>()) {
    const ElementType &t = elementType(type);
    list.push_back({{"name", t.name},
                    {"graph", t.graphName},
                    {"number", static_cast<int>(type)},
                    {"numpy", t.numpyName},
                    {"class", classes.at(t.kind)},
                    {"bits", t.bits},
                    {"rtol", t.rtol},
                    {"atol", t.atol}});
  }
  return list;
}

std::string opPage(const Registry &registry, const OpDef &op, int width) {
  std::string text = op.name;
  const std::vector<std::string> overridden = overriddenBy(op);
  const std::vector<std::string> aliases = plainAliases(op);
  if (!aliases.empty()) text += "  (also: " + joined(aliases, ", ") + ")";
  if (!overridden.empty()) text += "  (overrides the built-in " + joined(overridden, ", ") + ")";
  text += "\n";
  if (!op.doc.empty()) text += "\n" + wrapText(op.doc, 0, width);
  text += "\n" + row("inputs", op.inputs.empty() ? "none" : argumentsText(op.inputs)) +
          row("outputs", argumentsText(op.outputs));
  std::string label = "attributes";
  for (const AttrDef &a : op.attrs) {
    text += row(label, a.name + ": " + attrTypeName(a.type) +
                           (a.defaultValue.empty() ? ", required" : " = " + a.defaultValue.toString()));
    label.clear();
  }
  if (const std::string expression = scalarText(op); !expression.empty()) text += row("expression", expression);
  label = "kernels";
  for (const auto &device : kernelTypes(registry, op)) {
    text += row(label, device.first + ": " + joined(device.second, ", "));
    label.clear();
  }
  if (label == "kernels") text += row(label, op.isView ? "none needed: the output is a view of the input" : "none");
  const std::string gradient = gradientText(registry, op);
  text += row("gradient", gradient == "yes"       ? "yes"
                          : gradient == "derived" ? "derived from the scalar function"
                          : op.noGrad ? "none by design" + (op.noGradReason.empty() ? "" : ": " + op.noGradReason)
                                      : "none");
  const std::string sbp = sbpText(op);
  text += row("sharding", sbp.empty() ? "not declared" : sbp);
  text += row("cases", std::to_string(op.cases.size()));
  for (const auto &t : op.tolerances)
    text += row("tolerance", std::string(dataTypeName(t.first)) + ": rtol " + realText(t.second.first) + ", atol " +
                                 realText(t.second.second));
  text += row("library", libraryText(op.origin));
  // Not wrapped: it is for a file.
  return text + "\nto paste into a graph" + (op.cases.empty() ? "" : " (attributes behind # have their defaults)") +
         ":\n\n" + opSnippet(registry, op);
}

} // namespace opc::cli
