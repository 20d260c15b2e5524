// The processor before the work, exceptions and the last flush behind it.
// SPDX-License-Identifier: Apache-2.0
#include "Program.h"

#include "ExitCodes.h"

#include <csignal>
#include <exception>
#include <new>
#include <unistd.h>

using namespace opc::cli;

// opc's kernels are compiled for x86-64-v3. This runs before every other constructor: those of the kernels' files may
// use such instructions already.
__attribute__((constructor(101))) static void checkProcessor() {
#ifdef __x86_64__
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2")) return;
  static const char text[] = "error[OPC0007]: this processor lacks AVX2, FMA or BMI2, which opc's CPU kernels need\n"
                             "help: run opc on an x86-64-v3 machine (Haswell or Zen and later)\n";
  (void)!write(STDERR_FILENO, text, sizeof text - 1);
  _exit(kExitUnsupported);
#endif
}

namespace opc::cli {

namespace {

int failInternally(Terminal &terminal, const std::string &what) {
  terminal.err("error[OPC0999]: internal error: " + what +
               "\nhelp: this is a bug in opc; please report it with the command and its files\n");
  return kExitInternal;
}

} // namespace

int runProgram(Terminal &terminal, const std::function<int()> &work) {
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is seen where it is written to
  int code = kExitInternal;
  try {
    code = work();
  } catch (const std::bad_alloc &) {
    terminal.err("error[OPC0614]: out of memory\n");
    code = kExitExecution;
  } catch (const std::exception &e) {
    code = failInternally(terminal, e.what());
  } catch (...) {
    code = failInternally(terminal, "an exception of unknown type");
  }
  if (Status s = terminal.flush(); !s) {
    terminal.err("error[" + s.id() + "]: " + s.message() + "\n");
    if (code == kExitOk) code = exitCodeOf(s.code());
  }
  return code;
}

} // namespace opc::cli
