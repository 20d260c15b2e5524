// What the registry says about an operator, as text and as JSON.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "Registry.h"

#include <set>
#include <string>
#include <vector>

namespace opc::cli {

/// Everything about one op; the entries of `opc ops --json`.
Json opJson(const Registry &registry, const user_op::OpDef &op);
/// The element types that tensors may have, with the default tolerance of each.
Json elementTypesJson();
/// The page of `opc ops show NAME`, its documentation wrapped to `width` columns.
std::string opPage(const Registry &registry, const user_op::OpDef &op, int width);

/// The inputs that the op writes, as it says of an instance that has all of its arguments and all of its switches on
/// (training: true).
std::set<std::string> writtenInputs(const user_op::OpDef &op);

/// "a, b, c?, xs..." of a list of arguments.
std::string argumentsText(const std::vector<user_op::ArgDef> &args);
/// "cpu{f32,f64} gpu{f32}".
std::string kernelsText(const Registry &registry, const user_op::OpDef &op);
/// "m k, k n -> m n", "by its own rule", or "" when the op says nothing about SBP.
std::string sbpText(const user_op::OpDef &op);

/// The scalar expression of an elementwise op: "x / (1 + exp(-x))"; "" for others.
std::string scalarText(const user_op::OpDef &op);

/// A part that a complete op has: "grad", "kernel", "cases", "doc", "sbp", "gpu".
const std::vector<std::string> &opParts();
/// "yes" (a rule), "derived" (from the scalar function), "-" (none by design) or "no".
std::string gradientText(const Registry &registry, const user_op::OpDef &op);
bool lacks(const Registry &registry, const user_op::OpDef &op, const std::string &part);
/// Why an op that lacks "gpu" has no kernel there; "" for others.
std::string cpuOnlyReason(const Registry &registry, const user_op::OpDef &op);

} // namespace opc::cli
