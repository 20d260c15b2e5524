// What was found out of an op holds of every op that is the same but for names.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"

#include "llvm/ADT/Hashing.h"

#include <cstdint>
#include <initializer_list>
#include <unordered_map>

namespace opc::ir {

/// What an op's rules see of it beside names: its type, arguments, attributes, and the types of its operands; kernels
/// see the types of its results, too. `besides` is what else an answer depends on: the device that kernels are for,
/// say.
class OpForm {
public:
  enum Sees { kOperands, kResults };
  OpForm(UserOp op, Sees sees, std::initializer_list<uintptr_t> besides = {});
  bool operator==(const OpForm &o) const { return parts_ == o.parts_; }
  size_t hash() const { return llvm::hash_combine_range(parts_.begin(), parts_.end()); }

private:
  llvm::SmallVector<uintptr_t, 16> parts_; // attributes and types by address: a context has each once
};

/// A T for each form of op. Graphs have many ops of few forms; of a graph with many, the table forgets.
template <class T> class ByForm {
public:
  /// What add() said of such an op; null when nothing is known.
  const T *find(const OpForm &form) const {
    const auto found = known_.find(form);
    return found == known_.end() ? nullptr : &found->second;
  }
  const T &add(const OpForm &form, T value) {
    if (known_.size() >= kMost) known_.clear();
    return known_.insert_or_assign(form, std::move(value)).first->second;
  }

private:
  static constexpr size_t kMost = 4096;
  struct Hash {
    size_t operator()(const OpForm &form) const { return form.hash(); }
  };
  std::unordered_map<OpForm, T, Hash> known_;
};

} // namespace opc::ir
