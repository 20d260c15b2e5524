// Where the operator SDK and the Python package are.
// SPDX-License-Identifier: Apache-2.0
#include "SdkPaths.h"

#include "CommandLine.h"

#include <filesystem>
#include <fstream>
#include <map>

namespace opc::cli {

namespace fs = std::filesystem;

std::string SdkPaths::compileFlags() const {
  return "-std=c++17 " + shellQuoted("-I" + include) + " " + shellQuoted("-I" + compat);
}

std::string SdkPaths::linkFlags() const {
  return shellQuoted("-L" + library) + " -lopc_sdk " + shellQuoted("-Wl,-rpath," + library);
}

std::string SdkPaths::cudaCompileFlags() const {
  // 611: a kernel overrides one of OpKernel's two Compute. 2810: nvcc takes an assignment to a Status, and emplace of a
  // value that holds one, for a Status that is dropped; where one is, 3004 says so.
  return compileFlags() + " -no-compress -gencode arch=compute_75,code=compute_75 -diag-suppress 611,2810";
}

std::string SdkPaths::cudaLinkFlags() const {
  return linkFlags() + " " + shellQuoted("-L" + library + "/opc/gpusim") + " -l:libcudart.so.13";
}

namespace {

/// What a build tree says of its own folders: lines "include DIR", "compat DIR", "library DIR", "python DIR", ...
std::map<std::string, std::string> foldersOfBuildTree(const fs::path &prefix) {
  std::map<std::string, std::string> folders;
  std::ifstream file(prefix / "share" / "opc" / "sdk-paths");
  std::string line;
  while (std::getline(file, line))
    if (const size_t blank = line.find(' '); blank != std::string::npos)
      folders[line.substr(0, blank)] = line.substr(blank + 1);
  return folders;
}

} // namespace

Result<PythonPaths> findPython(const std::string &executable) {
  const fs::path prefix = fs::path(executable).parent_path().parent_path();
  const auto folders = foldersOfBuildTree(prefix);
  auto folder = [&](const char *key, const char *installed) {
    const auto found = folders.find(key);
    return found == folders.end() ? (prefix / OPC_LIBDIR / "opc" / installed).string() : found->second;
  };
  PythonPaths paths{folder("python", "python"), folder("python-compat", "python-compat")};
  std::error_code error;
  const fs::path needed = fs::path(paths.package) / "opc" / "__init__.py";
  if (!fs::exists(needed, error))
    return Status(StatusCode::kUnsupported, "OPC0906",
                  "this opc has no Python package: " + needed.string() + " is missing")
        .withHelp("build opc where pybind11-dev and python3-dev are installed, or install it again");
  return paths;
}

Result<SdkPaths> findSdk(const std::string &executable) {
  const fs::path prefix = fs::path(executable).parent_path().parent_path();
  SdkPaths paths{prefix, prefix / "include", prefix / "include" / "opc-compat", prefix / OPC_LIBDIR};
  for (const auto &[key, value] : foldersOfBuildTree(prefix)) {
    if (key == "include") paths.include = value;
    if (key == "compat") paths.compat = value;
    if (key == "library") paths.library = value;
  }
  std::error_code error;
  for (const fs::path &needed : {fs::path(paths.include) / "opc" / "Op.h", fs::path(paths.library) / "libopc_sdk.so"})
    if (!fs::exists(needed, error))
      return Status(StatusCode::kUnsupported, "OPC0906",
                    "the operator SDK is not complete: " + needed.string() + " is missing")
          .withHelp("build the target opc_sdk, or install opc again");
  return paths;
}

std::string runningExecutable() {
  std::error_code error;
  const fs::path path = fs::read_symlink("/proc/self/exe", error);
  return error ? std::string() : path.string();
}

} // namespace opc::cli
