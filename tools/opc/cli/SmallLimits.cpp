// Crashes for want of memory. Code that is not opc's, and the kernel where a stack grows, end by one.
// SPDX-License-Identifier: Apache-2.0
#include "SmallLimits.h"

#include "CrashText.h"
#include "ExitCodes.h"

#include <cstddef>
#include <cstdint>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <ucontext.h>
#include <unistd.h>

namespace opc::cli {
namespace {

constexpr size_t kFew = size_t{64} << 20;       // what a heap or a thread's arena asks for at once
constexpr rlim_t kUsualStack = rlim_t{8} << 20; // enough for all that opc does
constexpr uintptr_t kNear = uintptr_t{1} << 20; // of the stack's end: what a function has at most
constexpr rlim_t kKiB = 1024, kMiB = rlim_t{1} << 20;

rlim_t limitOf(__rlimit_resource what) noexcept {
  rlimit limit{};
  return ::getrlimit(what, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

/// Found by asking for it: other limits than that of addresses count, too.
bool isMemoryLeft() noexcept {
  void *const at = ::mmap(nullptr, kFew, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return false;
  (void)::munmap(at, kFew);
  return true;
}

/// Whether what was touched lies around the end of the stack.
bool isBesideStack(const siginfo_t *info, const void *context) noexcept {
#ifdef __x86_64__
  if (!info || !context || info->si_signo != SIGSEGV) return false;
  const auto *state = static_cast<const ucontext_t *>(context);
  const auto stack = static_cast<uintptr_t>(state->uc_mcontext.gregs[REG_RSP]);
  const auto touched = reinterpret_cast<uintptr_t>(info->si_addr);
  constexpr uintptr_t kFrame = 4096; // above lies what is there
  return touched + kNear > stack && touched < stack + kFrame;
#else
  return false;
#endif
}

void sayNumber(rlim_t value) noexcept {
  char digits[24];
  char *at = digits + sizeof digits;
  *--at = 0;
  do *--at = static_cast<char>('0' + value % 10);
  while (value /= 10);
  say(at);
}

[[noreturn]] void endWithHelp(const char *help) noexcept {
  beginPart(CrashPart::kHelp);
  say(help);
  beginPart(CrashPart::kMore);
  say("opc explain OPC0614");
  endParts();
  _exit(kExitExecution);
}

} // namespace

const char *const kNoThreadHelp =
    "a limit on processes or memory: ulimit -u and -v show them; -j 1 and fewer --ranks need fewer threads";

void endOnSmallLimit(const char *what, const siginfo_t *info, const void *context) noexcept {
  const rlim_t addresses = limitOf(RLIMIT_AS), data = limitOf(RLIMIT_DATA), stack = limitOf(RLIMIT_STACK);
  if (stack < kUsualStack && isBesideStack(info, context)) {
    beginPart(CrashPart::kError, "OPC0614");
    say("the stack is used up: its limit is ");
    sayNumber(stack / kKiB);
    say(" KiB");
    endWithHelp("give the process more (ulimit -s): 8192 KiB are usual");
  }
  if ((addresses == RLIM_INFINITY && data == RLIM_INFINITY) || isMemoryLeft()) return;
  beginPart(CrashPart::kError, "OPC0614");
  say("out of memory: of the ");
  sayNumber((addresses < data ? addresses : data) / kMiB);
  say(" MiB that the process may have less than 64 are left, and it");
  say(what);
  endWithHelp("give the process more (ulimit -v and -d)");
}

bool hasNoThreadLeft() noexcept {
  pthread_t thread{};
  if (::pthread_create(&thread, nullptr, [](void *) -> void * { return nullptr; }, nullptr) != 0) return true;
  (void)::pthread_join(thread, nullptr);
  return false;
}

} // namespace opc::cli
