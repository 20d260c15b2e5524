// PluginOverrides: names for what overrides, and what a name means to whom.
// SPDX-License-Identifier: Apache-2.0
#include "PluginOverrides.h"
#include "BuiltIn.h"

#include <algorithm>
#include <cctype>
#include <map>

namespace opc {

using user_op::OpDef;

namespace {

const std::string kOverriding = "overrides=", kMark = "::";

/// "myops" for "build/libmyops.so".
std::string libraryName(const std::string &path) {
  std::string name = path.substr(path.rfind('/') + 1);
  name = name.substr(0, name.find('.'));
  if (name.size() > 3 && name.compare(0, 3, "lib") == 0) name.erase(0, 3);
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return name;
}

std::vector<std::string> namesOf(const OpDef &op) {
  std::vector<std::string> names = {op.name};
  names.insert(names.end(), op.aliases.begin(), op.aliases.end());
  return names;
}

std::string placeOf(const user_op::Origin &origin, const std::string &library) {
  return library + ", " + origin.file + ":" + std::to_string(origin.line);
}

} // namespace

std::string overridingPlugin(const std::string &path) { return kOverriding + path; }

std::string pluginPath(const std::string &plugin) {
  return plugin.compare(0, kOverriding.size(), kOverriding) == 0 ? plugin.substr(kOverriding.size()) : plugin;
}

Status overrideNames(const Registry &registry, const std::string &path, user_op::PendingRegistrations *pending) {
  std::map<std::string, std::string> renamed; // within this library
  for (OpDef &op : pending->ops) {
    std::vector<std::string> aliases;
    bool overrides = false;
    for (const std::string &name : namesOf(op)) {
      if (const OpDef *other = registry.findOp(kMark + name))
        return Status(StatusCode::kUnsupported, "OPC0903",
                      "op '" + name + "' is overridden twice: at " + placeOf(other->origin, other->origin.library) +
                          " and at " + placeOf(op.origin, path))
            .withHelp("rename one of them, or load only one of the libraries");
      const OpDef *known = registry.findOp(name);
      const bool isBuiltIn = known && opc::isBuiltIn(known->origin);
      overrides |= isBuiltIn;
      if (isBuiltIn)
        aliases.push_back(kMark + name);
      else if (name != op.name)
        aliases.push_back(name);
    }
    if (!overrides) continue;
    const std::string own = libraryName(path) + kMark + op.name;
    for (const std::string &name : namesOf(op)) renamed[name] = own;
    op.name = own;
    op.aliases = std::move(aliases);
  }
  auto follow = [&](std::string &type) {
    if (auto it = renamed.find(type); it != renamed.end()) type = it->second;
  };
  for (user_op::KernelDef &k : pending->kernels) follow(k.opType);
  for (user_op::GradDef &g : pending->grads) follow(g.opType);
  return Status::ok();
}

const OpDef *findGraphOp(const Registry &registry, const std::string &type) {
  const OpDef *overriding = registry.plugins().empty() ? nullptr : registry.findOp(kMark + type);
  return overriding ? overriding : registry.findOp(type);
}

std::string nameWithin(const Registry &registry, const user_op::Origin &origin, const std::string &type) {
  if (isBuiltIn(origin)) return type;
  const OpDef *overriding = registry.findOp(kMark + type);
  return overriding && overriding->origin.library == origin.library ? overriding->name : type;
}

std::vector<std::string> overriddenBy(const OpDef &op) {
  std::vector<std::string> names;
  for (const std::string &alias : op.aliases)
    if (alias.compare(0, kMark.size(), kMark) == 0) names.push_back(alias.substr(kMark.size()));
  return names;
}

std::vector<std::string> plainAliases(const OpDef &op) {
  std::vector<std::string> names = op.aliases;
  names.erase(std::remove_if(names.begin(), names.end(),
                             [](const std::string &alias) { return alias.compare(0, kMark.size(), kMark) == 0; }),
              names.end());
  return names;
}

std::string libraryOfOverriding(const Registry &registry, const std::string &type) {
  const size_t mark = type.find(kMark);
  if (mark == std::string::npos || !registry.findOp(type.substr(mark + kMark.size()))) return "";
  const std::string library = "lib" + type.substr(0, mark) + ".so";
  return "it overrides the built-in " + type.substr(mark + kMark.size()) + ": --plugin-overrides " + library +
         " loads it, elsewhere " + overridingPlugin(library);
}

std::string nameInSource(const OpDef &op) {
  return overriddenBy(op).empty() ? op.name : op.name.substr(op.name.find(kMark) + kMark.size());
}

std::vector<std::string> overriddenBy(const Registry &registry, const std::string &library) {
  std::vector<std::string> names;
  for (const OpDef *op : registry.ops())
    if (op->origin.library == library)
      for (std::string &name : overriddenBy(*op)) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

} // namespace opc
