// ONNX's losses.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <numeric>

namespace opc::onnx {
namespace {

std::vector<int64_t> allAxes(const Term &x) {
  std::vector<int64_t> axes(static_cast<size_t>(x->rank()));
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// -weight[target] * logs[target], reduced. Classes are axis 1 of `logs`, ignored targets count nothing.
Term likelihood(Conversion &c, const Term &logs, const Term &target, const Term &weight) {
  if (logs->rank() < 2 || target->rank() + 1 != logs->rank())
    c.invalid("classes are axis 1, and the target lacks it: " + logs->shape().ToString() + " and " +
              target->shape().ToString());
  const std::string reduction = c.s("reduction", "mean");
  const DataType type = logs->type();
  if (weight && weight->shape() != Shape({logs->dim(1)}))
    c.invalid("weights of " + weight->shape().ToString() + " for " + std::to_string(logs->dim(1)) + " classes");
  DimVector places = target->shape().dim_vec();
  places.insert(places.begin() + 1, 1);
  Term index = c.cast(target, kInt64), counts = c.expand(c.scalar(type, 1), target->shape());
  if (c.hasAttr("ignore_index")) {
    const Term isIgnored = c.op("broadcast_equal", {index, c.constant({c.i("ignore_index", 0)}, Shape())});
    counts = c.op("where", {isIgnored, c.scalar(type, 0), c.scalar(type, 1)});
    index = c.op("where", {isIgnored, c.scalar(kInt64, 0), index});
  }
  if (weight)
    counts = c.op("broadcast_mul", {counts, c.op("gather", {c.cast(weight, type), index}, {{"axis", int64_t{0}}})});
  const Term chosen =
      c.reshape(c.op("dim_gather", {logs, c.reshape(index, places)}, {{"dim", int64_t{1}}}), target->shape().dim_vec());
  // Where nothing counts the logarithm may be infinite: it is left out, not multiplied by 0.
  const Term isCounted = c.op("broadcast_not_equal", {counts, c.scalar(type, 0)});
  const Term loss =
      c.op("where", {isCounted, c.op("negative", {c.op("broadcast_mul", {chosen, counts})}), c.scalar(type, 0)});
  if (reduction == "none") return loss;
  const Term sum = reduced(c, "reduce_sum", loss, allAxes(loss), false);
  return reduction == "sum" ? sum
                            : c.op("broadcast_div", {sum, reduced(c, "reduce_sum", counts, allAxes(counts), false)});
}

void convertSoftmaxLoss(Conversion &c) {
  const Term x = c.in(0);
  if (x->rank() < 2) c.invalid("classes are axis 1 of the scores");
  const Term logs = c.fromLast(c.op("log_softmax", {c.toLast(x, 1)}), 1);
  c.out(0, likelihood(c, logs, c.in(1), c.maybe(2)));
  if (c.wants(1)) c.out(1, logs);
}

} // namespace

void addLosses(ConverterTable *t) {
  t->add(
      "NegativeLogLikelihoodLoss", [](Conversion &c) { c.out(likelihood(c, c.in(0), c.in(1), c.maybe(2))); },
      "dim_gather, where, reduce_sum");
  t->add("SoftmaxCrossEntropyLoss", convertSoftmaxLoss, "log_softmax, dim_gather, where, reduce_sum");
}

} // namespace opc::onnx
