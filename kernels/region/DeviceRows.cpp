// Ops over rows that a GPU computes in regions.
// SPDX-License-Identifier: Apache-2.0
#include "DeviceRows.h"
#include "BuiltIn.h"

#include <algorithm>
#include <string_view>

namespace opc {
namespace {

using Kind = DeviceRowOp::Kind;

/// An op and the names of its arguments, in the order of DeviceRowOp.
struct Known {
  std::string_view type;
  Kind kind;
  std::vector<const char *> inputs, outputs;
};
const std::vector<Known> &knownOps() {
  static const std::vector<Known> ops = {
      {"softmax", Kind::kSoftmax, {"in"}, {"out"}},
      {"log_softmax", Kind::kLogSoftmax, {"in"}, {"prob"}},
      {"softmax_grad", Kind::kSoftmaxGradient, {"y", "dy"}, {"dx"}},
      {"log_softmax_grad", Kind::kLogSoftmaxGradient, {"prob", "dy"}, {"dx"}},
      {"layer_norm", Kind::kNorm, {"x", "gamma", "beta"}, {"y", "mean", "inv_variance"}},
      {"rms_norm", Kind::kNorm, {"x", "weight", ""}, {"y", "", "inv_rms"}},
      {"layer_norm_grad", Kind::kNormGradient, {"dy", "x", "mean", "inv_variance", "gamma", "_add_to_output"}, {"dx"}},
      {"rms_norm_grad", Kind::kNormGradient, {"dy", "x", "", "inv_rms", "weight", ""}, {"dx"}},
      {"sparse_softmax_cross_entropy", Kind::kSparseLoss, {"prediction", "label"}, {"prob", "out"}},
      {"sparse_softmax_cross_entropy_grad", Kind::kSparseLossGradient, {"label", "dy", "prob"}, {"prediction_diff"}},
      {"softmax_cross_entropy", Kind::kDenseLoss, {"prediction", "label"}, {"prob", "out"}},
      {"softmax_cross_entropy_grad", Kind::kDenseLossGradient, {"label", "dy", "prob"}, {"prediction_diff"}},
      {"reduce_sum", Kind::kSum, {"input_tensor"}, {"output_tensor"}},
      {"reduce_mean", Kind::kMean, {"input_tensor"}, {"output_tensor"}},
      {"reduce_nansum", Kind::kNanSum, {"input_tensor"}, {"output_tensor"}},
      {"reduce_prod", Kind::kProduct, {"input_tensor"}, {"output_tensor"}},
      {"reduce_max", Kind::kLargest, {"input_tensor"}, {"output_tensor"}},
      {"reduce_min", Kind::kSmallest, {"input_tensor"}, {"output_tensor"}},
  };
  return ops;
}

/// What code computes in f32.
bool isComputed(DataType type) { return type == kFloat || type == kFloat16 || type == kBFloat16; }

int placeOf(const user_op::ArgList &args, std::string_view name) {
  const auto it = std::find_if(args.begin(), args.end(), [&](const auto &a) { return a.first == name; });
  return it == args.end() ? DeviceRowOp::kNone : static_cast<int>(it - args.begin());
}

/// What norms have of attributes.
void addNorm(const OpInstance &op, DeviceRowOp *found) {
  const bool hasMean = placeOf(op.outputArgs(), "mean") >= 0 || placeOf(op.inputArgs(), "mean") >= 0;
  found->isCentered = hasMean;
  if (found->kind == Kind::kNorm)
    found->epsilon =
        hasMean ? op.wrapper().attr<double>("epsilon") : static_cast<double>(op.wrapper().attr<float>("epsilon"));
  const size_t gamma = found->kind == Kind::kNorm ? 1 : 4;
  for (const size_t role : {gamma, gamma == 1 ? size_t{2} : gamma})
    if (const int at = found->inputs[role]; at >= 0)
      found->period = op.inputDescs()[static_cast<size_t>(at)].shape().elem_cnt();
}

} // namespace

std::optional<DeviceRowOp> deviceRowOp(const OpInstance &op, const user_op::KernelDef &kernel) {
  if (!isBuiltIn(kernel.origin) || !op.shards().empty()) return std::nullopt;
  const auto &ops = knownOps();
  const auto known = std::find_if(ops.begin(), ops.end(), [&](const Known &k) { return k.type == op.def().name; });
  if (known == ops.end()) return std::nullopt;
  const bool isSparse = known->kind == Kind::kSparseLoss || known->kind == Kind::kSparseLossGradient;
  const int label = isSparse ? placeOf(op.inputArgs(), "label") : DeviceRowOp::kNone;
  for (const auto *descs : {&op.inputDescs(), &op.outputDescs()})
    for (const user_op::TensorDesc &d : *descs)
      if (!isComputed(d.data_type()) && !(label >= 0 && &d == &op.inputDescs()[static_cast<size_t>(label)]))
        return std::nullopt;
  DeviceRowOp found;
  found.kind = known->kind;
  for (const char *name : known->inputs) found.inputs.push_back(placeOf(op.inputArgs(), name));
  for (const char *name : known->outputs) found.outputs.push_back(placeOf(op.outputArgs(), name));
  if (found.kind == Kind::kNorm || found.kind == Kind::kNormGradient) addNorm(op, &found);
  return found;
}

std::optional<size_t> checkedIndices(const RegionStep &step) {
  if (!step.rows) return std::nullopt;
  const auto &inputs = step.rows->inputs;
  const auto at = std::find(inputs.begin(), inputs.end(), user_op::RowPart::kIndex);
  if (at == inputs.end()) return std::nullopt;
  return static_cast<size_t>(at - inputs.begin());
}

} // namespace opc
