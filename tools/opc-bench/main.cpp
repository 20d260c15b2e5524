// opc-bench: a table of measurements, each beside its reference.
// SPDX-License-Identifier: Apache-2.0
#include "Benchmark.h"
#include "Codegen.h"
#include "ModelWorker.h"
#include "StandardFiles.h"
#include "ThreadWaiting.h"

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <fnmatch.h>
#include <iostream>

int main(int argc, char **argv) {
  opc::openStandardFiles();
  opc::boundThreadSpinning(argv);
  CLI::App app{"opc-bench: measurements beside a peer or a limit of the same run", "opc-bench"};
  bool json = false, list = false;
  std::string filter = "*";
  app.add_flag("--json", json, "one JSON document on stdout");
  app.add_flag("--list", list, "names of the rows, without measuring");
  app.add_option("--filter", filter, "only rows whose name matches this pattern (* and ?)");
  opc::bench::ModelWorkerOptions worker;
  CLI::App *model =
      app.add_subcommand("model", "serves one model to tools/bench_models.py: commands on standard input");
  model->add_option("--graph", worker.graph)->required();
  model->add_option("--weights", worker.weights);
  model->add_option("--input", worker.inputs, "NAME=FILE.npy");
  model->add_option("--threads", worker.threads);
  model->add_flag("!--no-fuse", worker.fuse);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    const int code = app.exit(e);
    return code == 0 ? 0 : 2;
  }
  opc::setRegionCompiler(opc::RegionCodegen::forThisMachine());
  if (model->parsed()) return opc::bench::serveModel(worker);
  using namespace opc::bench;
  std::vector<Benchmark> all;
  for (auto &group : {taskOverhead(), startUp(), libraryKernels(), functionErrors(), memoryBound(), compileTime(),
                      importTime(), codeCompileTime(), plannerTime()})
    all.insert(all.end(), group.begin(), group.end());
  auto matches = [&](const std::string &name) { return fnmatch(filter.c_str(), name.c_str(), 0) == 0; };
  nlohmann::ordered_json document = {{"schema", 1}, {"rows", nlohmann::ordered_json::array()}};
  bool failed = false, any = false;
  if (!json && !list)
    std::printf("%-34s %12s  %-18s %12s  %-8s %8s\n", "name", "value", "unit", "reference", "", "ratio");
  for (const Benchmark &b : all) {
    if (std::none_of(b.names.begin(), b.names.end(), matches)) continue;
    any = true;
    if (list) {
      for (const auto &n : b.names)
        if (matches(n)) std::printf("%s\n", n.c_str());
      continue;
    }
    const std::vector<Row> rows = b.run();
    failed |= rows.empty();
    for (const Row &r : rows) {
      failed |= r.value < 0;
      if (!matches(r.name)) continue;
      if (json)
        document["rows"].push_back({{"name", r.name},
                                    {"value", r.value},
                                    {"unit", r.unit},
                                    {"reference", r.reference},
                                    {"reference_name", r.referenceName},
                                    {"ratio", r.ratio()}});
      else
        std::printf("%-34s %12.3f  %-18s %12.3f  %-8s %8.3f\n", r.name.c_str(), r.value, r.unit.c_str(), r.reference,
                    r.referenceName.c_str(), r.ratio());
      std::fflush(stdout);
    }
  }
  if (json && !list) std::cout << document.dump(1) << "\n";
  if (!any) {
    std::fprintf(stderr, "opc-bench: no row matches '%s'; --list names them\n", filter.c_str());
    return 2;
  }
  return failed ? 5 : 0;
}
