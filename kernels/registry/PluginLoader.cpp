// Opening a shared library, and the checks that it is a plugin of this SDK.
// SPDX-License-Identifier: Apache-2.0
#include "PluginLoader.h"

#include "OpeningPlugin.h"
#include "PluginLibrary.h"
#include "PluginOpeners.h"
#include "opc/Version.h"

#include <atomic>
#include <charconv>
#include <dlfcn.h>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

namespace opc {
namespace {

Status refused(const char *id, const std::string &path, const std::string &why, const std::string &help) {
  return Status(StatusCode::kUnsupported, id, "cannot load plugin " + path + ": " + why).withHelp(help);
}

Status wrongVersion(const std::string &path, const std::string &what, int version) {
  return refused("OPC0905", path,
                 what + " SDK API version " + std::to_string(version) +
                     ", and this opc (" OPC_VERSION_STRING ") offers version " + std::to_string(OPC_SDK_API_VERSION) +
                     ": build it again with `opc sdk --cflags` and `opc sdk --ldflags`",
                 "");
}

Status notOpened(const std::string &path) {
  const char *reason = dlerror();
  const std::string text = reason ? reason : "unknown reason", library = "libopc_sdk.so.";
  // The library's name has the version, so that the loader stops a plugin of another one before its registrars fill
  // structs of another layout.
  int version = 0;
  if (text.compare(0, library.size(), library) == 0 &&
      std::from_chars(text.data() + library.size(), text.data() + text.size(), version).ec == std::errc() &&
      version != OPC_SDK_API_VERSION)
    return wrongVersion(path, "it uses", version);
  std::string help = "check that the file is a shared library for this machine";
  if (text.find("undefined symbol") != std::string::npos)
    help = "link the plugin with `opc sdk --ldflags`, and compile all of its sources into it";
  else if (text.find("No such file") != std::string::npos)
    help = "give the path of the plugin's .so file";
  return refused("OPC0902", path, text, help);
}

std::atomic<const char *> opening = nullptr;
std::atomic<bool> hasOpened = false;

/// dlopen(), during which the library's static constructors run. What they throw comes out of it.
Result<void *> openLibrary(const std::string &path) {
  struct Opening {
    explicit Opening(const std::string &path) { opening = path.c_str(), hasOpened = true; }
    ~Opening() { opening = nullptr; }
  } const mark(path);
  const std::string help = "static constructors of a plugin register operators, and do nothing that can fail";
  // A bare name would be searched in the system's library folders: a plugin is always a file the user named.
  const std::string file = path.find('/') == std::string::npos ? "./" + path : path;
  // It is declared as one that throws nothing, which would make the handlers vanish.
  void *(*volatile const open)(const char *, int) = dlopen;
  dlerror();
  try {
    void *handle = open(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) return notOpened(path);
    return handle;
  } catch (const std::exception &e) {
    return refused("OPC0902", path, std::string("a static constructor threw: ") + e.what(), help);
  } catch (...) {
    return refused("OPC0902", path, "a static constructor threw something that is no std::exception", help);
  }
}

/// What shared libraries register when they are opened first, for every registry of the process that opens them. They
/// stay open until its end.
struct Libraries {
  std::mutex mutex;
  std::map<const void *, user_op::PendingRegistrations> registrations;
  std::map<std::string, const void *> byPath;
};
Libraries &libraries() {
  static auto &all = *new Libraries;
  return all;
}

user_op::PendingRegistrations registrationsOf(const std::string &path, const void *library,
                                              user_op::PendingRegistrations *pending) {
  Libraries &all = libraries();
  const std::lock_guard<std::mutex> lock(all.mutex);
  all.byPath[path] = library;
  const auto [it, isNew] = all.registrations.try_emplace(library);
  if (isNew) it->second = std::exchange(*pending, {});
  return it->second;
}

} // namespace

const char *openingPlugin() noexcept { return opening; }
bool hasOpenedPlugin() noexcept { return hasOpened; }

const void *pluginLibrary(const std::string &path) {
  Libraries &all = libraries();
  const std::lock_guard<std::mutex> lock(all.mutex);
  const auto it = all.byPath.find(path);
  return it == all.byPath.end() ? nullptr : it->second;
}

std::string loadedText(const std::vector<PluginInfo> &plugins) {
  std::string libraries, others;
  for (const PluginInfo &p : plugins) {
    std::string &to = p.source.empty() ? libraries : others;
    to += (to.empty() ? "" : ", ") + (p.source.empty() ? p.path : p.source);
  }
  if (libraries.empty()) libraries = "none (--plugin LIB loads one)";
  return "loaded plugins: " + libraries + (others.empty() ? "" : "; operators in Python: " + others);
}

Result<LoadedPlugin> openPlugin(const std::string &path) {
  if (const auto opener = pluginOpener(path)) return opener->open(path);
  OPC_ASSIGN_OR_RETURN(void *const handle, openLibrary(path));
  // The plugin's own copy of the SDK (libopc_sdk.so, found through its dependencies) holds what its registrars left.
  auto *version = reinterpret_cast<int (*)()>(dlsym(handle, "opcSdkApiVersion"));
  auto *take = reinterpret_cast<void *(*)()>(dlsym(handle, "opcSdkPendingRegistrations"));
  if (!version || !take)
    return refused("OPC0902", path, "it does not use the opc SDK", "link it with `opc sdk --ldflags`");
  LoadedPlugin plugin;
  plugin.info.path = path;
  plugin.info.apiVersion = version();
  if (plugin.info.apiVersion != OPC_SDK_API_VERSION) return wrongVersion(path, "it uses", plugin.info.apiVersion);
  auto *list = static_cast<user_op::PendingRegistrations *>(take());
  plugin.registrations = registrationsOf(path, handle, list);
  for (const auto &op : plugin.registrations.ops)
    if (op.origin.apiVersion != OPC_SDK_API_VERSION)
      return wrongVersion(path, "op '" + op.name + "' was compiled against", op.origin.apiVersion);
  for (const auto &k : plugin.registrations.kernels)
    if (k.origin.apiVersion != OPC_SDK_API_VERSION)
      return wrongVersion(path, "a kernel of '" + k.opType + "' was compiled against", k.origin.apiVersion);
  return plugin;
}

} // namespace opc
