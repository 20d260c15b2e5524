// ONNX's ops of object detection, and others whose results are as many as the values say.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

// NonMaxSuppression ---------------------------------------------------------------------------------------------------

void convertNonMaxSuppression(Conversion &c) {
  const Shape &boxes = c.in(0)->shape(), &scores = c.in(1)->shape();
  if (boxes.NumAxes() != 3 || boxes.At(2) != 4 || scores.NumAxes() != 3 || scores.At(0) != boxes.At(0) ||
      scores.At(2) != boxes.At(1))
    c.invalid("boxes [batch, n, 4] and scores [batch, classes, n] are wanted, not " + boxes.ToString() + " and " +
              scores.ToString());
  const int64_t most = c.has(2) ? c.knownInt(2) : 0;
  const double limit = c.has(3) ? c.knownFloat(3) : 0;
  if (!(limit >= 0 && limit <= 1))
    c.invalid(c.inputText(3) + " is " + std::to_string(limit) + ", and must be from 0 to 1");
  Attrs attrs{{"max_output_boxes_per_class", std::max<int64_t>(most, 0)},
              {"iou_threshold", limit},
              {"center_point_box", c.flag("center_point_box", false)}};
  if (c.has(4)) attrs.insert({{"has_score_threshold", true}, {"score_threshold", c.knownFloat(4)}});
  const auto made = c.ops("non_max_suppression", {c.in(0), c.in(1)}, attrs);
  c.out(c.cut(made[0], 0, made[1]));
}

// Unique --------------------------------------------------------------------------------------------------------------

void convertUnique(Conversion &c) {
  const bool isFlat = !c.hasAttr("axis");
  const Term x = isFlat ? c.reshape(c.in(0), {c.in(0)->shape().elem_cnt()}) : c.in(0);
  const int64_t axis = isFlat ? 0 : c.axisOf(c.i("axis", 0), x->rank());
  std::vector<int64_t> perm{axis};
  for (int64_t k = 0; k < x->rank(); ++k)
    if (k != axis) perm.push_back(k);
  const auto made = c.ops("unique_rows", {c.transpose(x, perm)}, {{"sorted", c.flag("sorted", true)}});
  const Term count = made[3], known = count->value ? c.cut(made[0], 0, count) : made[0];
  const Term taken = c.op("gather", {x, known}, {{"axis", axis}});
  c.out(0, count->value ? taken : c.cut(taken, axis, count));
  c.out(1, c.cut(made[0], 0, count));
  c.out(2, made[1]);
  c.out(3, c.cut(made[2], 0, count));
}

} // namespace

void addDetections(ConverterTable *t) {
  t->add("NonMaxSuppression", convertNonMaxSuppression, "non_max_suppression",
         "thresholds and numbers of boxes of the run");
  t->add("Unique", convertUnique, "unique_rows, gather");
}

} // namespace opc::onnx
