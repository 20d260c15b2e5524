// Plugins that are no shared libraries.
// SPDX-License-Identifier: Apache-2.0
#include "PluginOpeners.h"

#include <mutex>

namespace opc {

namespace {
struct Openers {
  std::mutex mutex;
  // Shared: a path that is being opened keeps its opener when another takes its place.
  std::vector<std::shared_ptr<const PluginOpener>> list;
};
Openers &openers() {
  static Openers all;
  return all;
}
} // namespace

void setPluginOpener(PluginOpener opener) {
  const std::lock_guard<std::mutex> lock(openers().mutex);
  auto fresh = std::make_shared<const PluginOpener>(std::move(opener));
  for (auto &known : openers().list) {
    if (known->name != fresh->name) continue;
    known = std::move(fresh);
    return;
  }
  openers().list.push_back(std::move(fresh));
}

std::shared_ptr<const PluginOpener> pluginOpener(const std::string &path) {
  const std::lock_guard<std::mutex> lock(openers().mutex);
  for (const auto &opener : openers().list)
    if (opener->fits(path)) return opener;
  return nullptr;
}

std::string libraryName(const std::string &library) {
  const auto opener = pluginOpener(library);
  return opener && !opener->library.empty() ? opener->library : library.substr(library.rfind('/') + 1);
}

bool isDefinedInPython(const std::string &library) {
  const auto opener = pluginOpener(library);
  return opener && opener->isPython;
}

} // namespace opc
