// The ops of an ONNX model that nobody can convert, said together.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxUnknownOps.h"
#include "OnnxNames.h"

namespace opc::onnx {

void UnknownOps::note(const std::string &domain, const std::string &op, int64_t version, const std::string &place,
                      const std::string &library) {
  Op &known = ops_[{domain, op}];
  known.version = version;
  if (known.nodes++ == 0) known.first = place;
  if (!library.empty()) known.library = library;
}

std::string UnknownOps::message() const {
  constexpr size_t kMostShown = 100;
  std::string list;
  size_t found = 0;
  for (const auto &[key, op] : ops_) {
    if (++found > kMostShown) break;
    list += (list.empty() ? "" : "; ") + (key.first.empty() ? "" : shown(key.first) + ".") + shown(key.second) +
            " (version " + std::to_string(op.version) + "): " + std::to_string(op.nodes) +
            (op.nodes == 1 ? " node, " : " nodes, first ") + op.first +
            (op.library.empty() ? "" : ", of the plugin " + shown(op.library));
  }
  if (ops_.size() > kMostShown) list += " and " + std::to_string(ops_.size() - kMostShown) + " more";
  return "the model has " + std::to_string(ops_.size()) + (ops_.size() == 1 ? " op" : " ops") +
         " that opc does not import: " + list;
}

std::string UnknownOps::help() const {
  // Ops whose tensors are in an order of ONNX Runtime's own.
  static const std::map<std::string, const char *> kHelp = {
      {"com.microsoft.nchwc", "ONNX Runtime has written the model for one kind of processor: save the model at level "
                              "extended (ORT_ENABLE_EXTENDED), not all"}};
  for (const auto &[key, op] : ops_)
    if (const auto own = kHelp.find(key.first); own != kHelp.end()) return own->second;
  return "docs/onnx.md has the list of those that it does; an op of another domain is one of a plugin (--plugin) of "
         "the same name";
}

} // namespace opc::onnx
