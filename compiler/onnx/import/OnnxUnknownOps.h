// The ops of an ONNX model that nobody can convert, said together.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

namespace opc::onnx {

class UnknownOps {
public:
  bool empty() const { return ops_.empty(); }
  /// `library`: the plugin's that had the op when opc wrote the model, or nothing.
  void note(const std::string &domain, const std::string &op, int64_t version, const std::string &place,
            const std::string &library);
  std::string message() const;
  std::string help() const;

private:
  struct Op {
    int64_t version;
    size_t nodes = 0;
    std::string first; // the first node's place
    std::string library;
  };
  std::map<std::pair<std::string, std::string>, Op> ops_; // by domain and name
};

} // namespace opc::onnx
