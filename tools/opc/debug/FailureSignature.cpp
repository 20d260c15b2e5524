// How a command fails.
// SPDX-License-Identifier: Apache-2.0
#include "FailureSignature.h"

#include "NumberText.h"
#include "StopSignal.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

namespace opc::cli {
namespace {

/// The first "error[CODE]" of what the file holds; its beginning is enough.
std::string firstCode(int file) {
  std::string text(1 << 20, '\0');
  const ssize_t n = ::pread(file, text.data(), text.size(), 0);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  static const std::string kMark = "error[";
  const size_t at = text.find(kMark);
  if (at == std::string::npos) return "";
  const size_t begin = at + kMark.size(), end = text.find(']', begin);
  return end == std::string::npos || end - begin > 32 ? "" : text.substr(begin, end - begin);
}

/// Waits for the child, at most until `end`; whether it has ended.
bool waitFor(pid_t child, std::chrono::steady_clock::time_point end, int *status) {
  auto pause = std::chrono::microseconds(200);
  for (;;) {
    const pid_t ended = ::waitpid(child, status, WNOHANG);
    if (ended == child) return true;
    if ((ended < 0 && errno != EINTR) || std::chrono::steady_clock::now() >= end || StopSignal::caught()) return false;
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(20000));
  }
}

} // namespace

std::string FailureSignature::text(double timeout) const {
  if (isTimeout) return "longer than " + roundedText(timeout, 3) + " s";
  std::string text = exitCode > 128 ? ::strsignal(exitCode - 128) : "exit code " + std::to_string(exitCode);
  return code.empty() ? text : text + ", " + code;
}

Result<FailureSignature> runForSignature(const std::string &command, double timeout) {
  const int output = ::memfd_create("output", MFD_CLOEXEC), nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, nothing, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDERR_FILENO);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP); // what it starts ends with it
  std::string shell = "/bin/sh", option = "-c", words = command;
  char *const argv[] = {shell.data(), option.data(), words.data(), nullptr};
  pid_t child = 0;
  const int error =
      output < 0 || nothing < 0 ? errno : ::posix_spawn(&child, shell.c_str(), &actions, &attributes, argv, environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  FailureSignature signature;
  if (error == 0) {
    constexpr double kMost = 1e9; // seconds: more than anybody waits, and no more than the clock counts
    const auto end = std::chrono::steady_clock::now() +
                     std::chrono::microseconds(static_cast<int64_t>(std::min(timeout, kMost) * 1e6));
    int status = 0;
    if (!waitFor(child, end, &status)) {
      signature.isTimeout = true;
      ::kill(-child, SIGKILL);
      while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
    } else {
      signature.exitCode = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    }
    if (!signature.isTimeout) signature.code = firstCode(output);
  }
  if (output >= 0) ::close(output);
  if (nothing >= 0) ::close(nothing);
  if (error == 0) return signature;
  return Status(StatusCode::kExecution, "OPC0604", std::string("no shell can be started: ") + std::strerror(error));
}

} // namespace opc::cli
