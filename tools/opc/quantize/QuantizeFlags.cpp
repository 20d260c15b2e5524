// The options of opc quantize, and what they may not be.
// SPDX-License-Identifier: Apache-2.0
#include "QuantizeFlags.h"

#include "FileUse.h"
#include "Invocation.h"
#include "OnnxOutput.h"
#include "OutputFiles.h"
#include "ShapeFlags.h"

namespace opc::cli {

std::vector<Option> QuantizeFlags::options() {
  std::vector<Option> all = {
      {"--output", 'o', "FILE", "the ONNX model to write; without it the report alone", &output, true},
      {"--calibrate", 0, "INPUT=@FILE,...",
       "examples for inputs, along the first axis of npy files, in batches of the graph's size (repeatable); where "
       "inputs have no first axis in common, files of their shapes",
       &calibrate, true},
      Option{"--to", 0, "KIND",
             "int8 (default: weights and data), or weights alone, which needs no examples: int8-weights, int4-weights "
             "(of products) or bf16-weights",
             &to, true}
          .oneOf({"int8", "int8-weights", "int4-weights", "bf16-weights"}),
      {"--block", 0, "N",
       "--to int4-weights: the elements of a column that share a scale, 16, 32 (default), 64, 128 or 256", &block},
      Option{"--method", 0, "HOW",
             "--to int8, ranges of data: min-max (default), percentile, or entropy (what loses least information)",
             &how, true}
          .oneOf({"min-max", "percentile", "entropy"}),
      Option{"--percentile", 0, "P", "--method percentile: the share of values within the range (default 99.99)",
             &percentile}
          .range(50, 100, "share in percent"),
      {"--keep", 0, "GLOB", "ops that stay as they are, by name or type (repeatable)", &keep, true},
      Option{"--batches", 0, "N", "at most so many batches of the examples", &batches}.from(1),
      {"--weights", 0, "FILE", "values for variables (repeatable)", &values.weights, true},
      {"--partial-weights", 0, "", "variables that no file of --weights has begin as the graph has them",
       &values.partialWeights},
      {"--cast", 0, "", "convert the element type of weights and examples where it differs", &values.cast},
      Option{"--top", 0, "N", "the tensors to show, worst first (default 10)", &top}.from(0),
      Option{"--compare-memory", 0, "SIZE", "for the tensors of each graph that are compared: 800M, 4G (default 1G)",
             &compareMemory}
          .bytes(),
      shapeOption(&shapes, false, false)};
  for (Option &o : model.options()) all.push_back(std::move(o));
  return all;
}

QuantizeMode QuantizeFlags::mode() const {
  if (to == "int8-weights") return QuantizeMode::kWeights;
  if (to == "int4-weights") return QuantizeMode::kBlocks;
  return to == "bf16-weights" ? QuantizeMode::kBfloat16 : QuantizeMode::kStatic;
}
RangeMethod QuantizeFlags::method() const {
  if (how == "percentile") return RangeMethod::kPercentile;
  return how == "entropy" ? RangeMethod::kEntropy : RangeMethod::kMinMax;
}

Status QuantizeFlags::read(const std::string &graph, bool json) {
  if (output == "-" && json)
    return usageError("the model and the JSON both want standard output",
                      "give -o FILE, or no -o for the report alone");
  if (!output.empty()) OPC_RETURN_IF_ERROR(checkOutputPath(output, graph));
  OPC_RETURN_IF_ERROR(checkEnding("-o", output, {".onnx", ".pb"}));
  OPC_ASSIGN_OR_RETURN(dataSets, parseDataSets("--calibrate", calibrate));
  if (dataSets.empty() && mode() == QuantizeMode::kStatic)
    return usageError("--to int8 needs examples: the ranges of data are measured",
                      "give --calibrate INPUT=@FILE, or --to int8-weights");
  if (block && mode() != QuantizeMode::kBlocks)
    return usageError("--block is for --to int4-weights", "opc quantize -h");
  if (block && (*block < 16 || *block > 256 || (*block & (*block - 1)) != 0))
    return usageError("--block takes 16, 32, 64, 128 or 256, not " + std::to_string(*block), "opc quantize -h");
  if (!how.empty() && mode() != QuantizeMode::kStatic)
    return usageError("--method is for --to int8: the ranges of data are what it chooses", "opc quantize -h");
  if (percentile && method() != RangeMethod::kPercentile)
    return usageError("--percentile is for --method percentile", "opc quantize -h");
  return Status::ok();
}

Status QuantizeFlags::checkFiles(const Invocation &invocation, const GraphInput &input) const {
  if (output.empty()) return Status::ok();
  FileUse files;
  files.readsGraph(input.path, "the graph");
  files.readsSettings(invocation);
  files.readsValues(values);
  for (const DataSet &d : dataSets) files.readsSpec("@" + d.file, "--calibrate");
  OPC_RETURN_IF_ERROR(files.writes(output, "-o"));
  for (const std::string &path : OnnxOutput::replacedData(output))
    OPC_RETURN_IF_ERROR(files.writes(path, "the data beside -o"));
  return Status::ok();
}

} // namespace opc::cli
