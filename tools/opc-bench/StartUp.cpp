// How long the commands take to answer.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"

#include <fcntl.h>
#include <filesystem>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace opc::bench {
namespace {

double runSeconds(const std::string &program) {
  return medianSeconds(11, [&] {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    std::string path = program, help = "--help";
    char *argv[] = {path.data(), help.data(), nullptr};
    pid_t pid = 0;
    if (posix_spawn(&pid, path.c_str(), &actions, nullptr, argv, environ) == 0) waitpid(pid, nullptr, 0);
    posix_spawn_file_actions_destroy(&actions);
  });
}

} // namespace

std::vector<Benchmark> startUp() {
  std::vector<Benchmark> list;
  const std::filesystem::path folder = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  for (const char *name : {"opc", "opc-runtime"}) {
    const std::string program = folder / name, row = std::string("start/") + name + "_help";
    if (!std::filesystem::exists(program)) continue;
    list.push_back({{row}, [=] { return std::vector<Row>{{row, runSeconds(program) * 1e3, "ms", 60, "limit"}}; }});
  }
  return list;
}

} // namespace opc::bench
