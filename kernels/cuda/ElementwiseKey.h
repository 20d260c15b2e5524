// Which device code computes a scalar function: kernels are found by what they compute, so that equal functions share
// one, and a plugin's function never meets another's code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Scalar.h"

#include <cstring>
#include <string>

namespace opc::cuda {

/// The first part of the names of a function's kernels: "ew_0123456789abcdef_".
inline std::string elementwiseKey(const scalar::ScalarProgram &program) {
  uint64_t hash = 14695981039346656037u; // FNV-1a
  auto add = [&](uint64_t v) {
    for (int i = 0; i < 8; ++i) hash = (hash ^ (v >> (8 * i) & 0xffu)) * 1099511628211u;
  };
  add(static_cast<uint64_t>(program.inputs()));
  add(program.parameterNames().size());
  for (const auto &n : program.nodes()) {
    uint64_t bits = 0;
    std::memcpy(&bits, &n.value, sizeof bits);
    add(static_cast<uint64_t>(n.op));
    add(n.op == scalar::ScalarOp::kConstant ? bits : 0);
    add(n.op == scalar::ScalarOp::kParameter ? static_cast<uint64_t>(n.parameter) : 0);
    for (int i = 0; i < scalar::scalarOpArity(n.op); ++i) add(static_cast<uint64_t>(n.args[i]));
  }
  static const char digits[] = "0123456789abcdef";
  std::string key = "ew_";
  for (int i = 60; i >= 0; i -= 4) key += digits[hash >> i & 15u];
  return key + "_";
}

/// The names of its kernels but for the op's name, which ends them: "ew_0123456789abcdef_f32_bool_" for one that reads
/// f32 and gives truth values.
inline std::string elementwiseKernelPrefix(const scalar::ScalarProgram &program, DataType type, bool toBool) {
  const std::string from = dataTypeName(type);
  return elementwiseKey(program) + from + "_" + (toBool ? "bool" : from) + "_";
}

} // namespace opc::cuda
