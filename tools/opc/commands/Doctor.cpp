// opc doctor: what opc finds on this machine, and whether it can work here.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "Config.h"
#include "Devices.h"
#include "JsonOutput.h"
#include "MachineReport.h"
#include "NumberText.h"
#include "TextParts.h"
#include "TextTable.h"
#include "opc/Version.h"

#include <algorithm>
#include <cstdlib>

namespace opc::cli {

namespace {

std::vector<std::string> gpuLines(const GpuReport &gpus) {
  return gpus.problem.empty() ? gpus.gpus : std::vector<std::string>{gpus.problem};
}

std::string deviceKernels() {
  const size_t count = deviceKernelCount();
  if (count == 0) return "none in this build: nvcc was not found when it was made";
  std::string code;
  for (const std::string &capability : deviceCode()) code += (code.empty() ? "" : ", ") + capability;
  return countText(count) + " in this build, " + (code.empty() ? "PTX alone" : "machine code for " + code);
}

struct DoctorCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("devices, versions, configuration, libraries and limits of this machine");
    s.settings = SettingsUse::kTold;
    s.examples = {"opc doctor", "opc doctor --json"};
    s.details = "Exit code 4 when something that opc needs is missing or its settings are broken. Nothing is "
                "changed and nothing is run.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &) override {
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry());
    const MachineReport machine = inspectMachine();
    const Config &config = invocation.config();
    const GpuReport gpus = inspectGpus(false), simulated = inspectGpus(true);
    size_t kernels = 0;
    for (const auto *op : registry.ops()) kernels += registry.kernels(op->name).size();
    std::vector<std::string> problems;
    const Status &settings = invocation.settingsProblem();
    if (!settings) problems.push_back("configuration: " + settings.message());
    for (const MachineReport::Finding &f : machine.findings)
      if (f.isProblem) problems.push_back(f.name + ": " + f.value);
    // Somebody wants it, and it cannot begin with what CUDA_SIM says.
    const char *wanted = std::getenv("CUDA_SIM");
    const bool isRefused = wanted && *wanted && !simulated.problem.empty();
    if (isRefused) problems.push_back("sim: CUDA_SIM=" + std::string(wanted) + ": " + simulated.problem);
    if (invocation.flags().json) {
      Json document = {{"schema", 1},
                       {"version", OPC_VERSION_STRING},
                       {"sdk_api", OPC_SDK_API_VERSION},
                       {"ops", registry.ops().size()},
                       {"kernels", kernels},
                       {"devices", Json::array({{{"name", "cpu"}, {"available", true}},
                                                {{"name", "gpu"}, {"available", gpus.problem.empty()}},
                                                {{"name", "sim"}, {"available", simulated.problem.empty()}}})},
                       {"device_kernels", deviceKernelCount()},
                       {"device_code", deviceCode()},
                       {"config_files", config.files()}};
      Json sections = Json::object();
      for (const MachineReport::Finding &f : machine.findings) sections[f.section][f.name] = f.value;
      document["machine"] = std::move(sections);
      document["problems"] = problems;
      invocation.terminal().out(jsonText(document));
      return problems.empty() ? kExitOk : kExitUnsupported;
    }
    std::vector<MachineReport::Finding> rows = {
        {"opc", "version", OPC_VERSION_STRING ", SDK " + std::to_string(OPC_SDK_API_VERSION), false},
        {"opc", "operators", countText(registry.ops().size()) + " with " + countText(kernels) + " kernels", false}};
    for (const std::string &p : invocation.flags().plugins) rows.push_back({"opc", "plugin", p, false});
    for (const std::string &f : config.files()) rows.push_back({"opc", "configuration", f, false});
    if (!settings)
      rows.push_back({"opc", "configuration", settings.message(), true});
    else if (config.files().empty())
      rows.push_back({"opc", "configuration", "no file", false});
    rows.push_back({"devices", "cpu", "available", false});
    const std::vector<std::string> lines = gpuLines(gpus);
    for (size_t i = 0; i < lines.size(); ++i)
      rows.push_back({"devices", lines.size() > 1 ? "gpu:" + std::to_string(i) : "gpu", lines[i], false});
    rows.push_back({"devices", "sim", simulated.problem.empty() ? "available" : simulated.problem, isRefused});
    rows.push_back({"devices", "kernels for gpus", deviceKernels(), false});
    rows.insert(rows.end(), machine.findings.begin(), machine.findings.end());
    size_t width = 0;
    for (const auto &r : rows) width = std::max(width, r.name.size());
    std::string section;
    for (const auto &r : rows) {
      if (r.section != section) invocation.terminal().out((section.empty() ? "" : "\n") + r.section + "\n");
      section = r.section;
      invocation.terminal().out(padded("  " + r.name, width + 4) + r.value + (r.isProblem ? "  <-- a problem" : "") +
                                "\n");
    }
    invocation.terminal().out(problems.empty() ? "\neverything that opc needs is here\n" : "");
    if (problems.empty()) return kExitOk;
    return Status(StatusCode::kUnsupported, "OPC0009", "opc cannot work well here: " + joined(problems, "; "));
  }
};

} // namespace

std::unique_ptr<Command> makeDoctorCommand() { return std::make_unique<DoctorCommand>(); }

} // namespace opc::cli
