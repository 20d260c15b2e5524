// Shapes and element types of an operator's outputs, as its manifest says them.
// SPDX-License-Identifier: Apache-2.0
#include "ManifestRules.h"

#include "AttrWire.h"
#include "SizeFormula.h"

#include <algorithm>

namespace opc::python {

using manifest::OutputRule;
using user_op::InferContext;
using user_op::TensorDesc;

namespace {

Result<Shape> commonShape(const OutputRule &rule, const InferContext &ctx) {
  DimVector dims;
  for (const std::string &arg : rule.broadcast())
    for (int32_t i = 0; i < ctx.input_size(arg); ++i) {
      const Shape &shape = ctx.In(arg, i).shape();
      const DimVector &more = shape.dim_vec();
      if (more.size() > dims.size()) dims.insert(dims.begin(), more.size() - dims.size(), 1);
      for (size_t k = 0; k < more.size(); ++k) {
        int64_t &d = dims[dims.size() - more.size() + k];
        if (d != 1 && more[k] != 1 && d != more[k])
          return Status(StatusCode::kInvalidGraph, "OPC0203",
                        "input '" + arg + "' is " + shape.ToString() + ", which does not broadcast with " +
                            Shape(dims).ToString());
        if (d == 1) d = more[k];
      }
    }
  return Shape(dims);
}

Result<Shape> formulaShape(const OutputRule &rule, const InferContext &ctx) {
  FormulaNames names;
  names.size = [&](const std::string &arg, int64_t axis) -> Result<int64_t> {
    if (ctx.input_size(arg) == 0)
      return Status(StatusCode::kInvalidGraph, "OPC0203", "a size needs the input '" + arg + "', which is absent");
    const Shape &shape = ctx.In(arg).shape();
    const int64_t at = axis < 0 ? axis + shape.NumAxes() : axis;
    if (at < 0 || at >= shape.NumAxes())
      return Status(StatusCode::kInvalidGraph, "OPC0203",
                    "a size needs " + arg + "[" + std::to_string(axis) + "], and '" + arg + "' is " + shape.ToString());
    return shape.At(at);
  };
  names.attr = [&](const std::string &name) -> Result<int64_t> {
    const auto &attrs = ctx.user_op_conf().conf().attrs;
    const auto it = attrs.find(name);
    if (it != attrs.end()) {
      if (const auto *v = it->second.get<int64_t>()) return *v;
      if (const auto *v = it->second.get<int32_t>()) return int64_t{*v};
    }
    return Status(StatusCode::kInvalidGraph, "OPC0920", "a size needs '" + name + "', which is no integer attribute");
  };
  DimVector dims;
  for (const std::string &text : rule.dim()) {
    OPC_ASSIGN_OR_RETURN(const int64_t size, evaluateFormula(text, names));
    if (size < 0)
      return Status(StatusCode::kInvalidGraph, "OPC0203", "the size '" + text + "' is " + std::to_string(size))
          .withHelp(text.find('[') == std::string::npos ? "sizes are 0 or more: give the attribute another value"
                                                        : "the inputs are too small for the op");
    dims.push_back(size);
  }
  return Shape(dims);
}

/// `index`: among the tensors of a variadic output, which follow those of the input that they are like.
Result<TensorDesc> descOf(const OutputRule &rule, int32_t index, const InferContext &ctx) {
  TensorDesc desc;
  if (!rule.like().empty()) {
    if (ctx.input_size(rule.like()) == 0)
      return Status(StatusCode::kInvalidGraph, "OPC0203",
                    "the output is like the input '" + rule.like() + "', which is absent");
    desc = ctx.In(rule.like(), std::min(index, ctx.input_size(rule.like()) - 1));
  } else if (rule.broadcast_size() > 0) {
    OPC_ASSIGN_OR_RETURN(*desc.mut_shape(), commonShape(rule, ctx));
    desc.set_data_type(ctx.In(rule.broadcast(0)).data_type());
  } else if (!rule.shape_attr().empty()) {
    desc.set_shape(ctx.Attr<Shape>(rule.shape_attr()));
  } else {
    OPC_ASSIGN_OR_RETURN(*desc.mut_shape(), formulaShape(rule, ctx));
    if (!ctx.inputs().empty()) desc.set_data_type(ctx.In(ctx.inputs()[0].first, ctx.inputs()[0].second).data_type());
  }
  if (rule.has_data_type()) desc.set_data_type(static_cast<DataType>(rule.data_type()));
  if (!rule.data_type_of().empty()) desc.set_data_type(ctx.In(rule.data_type_of()).data_type());
  if (!rule.type_attr().empty()) desc.set_data_type(ctx.Attr<DataType>(rule.type_attr()));
  return desc;
}

TensorDesc fromSpec(const manifest::Spec &spec) {
  return {Shape(DimVector(spec.dim().begin(), spec.dim().end())), static_cast<DataType>(spec.data_type())};
}

bool isRecordOf(const manifest::PythonOp &op, const manifest::RecordedInference &record, const InferContext &ctx) {
  const auto &inputs = ctx.inputs();
  if (static_cast<size_t>(record.input_size()) != inputs.size() ||
      static_cast<size_t>(record.output_size()) != ctx.outputs().size())
    return false;
  for (int i = 0; i < std::min(record.count_size(), op.input_size()); ++i)
    if (record.count(i) != ctx.input_size(op.input(i).name())) return false;
  for (size_t i = 0; i < inputs.size(); ++i)
    if (fromSpec(record.input(static_cast<int>(i))) != ctx.In(inputs[i].first, inputs[i].second)) return false;
  const auto &attrs = ctx.user_op_conf().conf().attrs;
  return std::all_of(record.attr().begin(), record.attr().end(), [&](const auto &entry) {
    const auto it = attrs.find(entry.key());
    return it != attrs.end() && it->second == wire::fromProto(entry.value());
  });
}

Status inferByPython(const manifest::PythonOp &op, const OpCode &code, InferContext *ctx) {
  for (const auto &record : op.recorded()) {
    if (!isRecordOf(op, record, *ctx)) continue;
    for (size_t i = 0; i < ctx->outputs().size(); ++i)
      ctx->Out(ctx->outputs()[i].first, ctx->outputs()[i].second) = fromSpec(record.output(static_cast<int>(i)));
    return Status::ok();
  }
  if (!hasKernelHost() && op.name().starts_with("oneflow::"))
    return Status(StatusCode::kUnsupported, "OPC0921",
                  "the manifest has no answer of '" + op.name() +
                      "' for these inputs: its shape rule is the C++ definition "
                      "of its directory")
        .withHelp("make the graph with these shapes in Python, where the directory is built, and save it");
  if (!hasKernelHost())
    return Status(StatusCode::kUnsupported, "OPC0921",
                  "the shape rule of '" + op.name() + "' is Python, and the manifest has no answer for these inputs")
        .withHelp("name the folder of its source with --op-path DIR, or give the op a rule that needs no Python "
                  "(like=, shape=)");
  OPC_ASSIGN_OR_RETURN(KernelHost * host, kernelHost(op.name()));
  return host->infer(code, ctx);
}

} // namespace

user_op::TensorDescInferFn inferenceRule(const std::shared_ptr<const manifest::PythonOp> &op,
                                         const std::shared_ptr<const OpCode> &code) {
  return user_op::detail::guardRule(user_op::TensorDescInferFn([op, code](InferContext *ctx) -> Maybe<void> {
    if (op->output_size() == 0 && !op->refuses_by_python()) return Maybe<void>::Ok(); // there is nothing to say
    if (op->infer_size() == 0) return inferByPython(*op, *code, ctx);
    for (const auto &[arg, index] : ctx->outputs()) {
      int at = 0;
      while (op->output(at).name() != arg) ++at;
      Result<TensorDesc> desc = descOf(op->infer(at), index, *ctx);
      if (!desc) return desc.status();
      ctx->Out(arg, index) = *desc;
    }
    return Maybe<void>::Ok();
  }));
}

} // namespace opc::python
