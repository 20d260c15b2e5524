// _exit() of opc's programs, for whatever they load: past exit(), nobody would hear that an operator ends the process,
// and the exit code would be the operator's, 0 for a run that was not.
// SPDX-License-Identifier: Apache-2.0
#include "Program.h"

#include <sys/syscall.h>
#include <unistd.h>

extern "C" const char __executable_start, etext; // NOLINT: of the linker

extern "C" [[gnu::visibility("default")]] void _exit(int status) {
  const auto *const caller = static_cast<const char *>(__builtin_return_address(0));
  if (caller < &__executable_start || caller >= &etext) opc::cli::noteEnd(status); // opc's own calls are meant
  for (;;) (void)syscall(SYS_exit_group, status);
}
extern "C" [[gnu::visibility("default"), gnu::alias("_exit")]] void _Exit(int status) noexcept;
