// Where the SDK and the Python package are, seen from the running program: an installation can be moved.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>

namespace opc::cli {

struct SdkPaths {
  std::string prefix, include, compat, library; // directories
  std::string compileFlags() const;             // -std=c++17 -I... -I...
  std::string linkFlags() const;                // -L... -lopc_sdk -Wl,-rpath,...
  /// The same for sources of CUDA: PTX that any GPU's driver and the simulator read, and CUDA's runtime as a shared
  /// library. It is linked by its name alone, from the simulator's folder; a plugin finds whichever is there.
  std::string cudaCompileFlags() const;
  std::string cudaLinkFlags() const;
};

/// The layout around PREFIX/bin/opc. A build tree says in PREFIX/share/opc/sdk-paths where its sources are.
/// Errors: OPC0906 when headers or library are not there.
Result<SdkPaths> findSdk(const std::string &executable);

struct PythonPaths {
  std::string package, compat; // folders for PYTHONPATH
};
/// The same for the Python package. Errors: OPC0906 when it is not there.
Result<PythonPaths> findPython(const std::string &executable);

/// /proc/self/exe.
std::string runningExecutable();

} // namespace opc::cli
