// Ops of plugins that have the names of built-in ones, and win.
//
// A plugin is given as LIB or as overrides=LIB. Of the second kind an op may have a built-in's name: it stands beside
// the built-in under a name of its own, "library::op", and has the alias "::op" for what it overrides. Graphs that say
// the bare name, and the gradient rules of that library, mean it; the compiler and the rules of built-in ops mean the
// built-in. Kernels and gradients that the library registers for the bare name go with its own op.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Registry.h"

#include <string>
#include <vector>

namespace opc {

/// "overrides=LIB" for "LIB".
std::string overridingPlugin(const std::string &path);
/// The library of "LIB" or "overrides=LIB".
std::string pluginPath(const std::string &plugin);
inline bool isOverriding(const std::string &plugin) { return pluginPath(plugin) != plugin; }

/// Gives the ops that override built-in ones, and what belongs to them, names of their own. Errors: OPC0903 when
/// another plugin overrides one of them.
Status overrideNames(const Registry &registry, const std::string &path, user_op::PendingRegistrations *pending);

/// What a graph means by the name of an op; nullptr when unknown.
const user_op::OpDef *findGraphOp(const Registry &registry, const std::string &type);
/// The name of the op that a gradient rule of this origin means by `type`.
std::string nameWithin(const Registry &registry, const user_op::Origin &origin, const std::string &type);
/// The built-in ops that this one overrides: "relu" of "myops::relu".
std::vector<std::string> overriddenBy(const user_op::OpDef &op);
/// Its aliases, without what marks those that it overrides.
std::vector<std::string> plainAliases(const user_op::OpDef &op);
/// Which library an unknown op may be of that overrides a built-in, and how it is loaded; "" when that is not it.
std::string libraryOfOverriding(const Registry &registry, const std::string &type);
/// The name that the op's own source has for it.
std::string nameInSource(const user_op::OpDef &op);
/// The names of built-in ops that mean an op of this library.
std::vector<std::string> overriddenBy(const Registry &registry, const std::string &library);

} // namespace opc
