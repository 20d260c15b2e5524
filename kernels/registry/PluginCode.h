// Whose code a thread is in: for what ends a process.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <cstdint>
#include <string>

namespace opc {

/// While one lives, its thread is in a function that a plugin has registered: a rule, or what prepares a kernel. They
/// nest. Of what is built in nothing is noted.
class PluginRule {
public:
  PluginRule(const std::string &type, const user_op::Origin &origin, const char *what = "a rule") noexcept;
  ~PluginRule() { current_ = before_; }
  PluginRule(const PluginRule &) = delete;
  PluginRule &operator=(const PluginRule &) = delete;

  /// Of this thread; null: none. May be called in a handler of signals.
  static const PluginRule *current() noexcept { return current_; }
  /// "a rule", of an op's type, in a library.
  const char *what() const { return what_; }
  const char *type() const { return type_; }
  const char *library() const { return library_; }

private:
  static thread_local const PluginRule *current_;
  const PluginRule *before_;
  const char *what_, *type_, *library_;
};

/// "a rule of op TYPE (LIBRARY)"; "" outside of rules.
std::string runningRule();

/// What is said of a kernel when everything on the heap may be written over: copies.
struct KernelNames {
  uint64_t task = 0; // whose they are; 0: nobody's
  char op[128] = "", type[128] = "", library[256] = "";

  void copy(uint64_t of, const std::string &opName, const std::string &opType, const std::string &from) noexcept;
};
/// Of the thread: the kernel that is running (noted where plugins are loaded), and the plugin's that ran last.
KernelNames &runningNames() noexcept;
KernelNames &lastPluginNames() noexcept;

} // namespace opc
