// if, loop, batch_parts: ops whose work is graphs of their own, which the plan has in them.
// SPDX-License-Identifier: Apache-2.0
#include "support/FunctionKernel.h"
#include "support/Operator.h"

namespace opc::ops {
namespace {

constexpr char kIfDoc[] =
    "Computes one of two graphs: then_graph where cond is true, else else_graph; of the other one nothing is "
    "computed. Both are texts of graph files whose inputs, in their order, are the tensors of in, and whose outputs are "
    "those of out, of the types in dtypes and shapes. They have no variables. What they need of the graph around them "
    "is among the inputs. A plan has them as plans of their own (docs/plan-format.md).";

constexpr char kLoopDoc[] =
    "Computes a graph turn after turn, as long as cond and the graph's first output are true, and at most turns times. "
    "The graph, the text of a graph file, takes the number of the turn (i64), then the tensors of in: the first, as "
    "many as states says, are what the turn before has left, the next (sequences) are cut along their first axis, an "
    "element for each turn, and the rest is the same in all turns. It makes whether to go on (bool), the states, and "
    "what a turn adds to each of the results of row_dtypes and row_shapes, which have as many elements on their first "
    "axis as there are turns. partial: there may be fewer turns than elements, and those of no turn are zeros. reverse: "
    "turns are numbered from turns - 1 down to 0, and each has the elements of its number. most, unless it is 0: there "
    "are at most so many turns.";

constexpr char kPartsDoc[] =
    "Computes a graph for each of as many equal parts of a batch as parts says, one after the other or at once. The "
    "graph, the text of a graph file, takes a part of each of the first tensors of in, as many as cut says, which are "
    "cut along their first axis, and then the others whole. What it makes are the parts of out, of the types in dtypes "
    "and shapes. The compiler makes it of convolutions and the ops between them, so that what one layer of a sample "
    "hands to the next stays in the cache (docs/code-generation.md). A plan has the graph as a plan of its own "
    "(docs/plan-format.md).";

/// A tensor of one element of a type.
Maybe<void> isOne(InferContext *ctx, const char *arg, DataType type) {
  const TensorDesc &d = ctx->In(arg);
  if (d.data_type() == type && d.shape().elem_cnt() == 1) return Maybe<void>::Ok();
  return Error::ShapeMismatch() << arg << " is " << d.toString() << ", expected one element of " << DataType_Name(type);
}

/// Outputs from `first` on have the types that two attributes list.
Maybe<void> setListed(InferContext *ctx, int32_t first, const char *dtypes, const char *shapes) {
  const auto &types = ctx->Attr<std::vector<DataType>>(dtypes);
  const auto &dims = ctx->Attr<std::vector<Shape>>(shapes);
  const int32_t count = ctx->output_size("out") - first;
  if (types.size() != dims.size() || static_cast<int64_t>(types.size()) != count)
    return Error::ShapeMismatch() << dtypes << " has " << types.size() << " types, " << shapes << " " << dims.size()
                                  << " shapes, and they are for " << count << " outputs";
  for (int32_t k = 0; k < count; ++k)
    ctx->Out("out", first + k) = TensorDesc(dims[static_cast<size_t>(k)], types[static_cast<size_t>(k)]);
  return Maybe<void>::Ok();
}

Maybe<void> inferIf(InferContext *ctx) {
  JUST(isOne(ctx, "cond", kBool));
  return setListed(ctx, 0, "dtypes", "shapes");
}

Maybe<void> inferLoop(InferContext *ctx) {
  JUST(isOne(ctx, "turns", kInt64));
  JUST(isOne(ctx, "cond", kBool));
  const int64_t states = ctx->Attr<int64_t>("states"), sequences = ctx->Attr<int64_t>("sequences");
  const int32_t inputs = ctx->input_size("in"), outputs = ctx->output_size("out");
  if (states < 0 || sequences < 0 || states > inputs || sequences > inputs - states || states > outputs)
    return Error::ShapeMismatch() << "states is " << states << " and sequences " << sequences << " of " << inputs
                                  << " inputs and " << outputs << " outputs";
  if (ctx->Attr<int64_t>("most") < 0)
    return Error::ShapeMismatch() << "most is " << ctx->Attr<int64_t>("most") << ", expected a number of turns";
  for (int32_t k = 0; k < states; ++k) ctx->Out("out", k) = ctx->In("in", k);
  JUST(setListed(ctx, static_cast<int32_t>(states), "row_dtypes", "row_shapes"));
  const auto hasAxis = [](const char *what, int32_t k, const TensorDesc &d) -> Maybe<void> {
    if (d.shape().NumAxes() > 0) return Maybe<void>::Ok();
    return Error::ShapeMismatch() << what << " " << k << " has no axis for the turns";
  };
  for (auto k = static_cast<int32_t>(states); k < states + sequences; ++k) JUST(hasAxis("input", k, ctx->In("in", k)));
  for (auto k = static_cast<int32_t>(states); k < outputs; ++k) JUST(hasAxis("output", k, ctx->Out("out", k)));
  return Maybe<void>::Ok();
}

Maybe<void> inferParts(InferContext *ctx) {
  const int64_t parts = ctx->Attr<int64_t>("parts"), cut = ctx->Attr<int64_t>("cut");
  const int32_t inputs = ctx->input_size("in");
  if (parts < 1 || cut < 1 || cut > inputs)
    return Error::ShapeMismatch() << "parts is " << parts << " and cut " << cut << " of " << inputs
                                  << " inputs, expected a part at least, and that one input at least is cut";
  JUST(setListed(ctx, 0, "dtypes", "shapes"));
  bool isEmpty = true;
  const auto isCut = [&](const char *what, int32_t k, const TensorDesc &d) -> Maybe<void> {
    isEmpty = isEmpty && d.shape().elem_cnt() == 0;
    if (d.shape().NumAxes() > 0 && d.shape().At(0) % parts == 0) return Maybe<void>::Ok();
    return Error::ShapeMismatch() << what << " " << k << " is " << d.toString() << ", and its first axis has no "
                                  << parts << " equal parts";
  };
  for (int32_t k = 0; k < static_cast<int32_t>(cut); ++k) JUST(isCut("input", k, ctx->In("in", k)));
  for (int32_t k = 0; k < ctx->output_size("out"); ++k) JUST(isCut("output", k, ctx->Out("out", k)));
  // Nothing has any number of equal parts, and each of them would be computed.
  if (isEmpty && parts > 1)
    return Error::ShapeMismatch() << "parts is " << parts
                                  << ", and the tensors that are cut have no elements, expected 1";
  return Maybe<void>::Ok();
}

/// A kernel that a plan does not use: it makes one that runs the graphs.
std::unique_ptr<BoundKernel> bindControl(KernelBindContext *ctx) {
  throw ContractError(ctx->op_type_name() + ": its graphs are run by a plan, and not by an op alone");
}

} // namespace

REGISTER_USER_OP("if")
    .Input("cond")
    .OptionalInputWithMinimum("in", 0)
    .OutputWithMinimum("out", 1)
    .RequiredAttr<std::string>("then_graph")
    .RequiredAttr<std::string>("else_graph")
    .RequiredAttr<std::vector<DataType>>("dtypes")
    .RequiredAttr<std::vector<Shape>>("shapes")
    .SetTensorDescInferFn(inferIf)
    .Kernel<FunctionKernel<bindControl>>()
    .Pure()
    .Doc(kIfDoc);

REGISTER_USER_OP("loop")
    .Input("turns")
    .Input("cond")
    .OptionalInputWithMinimum("in", 0)
    .OutputWithMinimum("out", 1)
    .RequiredAttr<std::string>("graph")
    .Attr<int64_t>("states", 0)
    .Attr<int64_t>("sequences", 0)
    .Attr<std::vector<DataType>>("row_dtypes")
    .Attr<std::vector<Shape>>("row_shapes")
    .Attr<bool>("partial", false)
    .Attr<bool>("reverse", false)
    .Attr<int64_t>("most", 0)
    .SetTensorDescInferFn(inferLoop)
    .Kernel<FunctionKernel<bindControl>>()
    .Pure()
    .Doc(kLoopDoc);

REGISTER_USER_OP("batch_parts")
    .InputWithMinimum("in", 1)
    .OutputWithMinimum("out", 1)
    .RequiredAttr<std::string>("graph")
    .RequiredAttr<int64_t>("parts")
    .RequiredAttr<int64_t>("cut")
    .RequiredAttr<std::vector<DataType>>("dtypes")
    .RequiredAttr<std::vector<Shape>>("shapes")
    .SetTensorDescInferFn(inferParts)
    .Kernel<FunctionKernel<bindControl>>()
    .Pure()
    .NoGrad("the compiler makes it after gradients have been generated")
    .Doc(kPartsDoc);

} // namespace opc::ops
