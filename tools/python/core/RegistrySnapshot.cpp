// Each change of what is registered makes a registry anew, from parts.
// SPDX-License-Identifier: Apache-2.0
#include "RegistrySnapshot.h"

#include <mutex>
#include <utility>
#include <vector>

namespace opc::python {
namespace {

struct Parts {
  std::mutex lock;
  std::vector<std::pair<std::string, RegistryPart>> list;
  RegistryPtr current;
};

Parts &parts() {
  static Parts &all = *new Parts; // not destroyed: threads may outlive the interpreter
  return all;
}

Result<RegistryPtr> make(const std::vector<std::pair<std::string, RegistryPart>> &list) {
  auto registry = std::make_shared<Registry>();
  OPC_RETURN_IF_ERROR(registry->addLinked());
  for (const auto &[name, add] : list) OPC_RETURN_IF_ERROR(add(registry.get()));
  registry->freeze();
  return RegistryPtr(std::move(registry));
}

} // namespace

RegistryPtr currentRegistry() {
  Parts &all = parts();
  const std::lock_guard lock(all.lock);
  if (!all.current)
    if (Result<RegistryPtr> made = make(all.list)) all.current = *std::move(made);
  return all.current;
}

Status setRegistryPart(const std::string &name, RegistryPart part) {
  Parts &all = parts();
  const std::lock_guard lock(all.lock);
  auto list = all.list;
  bool isKnown = false;
  for (auto &[known, add] : list)
    if (known == name) add = part, isKnown = true;
  if (!isKnown) list.emplace_back(name, std::move(part));
  OPC_ASSIGN_OR_RETURN(all.current, make(list));
  all.list = std::move(list);
  return Status::ok();
}

Status addPlugin(const std::string &plugin) {
  {
    Parts &all = parts();
    const std::lock_guard lock(all.lock);
    for (const auto &known : all.list)
      if (known.first == plugin) return Status::ok();
  }
  return setRegistryPart(plugin, [plugin](Registry *registry) -> Status {
    Result<PluginInfo> info = registry->loadPlugin(plugin);
    return info ? Status::ok() : info.status();
  });
}

} // namespace opc::python
