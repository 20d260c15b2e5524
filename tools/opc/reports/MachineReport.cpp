// What `opc doctor` says of a machine.
// SPDX-License-Identifier: Apache-2.0
#include "MachineReport.h"

#include "NumberText.h"
#include "Session.h"
#include "TextParts.h"

#include <algorithm>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <link.h>
#include <sched.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

std::string environment(const char *name) {
  const char *value = std::getenv(name);
  return value ? value : "";
}

/// The value of the first line "name : value" of a file of /proc.
std::string procField(const char *path, const std::string &name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(name, 0) != 0) continue;
    const size_t colon = line.find(':');
    const size_t start = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return "";
}

std::string limitText(int which, bool bytes) {
  rlimit limit{};
  if (getrlimit(which, &limit) != 0) return "unknown";
  if (limit.rlim_cur == RLIM_INFINITY) return "unlimited";
  return bytes ? bytesText(limit.rlim_cur) : countText(limit.rlim_cur);
}

/// The first directory of PATH that has an executable of this name.
std::string findProgram(const std::string &name) {
  for (const std::string &directory : splitAt(environment("PATH"), ':')) {
    const std::string candidate = directory + "/" + name;
    if (!directory.empty() && ::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return "";
}

/// Shared libraries of this process that are not the system's own, by file name with the version it carries.
std::vector<std::string> loadedLibraries() {
  std::vector<std::string> names;
  dl_iterate_phdr(
      [](dl_phdr_info *info, size_t, void *out) {
        const std::string path = info->dlpi_name ? info->dlpi_name : "";
        std::error_code error;
        const fs::path real = fs::canonical(path, error);
        if (!path.empty() && !error) static_cast<std::vector<std::string> *>(out)->push_back(real.filename().string());
        return 0;
      },
      &names);
  std::sort(names.begin(), names.end());
  return names;
}

std::string firstThatExists(const std::vector<std::string> &paths) {
  std::error_code error;
  for (const std::string &p : paths)
    if (!p.empty() && fs::exists(p, error)) return p;
  return "";
}

} // namespace

MachineReport inspectMachine() {
  MachineReport report;
  auto add = [&](const char *section, const std::string &name, const std::string &value, bool problem = false) {
    report.findings.push_back({section, name, value, problem});
  };

  report.processor = procField("/proc/cpuinfo", "model name");
  if (report.processor.empty()) report.processor = "unknown";
  add("processor", "model", report.processor);
  std::string features;
#ifdef __x86_64__
  __builtin_cpu_init();
  const std::pair<const char *, bool> known[] = {{"avx2", __builtin_cpu_supports("avx2")},
                                                 {"fma", __builtin_cpu_supports("fma")},
                                                 {"bmi2", __builtin_cpu_supports("bmi2")},
                                                 {"avx512f", __builtin_cpu_supports("avx512f")},
                                                 {"avx512bf16", __builtin_cpu_supports("avx512bf16")},
                                                 {"avx512vnni", __builtin_cpu_supports("avx512vnni")}};
  for (const auto &f : known)
    if (f.second) features += (features.empty() ? "" : " ") + std::string(f.first);
#endif
  add("processor", "features", features.empty() ? "none that opc knows" : features);
  cpu_set_t set;
  const int usable = ::sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  add("processor", "cores", std::to_string(usable) + " usable of " + std::to_string(::sysconf(_SC_NPROCESSORS_ONLN)));

  const uint64_t limit = defaultMemoryLimit();
  add("memory", "machine or container", bytesText(limit / 9 * 10));
  add("memory", "limit of a plan", bytesText(limit) + " (--max-memory)");
  add("memory", "available now", [] {
    const std::string text = procField("/proc/meminfo", "MemAvailable");
    const auto kib = parseInteger<uint64_t>(text.substr(0, text.find(' ')));
    return kib ? bytesText(*kib * 1024) : std::string("unknown");
  }());
  std::ifstream huge("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string pages;
  std::getline(huge, pages);
  add("memory", "huge pages", pages.empty() ? "unknown" : pages);

  add("limits", "open files", limitText(RLIMIT_NOFILE, false));
  add("limits", "stack", limitText(RLIMIT_STACK, true));
  add("limits", "address space", limitText(RLIMIT_AS, true));
  std::error_code error;
  const fs::path temporary = fs::temp_directory_path(error);
  add("limits", "temporary files",
      error ? "no directory: " + error.message()
            : temporary.string() + (::access(temporary.c_str(), W_OK) == 0 ? "" : ", not writable"));
  add("limits", "working directory", ::access(".", W_OK) == 0 ? "writable" : "read-only");

  utsname name{};
  if (::uname(&name) == 0) add("system", "kernel", std::string(name.sysname) + " " + name.release + " " + name.machine);
  for (const std::string &library : loadedLibraries()) {
    const bool counts = library.rfind("libdnnl", 0) == 0 || library.rfind("libgomp", 0) == 0 ||
                        library.rfind("libz", 0) == 0 || library.rfind("libc.", 0) == 0 ||
                        library.rfind("libstdc++", 0) == 0;
    if (counts) add("libraries", library.substr(0, library.find(".so")), library);
  }
  for (const char *variable : {"OMP_NUM_THREADS", "DNNL_VERBOSE", "ONEDNN_VERBOSE", "OPC_CONFIG", "NO_COLOR"})
    if (const std::string value = environment(variable); !value.empty()) add("environment", variable, value);

  report.hasNvidia = fs::exists("/dev/nvidiactl", error);
  const auto peer = [&](const char *name, const std::string &found) {
    add("peers", name, found.empty() ? "not found" : found);
  };
  peer("python3", findProgram("python3"));
  const std::string torch = firstThatExists({"/usr/lib/python3/dist-packages/torch/version.py"});
  peer("pytorch", fs::path(torch).parent_path().string());
  peer("node", findProgram("node"));
  const std::string onnx =
      firstThatExists({environment("NODE_PATH").empty() ? "" : environment("NODE_PATH") + "/onnxruntime-node",
                       "node_modules/onnxruntime-node", "build/peers/node_modules/onnxruntime-node",
                       "/usr/lib/node_modules/onnxruntime-node"});
  peer("onnxruntime", onnx);
  peer("mpirun", findProgram("mpirun"));
  peer("nvcc", findProgram("nvcc"));
  return report;
}

} // namespace opc::cli
