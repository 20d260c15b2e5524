// The text of a crash.
// SPDX-License-Identifier: Apache-2.0
#include "CrashText.h"

#include "ExitCodes.h"
#include "PluginCode.h"

#include <atomic>
#include <unistd.h>

namespace opc::cli {

namespace {

constexpr int kLongestWait = 60'000; // ms; the first may compile the graph anew, for 20 s

int crashTexts = STDERR_FILENO;
std::atomic<pid_t> crashing = 0, crashingProcess = 0;
char text[4096];
size_t length = 0;

void put(char c) {
  if (length == sizeof text) flushCrashText();
  text[length++] = c;
}

void sayOp(const char *type, const char *library) {
  say(" of op ");
  sayName(type);
  say(" (");
  sayName(library);
  say(")");
}

} // namespace

bool beginCrash() noexcept {
  pid_t first = 0;
  const pid_t self = ::gettid();
  if (crashing.compare_exchange_strong(first, self)) {
    crashingProcess = ::getpid();
    return true;
  }
  if (first == self) return false;
  for (int waited = 0; waited < kLongestWait && (!crashingProcess || crashingProcess == ::getpid()); ++waited)
    (void)::usleep(1000);
  // A child of the process that crashes, where nobody else would end it; or the first waits for a lock of this
  // thread's.
  flushCrashText();
  ::_exit(kExitInternal);
}

void sayCrashesIn(int file) noexcept { crashTexts = file; }

void say(const char *part) noexcept {
  for (; *part; ++part) put(*part);
}

void sayName(const char *name) noexcept {
  for (; *name; ++name) put(static_cast<unsigned char>(*name) < 0x20 || *name == 0x7f ? '?' : *name);
}

bool sayPluginCode(bool afterKernel) noexcept {
  const PluginRule *rule = PluginRule::current();
  const KernelNames &last = lastPluginNames();
  if (!rule && !(afterKernel && last.task)) return false;
  say("; it may be a plugin's: ");
  say(rule ? rule->what() : "the kernel");
  if (rule)
    sayOp(rule->type(), rule->library());
  else
    sayOp(last.type, last.library), say(", which ran before");
  return true;
}

void flushCrashText() noexcept {
  size_t done = 0;
  while (done < length) {
    const ssize_t written = ::write(crashTexts, text + done, length - done);
    if (written <= 0) break;
    done += static_cast<size_t>(written);
  }
  length = 0;
}

} // namespace opc::cli
