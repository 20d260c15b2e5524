// Whose code a thread is in.
// SPDX-License-Identifier: Apache-2.0
#include "PluginCode.h"

#include "BuiltIn.h"
#include "OpeningPlugin.h"

#include <algorithm>

namespace opc {

namespace {
thread_local KernelNames running, lastOfPlugin;

template <size_t N> void copyText(const std::string &from, char (&to)[N]) {
  const size_t length = std::min(from.size(), N - 1);
  std::copy_n(from.data(), length, to);
  to[length] = 0;
}
} // namespace

thread_local const PluginRule *PluginRule::current_ = nullptr;

PluginRule::PluginRule(const std::string &type, const user_op::Origin &origin, const char *what) noexcept
    : before_(current_), what_(what), type_(type.c_str()), library_(origin.library.c_str()) {
  if (hasOpenedPlugin() && !isBuiltIn(origin)) current_ = this;
}

std::string runningRule() {
  const PluginRule *rule = PluginRule::current();
  return rule ? std::string(rule->what()) + " of op " + rule->type() + " (" + rule->library() + ")" : "";
}

void KernelNames::copy(uint64_t of, const std::string &opName, const std::string &opType,
                       const std::string &from) noexcept {
  task = of;
  copyText(opName, op);
  copyText(opType, type);
  copyText(from, library);
}

KernelNames &runningNames() noexcept { return running; }
KernelNames &lastPluginNames() noexcept { return lastOfPlugin; }

} // namespace opc
