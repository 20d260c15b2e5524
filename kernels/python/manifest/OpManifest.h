// Manifests: the definitions of operators that are written in Python, as registrations like any plugin's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PluginLoader.h"

#include <string>
#include <string_view>

namespace opc::python {

/// The operators of a manifest's text; `where` is what messages call it. Reads and checks data, and runs nothing.
/// Errors: OPC0920.
Result<user_op::PendingRegistrations> manifestOps(const std::string &text, const std::string &where);

/// What the names of manifests end with.
inline constexpr std::string_view kManifestEnding = ".ops.pbtxt";
/// "nets/g.ops.pbtxt" for "nets/g.pbtxt": where the manifest of a graph or plan is.
std::string manifestBeside(const std::string &graph);
/// That file, or "" when there is none.
std::string findManifest(const std::string &graph);

/// Makes plugins of manifests ("*.ops.pbtxt") and of folders of Python sources ("python:DIR", which runs their code
/// and is given by the user alone).
void openPythonPlugins();
/// The plugin that stands for a folder of Python sources.
inline std::string pythonFolder(const std::string &folder) { return "python:" + folder; }

} // namespace opc::python
