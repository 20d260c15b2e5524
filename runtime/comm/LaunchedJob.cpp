// A launcher as a child of this process.
// SPDX-License-Identifier: Apache-2.0
#include "LaunchedJob.h"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opc::runtime {
namespace {

/// A file that is closed.
class File {
public:
  explicit File(int file = -1) : file_(file) {}
  ~File() { close(); }
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  int number() const { return file_; }
  void set(int file) { close(), file_ = file; }
  void close() {
    if (file_ >= 0) ::close(file_);
    file_ = -1;
  }

private:
  int file_;
};

/// Signals wait in a file while one lives.
class HeldSignals {
public:
  HeldSignals() {
    sigemptyset(&held_);
    for (const int number : {SIGINT, SIGTERM, SIGCHLD}) sigaddset(&held_, number);
    for (const int number : {SIGTSTP, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGXCPU}) {
      struct sigaction now{};
      if (sigaction(number, nullptr, &now) == 0 && now.sa_handler != SIG_IGN) sigaddset(&held_, number);
    }
    std::signal(SIGCHLD, SIG_DFL); // where it is ignored nobody can wait for a child
    pthread_sigmask(SIG_BLOCK, &held_, &before_);
    file_.set(::signalfd(-1, &held_, SFD_CLOEXEC | SFD_NONBLOCK));
  }
  ~HeldSignals() {
    while (next()) {
    }
    give();
  }
  int file() const { return file_.number(); }
  /// 0: none is waiting.
  int next() {
    signalfd_siginfo info{};
    return ::read(file_.number(), &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo) : 0;
  }
  void give() const { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

private:
  sigset_t held_{}, before_{};
  File file_;
};

Status cannotStart(const std::string &launcher, int error) {
  return Status(StatusCode::kUnsupported, "OPC0725",
                "cannot start the launcher " + launcher + ": " + std::strerror(error))
      .withHelp("--launcher takes a command that is in PATH, with its arguments");
}

/// Between fork and exec: nothing that takes memory or locks.
[[noreturn]] void become(char **argv, const HeldSignals &signals, pid_t parent, int output, int failure) {
  (void)::setpgid(0, 0);
  (void)::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(1);
  // A terminal stops who reads from it in the background; ranks read nothing there.
  if (::isatty(STDIN_FILENO) != 0) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing >= 0) (void)::dup2(nothing, STDIN_FILENO);
  }
  (void)::dup2(output, STDOUT_FILENO);
  (void)std::signal(SIGTTOU, SIG_IGN); // nor does it stop who writes there, as one with tostop does
  signals.give();
  ::execvp(argv[0], argv);
  const int error = errno;
  (void)!::write(failure, &error, sizeof error);
  ::_exit(1);
}

/// The launcher while it runs.
class Job {
public:
  Job(pid_t launcher, int output, bool isKnown, const LaunchWatch &watch)
      : launcher_(launcher), output_(output), isKnown_(isKnown), isPatient_(isKnown && watch.isPatient), watch_(watch) {
  }

  /// Signals are heard also while nobody reads what this process writes.
  int waitForEnd(HeldSignals &signals) {
    constexpr int kAgain = 1000; // milliseconds
    bool hasOutput = true, isRead = false;
    while (status_ < 0 || hasOutput) {
      pollfd files[] = {{signals.file(), POLLIN, 0}, {output_, POLLIN, 0}};
      if (isRead) files[1] = {STDOUT_FILENO, POLLOUT, 0};
      const bool hasEnded = status_ >= 0;
      const int ready = ::poll(files, hasOutput ? 2 : 1, isAsked_ || (hasEnded && first_) ? kAgain : -1);
      if (ready == 0 && hasEnded) return code(); // told to end, and nobody reads the rest
      if (ready == 0) ask();                     // a launcher that was beginning has handed it to nobody
      while (const int number = signals.next()) handle(number);
      if (hasOutput && ready > 0 && files[1].revents) {
        if (isRead) hasOutput = pass();
        isRead = !isRead;
      }
      // What has been written before the end; others may have the pipe still.
      if (status_ >= 0 && hasOutput && !isRead) {
        pollfd rest{output_, POLLIN, 0};
        hasOutput = ::poll(&rest, 1, 0) > 0;
      }
    }
    return code();
  }

private:
  /// False: there is no more. As much as a pipe takes at once that takes anything.
  bool pass() {
    char buffer[PIPE_BUF];
    const ssize_t n = ::read(output_, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) return true;
    if (n > 0) watch_.output({buffer, static_cast<size_t>(n)});
    return n > 0;
  }

  void handle(int number) {
    if (number == SIGCHLD) {
      int status = 0;
      if (::waitpid(launcher_, &status, WNOHANG) != launcher_) return;
      status_ = status;
      if (first_) (void)::kill(-launcher_, SIGTERM); // what a script has left behind
    } else if (number == SIGTSTP) {
      send(SIGTSTP);
      (void)::raise(SIGSTOP);
      send(SIGCONT);
    } else {
      const bool isFirst = first_ == 0;
      if (isFirst) first_ = number;
      if (isFirst && isPatient_) return ask();
      isAsked_ = false;
      const bool isHandedOn = number == SIGINT || number == SIGTERM || number == SIGUSR1 || number == SIGUSR2;
      send(isHandedOn ? number : SIGTERM);
    }
  }

  /// The ranks to end by themselves.
  void ask() {
    isAsked_ = true;
    send(SIGUSR1);
  }
  /// A launcher hands signals on; of what is none, a script that waits for one, all processes get them.
  void send(int number) const {
    if (status_ >= 0) return;
    (void)::kill(isKnown_ ? launcher_ : -launcher_, number);
    if (number != SIGTSTP) (void)::kill(-launcher_, SIGCONT); // also where a terminal has stopped it
  }

  int code() const {
    const int code = WIFEXITED(status_) ? WEXITSTATUS(status_) : 128 + WTERMSIG(status_);
    // Launchers have their own codes for what a signal has ended; what the ranks have to say stays.
    return first_ && (code == 1 || code >= 128) ? 128 + first_ : code;
  }

  const pid_t launcher_;
  const int output_;
  const bool isKnown_, isPatient_;
  const LaunchWatch &watch_;
  int status_ = -1, first_ = 0;
  bool isAsked_ = false;
};

} // namespace

bool handsOnSignals(const std::string &launcher) {
  const std::string name = launcher.substr(launcher.rfind('/') + 1);
  for (const char *known : {"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prterun", "srun"})
    if (name == known) return true;
  return false;
}

Result<int> launch(const LaunchCommand &command, const LaunchWatch &watch) {
  const std::string &launcher = command.argv[0];
  for (const auto &[name, value] : command.environment) setenv(name.c_str(), value.c_str(), 1);
  std::vector<char *> argv;
  for (const std::string &a : command.argv) argv.push_back(const_cast<char *>(a.c_str())); // execvp's old signature
  argv.push_back(nullptr);
  int output[2], failure[2];
  if (::pipe2(output, O_CLOEXEC) != 0) return cannotStart(launcher, errno);
  File outputHere(output[0]), outputThere(output[1]);
  if (::pipe2(failure, O_CLOEXEC) != 0) return cannotStart(launcher, errno);
  File failureHere(failure[0]), failureThere(failure[1]);
  HeldSignals signals;
  const pid_t here = ::getpid(), child = ::fork();
  if (child < 0) return cannotStart(launcher, errno);
  if (child == 0) become(argv.data(), signals, here, output[1], failure[1]);
  (void)::setpgid(child, child); // whoever is first
  outputThere.close();
  failureThere.close();
  int error = 0;
  ssize_t n = 0;
  while ((n = ::read(failure[0], &error, sizeof error)) < 0 && errno == EINTR) {
  }
  if (n == sizeof error) {
    (void)::waitpid(child, nullptr, 0);
    return cannotStart(launcher, error);
  }
  return Job(child, output[0], handsOnSignals(launcher), watch).waitForEnd(signals);
}

} // namespace opc::runtime
