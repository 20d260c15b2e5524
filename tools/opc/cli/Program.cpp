// The processor before the work, exceptions and the last flush behind it.
// SPDX-License-Identifier: Apache-2.0
#include "Program.h"

#include "CrashText.h"
#include "ExitCodes.h"
#include "FileBytes.h"
#include "OpeningPlugin.h"
#include "PluginCode.h"
#include "PrintableText.h"
#include "Session.h"
#include "SmallLimits.h"
#include "StandardFiles.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <unistd.h>

using namespace opc::cli;

// opc's kernels are compiled for x86-64-v3. This runs before every other constructor: those of the kernels' files may
// use such instructions already. The standard files are there before anything can open another in their place.
__attribute__((constructor(101))) static void checkProcessor() {
  opc::openStandardFiles();
  std::set_new_handler([] { // until runProgram(): nobody catches what the constructors of static objects throw
    static const char text[] = "error[OPC0614]: not enough memory to start\n"
                               "help: give the process more (ulimit -v, the container's limit): it starts with 130 MiB "
                               "of addresses\nmore: opc explain OPC0614\n";
    (void)!write(STDERR_FILENO, text, sizeof text - 1);
    _exit(kExitExecution);
  });
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

CrashReport crashReport = nullptr;
StrayReport strayReport = nullptr;

thread_local const char *whyAborted = " called abort()";

const char *whatSignalSays(int signal) {
  return signal == SIGABRT                       ? whyAborted
         : signal == SIGSEGV || signal == SIGBUS ? " touched memory that is not there"
         : signal == SIGFPE                      ? " divided an integer by zero"
                                                 : " ran an instruction that this processor does not have";
}

bool isForeignCode() { return opc::openingPlugin() || runningOp().name; }

/// The last part.
void explain(const char *code) {
  beginPart(CrashPart::kMore);
  say("opc explain ");
  say(code);
  endParts();
}

/// A thread that has crashed has crashed again, over what it wrote on: the text so far is shown, and the process ends
/// as it would have.
[[noreturn]] void endAsFirst(int signal, bool isInternal) {
  flushCrashText();
  if (isInternal || !signal) _exit(kExitInternal);
  std::signal(signal, SIG_DFL);
  sigset_t all;
  sigemptyset(&all);
  (void)pthread_sigmask(SIG_SETMASK, &all, nullptr);
  (void)std::raise(signal);
  _exit(128 + signal);
}

/// A kernel that crashes takes opc with it, as it should for a debugger; but it is named. Everything else that crashes
/// is an internal error.
void nameCrash(int signal, siginfo_t *info, void *context) {
  static int first = 0;
  static bool isInternal = false;
  if (!beginCrash()) endAsFirst(first, isInternal);
  first = signal;
  endOnSmallLimit(whatSignalSays(signal), info, context);
  const RunningOp op = runningOp();
  if (op.name) {
    beginPart(CrashPart::kError, "OPC0605");
    say("the kernel of op ");
    sayName(op.name);
    say(" (");
    sayName(op.type);
    say(")");
    say(whatSignalSays(signal));
    beginPart(CrashPart::kHelp);
    say("a debugger shows where: gdb --args opc run ...; OPC_PRESET=asan builds opc with AddressSanitizer");
    explain("OPC0605");
    if (crashReport) crashReport(signal, true);
  } else if (const char *plugin = opc::openingPlugin()) {
    beginPart(CrashPart::kError, "OPC0902");
    say("cannot load plugin ");
    sayName(plugin);
    say(": a static constructor");
    say(whatSignalSays(signal));
    beginPart(CrashPart::kHelp);
    say("static constructors of a plugin register operators, and do nothing that can fail");
    explain("OPC0902");
    _exit(kExitUnsupported);
  } else if (crashReport) {
    isInternal = true;
    beginPart(CrashPart::kError, "OPC0999");
    say("internal error: opc");
    say(whatSignalSays(signal));
    crashReport(signal, false);
    endParts();
    _exit(kExitInternal);
  } else if (opc::PluginRule::current() || opc::lastPluginNames().task) { // opc-runtime ends as other programs do
    beginPart(CrashPart::kError, "OPC0999");
    say("internal error: opc");
    say(whatSignalSays(signal));
    (void)sayPluginCode(true);
    explain("OPC0999");
  }
  std::signal(signal, SIG_DFL);
  (void)std::raise(signal); // delivered when this returns
}

/// A file that is mapped has become shorter: its pages are gone, and no code around the access can know it. Everything
/// here may be called in a handler.
void endOnLostPage(int signal, siginfo_t *info, void *context) {
  const char *path = opc::mappedFileAt(info->si_addr);
  if (!path) return nameCrash(signal, info, context);
  (void)beginCrash();
  beginPart(CrashPart::kError, "OPC0702");
  sayName(path);
  say(": the file became shorter while it was read");
  beginPart(CrashPart::kHelp);
  say("leave files alone that a run reads, or replace them by renaming");
  explain("OPC0702");
  _exit(kExitExecution);
}

void catchLostPages() {
  struct sigaction action{};
  action.sa_sigaction = endOnLostPage;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
  (void)sigaction(SIGBUS, &action, nullptr);
}

void catchCrashes() {
#ifdef __has_feature
#define OPC_HAS_ASAN __has_feature(address_sanitizer)
#else
#define OPC_HAS_ASAN 0
#endif
#if !OPC_HAS_ASAN // which says more
  struct sigaction action{};
  action.sa_sigaction = nameCrash;
  action.sa_flags = static_cast<int>(SA_SIGINFO | SA_ONSTACK | SA_NODEFER);
  for (int signal : {SIGSEGV, SIGABRT, SIGFPE, SIGILL}) (void)sigaction(signal, &action, nullptr);
#endif
}

/// In std::terminate(). Of a thread that nobody has guarded: where a plugin is loaded or a kernel runs, it is theirs.
[[noreturn]] void endOnStrayException() {
  std::string what = "std::terminate() was called";
  try {
    if (std::current_exception()) std::rethrow_exception(std::current_exception());
  } catch (const std::exception &e) {
    what = e.what();
  } catch (...) {
    what = "an exception of unknown type";
  }
  if (isForeignCode()) {
    whyAborted = " let an exception escape, or called std::terminate()";
    std::abort();
  }
  (void)beginCrash();
  endOnSmallLimit(" let an exception escape", nullptr, nullptr);
  if (opc::hasOpenedPlugin() && ::gettid() != ::getpid()) {
    beginPart(CrashPart::kError, "OPC0605");
    say("a thread that a plugin's kernel has started let an exception escape: ");
    sayName(what.c_str());
    beginPart(CrashPart::kHelp);
    say("nobody can catch it there; the thread's function catches what it throws and hands it to the kernel");
    explain("OPC0605");
    if (crashReport) crashReport(SIGABRT, true);
    std::signal(SIGABRT, SIG_DFL);
    std::abort();
  }
  if (strayReport) strayReport(what);
  beginPart(CrashPart::kError, "OPC0999");
  say("internal error: ");
  sayName(what.c_str());
  beginPart(CrashPart::kHelp);
  say("this is a bug in opc; please report it with the command and its files");
  endParts();
  _exit(kExitInternal);
}

int failInternally(Terminal &terminal, const std::string &what) {
  terminal.err("error[OPC0999]: internal error: " + what +
               "\nhelp: this is a bug in opc; please report it with the command and its files\n");
  return kExitInternal;
}

/// Whether the program is at work: then it does not end by exit(), but somebody else has called that.
bool atWork = false;
pid_t ownProcess = 0; // children that operators fork may end as they like

/// An operator that ends the process ends neither opc's run nor its promise to say what went wrong.
void noteForeignExit(int status) {
  if (hasNoThreadLeft()) { // as libgomp ends
    if (!beginCrash()) _exit(kExitExecution);
    beginPart(CrashPart::kError, "OPC0614");
    say("the system gives no more threads: a thread could not be made");
    beginPart(CrashPart::kHelp);
    say(kNoThreadHelp);
    explain("OPC0614");
    _exit(kExitExecution);
  }
  const std::string op = runningKernel(), rule = opc::runningRule();
  const char *opening = opc::openingPlugin();
  const std::string who = opening        ? "plugin " + opc::printableName(opening) + ", as it was loaded,"
                          : rule.empty() ? "code of a plugin"
                                         : opc::printableName(rule);
  const std::string text = (op.empty() ? who : "the kernel of " + op) + " called exit(" + std::to_string(status) + ")";
  if (!beginCrash()) _exit(kExitExecution);
  beginPart(CrashPart::kError, "OPC0603");
  say(text.c_str());
  beginPart(CrashPart::kHelp);
  say("operators report errors with CHECK, an exception or a Maybe");
  endParts();
  _exit(kExitExecution);
}

} // namespace

void noteEnd(int status) {
  if (!atWork || getpid() != ownProcess || !beginCrash()) return;
  beginPart(CrashPart::kError, "OPC0603");
  if (const opc::RunningOp op = opc::runningOp(); op.name) {
    say("the kernel of op ");
    sayName(op.name);
    say(" (");
    sayName(op.type);
    say(")");
  } else {
    say("code of a plugin");
  }
  say(" called _exit(");
  char digits[4] = {};
  char *at = digits + 3;
  unsigned left = static_cast<unsigned>(status) & 0xff;
  do *--at = static_cast<char>('0' + left % 10);
  while (left /= 10);
  say(at);
  say(")");
  beginPart(CrashPart::kHelp);
  say("operators report errors with CHECK, an exception or a Maybe");
  endParts();
  _exit(kExitExecution);
}

void onCrash(CrashReport report) { crashReport = report; }

void onStrayException(StrayReport report) { strayReport = report; }

int runProgram(Terminal &terminal, const std::function<int()> &work) {
  std::set_new_handler(nullptr);
  catchLostPages();
  catchCrashes();
  std::set_terminate(endOnStrayException);
  std::signal(SIGPIPE, SIG_IGN); // a closed pipe is seen where it is written to
  std::signal(SIGXFSZ, SIG_IGN); // and so is a limit on the size of files
  static const int registered = ::on_exit(
                                    [](int status, void *) {
                                      if (atWork) noteForeignExit(status);
                                    },
                                    nullptr) +
                                ::at_quick_exit([] {
                                  if (atWork) noteForeignExit(kExitOk);
                                });
  (void)registered;
  ownProcess = getpid();
  atWork = true;
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
  atWork = false;
  if (Status s = terminal.flush(); !s) {
    terminal.err("error[" + s.id() + "]: " + s.message() + "\n");
    if (code == kExitOk || code == kExitNo) code = exitCodeOf(s.code());
  }
  return code;
}

} // namespace opc::cli
