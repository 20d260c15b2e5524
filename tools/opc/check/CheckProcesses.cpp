// A process for each graph, forked before this one has threads. It hands over bytes in a file without a name: a process
// that ends without having written all of them has failed, whatever its exit code says.
// SPDX-License-Identifier: Apache-2.0
#include "CheckProcesses.h"

#include "CheckedBytes.h"
#include "CrashText.h"
#include "ExitCodes.h"
#include "GuardedCheck.h"
#include "PrintableText.h"
#include "TwiceCheck.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace opc::cli {

namespace {

/// A file in memory that both processes write and read.
class SharedFile {
public:
  explicit SharedFile(const char *name) : file_(::memfd_create(name, MFD_CLOEXEC)) {}
  SharedFile(SharedFile &&o) noexcept : file_(std::exchange(o.file_, -1)) {}
  SharedFile(const SharedFile &) = delete;
  SharedFile &operator=(const SharedFile &) = delete;
  ~SharedFile() {
    if (file_ >= 0) ::close(file_);
  }

  int number() const { return file_; }
  bool write(std::string_view bytes) const {
    while (!bytes.empty()) {
      const ssize_t n = ::write(file_, bytes.data(), bytes.size());
      if (n < 0 && errno != EINTR) return false;
      if (n > 0) bytes.remove_prefix(static_cast<size_t>(n));
    }
    return true;
  }
  /// What was written, from the beginning.
  std::string read() const {
    std::string bytes;
    std::string part(1 << 16, '\0');
    for (;;) {
      const ssize_t n = ::pread(file_, part.data(), part.size(), static_cast<off_t>(bytes.size()));
      if (n < 0 && errno == EINTR) continue;
      if (n <= 0) return bytes;
      bytes.append(part, 0, static_cast<size_t>(n));
    }
  }

private:
  int file_;
};

struct Child {
  size_t graph = 0; // its place in the list
  SharedFile result{"opc-check"}, said{"opc-check-said"};
};

[[noreturn]] void checkInChild(const Registry &registry, const CheckSettings &settings, const std::string &path,
                               const Child &files) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL); // it works for a parent that is there
  sayCrashesIn(files.said.number());
  bool isWritten = false;
  try {
    CheckedGraph checked = checkGuarded(registry, settings, path);
    // In the same process: a kernel that keeps something from its first run is what this is to find.
    if (settings.isTwice && checked.isWhole) compareTwice(settings, checkGuarded(registry, settings, path), &checked);
    isWritten = files.result.write(bytesOf(checked, settings.isAgainst));
  } catch (const std::exception &) { // what was found does not fit memory a second time
    beginPart(CrashPart::kError, "OPC0614");
    say("out of memory");
    beginPart(CrashPart::kHelp);
    say("check fewer at a time: -j 1");
    endParts();
  }
  std::fflush(nullptr); // of what kernels have printed
  ::_exit(isWritten ? kExitOk : kExitExecution);
}

/// Of a process that has ended without a result; `said` is what opc's own handlers said before the end.
CheckedGraph brokenOff(const CheckSettings &settings, const std::string &path, int status, const SaidCrash &said) {
  std::string message = said.code.empty() ? "" : said.code + ": " + printableName(said.error);
  std::string help =
      printableName(said.replay.empty() ? said.help : std::string(headOf(CrashPart::kReplay)) + said.replay);
  if (message.empty() && WIFSIGNALED(status))
    message =
        std::string("OPC0605: the process that checked it was ended by a signal: ") + ::strsignal(WTERMSIG(status));
  if (message.empty())
    message = "OPC0603: a plugin's code ended the process that checked it, with exit code " +
              std::to_string(WEXITSTATUS(status));
  if (WIFEXITED(status) && WEXITSTATUS(status) == kExitInternal && said.isAny) // no kernel's, which have other codes
    return brokenCheck(settings, path, "INTERNAL_ERROR", kExitInternal, std::move(message), std::move(help));
  return brokenCheck(settings, path, "RUN_FAILED", kExitExecution, std::move(message), std::move(help));
}

class Processes {
public:
  Processes(const Registry &registry, const CheckSettings &settings, const std::vector<std::string> &paths)
      : registry_(registry), settings_(settings), paths_(paths), checked_(paths.size()) {}

  std::vector<CheckedGraph> run(size_t workers) {
    for (size_t next = 0; next < paths_.size() || !children_.empty();) {
      if (next < paths_.size() && children_.size() < workers)
        start(next++);
      else
        waitForOne();
    }
    return std::move(checked_);
  }

private:
  void start(size_t graph) {
    Child child;
    child.graph = graph;
    std::fflush(nullptr); // else it is printed twice
    const pid_t pid = child.result.number() < 0 || child.said.number() < 0 ? -1 : ::fork();
    if (pid == 0) checkInChild(registry_, settings_, paths_[graph], child);
    if (pid > 0) {
      children_.emplace(pid, std::move(child));
      return;
    }
    checked_[graph] =
        brokenCheck(settings_, paths_[graph], "RUN_FAILED", kExitExecution,
                    std::string("OPC0604: no process can be started to check it: ") + std::strerror(errno),
                    "check fewer at a time: -j 1");
  }

  void waitForOne() {
    int status = 0;
    const pid_t ended = ::waitpid(-1, &status, 0);
    if (ended < 0 && errno == EINTR) return;
    // Without any to wait for, a plugin has taken their ends: what they have written says how they fared.
    const auto at = ended < 0 ? children_.begin() : children_.find(ended);
    if (at == children_.end()) return; // a plugin's own
    const Child &child = at->second;
    const std::string &path = paths_[child.graph];
    std::optional<CheckedGraph> checked = checkedOf(child.result.read());
    checked_[child.graph] = checked && checked->report.graph == path
                                ? *std::move(checked)
                                : brokenOff(settings_, path, status, crashOf(child.said.read()));
    children_.erase(at);
  }

  const Registry &registry_;
  const CheckSettings &settings_;
  const std::vector<std::string> &paths_;
  std::vector<CheckedGraph> checked_;
  std::map<pid_t, Child> children_;
};

} // namespace

std::vector<CheckedGraph> checkInProcesses(const Registry &registry, const CheckSettings &settings,
                                           const std::vector<std::string> &paths, size_t workers) {
  return Processes(registry, settings, paths).run(workers);
}

} // namespace opc::cli
