// What an ONNX model says of all its nodes: the versions of its operator sets, and its functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OnnxDraft.h"

#include "onnx.pb.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>

namespace opc::onnx {

/// "" and "ai.onnx" are one domain.
std::string domainOf(const std::string &domain);

using Opsets = std::map<std::string, int64_t>; // versions by domain

/// The version of a domain of which nothing is said is 1.
int64_t versionOf(const Opsets &opsets, const std::string &domain);

class ModelHead {
public:
  /// `model` must outlive it. Why it cannot be imported, whatever its nodes are; nothing where it perhaps can.
  std::optional<Refusal> read(const Model &model);
  const Opsets &opsets() const { return opsets_; }
  /// The function of the model that the node calls; null where it calls none.
  const Function *function(const Node &node) const;

private:
  std::optional<Refusal> readOpsets(const Model &model);

  struct FunctionKey {
    std::string domain, name, overload;
    bool operator<(const FunctionKey &o) const {
      return std::tie(domain, name, overload) < std::tie(o.domain, o.name, o.overload);
    }
  };
  Opsets opsets_;
  std::map<FunctionKey, const Function *> functions_;
};

} // namespace opc::onnx
