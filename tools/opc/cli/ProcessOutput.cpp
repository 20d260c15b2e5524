// Running this program once more.
// SPDX-License-Identifier: Apache-2.0
#include "ProcessOutput.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opc::cli {
namespace {

Status failed(const std::string &why) {
  return Status(StatusCode::kExecution, "OPC0604", "a second process of opc " + why);
}

/// Reads to the end, or until the time of the watch is over: false.
bool readAll(int file, const ProcessWatch &watch, std::string *text) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point heard = Clock::now();
  double seconds = watch.seconds;
  size_t line = 0; // where the one begins that has no end yet
  char buffer[1 << 16];
  for (;;) {
    if (seconds > 0) {
      const double left = seconds - std::chrono::duration<double>(Clock::now() - heard).count();
      if (left <= 0) return false;
      pollfd ready = {file, POLLIN, 0};
      if (::poll(&ready, 1, static_cast<int>(std::ceil(std::min(left * 1e3, 1e9)))) <= 0) continue;
    }
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return true;
    text->append(buffer, static_cast<size_t>(n));
    if (!watch.progress) continue;
    for (size_t end; (end = text->find('\n', line)) != std::string::npos; line = end + 1)
      if (const auto next = watch.progress(std::string_view(*text).substr(line, end - line)))
        heard = Clock::now(), seconds = *next;
  }
}

} // namespace

Result<ProcessEnd> runOwnProgram(const std::vector<std::string> &arguments, const ProcessWatch &watch) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return failed(std::string("gets no pipe: ") + std::strerror(errno));
  std::vector<std::string> words = arguments;
  words.insert(words.begin(), "opc");
  std::vector<char *> argv;
  for (std::string &w : words) argv.push_back(w.data());
  argv.push_back(nullptr);
  std::vector<char *> variables;
  char noBundle[] = "OPC_CRASH_DIR=none"; // who runs it says what became of it
  if (const char *chosen = std::getenv("OPC_CRASH_DIR"); !chosen || !*chosen) variables.push_back(noBundle);
  for (char **v = environ; *v; ++v) variables.push_back(*v);
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, argv.data(), variables.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  ProcessEnd end;
  if (error == 0 && !readAll(ends[0], watch, &end.output)) end.isLate = ::kill(child, SIGKILL) == 0;
  ::close(ends[0]);
  if (error != 0) return failed(std::string("cannot be started: ") + std::strerror(error));
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    end.signal = WTERMSIG(status);
  else
    end.code = WEXITSTATUS(status);
  return end;
}

Status failureOf(const ProcessEnd &end) {
  if (end.isLate) return failed("was ended: it had told nothing for the time that it had");
  if (end.signal != 0) return failed(std::string("was ended by ") + ::strsignal(end.signal));
  return end.code == 0 ? Status::ok() : failed("ended with " + std::to_string(end.code));
}

Result<std::string> outputOfOwnProgram(const std::vector<std::string> &arguments, const ProcessWatch &watch) {
  OPC_ASSIGN_OR_RETURN(ProcessEnd end, runOwnProgram(arguments, watch));
  OPC_RETURN_IF_ERROR(failureOf(end));
  return std::move(end.output);
}

} // namespace opc::cli
