// What one run was asked for.
// SPDX-License-Identifier: Apache-2.0
#include "RunOptions.h"

#include "Devices.h"
#include "GraphInput.h"
#include "Invocation.h"
#include "PlanFile.h"
#include "ShapeFlags.h"

namespace opc::cli {

namespace {
const std::string kOnnxFiles = "pb"; // of --outputs-as
} // namespace

std::vector<Option> RunOptions::options() {
  std::vector<Option> list = values.options();
  auto append = [&](std::vector<Option> more) { list.insert(list.end(), more.begin(), more.end()); };
  append(
      {{"--output", 0, "NAME=FILE",
        "write an output: .npy, .npz, .safetensors, .pb, .bin; - is standard output (repeatable)", &outputs, true},
       {"--outputs", 0, "DIR|FILE", "write all outputs: DIR/NAME.npy, or one npz or safetensors", &outputArchive, true},
       Option{"--outputs-as", 0, "",
              "what a directory gets: NAME.npy (default), or an ONNX data set's output_0.pb, ...", &outputsAs}
           .oneOf({"npy", kOnnxFiles}),
       printOption(&print)});
  append(expect.options());
  append({Option{"--reference", 0, "",
                 "run the graph a second time on the CPU, not simplified, nothing fused or in place, and compare",
                 &reference}
              .oneOf({"cpu"})});
  append(cut.options());
  append(
      {{"--capture", 0, "GLOB=DIR", "write the tensors inside the graph whose names fit: DIR/NAME.npy (repeatable)",
        &captures},
       {"--capture-stats", 0, "FILE", "statistics of every tensor as JSON lines; no tensor is kept", &captureStats},
       trapOption(&trap),
       observeOption(&observe),
       {"--trace", 0, "FILE", "compilation and tasks as Chrome trace events (Perfetto)", &trace},
       {"--report", 0, "FILE", "a page as of opc report, with the results and the measured timeline", &report},
       {"--no-fuse", 0, "", "leave every op as it is written: no fused ops, no other layouts", &noFuse},
       {"--no-simplify", 0, "", "keep every op of the graph, so that every tensor can be captured", &noSimplify},
       shapeOption(&shapes, true, false),
       Option{"--repeat", 0, "N", "run N times and say how long it took: p50, p90, p99; Ctrl-C stops after a run",
              &repeat}
           .range(1, 1000000000),
       Option{"--warmup", 0, "N", "runs before the first that is measured", &warmup}.range(0, 1000000000),
       Option{"--max-memory", 0, "SIZE",
              "refuse plans that need more: 800M, 16G (default: nine tenths of the machine's)", &maxMemory}
           .bytes(),
       {"--allow-native", 0, "", "run the machine code that a plan brings: as trusted as this program", &allowNative},
       {"--allow-tf32", 0, "", "on GPUs: products of f32 may round their factors to TF32, of 11 significant bits",
        &allowTf32},
       {"--stats", 0, "", "time by phase, tasks and memory", &stats},
       {"--profile", 0, "", "times by op and by kind of op, with rates and the share of this machine's peak",
        &profile}});
  append(model.options());
  append(opFlags.options());
  append(ranks.options());
  append(training.options());
  return list;
}

Status RunOptions::check(const Invocation &invocation, const std::string &graphPath) {
  graph = graphPath;
  limitTensorReads(maxMemory.value_or(defaultMemoryLimit()));
  OPC_RETURN_IF_ERROR(training.check());
  if (training.isRequested()) OPC_RETURN_IF_ERROR(checkTraining());
  OPC_RETURN_IF_ERROR(checkOutputEndings(outputs, outputArchive));
  OPC_RETURN_IF_ERROR(expect.parse(invocation.config().tolerances()));
  OPC_RETURN_IF_ERROR(checkMeaning());
  if (trace == "-" && invocation.flags().json) return usageError("the trace and the JSON both want standard output");
  if (captureStats == "-" && invocation.flags().json)
    return usageError("the statistics and the JSON both want standard output");
  if (!trace.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(trace, graph));
  profile |= observe.profile;
  if (ranks.ranks() > 1 && observes())
    return usageError(
        "--capture, --capture-stats, --trap and --observe look at one rank: a tensor is in pieces on several",
        "leave --ranks away, and name one device");
  if (!report.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(report, graph));
  if (report == "-" && invocation.flags().json) return usageError("the report and the JSON both want standard output");
  if (ranks.ranks() > 1 && profile)
    return usageError("--profile looks at one rank",
                      "leave --ranks away and name one device, or see every rank with --stats, --trace and --report");
  OPC_RETURN_IF_ERROR(opFlags.apply(&compile));
  compile.mesh = ranks.mesh();
  compile.device = invocation.flags().device;
  if (Result<std::string> devices = devicesOfRanks(compile.device, ranks.ranks())) compile.device = std::move(*devices);
  compile.simplify = !noSimplify;
  // A trap names the op that made the value, and not what it was joined with; a joined clip hides an infinity.
  compile.fuse = !noFuse && !noSimplify && !trap.any();
  // Whoever looks at tensors looks at those inside of regions, too, and at those that a library would not write.
  compile.regions = !observes();
  compile.keptTensors = captureStats.empty() ? std::vector<std::string>() : std::vector<std::string>{"*"};
  for (const std::string &text : captures) compile.keptTensors.push_back(text.substr(0, text.rfind('=')));
  compile.keepsBranches = true; // whoever looks on changes nothing of what is computed
  OPC_ASSIGN_OR_RETURN(GivenShapes given, parseShapeFlags(shapes));
  compile.shapes = std::move(given.shapes);
  compile.sizes = std::move(given.sizes);
  return checkSizes();
}

/// Options of what is not asked for would be lost without a word.
Status RunOptions::checkMeaning() const {
  if (outputsAs == kOnnxFiles && !isOutputDirectory(outputArchive))
    return usageError("--outputs-as pb says what a directory gets, and no directory is written",
                      "--outputs DIR --outputs-as pb, or --output NAME=FILE.pb");
  if (const std::string how = expect.howFlag(); !how.empty() && !expect.any() && reference.empty())
    return usageError(how + " says how outputs are compared, and nothing is compared",
                      "give --expect NAME=SPEC, --expects FILE or --reference cpu");
  return Status::ok();
}

namespace {

/// gpu:0 is gpu.
std::string withoutZero(const std::string &device) {
  return device.size() > 2 && device.substr(device.size() - 2) == ":0" ? device.substr(0, device.size() - 2) : device;
}

/// That of a plan; "" where there is none: the session says what is wrong with it.
std::string deviceOfPlan(const GraphInput &input) {
  const Result<plan::Plan> plan = decodePlan(input.bytes);
  if (!plan) return "";
  const plan::Plan &part = plan->part_size() ? plan->part(0) : *plan;
  return part.arena_size() ? part.arena(0).device() : "";
}

/// A plan without --device, and plugins that are loaded by now. Kernels of theirs that use CUDA's runtime have that of
/// a GPU, if any, and their launches would be lost without a word.
Status checkPluginsOfPlan(const Invocation &invocation, const GraphInput &input) {
  if (invocation.flags().plugins.empty()) return Status::ok();
  const std::string its = deviceOfPlan(input);
  if (!isOfSimulator(its)) return Status::ok();
  return usageError("the plan " + input.name + " is for " + its + ", and kernels of plugins need the simulator's CUDA",
                    "give --device " + its);
}

/// --device with a plan.
Status checkDeviceOfPlan(const std::string &device, const GraphInput &input) {
  const std::string its = deviceOfPlan(input);
  if (its.empty() || withoutZero(its) == withoutZero(device)) return Status::ok();
  const bool isOfItsKind = isOfSimulator(its) == isOfSimulator(device) && (its == "cpu") == (device == "cpu");
  return usageError("--device " + device + ": the plan " + input.name + " is for " + its,
                    isOfItsKind ? "give --device " + its + ", or leave it out"
                                : "compile the graph for " + device + ": opc compile GRAPH --device " + device);
}

} // namespace

Status RunOptions::checkDeviceOf(const Invocation &invocation, const GraphInput &input) {
  if (input.isPlan)
    return invocation.flags().isDeviceGiven ? checkDeviceOfPlan(compile.device, input)
                                            : checkPluginsOfPlan(invocation, input);
  if (allowNative)
    return usageError("--allow-native is for plans, and " + input.name + " is a graph",
                      "leave it out: the graph's regions are compiled here");
  if (compile.device == "cpu") return Status::ok();
  if (!cpuAlone.empty()) return invocation.requireCpu(cpuAlone);
  OPC_ASSIGN_OR_RETURN(compile.device, devicesOfRanks(compile.device, ranks.ranks()));
  if (compile.mesh && compile.mesh->microBatches > 1)
    return Status(StatusCode::kUnsupported, "OPC0006",
                  "micro-batches run on the cpu, and the device is '" + compile.device + "'")
        .withHelp("leave --micro-batches out, or give --device cpu");
  OPC_RETURN_IF_ERROR(checkDevice(compile.device));
  return Status::ok();
}

Status RunOptions::checkSizes() const {
  if (compile.sizes.empty()) return Status::ok();
  const std::string ranges = "sizes in a range (--shape " + shapes[0] + ") ";
  if (training.isRequested())
    return usageError(ranges + "do not go with training: a step is made for one size", "give --batch");
  if (compile.mesh) return usageError(ranges + "are for one device, not for several ranks", "give a fixed shape");
  if (compile.device != "cpu")
    return Status(StatusCode::kUnsupported, "OPC0006",
                  ranges + "are for the cpu, and the device is '" + compile.device + "'")
        .withHelp("give a fixed shape, or --device cpu");
  if (cut.any()) return usageError(ranges + "do not go with --until, --feed and --only", "give a fixed shape");
  return Status::ok();
}

/// What looks at one run has no place among thousands of steps.
Status RunOptions::checkTraining() const {
  const bool looks = !outputs.empty() || !outputArchive.empty() || expect.any() || repeat || warmup || cut.any() ||
                     !captures.empty() || !captureStats.empty() || !trace.empty() || !report.empty() || profile ||
                     observe.any() || !reference.empty();
  if (!training.resume.empty() && !values.weights.empty())
    return usageError("--resume " + training.resume + " has every variable, and --weights gives them, too",
                      "leave out --weights; or begin a new run from its values, without --resume");
  if (!looks) return Status::ok();
  return usageError("--output, --expect, --repeat, --warmup, --until, --feed, --only, --capture, --trace, --report, "
                    "--profile, --observe and --reference do not go with --feed-dataset",
                    "train with --save ckpt.safetensors, then opc run GRAPH --weights ckpt.safetensors");
}

SessionOptions RunOptions::session(const Invocation &invocation, bool onRanks) const {
  SessionOptions options;
  if (onRanks) ranks.setSession(&options);
  options.deterministic = invocation.flags().deterministic;
  options.threads = invocation.threads();
  options.seed = values.seed.value_or(0);
  options.maxMemory = maxMemory.value_or(0);
  options.allowNative = allowNative;
  // Whoever looks at single tasks looks at their weights, too.
  options.keepPackedVariables = training.isRequested() || observes() || keepsGraph;
  return options;
}

FileUse RunOptions::filesRead(const Invocation &invocation) const {
  FileUse files;
  files.readsGraph(graph, "the graph");
  files.readsValues(values);
  expect.addFiles(&files);
  cut.addFiles(&files);
  for (const auto *sets : {&training.dataSets, &training.validation})
    for (const DataSet &d : *sets)
      files.readsSpec("@" + d.file, sets == &training.dataSets ? "--feed-dataset" : "--validate");
  files.reads(training.resume, "--resume");
  files.readsGraph(training.validationGraph, "--validate-graph");
  files.reads(ranks.clusterFile(), "--cluster");
  files.readsSettings(invocation);
  return files;
}

} // namespace opc::cli
