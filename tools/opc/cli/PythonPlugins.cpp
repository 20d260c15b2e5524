// The operators in Python that a command line brings.
// SPDX-License-Identifier: Apache-2.0
#include "PythonPlugins.h"

#include "OpManifest.h"
#include "PythonModule.h"

namespace opc::cli {

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
