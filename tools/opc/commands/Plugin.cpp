// opc plugin check: what a plugin library registers, and what a complete op would have beside that.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "CaseProblems.h"
#include "Devices.h"
#include "NearestNames.h"
#include "OpDeviceReport.h"
#include "OpReport.h"
#include "PluginOverrides.h"
#include "TextParts.h"
#include "TextTable.h"

#include <algorithm>
#include <cstdlib>
#include <cxxabi.h>
#include <map>
#include <set>

namespace opc::cli {

namespace {

struct OpFinding {
  std::string name;
  std::map<std::string, std::vector<std::string>> kernels; // dtypes by device
  std::vector<std::string> missing, wrong;
};

/// "undefined symbol: _ZN3foo3barEv" with the name that a person would know.
Status withReadableSymbol(Status status) {
  const std::string marker = "undefined symbol: ";
  const size_t at = status.message().find(marker);
  if (at == std::string::npos) return status;
  std::string symbol = status.message().substr(at + marker.size());
  symbol = symbol.substr(0, symbol.find_first_of(" ,;)"));
  int error = 0;
  std::unique_ptr<char, void (*)(void *)> name(abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &error),
                                               std::free);
  if (error != 0 || !name) return status;
  return Status(status.code(), status.id(), status.message() + " (" + name.get() + ")").withHelp(status.help());
}

OpFinding examine(const Registry &registry, const user_op::OpDef &op) {
  OpFinding f;
  f.name = op.name;
  const std::string own = nameInSource(op);
  for (const user_op::KernelDef *k : registry.kernels(op.name)) {
    const KernelTarget t = kernelTarget(*k);
    f.kernels[t.device.empty() ? "any device" : t.device].push_back(t.dtype.empty() ? "any dtype" : t.dtype);
  }
  if (lacks(registry, op, "grad"))
    f.missing.push_back("gradient: REGISTER_USER_OP_GRAD(\"" + own + "\"), or NoGrad() if it has none");
  if (!op.isView && !f.kernels.count("any device")) {
    for (const char *device : {"cpu", "gpu"}) {
      auto it = f.kernels.find(device);
      if (it == f.kernels.end()) {
        if (op.cpuOnly && std::string_view(device) == "gpu") continue;
        f.missing.push_back(std::string(device) + " kernel: REGISTER_USER_KERNEL(\"" + own + "\")");
        continue;
      }
      const std::vector<std::string> &have = it->second;
      if (std::find(have.begin(), have.end(), "any dtype") != have.end()) continue;
      std::vector<std::string> absent = {"f32", "f64", "f16", "bf16"};
      std::erase_if(absent, [&](const auto &type) { return std::find(have.begin(), have.end(), type) != have.end(); });
      if (!absent.empty()) f.missing.push_back(std::string(device) + " kernel for " + joined(absent, ", "));
    }
  }
  if (lacks(registry, op, "sbp"))
    f.missing.push_back("SBP rule: Sharding(...) or SetGetSbpFn; until then every input is broadcast");
  if (lacks(registry, op, "cases"))
    f.missing.push_back("sample cases: Cases({...}), for conformance and gradient checks");
  if (lacks(registry, op, "doc")) f.missing.push_back("documentation: Doc(\"...\")");
  f.wrong = problemsOfCases(registry, op);
  return f;
}

struct PluginCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("load a plugin library and say what it registers and what is missing", "check LIB...", 1, 1000);
    s.examples = {"opc plugin check build/libmyops.so", "opc plugin check build/libmyops.so --device sim",
                  "opc plugin check --json ./libmyops.so"};
    s.details =
        "Missing parts do not change the exit code: an op without a gradient is a fine op. Wrong ones do: exit code 1 "
        "where a sample case makes no op, no kernel takes it, a sharding rule does not fit it, a function of a kernel "
        "fails for it, or a kernel or gradient is for an op that no library defines (--plugin names others). A library that cannot be loaded gives 4, with the reason. With --device gpu or sim the "
        "kernels of its ops run there, as opc verify does it: exit code 1 when one fails.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (positional[0] != "check") {
      const bool isNear = !nearestNames(positional[0], {"check"}, 1).empty();
      return usageError("unknown command 'plugin " + positional[0] + "'",
                        isNear ? "did you mean opc plugin check?" : "usage: opc plugin check LIB");
    }
    if (positional.size() < 2) return usageError("opc plugin check needs a library", "opc plugin check libmyops.so");
    Registry registry;
    OPC_RETURN_IF_ERROR(registry.addLinked());
    invocation.notePlugins();
    prepareDeviceForPlugins(invocation.flags().device);
    for (const std::string &path : invocation.flags().plugins)
      if (Result<PluginInfo> info = registry.loadPlugin(path); !info) return withReadableSymbol(info.status());
    const std::string &device = invocation.flags().device;
    Json plugins = Json::array();
    std::vector<PluginInfo> loaded;
    bool passed = true;
    for (size_t i = 1; i < positional.size(); ++i) {
      Result<PluginInfo> info = registry.loadPlugin(positional[i]);
      if (!info) return withReadableSymbol(info.status());
      passed &= report(invocation, registry, *info, plugins);
      loaded.push_back(std::move(*info));
    }
    if (device != "cpu") {
      registry.freeze();
      OPC_ASSIGN_OR_RETURN(OpDevice opened, OpDevice::open(device));
      for (size_t i = 0; i < loaded.size(); ++i) {
        OPC_ASSIGN_OR_RETURN(const bool good,
                             runOnDevice(invocation, registry, loaded[i], opened,
                                         invocation.flags().json ? &plugins[i]["on_device"] : nullptr));
        passed &= good;
      }
    }
    if (invocation.flags().json) invocation.terminal().out(jsonText({{"schema", 1}, {"plugins", std::move(plugins)}}));
    return passed ? kExitOk : kExitNo;
  }

private:
  /// Whether no kernel of the library's ops fails.
  static Result<bool> runOnDevice(Invocation &invocation, const Registry &registry, const PluginInfo &info,
                                  OpDevice &device, Json *list) {
    bool passed = true;
    if (list) *list = Json::array();
    for (const std::string &name : info.ops) {
      const user_op::OpDef *op = registry.findOp(name);
      if (!op) continue;
      OPC_ASSIGN_OR_RETURN(const OpDeviceCheck check, checkOnDevice(registry, *op, device));
      passed &= check.passed();
      if (list)
        list->push_back(deviceCheckJson(check));
      else
        invocation.terminal().out("on " + invocation.flags().device + ": " +
                                  deviceCheckText(check, invocation.flags().device, outTableWidth()));
    }
    return passed;
  }

  /// "kernel for 'NAME', which no library defines (LIBRARY, FILE:LINE)", with the place of each.
  static std::string orphanText(const Registry &registry, const std::string &name) {
    std::string what;
    std::set<std::string> places;
    for (const user_op::KernelDef *kernel : registry.kernels(name)) places.insert(whereRegistered(kernel->origin));
    if (!places.empty()) what = "kernel";
    if (const user_op::GradDef *grad = registry.findGrad(name)) {
      what += what.empty() ? "gradient" : " and gradient";
      places.insert(whereRegistered(grad->origin));
    }
    return what + " for '" + name + "', which no library defines (" + joined(places, "; ") + ")";
  }

  /// Whether nothing in the library's definitions is wrong.
  static bool report(Invocation &invocation, const Registry &registry, const PluginInfo &info, Json &plugins) {
    std::string text = info.path + ": SDK API " + std::to_string(info.apiVersion) + ", " +
                       counted(info.ops.size(), "op") + ", " + counted(info.kernels.size(), "kernel") + ", " +
                       counted(info.grads.size(), "gradient") + "\n";
    const std::vector<std::string> overridden = overriddenBy(registry, info.path);
    if (!overridden.empty()) text += "  overrides the built-in " + joined(overridden, ", ") + "\n";
    Json ops = Json::array();
    bool isRight = true;
    for (const std::string &name : info.ops) {
      const user_op::OpDef *op = registry.findOp(name);
      if (!op) continue;
      const OpFinding f = examine(registry, *op);
      text += "  op " + name + "\n    shape rule  yes\n";
      const std::string gradient = gradientText(registry, *op);
      text += "    gradient    " +
              (gradient == "-"         ? "none by design"
               : gradient == "derived" ? "derived from the scalar function"
                                       : gradient) +
              "\n";
      const std::string kernels = kernelsText(registry, *op);
      text += "    kernels     " + (kernels.empty() ? (op->isView ? "none needed, a view" : "none") : kernels) + "\n";
      const std::string sbp = sbpText(*op);
      text += "    SBP rule    " + (sbp.empty() ? "no" : sbp) + "\n";
      text += "    pure        " + std::string(op->pure ? "yes: " : "no: ") + op->pureReason + "\n";
      for (const std::string &m : f.missing) text += "    missing     " + m + "\n";
      for (const std::string &w : f.wrong) text += "    wrong       " + w + "\n";
      isRight &= f.wrong.empty();
      Json entry = opJson(registry, *op);
      entry["shape_rule"] = true; // a library without one does not load
      entry["missing"] = f.missing;
      entry["wrong"] = f.wrong;
      ops.push_back(std::move(entry));
    }
    // Kernels and gradients for ops of other libraries are fine; for ops that nobody defines they are a slip.
    std::set<std::string> orphans, foreign;
    for (const auto *list : {&info.kernels, &info.grads})
      for (const std::string &name : *list) {
        if (!registry.findOp(name))
          orphans.insert(name);
        else if (std::find(info.ops.begin(), info.ops.end(), registry.findOp(name)->name) == info.ops.end())
          foreign.insert(name);
      }
    for (const std::string &name : foreign) text += "  adds to op " + name + " of another library\n";
    for (const std::string &name : orphans) {
      const std::vector<std::string> near = registry.nearest(name, 1);
      text += "  " + orphanText(registry, name) + (near.empty() ? "" : "; the nearest op is " + near[0]) + "\n";
      isRight = false;
    }
    if (!invocation.flags().json) {
      invocation.terminal().out(text);
      return isRight;
    }
    plugins.push_back({{"path", info.path},
                       {"api_version", info.apiVersion},
                       {"ops", std::move(ops)},
                       {"kernels", info.kernels},
                       {"gradients", info.grads},
                       {"overrides", overridden},
                       {"without_op", orphans}});
    return isRight;
  }
};

} // namespace

std::unique_ptr<Command> makePluginCommand() { return std::make_unique<PluginCommand>(); }

} // namespace opc::cli
