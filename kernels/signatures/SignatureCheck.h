// Proves or refutes SBP signatures by execution: cut the inputs as declared, run the parts, put the outputs together as
// declared, compare with the whole.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <functional>
#include <string>
#include <vector>

namespace opc {

enum class SignatureVerdict {
  kSound,         // every case on which it could be tried agrees
  kUnsound,       // a case contradicts it
  kNotApplicable, // no case could be tried
  kNoRules,       // the op, which runs, declares none but all-broadcast
};

struct SignatureCheck {
  std::string op, signature;
  SignatureVerdict verdict = SignatureVerdict::kNotApplicable;
  int64_t trials = 0; // cases times meshes
  /// Unsound: the case, its attributes and shapes, the mesh, the first differing element with both values,
  /// or the error of a part. Not applicable, no rules: why.
  std::string detail;
};

struct SignatureCheckOptions {
  std::vector<std::vector<int64_t>> meshes = {{2}, {3}, {4}, {2, 2}, {2, 3}};
  /// Hears of each case before it runs, by itself and on each mesh.
  std::function<void(const std::string &op, const std::string &sample)> begins = {};
};

/// Every signature of the op over its cases, in f64 where the op has such a kernel. Ops that give other results
/// when they run again, with another kernel, are not applicable. Inputs that the op writes are compared like outputs.
std::vector<SignatureCheck> checkSignatures(const Registry &registry, const user_op::OpDef &op,
                                            const SignatureCheckOptions &options = {});

} // namespace opc
