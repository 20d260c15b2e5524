// --dim, --const, --weights-out: what only models of other systems (ONNX) have.
// SPDX-License-Identifier: Apache-2.0
#include "ModelFlags.h"

#include "ModelSource.h"
#include "NamedValues.h"
#include "NumberText.h"
#include "OutputFiles.h"
#include "OutsideTensors.h"
#include "TensorIo.h"
#include "TextParts.h"
#include "ValuePages.h"

#include <memory>
#include <vector>

namespace opc::cli {

std::vector<Option> ModelFlags::options(bool writes) {
  std::vector<Option> list = {
      {"--dim", 0, "NAME=N", "an ONNX model's size of this name, wherever it occurs (repeatable)", &dims_},
      {"--const", 0, "NAME=SPEC",
       "an ONNX model's input or initializer becomes a constant, as --input writes it (repeatable)", &constants_}};
  if (writes)
    list.push_back({"--weights-out", 0, "FILE",
                    "write an ONNX model's weights as safetensors, and leave them out of the result", &weightsOut_});
  return list;
}

Result<CompileOptions> ModelFlags::applied(const GraphInput &input, CompileOptions options) const {
  if (!weightsOut_.empty()) OPC_RETURN_IF_ERROR(checkEnding("--weights-out", weightsOut_, {".safetensors"}));
  options.planHasValues = weightsOut_.empty();
  options.model.beside = input.beside;
  if (!isGiven()) return options;
  if (input.isPlan || !looksLikeModel(input.bytes))
    return usageError("--dim and --const are for ONNX models, and " + input.name + " is none",
                      "--shape NAME=DIMS gives an input its shape");
  OPC_ASSIGN_OR_RETURN(options.model, request());
  options.model.beside = input.beside;
  return options;
}

Result<ModelRequest> ModelFlags::request() const {
  ModelRequest model;
  for (const std::string &flag : dims_) {
    OPC_ASSIGN_OR_RETURN(auto named, splitNamed(flag, "--dim"));
    const auto size = parseInteger<int64_t>(named.second);
    if (!size || *size < 0) return usageError("--dim " + flag + ": '" + named.second + "' is no size", "--dim batch=4");
    if (!model.dims.emplace(named.first, *size).second)
      return usageError("--dim is given twice for '" + named.first + "'");
  }
  OPC_ASSIGN_OR_RETURN(NamedValues opened, NamedValues::open(constants_, "", "--const"));
  const auto values = std::make_shared<const NamedValues>(std::move(opened));
  for (const std::string &name : values->flagNames()) {
    if (const auto shape = values->shapeOf(name, kFloat); !shape && shape.status().id() == "OPC0706")
      return shape.status(); // no file: the command line is wrong, and not the model
    model.constants.insert(name);
  }
  model.constant = [values](const std::string &name, const user_op::TensorDesc &desc) -> Result<std::string> {
    OPC_ASSIGN_OR_RETURN(const HostTensor value, values->make({name, desc, 0, false}));
    if (value.desc() != desc)
      return Status(StatusCode::kUsage, "OPC0704",
                    "it is " + value.desc().toString() + ", the input is " + desc.toString());
    return std::string(value.as<char>(), value.bytes());
  };
  return model;
}

std::string ModelFlags::emitted(Pipeline &pipeline, Emit what) const {
  if (!weightsOut_.empty() && (what == Emit::kGraphText || what == Emit::kGraphBinary)) pipeline.keepConstants();
  return pipeline.emit(what);
}

Status ModelFlags::giveWeights(Invocation &invocation, const Pipeline &pipeline, bool isGraph) const {
  const size_t count = pipeline.values().size();
  if (count && isGraph && weightsOut_.empty())
    invocation.note("note: a graph file holds no weights: those of " + counted(count, "variable") +
                    " are left behind; --weights-out FILE writes them");
  if (weightsOut_.empty()) return Status::ok();
  if (count == 0)
    return usageError("--weights-out: no weights came with " + pipeline.source().name,
                      "it is for ONNX models; the variables of a graph have initializers");
  const auto pages = pagesOf(pipeline.values());
  std::vector<OutsideTensor> tensors;
  for (const auto &[name, value] : pipeline.values())
    tensors.push_back({name, value.desc, [&pages, &value = value](const auto &sink) {
                         Status written;
                         pages.at(value.owner.get())->forEach(value.bytes, [&](std::string_view piece) {
                           written = sink(piece);
                           return written.isOk();
                         });
                         return written;
                       }});
  return writeOutsideTensors(weightsOut_, tensors);
}

} // namespace opc::cli
