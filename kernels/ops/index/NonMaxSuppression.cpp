// non_max_suppression: the boxes of each class that no better one covers, in memory for as many as there can be.
// SPDX-License-Identifier: Apache-2.0
#include "index/FoundArguments.h"
#include "support/CudaTask.h"
#include "support/Operator.h"

#include <algorithm>

namespace opc::ops {
namespace {

Maybe<void> infer(InferContext *ctx) {
  const TensorDesc boxes = ctx->In("boxes"), scores = ctx->In("scores");
  for (const char *arg : {"boxes", "scores"})
    if (ctx->In(arg).data_type() != kFloat)
      return Error::TypeError() << arg << " is " << dataTypeName(ctx->In(arg).data_type()) << ", it should be f32";
  const Shape &b = boxes.shape(), &s = scores.shape();
  if (b.NumAxes() != 3 || s.NumAxes() != 3 || b.At(2) != 4 || s.At(0) != b.At(0) || s.At(2) != b.At(1))
    return (Error::ShapeMismatch() << "boxes is " << b.ToString() << ", scores is " << s.ToString())
        .help("boxes are [batch, n, 4] and scores [batch, classes, n]");
  const int64_t most = ctx->Attr<int64_t>("max_output_boxes_per_class");
  const float overlap = ctx->Attr<float>("iou_threshold");
  if (most < 0) return Error("OPC0205") << "max_output_boxes_per_class is " << most << ", it should be 0 or more";
  if (!(overlap >= 0 && overlap <= 1))
    return Error("OPC0205") << "iou_threshold is " << overlap << ", it should be from 0 to 1";
  ctx->Out("output") = TensorDesc(Shape({s.At(0) * s.At(1) * std::min(most, s.At(2)), 3}), kInt64);
  return setOut(ctx, "output_size", TensorDesc(Shape({1}), kInt64));
}

struct Box {
  float y1, x1, y2, x2;
  float area() const { return (y2 - y1) * (x2 - x1); }
};

/// Two corners in any order, or a centre, a width and a height.
Box boxOf(const float *v, bool isCentre) {
  if (isCentre) return {v[1] - v[3] / 2, v[0] - v[2] / 2, v[1] + v[3] / 2, v[0] + v[2] / 2};
  return {std::min(v[0], v[2]), std::min(v[1], v[3]), std::max(v[0], v[2]), std::max(v[1], v[3])};
}

/// The share that two boxes have of what they cover together.
float overlap(const Box &a, const Box &b) {
  const float height = std::min(a.y2, b.y2) - std::max(a.y1, b.y1), width = std::min(a.x2, b.x2) - std::max(a.x1, b.x1);
  if (!(height > 0 && width > 0 && a.area() > 0 && b.area() > 0)) return 0;
  const float both = height * width;
  return both / (a.area() + b.area() - both);
}

/// Puts the boxes that list `list` keeps to its part of `kept`: the best first, of equal ones the first.
void choose(const SuppressionArguments &a, int64_t list, int64_t *order) {
  const float *boxes = a.boxes + list / a.classes * a.n * 4, *scores = a.scores + list * a.n;
  int64_t candidates = 0, chosen = 0, *kept = a.kept + list * a.most;
  for (int64_t i = 0; i < a.n; ++i)
    if (a.hasLeast ? scores[i] > a.least : scores[i] == scores[i]) order[candidates++] = i;
  std::sort(order, order + candidates,
            [&](int64_t i, int64_t j) { return scores[i] > scores[j] || (scores[i] == scores[j] && i < j); });
  for (int64_t k = 0; k < candidates && chosen < a.most; ++k) {
    const Box box = boxOf(boxes + order[k] * 4, a.isCentre != 0);
    bool isCovered = false;
    for (int64_t c = 0; c < chosen && !isCovered; ++c)
      isCovered = overlap(boxOf(boxes + kept[c] * 4, a.isCentre != 0), box) > a.overlap;
    if (!isCovered) kept[chosen++] = order[k];
  }
  a.counts[list] = chosen;
}

/// The lists one behind another, each box with its batch and class.
void join(const SuppressionArguments &a) {
  int64_t *to = a.out;
  for (int64_t list = 0; list < a.lists; ++list)
    for (int64_t k = 0; k < a.counts[list]; ++k, to += 3) {
      to[0] = list / a.classes;
      to[1] = list % a.classes;
      to[2] = a.kept[list * a.most + k];
    }
  *a.count = (to - a.out) / 3;
  std::fill(to, a.out + a.lists * a.most * 3, int64_t{0});
}

/// The lists, their lengths, and room to put them in order.
size_t workspace(InferContext *ctx) {
  const Shape &s = ctx->In("scores").shape();
  const int64_t lists = s.At(0) * s.At(1), most = std::min(ctx->Attr<int64_t>("max_output_boxes_per_class"), s.At(2));
  return static_cast<size_t>(lists * (most + 1 + s.At(2))) * sizeof(int64_t);
}

template <class T> class SuppressionKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Shape &s = ctx->In("scores").shape();
    SuppressionArguments a{};
    a.boxes = ctx->In("boxes").dptr<T>();
    a.scores = ctx->In("scores").dptr<T>();
    a.out = ctx->Out("output").mut_dptr<int64_t>();
    a.count = ctx->Out("output_size").mut_dptr<int64_t>();
    a.lists = s.At(0) * s.At(1);
    a.classes = s.At(1);
    a.n = s.At(2);
    a.most = std::min(ctx->Attr<int64_t>("max_output_boxes_per_class"), a.n);
    a.overlap = ctx->Attr<float>("iou_threshold");
    a.least = ctx->Attr<float>("score_threshold");
    a.hasLeast = ctx->Attr<bool>("has_score_threshold");
    a.isCentre = ctx->Attr<bool>("center_point_box");
    a.kept = ctx->Tmp<int64_t>();
    a.counts = a.kept + a.lists * a.most;
    int64_t *orders = a.counts + a.lists;
    if (!isOnGpu(ctx))
      return bindTask([=](DeviceCtx *dev) {
        dev->parallelFor(a.lists, 1, [&](int64_t begin, int64_t end) {
          for (int64_t list = begin; list < end; ++list) choose(a, list, orders + list * a.n);
        });
        join(a);
      });
    cuda::CudaLaunch &device = cuda::CudaLaunch::of(ctx->device_ctx());
    const cuda::CudaFunction each = device.function("suppress_boxes"), all = device.function("join_boxes");
    return bindTask([=](DeviceCtx *dev) {
      cuda::CudaLaunch &gpu = cuda::CudaLaunch::of(dev);
      gpu.run(each, cuda::gridOf(a.lists), {cuda::kBlock, 1, 1}, 0, a, orders);
      gpu.run(all, {1, 1, 1}, {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

Case sample(const char *name, int64_t batch, int64_t classes, int64_t n, int64_t most) {
  return Case(name)
      .In("boxes", {batch, n, 4}, 0, 4)
      .In("scores", {batch, classes, n}, 0, 1)
      .Attr<int64_t>("max_output_boxes_per_class", most)
      .Attr("iou_threshold", 0.3f);
}

REGISTER_USER_OP("non_max_suppression")
    .With(TensorArgs{{"boxes", "scores"}, {"output", "output_size"}})
    .RequiredAttr<int64_t>("max_output_boxes_per_class")
    .Attr<float>("iou_threshold", 0.0f)
    .Attr<float>("score_threshold", 0.0f)
    .Attr<bool>("has_score_threshold", false)
    .Attr<bool>("center_point_box", false)
    .With(rules(infer, ". . ., . . . -> . ., ."))
    .NoGrad("the places of boxes are not differentiable")
    .Doc(
        "Of boxes [batch, n, 4] (two corners y, x, y, x in any order, or with center_point_box x, y, width, height) and "
        "scores [batch, classes, n] output has rows [batch, class, box] of the boxes that are kept, class by class with the "
        "best first: at most max_output_boxes_per_class, with scores above score_threshold where it is asked for, none "
        "of which has more than iou_threshold of its union with a better one. A score of NaN keeps no box. output_size says "
        "how many rows these are, and the rows behind them are 0.")
    .Cases({sample("one", 1, 1, 12, 5),
            sample("classes", 2, 3, 40, 7).Attr("has_score_threshold", true).Attr("score_threshold", 0.25f),
            sample("centres", 1, 2, 300, 300).Attr("center_point_box", true), sample("none", 1, 2, 6, 0)})
    .With(onCpuAndGpu<SuppressionKernel, types::Of<float>>("scores", KernelOptions().TmpSize(workspace)));

} // namespace
} // namespace opc::ops
