// Where the operator SDK is.
// SPDX-License-Identifier: Apache-2.0
#include "SdkPaths.h"

#include "CommandLine.h"

#include <filesystem>
#include <fstream>

namespace opc::cli {

namespace fs = std::filesystem;

std::string SdkPaths::compileFlags() const {
  return "-std=c++17 " + shellQuoted("-I" + include) + " " + shellQuoted("-I" + compat);
}

std::string SdkPaths::linkFlags() const {
  return shellQuoted("-L" + library) + " -lopc_sdk " + shellQuoted("-Wl,-rpath," + library);
}

Result<SdkPaths> findSdk(const std::string &executable) {
  const fs::path prefix = fs::path(executable).parent_path().parent_path();
  SdkPaths paths{prefix, prefix / "include", prefix / "include" / "opc-compat", prefix / OPC_LIBDIR};
  // In a build tree: lines "include DIR", "compat DIR", "library DIR".
  std::ifstream file(prefix / "share" / "opc" / "sdk-paths");
  std::string line;
  while (std::getline(file, line)) {
    const size_t blank = line.find(' ');
    if (blank == std::string::npos) continue;
    const std::string key = line.substr(0, blank), value = line.substr(blank + 1);
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
