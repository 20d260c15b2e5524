// One model that another program tells when to run.
// SPDX-License-Identifier: Apache-2.0
#include "ModelWorker.h"

#include "Pipeline.h"
#include "Session.h"
#include "TensorIo.h"

#include <nlohmann/json.hpp>

#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <malloc.h>
#include <sstream>

namespace opc::bench {
namespace {

using nlohmann::ordered_json;

/// VmRSS and VmHWM of this process, in bytes.
ordered_json memoryNow() {
  ordered_json j;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    for (const char *key : {"VmRSS", "VmHWM"})
      if (line.rfind(key, 0) == 0) j[key] = std::stod(line.substr(line.find(':') + 1)) * 1024;
  return j;
}

void answer(const ordered_json &j) { std::cout << j.dump() << std::endl; }

int fail(const std::string &what) {
  std::fprintf(stderr, "opc-bench: %s\n", what.c_str());
  return 1;
}

std::string readFile(const std::string &path) {
  std::ifstream f(path, std::ios::binary);
  std::ostringstream s;
  s << f.rdbuf();
  return s.str();
}

} // namespace

int serveModel(const ModelWorkerOptions &options) {
  const ordered_json before = memoryNow();
  const auto start = std::chrono::steady_clock::now();
  Registry registry;
  if (Status s = registry.addLinked(); !s.isOk()) return fail(s.toString());
  registry.freeze();
  std::string plan;
  {
    CompileOptions compile;
    compile.fuse = options.fuse;
    Pipeline pipeline(registry, compile);
    if (!pipeline.import(options.graph, readFile(options.graph)) || !pipeline.run(Phase::kPlan)) {
      for (const Diagnostic &d : pipeline.diagnostics()) std::fprintf(stderr, "%s\n", d.message.c_str());
      return fail("cannot compile " + options.graph);
    }
    plan = pipeline.emit(Emit::kPlan);
  }
  SessionOptions sessionOptions;
  sessionOptions.threads = options.threads;
  sessionOptions.keepPackedVariables = false;
  auto session = Session::load(plan, registry, sessionOptions);
  if (!session) return fail(session.status().toString());
  std::string().swap(plan);
  if (!options.weights.empty()) {
    auto archive = openTensorArchive(options.weights);
    if (!archive) return fail(archive.status().toString());
    for (const PortInfo &v : session->interface().variables) {
      // A training step's counters and optimizer state begin as their initializers say.
      if (v.hasInitializer && !v.trainable && !(*archive)->contains(v.name)) continue;
      if (Status s = (*archive)->readInto(v.name, v.desc, session->variableData(v.name)); !s.isOk())
        return fail(s.toString());
    }
  }
  for (const std::string &spec : options.inputs) {
    const size_t equal = spec.find('=');
    if (equal == std::string::npos) return fail("--input wants NAME=FILE.npy, got " + spec);
    auto tensor = readNpy(spec.substr(equal + 1));
    if (!tensor) return fail(tensor.status().toString());
    if (Status s = session->feed(spec.substr(0, equal), *tensor); !s.isOk()) return fail(s.toString());
  }
  if (Status s = session->prepare(); !s.isOk()) return fail(s.toString());
  malloc_trim(0); // memory that compiling took is not part of a running model
  const double loading = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  answer({{"ready", true}, {"load", loading}, {"before", before}});

  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    words >> command;
    if (command == "quit") return 0;
    if (command == "run") {
      int count = 0;
      words >> count;
      ordered_json times = ordered_json::array();
      for (int i = 0; i < count; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        if (Status s = session->run(); !s.isOk()) return fail(s.toString());
        times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      }
      answer({{"times", times}});
    } else if (command == "output") {
      std::string name, path;
      words >> name >> path;
      auto tensor = session->fetch(name);
      if (!tensor) return fail(tensor.status().toString());
      if (Status s = writeNpy(path, *tensor); !s.isOk()) return fail(s.toString());
      answer({{"written", path}});
    } else if (command == "memory") {
      answer(memoryNow());
    } else {
      return fail("no command '" + command + "'; there are run, output, memory, quit");
    }
  }
  return 0;
}

} // namespace opc::bench
