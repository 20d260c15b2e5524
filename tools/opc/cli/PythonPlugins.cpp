// The operators in Python that a command line brings.
// SPDX-License-Identifier: Apache-2.0
#include "PythonPlugins.h"

#include "OpManifest.h"
#include "PrintableText.h"
#include "PythonModule.h"

#include <filesystem>

namespace opc::cli {

Status checkOpPaths(const std::vector<std::string> &folders) {
  for (const std::string &folder : folders) {
    std::error_code error;
    if (std::filesystem::is_directory(folder, error)) continue;
    const bool isThere = std::filesystem::exists(folder, error);
    return Status(StatusCode::kUsage, "OPC0002",
                  "--op-path " + printableName(folder) + ": " +
                      (isThere ? "it is no folder" : "there is no such folder"))
        .withHelp("give the folder that has the .py files of the operators");
  }
  return Status::ok();
}

std::vector<std::string> withPythonOps(std::vector<std::string> plugins, const std::vector<std::string> &folders,
                                       const std::string &graph) {
  python::openPythonPlugins();
  if (!folders.empty()) python::allowPythonFrom({folders});
  if (const std::string manifest = python::findManifest(graph); !manifest.empty())
    plugins.push_back(manifest);
  else
    for (const std::string &folder : folders) plugins.push_back(python::pythonFolder(folder));
  return plugins;
}

} // namespace opc::cli
