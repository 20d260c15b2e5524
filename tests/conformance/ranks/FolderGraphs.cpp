// Graphs and tensors that a script has written into a folder.
// SPDX-License-Identifier: Apache-2.0
#include "TestGraph.h"

#include "FileBytes.h"
#include "TensorIo.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>

namespace opc::ranks {

Result<std::vector<TestGraph>> folderGraphs(const std::string &folder) {
  std::vector<std::filesystem::path> paths;
  std::error_code error;
  for (const auto &entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".pbtxt") paths.push_back(entry.path());
  if (error) return Status(StatusCode::kUsage, "OPC0706", folder + " cannot be read: " + error.message());
  std::sort(paths.begin(), paths.end());
  std::vector<TestGraph> graphs;
  for (std::filesystem::path path : paths) {
    TestGraph graph;
    graph.name = path.stem().string();
    OPC_ASSIGN_OR_RETURN(auto bytes, FileBytes::open(path.string()));
    graph.text = std::string(bytes.view());
    Tolerance all;
    long long steps = 1;
    if (std::sscanf(graph.text.c_str(), "# rtol %lg atol %lg steps %lld", &all.rtol, &all.atol, &steps) == 3) {
      graph.tolerances[""] = all;
      graph.steps = steps;
    }
    path.replace_extension(".npz");
    if (std::filesystem::exists(path)) {
      OPC_ASSIGN_OR_RETURN(auto archive, openNpz(path.string()));
      for (const TensorEntry &entry : archive->entries()) {
        OPC_ASSIGN_OR_RETURN(auto tensor, archive->read(entry.key));
        graph.inputs.emplace(entry.key, std::move(tensor)); // an input or a variable: the plan knows
      }
    }
    graphs.push_back(std::move(graph));
  }
  return graphs;
}

} // namespace opc::ranks
