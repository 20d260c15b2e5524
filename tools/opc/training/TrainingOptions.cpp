// The options of training.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingOptions.h"

#include "BestSoFar.h"
#include "OptionRanges.h"
#include "TrainingRecord.h"

#include <utility>

namespace opc::cli {

/// "x=@a.npy,y=@b.npy": commas part inputs only where another NAME=@ follows, since file names may hold them.
Result<std::vector<DataSet>> parseDataSets(const std::string &option, const std::vector<std::string> &flags) {
  std::vector<DataSet> list;
  for (const std::string &flag : flags) {
    size_t begin = 0;
    while (begin <= flag.size()) {
      size_t end = begin;
      for (;;) {
        end = flag.find(',', end);
        if (end == std::string::npos) break;
        const size_t equals = flag.find("=@", end), comma = flag.find(',', end + 1);
        if (equals != std::string::npos && (comma == std::string::npos || equals < comma)) break;
        ++end;
      }
      const std::string part = flag.substr(begin, end == std::string::npos ? end : end - begin);
      const size_t equals = part.find("=@");
      if (equals == 0 || equals == std::string::npos || equals + 2 == part.size())
        return Status(StatusCode::kUsage, "OPC0003", option + " takes NAME=@FILE, not '" + part + "'")
            .withHelp(option + " x=@images.npy,y=@labels.npy");
      const std::string name = part.substr(0, equals);
      for (const DataSet &known : list)
        if (known.input == name)
          return Status(StatusCode::kUsage, "OPC0003", option + " is given twice for '" + name + "'");
      list.push_back({name, part.substr(equals + 2)});
      if (end == std::string::npos) break;
      begin = end + 1;
    }
  }
  return list;
}

std::vector<Option> TrainingOptions::options() {
  auto count = [](const char *name, const char *doc, OptionTarget to) {
    return within({name, 0, "N", doc, to}, ranges::kCount);
  };
  auto stopKinds = [](const std::string &text) {
    const std::optional<TrapKinds> kinds = readTrapKinds(text);
    return kinds && !kinds->denormal ? kinds : std::nullopt;
  };
  return {
      {"--feed-dataset", 0, "NAME=@FILE,...",
       "train: feed inputs batch by batch along the first axis of a file (repeatable): x=@images.npy,y=@labels.npy",
       &dataSetFlags},
      count("--batch", "examples a step; the graph's first dimensions if not given", &batch),
      {"--shuffle", 0, "", "another order of the examples in each epoch, by the seed", &shuffle},
      count("--epochs", "how often to go through the data set (default 1)", &epochs),
      count("--steps", "how many steps to make, in place of --epochs", &steps),
      {"--metrics", 0, "FILE", "write the outputs of one element of every step as a line of JSON", &metrics},
      count("--metrics-every", "a line every N steps only", &metricsEvery),
      {"--save", 0, "FILE",
       "write every variable, the optimizer's state and the step as a checkpoint (safetensors) when the run ends, also by Ctrl-C",
       &save},
      count("--save-every", "and every N steps", &saveEvery),
      count("--keep", "beside FILE, keep the last N checkpoints under the numbers of their steps", &keep),
      Option{
          "--keep-best", 0, "METRIC[:max]",
          "keep the checkpoint whose METRIC, an output of one element, is the least (:min, the default) or the largest so far",
          into(&best, readBestMetric)}
          .taking("the name of an output of one element, and :max where more is better (or :min)"),
      count("--patience", "stop when METRIC was not better N times in a row", &patience),
      {"--resume", 0, "FILE", "go on from a checkpoint, exactly as if the run had not been stopped", &resume},
      {"--other-graph", 0, "", "--resume with a graph that computes something else than the checkpoint's", &otherGraph},
      within({"--lr", 0, "X", "another learning rate than the graph's", &learningRate}, ranges::kRate),
      {"--validate", 0, "NAME=@FILE,...", "validation data, as for --feed-dataset (repeatable)", &validationFlags},
      {"--validate-graph", 0, "GRAPH", "what is computed on it, with the variables as they are: a forward graph",
       &validationGraph},
      count("--validate-every", "validate every N steps (default: after each epoch)", &validateEvery),
      Option{"--stop-on", 0, "KINDS", "nan, inf: stop after the first step whose outputs of one element have one",
             into(&stopOn, stopKinds)}
          .taking("nan and inf", "--stop-on nan,inf"),
      {"--plot", 0, "FILE", "draw the outputs of one element over the steps, as SVG", &plot}};
}

Status TrainingOptions::check() {
  if (!isRequested()) {
    const std::pair<bool, const char *> given[] = {{batch > 0, "--batch"},
                                                   {shuffle, "--shuffle"},
                                                   {epochs > 0, "--epochs"},
                                                   {steps > 0, "--steps"},
                                                   {!metrics.empty(), "--metrics"},
                                                   {metricsEvery.has_value(), "--metrics-every"},
                                                   {!save.empty(), "--save"},
                                                   {saveEvery > 0, "--save-every"},
                                                   {keep > 0, "--keep"},
                                                   {best.has_value(), "--keep-best"},
                                                   {patience > 0, "--patience"},
                                                   {!resume.empty(), "--resume"},
                                                   {otherGraph, "--other-graph"},
                                                   {learningRate.has_value(), "--lr"},
                                                   {!validationFlags.empty(), "--validate"},
                                                   {!validationGraph.empty(), "--validate-graph"},
                                                   {validateEvery > 0, "--validate-every"},
                                                   {stopOn.any(), "--stop-on"},
                                                   {!plot.empty(), "--plot"}};
    for (const auto &[is, flag] : given)
      if (is)
        return usageError(std::string(flag) + " goes with --feed-dataset",
                          "--feed-dataset x=@images.npy,y=@labels.npy");
    return Status::ok();
  }
  OPC_RETURN_IF_ERROR(checkTogether(*this));
  if (!epochs && !steps) epochs = 1;
  if (validationFlags.empty() != validationGraph.empty())
    return usageError("--validate and --validate-graph go together",
                      "--validate x=@test_images.npy,y=@test_labels.npy --validate-graph forward.pbtxt");
  if (validateEvery && validationFlags.empty()) return usageError("--validate-every goes with --validate");
  OPC_ASSIGN_OR_RETURN(dataSets, parseDataSets("--feed-dataset", dataSetFlags));
  OPC_ASSIGN_OR_RETURN(validation, parseDataSets("--validate", validationFlags));
  return Status::ok();
}

} // namespace opc::cli
