// The options of training.
// SPDX-License-Identifier: Apache-2.0
#include "TrainingOptions.h"

#include <utility>

namespace opc::cli {

namespace {

/// "x=@a.npy,y=@b.npy": commas part inputs only where another NAME=@ follows, since file names may hold them.
Result<std::vector<DataSet>> parseDataSets(const std::vector<std::string> &flags) {
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
        return Status(StatusCode::kUsage, "OPC0003", "--feed-dataset takes NAME=@FILE, not '" + part + "'")
            .withHelp("--feed-dataset x=@images.npy,y=@labels.npy");
      const std::string name = part.substr(0, equals);
      for (const DataSet &known : list)
        if (known.input == name)
          return Status(StatusCode::kUsage, "OPC0003", "--feed-dataset is given twice for '" + name + "'");
      list.push_back({name, part.substr(equals + 2)});
      if (end == std::string::npos) break;
      begin = end + 1;
    }
  }
  return list;
}

} // namespace

std::vector<Option> TrainingOptions::options() {
  auto count = [](const char *name, const char *doc, OptionTarget to) {
    return Option{name, 0, "N", doc, to}.range(1, 1099511627776); // 2^40
  };
  return {{"--feed-dataset", 0, "NAME=@FILE,...",
           "train: feed inputs batch by batch along the first axis of a file (repeatable): x=@images.npy,y=@labels.npy",
           &dataSetFlags},
          count("--batch", "examples a step; the graph's first dimensions if not given", &batch),
          {"--shuffle", 0, "", "another order of the examples in each epoch, by the seed", &shuffle},
          count("--epochs", "how often to go through the data set (default 1)", &epochs),
          count("--steps", "how many steps to make, in place of --epochs", &steps),
          {"--metrics", 0, "FILE", "write the outputs of one element of every step as a line of JSON", &metrics},
          count("--metrics-every", "a line every N steps only", &metricsEvery),
          {"--save", 0, "FILE", "write all variables as a checkpoint (safetensors) at the end", &save},
          count("--save-every", "and every N steps", &saveEvery),
          {"--resume", 0, "FILE", "go on from a checkpoint, exactly as if the run had not been stopped", &resume},
          {"--plot", 0, "FILE", "draw the outputs of one element over the steps, as SVG", &plot}};
}

Status TrainingOptions::check() {
  if (!isRequested()) {
    const std::pair<bool, const char *> given[] = {
        {batch > 0, "--batch"},    {shuffle, "--shuffle"},          {epochs > 0, "--epochs"},
        {steps > 0, "--steps"},    {!metrics.empty(), "--metrics"}, {metricsEvery.has_value(), "--metrics-every"},
        {!save.empty(), "--save"}, {saveEvery > 0, "--save-every"}, {!resume.empty(), "--resume"},
        {!plot.empty(), "--plot"}};
    for (const auto &[is, flag] : given)
      if (is)
        return usageError(std::string(flag) + " goes with --feed-dataset",
                          "--feed-dataset x=@images.npy,y=@labels.npy");
    return Status::ok();
  }
  if (epochs && steps) return usageError("--epochs and --steps both say when to stop: give one");
  if (!epochs && !steps) epochs = 1;
  if (saveEvery && save.empty()) return usageError("--save-every goes with --save FILE");
  if (metricsEvery && metrics.empty()) return usageError("--metrics-every goes with --metrics FILE");
  OPC_ASSIGN_OR_RETURN(dataSets, parseDataSets(dataSetFlags));
  return Status::ok();
}

} // namespace opc::cli
