// The operators, kernels and gradients that a process knows. An object that is passed in, frozen before compilation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PluginLoader.h"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace opc {

struct DerivedGradient;

class Registry {
public:
  Registry();
  ~Registry();
  Registry(Registry &&) noexcept;
  Registry &operator=(Registry &&) noexcept;

  /// Takes what the static registrars of this program have left (the built-in ops, and those of a program that links
  /// its own). Call once per registry; several registries may take, each gets all.
  Status addLinked();
  /// Loads a shared library and takes its registrations. On failure nothing is added.
  Result<PluginInfo> loadPlugin(const std::string &path);
  /// After this nothing can be added.
  void freeze() { frozen_ = true; }

  /// By name or alias; nullptr when unknown.
  const user_op::OpDef *findOp(const std::string &type) const;
  const user_op::GradDef *findGrad(const std::string &type) const;
  /// The op that computes the gradient of an elementwise op (one with a scalar function) with respect to one input.
  /// Made when first asked for; findOp() knows it by name from the start. Null when the derivative is zero everywhere.
  /// Safe to call from several threads.
  Result<const DerivedGradient *> derivedGradient(const user_op::OpDef &op, int32_t input) const;
  /// Kernels of an op type, best priority first, then registration order.
  const std::vector<const user_op::KernelDef *> &kernels(const std::string &type) const;
  /// All op types, sorted by name, without aliases.
  const std::vector<const user_op::OpDef *> &ops() const;
  const std::vector<PluginInfo> &plugins() const;
  /// Up to `count` names of ops nearest to `type` in edit distance, best first.
  std::vector<std::string> nearest(const std::string &type, size_t count = 3) const;

private:
  Status add(user_op::PendingRegistrations pending, const std::string &library, PluginInfo *info);
  struct Impl;
  std::unique_ptr<Impl> impl_;
  bool frozen_ = false;
};

/// "LIBRARY, FILE:LINE".
std::string whereRegistered(const user_op::Origin &origin);

/// The dtypes a kernel requires, from its match condition: ("cpu", "f32"); empty strings when it does not say.
struct KernelTarget {
  std::string device, dtype;
};
KernelTarget kernelTarget(const user_op::KernelDef &kernel);

} // namespace opc
