// How a process that is asked for several ranks starts itself again under a launcher, and how it finds itself started.
// SPDX-License-Identifier: Apache-2.0
#include "Launcher.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sched.h>
#include <set>
#include <sstream>
#include <unistd.h>

namespace opc::runtime {
namespace {

std::vector<std::string> words(const std::string &text) {
  std::istringstream in(text);
  std::vector<std::string> out;
  for (std::string w; in >> w;) out.push_back(w);
  return out;
}

/// Where a program is found as the shell would find it; empty: nowhere.
std::string inPath(const std::string &name) {
  const char *path = std::getenv("PATH");
  std::istringstream in(path ? path : "/usr/local/bin:/usr/bin:/bin");
  for (std::string folder; std::getline(in, folder, ':');) {
    const std::string file = (folder.empty() ? "." : folder) + "/" + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

/// Cores, not hardware threads: what mpirun counts as slots.
int64_t physicalCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  std::set<std::pair<int, int>> cores;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &set)) continue;
    const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
    int package = -1, core = cpu;
    std::ifstream(folder + "physical_package_id") >> package;
    std::ifstream id(folder + "core_id");
    if (int read; id >> read) core = read;
    cores.insert({package, core});
  }
  return cores.empty() ? 1 : static_cast<int64_t>(cores.size());
}

std::optional<int64_t> number(const char *name) {
  const char *text = std::getenv(name);
  if (!text || !*text) return std::nullopt;
  char *end = nullptr;
  errno = 0;
  const long long v = std::strtoll(text, &end, 10);
  return *end || v < 0 || errno == ERANGE ? std::nullopt : std::optional<int64_t>(v);
}

/// Whether a launcher waits for this process to speak to it.
bool isConnectedToLauncher() {
  if (std::getenv("PMI_FD") || std::getenv("PMI_PORT")) return true;
  for (char **variable = environ; variable && *variable; ++variable)
    if (std::strncmp(*variable, "PMIX_SERVER_URI", 15) == 0) return true;
  return false;
}

} // namespace

std::string LaunchCommand::text() const {
  std::string s;
  for (const auto &[name, value] : environment) s += name + "=" + value + " ";
  for (const std::string &a : argv) {
    if (&a != &argv[0]) s += " ";
    const bool plain =
        !a.empty() && a.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                          "_-+=./,:@%") == std::string::npos;
    if (plain) {
      s += a;
      continue;
    }
    s += '\'';
    for (const char c : a) s += c == '\'' ? std::string("'\\''") : std::string(1, c);
    s += '\'';
  }
  return s;
}

Result<LaunchCommand> launchCommand(const LaunchRequest &request) {
  LaunchCommand c;
  c.argv = words(request.launcher);
  if (c.argv.empty()) {
    if (request.mpirun.empty())
      return std::move(
                 Status(StatusCode::kUnsupported, "OPC0725",
                        "mpirun was not found in PATH; " + std::to_string(request.ranks) + " ranks need a launcher"))
          .withHelp("install Open MPI (Debian: openmpi-bin), name another with --launcher, or run the ranks as threads "
                    "with --in-process");
    c.argv = {request.mpirun};
    if (request.ranks > request.cores) c.argv.push_back("--oversubscribe");
    c.argv.insert(c.argv.end(), {"--bind-to", "none"});
  }
  c.argv.insert(c.argv.end(), {"-n", std::to_string(request.ranks), request.executable});
  c.argv.insert(c.argv.end(), request.arguments.begin(), request.arguments.end());
  if (request.root) c.environment = {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
  return c;
}

LaunchRequest launchRequestHere(int64_t ranks, std::vector<std::string> arguments, std::string launcher) {
  LaunchRequest r;
  r.ranks = ranks, r.arguments = std::move(arguments), r.launcher = std::move(launcher);
  char path[4096];
  const ssize_t n = readlink("/proc/self/exe", path, sizeof path);
  r.executable = n > 0 ? std::string(path, static_cast<size_t>(n)) : "/proc/self/exe";
  r.mpirun = inPath("mpirun");
  r.cores = physicalCores();
  r.root = geteuid() == 0;
  return r;
}

std::optional<LaunchedRank> launchedRank() {
  if (!isConnectedToLauncher()) return std::nullopt;
  for (const auto &[rank, size] : {std::pair("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
                                   std::pair("PMI_RANK", "PMI_SIZE"), std::pair("PMIX_RANK", "PMIX_SIZE")})
    if (const auto r = number(rank)) {
      const int64_t ranks = number(size).value_or(-1);
      if (ranks < 0 || *r < ranks) return LaunchedRank{*r, ranks};
    }
  return std::nullopt;
}

} // namespace opc::runtime
