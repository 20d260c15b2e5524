// opc-runtime: runs a compiled plan, without the compiler.
// SPDX-License-Identifier: Apache-2.0
#include "Session.h"
#include "ThreadWaiting.h"
#include "opc/Convert.h"
#include "opc/Version.h"

#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <iostream>

namespace {

using opc::HostTensor;
using opc::Result;
using opc::Session;
using opc::Status;
using opc::StatusCode;

struct Arguments {
  std::string plan, outputs, print = "summary";
  std::vector<std::string> plugins, weights, inputs;
  int threads = 0;
  int64_t repeat = 1;
  uint64_t maxMemory = 0, seed = 0;
  bool stats = false, deterministic = false;
};

int exitCode(StatusCode code) {
  switch (code) {
  case StatusCode::kOk: return 0;
  case StatusCode::kUsage: return 2;
  case StatusCode::kInvalidGraph: return 3;
  case StatusCode::kUnsupported: return 4;
  case StatusCode::kExecution: return 5;
  case StatusCode::kInternal: return 70;
  }
  return 70;
}

void report(const Status &s) {
  std::fprintf(stderr, "error%s%s%s: %s\n", s.id().empty() ? "" : "[", s.id().c_str(), s.id().empty() ? "" : "]",
               s.message().c_str());
  if (!s.context().empty()) std::fprintf(stderr, "  while %s\n", s.context().c_str());
  if (!s.help().empty()) std::fprintf(stderr, "help: %s\n", s.help().c_str());
}

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

Status feedInputs(Session &session, const std::vector<std::string> &specs) {
  for (const std::string &spec : specs) {
    const size_t equals = spec.find('=');
    if (equals == std::string::npos || equals + 1 >= spec.size() || spec[equals + 1] != '@')
      return Status(StatusCode::kUsage, "OPC0001", "--input " + spec + ": expected NAME=@FILE")
          .withHelp("for example --input x=@x.npy or x=@in.npz:x");
    const std::string name = spec.substr(0, equals);
    opc::DataType wanted = opc::kInvalidDataType;
    for (const opc::PortInfo &p : session.interface().inputs)
      if (p.name == name) wanted = p.desc.data_type();
    Result<HostTensor> t = opc::readTensor(spec.substr(equals + 2), wanted);
    if (!t) return Status(t.status()).withContext("reading input " + name);
    OPC_RETURN_IF_ERROR(session.feed(name, *t));
  }
  return Status::ok();
}

Status setWeights(Session &session, const std::vector<std::string> &files) {
  for (const std::string &file : files) {
    Result<std::unique_ptr<opc::TensorArchive>> archive = opc::openTensorArchive(file);
    if (!archive) return archive.status();
    size_t used = 0;
    for (const opc::VariableInfo &v : session.interface().variables) {
      if (!(*archive)->contains(v.name)) continue;
      opc::TensorReadOptions options;
      options.voidType = v.desc.data_type();
      if (void *to = session.variableData(v.name); to && (*archive)->readInto(v.name, v.desc, to).isOk()) {
        ++used;
        continue;
      }
      Result<HostTensor> t = (*archive)->read(v.name, options);
      if (!t) return t.status();
      if (Status s = opc::checkTensor(*t, v.desc, file + ":" + v.name); !s.isOk()) return s;
      OPC_RETURN_IF_ERROR(session.setVariable(v.name, *t));
      ++used;
    }
    const size_t unused = (*archive)->entries().size() - used;
    if (unused)
      std::fprintf(stderr, "note: %s holds %zu tensor%s that the plan has no variable for\n", file.c_str(), unused,
                   unused == 1 ? "" : "s");
  }
  return Status::ok();
}

/// Calls f(double) with each element.
template <class F> void eachElement(const HostTensor &t, F f) {
  opc::withElements(t, [&](const auto *p) {
    for (int64_t i = 0; i < t.elemCount(); ++i) f(static_cast<double>(opc::numberOf(p[i])));
  });
}

void printSummary(const std::string &name, const HostTensor &t) {
  double lowest = INFINITY, highest = -INFINITY, sum = 0;
  int64_t nans = 0;
  std::string first;
  int64_t shown = 0;
  eachElement(t, [&](double v) {
    if (shown++ < 8) {
      char text[32];
      std::snprintf(text, sizeof text, "%s%.6g", first.empty() ? "" : " ", v);
      first += text;
    }
    if (std::isnan(v)) return void(++nans);
    lowest = std::min(lowest, v);
    highest = std::max(highest, v);
    sum += v;
  });
  std::printf("%s  %s", name.c_str(), t.desc().toString().c_str());
  if (t.elemCount() > nans)
    std::printf("  min %.6g  max %.6g  mean %.6g", lowest, highest, sum / static_cast<double>(t.elemCount() - nans));
  if (nans) std::printf("  nan %lld", static_cast<long long>(nans));
  std::printf("  [%s%s]\n", first.c_str(), t.elemCount() > 8 ? " ..." : "");
}

/// A plan must not choose where files go: no part of an output's name may leave the directory.
Status outputPath(const std::string &directory, const std::string &name, std::filesystem::path *out) {
  std::filesystem::path relative(name + ".npy");
  bool safe = !name.empty() && relative.is_relative() && name.find('\0') == std::string::npos;
  for (const auto &part : relative) safe &= part != ".." && part != ".";
  if (!safe)
    return Status(StatusCode::kInvalidGraph, "OPC0707", "output '" + name + "' has a name that cannot be a file name");
  *out = std::filesystem::path(directory) / relative;
  std::error_code error;
  std::filesystem::create_directories(out->parent_path(), error);
  if (error)
    return Status(StatusCode::kUsage, "OPC0707",
                  "cannot create " + out->parent_path().string() + ": " + error.message());
  return Status::ok();
}

Status deliverOutputs(const Session &session, const Arguments &a) {
  for (const opc::PortInfo &port : session.interface().outputs) {
    Result<HostTensor> t = session.fetch(port.name);
    if (!t) return t.status();
    if (!a.outputs.empty()) {
      std::filesystem::path path;
      OPC_RETURN_IF_ERROR(outputPath(a.outputs, port.name, &path));
      OPC_RETURN_IF_ERROR(opc::writeNpy(path.string(), *t));
    }
    if (a.print == "summary") printSummary(port.name, *t);
  }
  return Status::ok();
}

Status runPlan(const Arguments &a) {
  opc::Registry registry;
  OPC_RETURN_IF_ERROR(registry.addLinked());
  for (const std::string &plugin : a.plugins)
    if (auto loaded = registry.loadPlugin(plugin); !loaded) return loaded.status();
  registry.freeze();

  const auto start = std::chrono::steady_clock::now();
  Result<opc::FileBytes> file = opc::FileBytes::open(a.plan);
  if (!file) return file.status();
  opc::SessionOptions options;
  options.threads = a.threads;
  options.maxMemory = a.maxMemory;
  options.seed = a.seed;
  options.keepPackedVariables = false;
  options.ranks = 0; // whatever the plan is for, as threads; opc run has the way to processes
  options.deterministic = a.deterministic;
  Result<Session> session = Session::load(file->view(), registry, options);
  if (!session) return Status(session.status()).withContext("loading " + a.plan);
  const double loading = secondsSince(start);
  OPC_RETURN_IF_ERROR(setWeights(*session, a.weights));
  OPC_RETURN_IF_ERROR(feedInputs(*session, a.inputs));

  const auto preparing = std::chrono::steady_clock::now();
  OPC_RETURN_IF_ERROR(session->prepare());
  const double prepared = secondsSince(preparing);
  std::vector<double> times;
  for (int64_t i = 0; i < a.repeat; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    OPC_RETURN_IF_ERROR(session->run());
    times.push_back(secondsSince(begin));
  }
  OPC_RETURN_IF_ERROR(deliverOutputs(*session, a));
  if (a.stats) {
    std::sort(times.begin(), times.end());
    const opc::SessionStats s = session->stats();
    std::fprintf(stderr,
                 "load %.3f ms, prepare %.3f ms, run %lld times: fastest %.4f ms, median %.4f ms, slowest %.4f ms\n",
                 loading * 1e3, prepared * 1e3, static_cast<long long>(a.repeat), times.front() * 1e3,
                 times[times.size() / 2] * 1e3, times.back() * 1e3);
    std::fprintf(stderr, "%llu tasks in %llu stream%s, %llu bytes of memory, %llu of them constants and variables\n",
                 static_cast<unsigned long long>(s.tasks), static_cast<unsigned long long>(s.streams),
                 s.streams == 1 ? "" : "s", static_cast<unsigned long long>(s.arenaBytes),
                 static_cast<unsigned long long>(s.constantBytes));
  }
  return Status::ok();
}

} // namespace

int main(int argc, char **argv) {
  opc::boundThreadSpinning(argv);
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    std::fprintf(stderr, "error: this machine's CPU is older than x86-64-v3; opc's kernels need AVX2 and FMA\n");
    return 4;
  }
  Arguments a;
  CLI::App app{"Runs a compiled plan.\n\n  opc-runtime mlp.plan --weights w.npz --input x=@x.npy --outputs out/\n"
               "  opc-runtime mlp.plan --input x=@in.npz:x --repeat 100 --stats\n"};
  app.name("opc-runtime");
  app.allow_windows_style_options(false);
  app.set_version_flag("--version", std::string("opc-runtime " OPC_VERSION_STRING));
  app.add_option("PLAN", a.plan, "plan file made by opc compile; - reads the standard input")->required();
  app.add_option("--input", a.inputs, "NAME=@FILE or NAME=@ARCHIVE:KEY; repeatable")
      ->allow_extra_args(false)
      ->type_name("NAME=@FILE");
  app.add_option("--weights", a.weights, "npz, safetensors or directory with values of variables; repeatable")
      ->allow_extra_args(false)
      ->type_name("FILE");
  app.add_option("--plugin", a.plugins, "library with operators; repeatable")
      ->allow_extra_args(false)
      ->type_name("LIB");
  app.add_option("--outputs", a.outputs, "write each output to DIR/NAME.npy")->type_name("DIR");
  app.add_option("--print", a.print, "none or summary")->check(CLI::IsMember({"none", "summary"}));
  app.add_option("--repeat", a.repeat, "run this many times")->check(CLI::Range(int64_t{1}, int64_t{1} << 40));
  app.add_option("--seed", a.seed, "for initializers that draw numbers");
  app.add_option("--max-memory", a.maxMemory, "refuse plans that need more (bytes, or 512M, 4G)")
      ->transform(CLI::AsSizeValue(false));
  app.add_option("-j", a.threads, "threads in all (default: one a core)")->check(CLI::Range(1, 4096));
  app.add_flag("--deterministic", a.deterministic, "sum over ranks in the order of the ranks, whatever the size");
  app.add_flag("--stats", a.stats, "times and memory on stderr");
  app.footer(
      "Exit codes: 0 done, 2 usage, 3 invalid plan or file, 4 not possible here, 5 execution failed, 70 a bug in opc.");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    if (e.get_exit_code() == 0) return app.exit(e);
    std::fprintf(stderr, "error: %s\nhelp: opc-runtime --help\n", e.what());
    return 2;
  }
  Status status;
  try {
    status = runPlan(a);
  } catch (const std::bad_alloc &) {
    status = Status(StatusCode::kExecution, "OPC0614", "out of memory");
  } catch (const std::exception &e) {
    status = Status(StatusCode::kInternal, "OPC0999", std::string("unexpected exception: ") + e.what());
  }
  if (!status.isOk()) report(status);
  return exitCode(status.code());
}
