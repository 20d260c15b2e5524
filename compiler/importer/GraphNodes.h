// The ops of a graph file made uniform: what each reads and makes, who makes what it reads, and their order.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "GraphFile.h"
#include "Importer.h"
#include "OpInstance.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opc {

/// One op of the file.
struct Node {
  const graph::OperatorConf *conf = nullptr;
  user_op::OpConf user; // user ops, completed
  const user_op::OpDef *def = nullptr;
  std::vector<std::string> reads, makes;
  bool valid = false;
  bool isOnCpu = false;   // placed there, whatever the graph is compiled for
  bool isOrdered = false; // another op's ctrl_in_op_name names it
  /// Who makes what it reads: op and flat output; and the ops that must run before it. After linkNodes().
  std::vector<std::pair<int, int>> inputs;
  std::vector<int> controls;
};

/// What the parts of the importer share: the file, and what was found wrong with it.
class GraphNodes {
public:
  GraphNodes(const Registry &registry, const GraphFile &file, const ImportOptions &options,
             std::vector<Diagnostic> *diagnostics)
      : registry(registry), file(file), options(options), diagnostics_(diagnostics) {}

  void error(SourceRange range, const char *code, std::string message, std::string help = "", int op = -1);
  void error(int op, const char *code, std::string message, std::string help = "") {
    error(file.opRanges[static_cast<size_t>(op)], code, std::move(message), std::move(help), op);
  }
  void warn(int op, const char *code, std::string message, std::string help = "") {
    report(Severity::kWarning, file.opRanges[static_cast<size_t>(op)], code, std::move(message), std::move(help), op);
  }
  void warn(SourceRange range, const char *code, std::string message, std::string help = "") {
    report(Severity::kWarning, range, code, std::move(message), std::move(help), -1);
  }
  size_t errors() const { return errors_; }
  /// Whether the next error is worth a search for what was meant. Searches look at the whole graph, and nobody reads
  /// the hundredth: a graph of which every op is wrong must not take the square of its size.
  bool explains() const { return errors_ < 100; }

  const Registry &registry;
  const GraphFile &file;
  const ImportOptions &options;
  std::vector<Node> nodes;
  std::unordered_map<std::string_view, std::pair<int, int>> producers; // tensor, of `makes` -> op, flat output

private:
  void report(Severity severity, SourceRange range, const char *code, std::string message, std::string help, int op);
  std::vector<Diagnostic> *diagnostics_;
  size_t errors_ = 0;
};

/// Reads each op by itself.
void readNodes(GraphNodes *graph);
/// Finds who makes what is read, and who must run first.
void linkNodes(GraphNodes *graph);
/// A topological order in which neither names nor, but between ops that compute the same, the order of the file decide
/// anything; inputs and outputs stay as the file has them where it keepsInterface. Empty when there is a cycle, which
/// is reported.
std::vector<uint32_t> sortNodes(GraphNodes *graph);

} // namespace opc
