// --reproducer: the graph and the command as one file that opc reads as a graph, for reports of failures.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphInput.h"
#include "Invocation.h"

#include <string>

namespace opc::cli {

/// The first line of such a file.
inline constexpr const char *kReproducerTitle = "# opc reproducer 1";

class Reproducer {
public:
  /// Takes the graph of a command and its words. Without a path there is nothing to write. Errors: those of reading a
  /// binary graph, which is written as text.
  static Outcome<Reproducer> of(const std::string &path, const Invocation &invocation, const GraphInput &input,
                                const Registry &registry, const CompileOptions &options);
  /// `phase`: the last one that has begun. Errors: OPC0707.
  Status write(const std::string &phase) const;

private:
  std::string path_, head_, graph_;
};

} // namespace opc::cli
