// What an op type that nobody has registered may have meant.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>
#include <vector>

namespace opc {

/// What opc has for an operator that other frameworks have under another name.
struct OpElsewhere {
  const char *name; // as plainOpName() gives it
  const char *ops;  // "matmul bias_add": what it is here
  bool isEither;    // one of `ops`, not all together
  const char *note; // attributes, ...; may be ""
};
const std::vector<OpElsewhere> &opsElsewhere();

/// "torch.nn.MaxPool2d", "max_pool_2d", "MAXPOOL2D": maxpool2d.
std::string plainOpName(const std::string &type);

/// "did you mean relu?", "here that is matmul and bias_add: ...", or "" when nothing is near.
std::string suggestOps(const Registry &registry, const std::string &type);

} // namespace opc
