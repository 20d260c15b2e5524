// opc python: where the Python package is, for PYTHONPATH.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "JsonOutput.h"
#include "SdkPaths.h"

namespace opc::cli {

namespace {

struct PythonCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s = specOf("where the Python package is, for PYTHONPATH");
    s.examples = {"PYTHONPATH=$(opc python --path) python3 train.py",
                  "PYTHONPATH=$(opc python --path):$(opc python --compat-path) python3 oneflow_program.py"};
    s.options = {
        {"--path", 0, "", "the folder that holds the package opc", &path_, true},
        {"--compat-path", 0, "", "the folder that holds the packages of other systems' styles", &compat_, true}};
    s.details = "The paths follow the opc that is running, so they are right for a build tree and for an installation "
                "that was moved.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &) override {
    OPC_ASSIGN_OR_RETURN(const PythonPaths paths, findPython(runningExecutable()));
    if (invocation.flags().json) {
      invocation.terminal().out(jsonText({{"schema", 1}, {"path", paths.package}, {"compat_path", paths.compat}}));
      return kExitOk;
    }
    if (!path_ && !compat_) return usageError("opc python needs --path or --compat-path", "opc python -h");
    if (path_) invocation.terminal().out(paths.package + "\n");
    if (compat_) invocation.terminal().out(paths.compat + "\n");
    return kExitOk;
  }

private:
  bool path_ = false, compat_ = false;
};

} // namespace

std::unique_ptr<Command> makePythonCommand() { return std::make_unique<PythonCommand>(); }

} // namespace opc::cli
