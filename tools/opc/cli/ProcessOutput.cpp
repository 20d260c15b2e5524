// Running this program once more.
// SPDX-License-Identifier: Apache-2.0
#include "ProcessOutput.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace opc::cli {
namespace {

Status failed(const std::string &why) {
  return Status(StatusCode::kExecution, "OPC0604", "a second process of opc " + why);
}

std::string readAll(int file) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(file, buffer, sizeof buffer);
    if (n > 0)
      text.append(buffer, static_cast<size_t>(n));
    else if (n == 0 || errno != EINTR)
      return text;
  }
}

} // namespace

Result<ProcessEnd> runOwnProgram(const std::vector<std::string> &arguments) {
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
  if (error == 0) end.output = readAll(ends[0]);
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
  if (end.signal != 0) return failed(std::string("was ended by ") + ::strsignal(end.signal));
  return end.code == 0 ? Status::ok() : failed("ended with " + std::to_string(end.code));
}

Result<std::string> outputOfOwnProgram(const std::vector<std::string> &arguments) {
  OPC_ASSIGN_OR_RETURN(ProcessEnd end, runOwnProgram(arguments));
  OPC_RETURN_IF_ERROR(failureOf(end));
  return std::move(end.output);
}

} // namespace opc::cli
