// ONNX's normalisations, softmax among them.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <numeric>

namespace opc::onnx {
namespace {

/// f(x with `axis` last). Before operator set 13 all axes from `axis` on are one.
template <class F> Term overAxis(Conversion &c, const Term &x, F f) {
  if (x->rank() == 0) return c.reshape(f(c.reshape(x, {1})), {});
  const int64_t axis = c.version < 13 && c.i("axis", 1) == x->rank()
                           ? x->rank()
                           : c.axisOf(c.i("axis", c.version < 13 ? 1 : -1), x->rank());
  if (c.version < 13)
    return c.reshape(f(c.reshape(x, {x->shape().Count(0, axis), x->shape().Count(axis)})), x->shape().dim_vec());
  return c.fromLast(f(c.toLast(x, axis)), axis);
}

void convertHardmax(Conversion &c) {
  c.out(overAxis(c, c.in(0), [&](const Term &x) {
    std::vector<int64_t> places(static_cast<size_t>(x->dim(-1)));
    std::iota(places.begin(), places.end(), 0);
    const Term first = c.cast(c.op("argmax", {x}), kInt64);
    DimVector dims = x->shape().dim_vec();
    dims.back() = 1;
    const Term isFirst = c.op("broadcast_equal", {c.reshape(first, dims), c.constant(places, Shape({x->dim(-1)}))});
    return c.cast(isFirst, x->type());
  }));
}

/// Whether the statistics are the batch's. Before operator set 14 the number of outputs says so, which exporters write
/// for that alone: nothing reads four of them.
bool isTraining(const Conversion &c) {
  bool hasStatistics = false;
  for (int k = 1; k < c.node.output_size(); ++k) hasStatistics |= c.wants(k);
  if (c.version >= 14) {
    const bool mode = c.flag("training_mode", false);
    if (hasStatistics && !mode) c.invalid("its statistics are outputs in training mode alone");
    return mode;
  }
  if (!hasStatistics) return false;
  if (c.node.output_size() != 5)
    c.invalid("it has " + std::to_string(c.node.output_size()) +
              " outputs: before operator set 14 it has one, and five in training mode");
  if (c.version < 7 && c.flag("is_test", false))
    c.invalid("its statistics are outputs in training mode alone, and attribute 'is_test' is 1");
  return true;
}

bool isHalf(DataType type) { return type == kFloat16 || type == kBFloat16; }

void convertBatchNorm(Conversion &c) {
  const Term given = c.in(0);
  if (given->rank() < 1) c.invalid("channels are axis 1, and the input is a number");
  const DataType type = given->type();
  Term x = given->rank() == 1 ? c.reshape(given, {given->dim(0), 1}) : given; // then there is one channel
  const double epsilon = c.f("epsilon", 1e-5f), momentum = c.f("momentum", 0.9f);
  const bool isSpatial = c.version >= 9 || c.flag("spatial", true);
  // Statistics of half precision's numbers may be of f32, whose range half precision does not have.
  const auto as = [&](size_t k) {
    return c.in(k)->type() == x->type() ? c.in(k) : c.cast(c.in(k), isHalf(x->type()) ? kFloat : x->type());
  };
  const auto made = [&](const Term &y) { c.out(0, c.cast(c.reshape(y, given->shape().dim_vec()), type)); };
  // Shape of the statistics, and of them beside x. Without `spatial` each place has its own.
  const DimVector own =
      isSpatial ? DimVector{x->dim(1)} : DimVector(x->shape().dim_vec().begin() + 1, x->shape().dim_vec().end());
  DimVector beside(static_cast<size_t>(x->rank()), 1);
  std::copy(own.begin(), own.end(), beside.begin() + 1);
  for (size_t k = 1; k < 5 && !isSpatial; ++k) c.checkShape(k, Shape(own), "the places of one sample");
  const bool isOfBatch = isTraining(c);
  if (isSpatial && !isOfBatch)
    return made(c.op("normalization", {x, as(3), as(4), as(1), as(2)}, {{"axis", int64_t{1}}, {"epsilon", epsilon}}));
  if (isHalf(type)) x = c.cast(x, kFloat); // several ops, whose results in between are of f32
  std::vector<int64_t> axes{0};
  for (int64_t k = 2; k < x->rank() && isSpatial; ++k) axes.push_back(k);
  const Term mean = isOfBatch ? reduced(c, "reduce_mean", x, axes, true) : c.reshape(as(3), beside);
  const Term centred = c.op("broadcast_sub", {x, mean});
  const Term variance =
      isOfBatch ? reduced(c, "reduce_mean", c.op("square", {centred}), axes, true) : c.reshape(as(4), beside);
  const Term inverse = c.op("rsqrt", {c.plus(variance, epsilon)});
  const Term scale = c.op("broadcast_mul", {inverse, c.reshape(as(1), beside)});
  made(c.op("broadcast_add", {c.op("broadcast_mul", {centred, scale}), c.reshape(as(2), beside)}));
  const auto running = [&](size_t k, const Term &now) {
    const DataType in = isHalf(c.in(k)->type()) ? kFloat : c.in(k)->type();
    const Term old = c.cast(c.in(k), in), share = c.cast(c.reshape(now, own), in);
    return c.cast(c.op("broadcast_add", {c.scaled(old, momentum), c.scaled(share, 1 - momentum)}), c.in(k)->type());
  };
  if (c.wants(1)) c.out(1, running(3, mean));
  if (c.wants(2)) c.out(2, running(4, variance));
  // What a gradient reads, which is the inverse of the deviation.
  if (c.wants(3)) c.out(3, c.cast(c.reshape(mean, own), type));
  if (c.wants(4)) c.out(4, c.cast(c.reshape(inverse, own), type));
}

void convertInstanceNorm(Conversion &c) {
  const Term x = c.in(0);
  c.out(c.ops("group_norm", {x, c.in(2), c.in(1)},
              {{"affine", true}, {"num_groups", x->dim(1)}, {"epsilon", c.f("epsilon", 1e-5f)}})[0]);
}

void convertGroupNorm(Conversion &c) {
  const Term x = c.in(0);
  const int64_t groups = c.required("num_groups");
  if (x->rank() < 2 || groups < 1 || x->dim(1) % groups)
    c.invalid(std::to_string(groups) + " groups of " + x->shape().ToString());
  const auto ofChannels = [&](const Term &t) {
    if (t->dim(0) == x->dim(1)) return t;
    // One number a group, in operator sets 18 to 20.
    return c.reshape(c.expand(c.reshape(t, {groups, 1}), Shape({groups, x->dim(1) / groups})), {x->dim(1)});
  };
  c.out(c.ops("group_norm", {x, ofChannels(c.in(2)), ofChannels(c.in(1))},
              {{"affine", true}, {"num_groups", groups}, {"epsilon", c.f("epsilon", 1e-5f)}})[0]);
}

void convertLayerNorm(Conversion &c) {
  const DataType type = c.in(0)->type();
  Term x = c.in(0), scale = c.in(1), bias = c.maybe(2);
  const int64_t axis = c.axisOf(c.i("axis", -1), x->rank());
  const double epsilon = c.f("epsilon", 1e-5f);
  const DimVector inner(x->shape().dim_vec().begin() + axis, x->shape().dim_vec().end());
  c.checkStretches(1, x->shape());
  if (bias) c.checkStretches(2, x->shape());
  const bool isPlain = scale->shape().dim_vec() == inner && (!bias || bias->shape().dim_vec() == inner);
  if (!isPlain && isHalf(type)) {
    x = c.cast(x, kFloat), scale = c.cast(scale, kFloat);
    if (bias) bias = c.cast(bias, kFloat);
  }
  std::vector<Term> made;
  const Attrs attrs{{"center", isPlain && bias != nullptr},
                    {"scale", isPlain},
                    {"begin_norm_axis", axis},
                    {"begin_params_axis", axis},
                    {"epsilon", epsilon}};
  made = c.ops("layer_norm", isPlain ? std::vector<Term>{x, bias, scale} : std::vector<Term>{x}, attrs);
  Term y = made[0];
  if (!isPlain) {
    y = c.op("broadcast_mul", {y, scale});
    if (bias) y = c.op("broadcast_add", {y, bias});
  }
  c.out(0, c.cast(y, type));
  DimVector dims = x->shape().dim_vec();
  for (size_t k = static_cast<size_t>(axis); k < dims.size(); ++k) dims[k] = 1;
  if (c.wants(1)) c.out(1, c.reshape(made[1], dims));
  if (c.wants(2)) c.out(2, c.reshape(made[2], dims));
}

void convertRmsNorm(Conversion &c) {
  const Term x = c.in(0), scale = c.in(1);
  const int64_t axis = c.axisOf(c.i("axis", -1), x->rank());
  const DimVector inner(x->shape().dim_vec().begin() + axis, x->shape().dim_vec().end());
  c.checkStretches(1, x->shape());
  const Attrs attrs{{"normalized_shape", Shape(inner)}, {"epsilon", c.f("epsilon", 1e-5f)}};
  if (scale->shape().dim_vec() == inner && scale->type() == x->type())
    return c.out(c.ops("rms_norm", {x, scale}, attrs)[0]);
  const DataType in = isHalf(x->type()) ? kFloat : x->type();
  const Term y = c.ops("rms_norm", {c.cast(x, in)}, attrs)[0];
  c.out(c.cast(c.op("broadcast_mul", {y, c.cast(scale, in)}), scale->type())); // which is that of the result
}

void convertLrn(Conversion &c) {
  const Term x = c.in(0);
  const int64_t size = c.required("size"), channels = x->dim(1);
  if (size < 1 || x->rank() < 2) c.invalid("a size of " + std::to_string(size));
  // The sum over neighbouring channels as a pooling of [n, 1, channels, rest].
  const int64_t n = x->dim(0), rest = x->shape().Count(2);
  const Term square = c.reshape(c.op("square", {x}), {n, 1, channels, rest});
  const Term filled =
      padded(c, square, {0, 0, (size - 1) / 2, 0}, {0, 0, size - 1 - (size - 1) / 2, 0}, "constant", nullptr);
  const Term sum = c.op("avg_pool_2d", {filled},
                        {{"kernel_size", std::vector<int64_t>{size, 1}},
                         {"stride", std::vector<int64_t>{1, 1}},
                         {"divisor_override", int64_t{1}},
                         {"padding", std::vector<int64_t>{0, 0}}});
  const Term base = c.plus(
      c.scaled(c.reshape(sum, x->shape().dim_vec()), c.f("alpha", 1e-4f) / static_cast<double>(size)), c.f("bias", 1));
  c.out(c.op("broadcast_div", {x, c.op("broadcast_pow", {base, like(c, x, c.f("beta", 0.75f))})}));
}

void convertLpNorm(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", -1), x->rank()), p = c.i("p", 2);
  const Term sum = reduced(c, "reduce_sum", c.op(p == 1 ? "abs" : "square", {x}), {axis}, true);
  const Term norm = p == 1 ? sum : c.op("sqrt", {sum});
  // Of nothing but zeros 0: operator set 22 says so, and ONNX Runtime does it in all of them.
  c.out(
      c.op("where", {c.op("broadcast_equal", {norm, like(c, x, 0)}), like(c, x, 0), c.op("broadcast_div", {x, norm})}));
}

void convertMeanVariance(Conversion &c) {
  const Term x = c.in(0);
  const auto axes = c.axesOf(c.ints("axes", {0, 2, 3}), x->rank());
  const Term centred = c.op("broadcast_sub", {x, reduced(c, "reduce_mean", x, axes, true)});
  const Term deviation = c.op("sqrt", {reduced(c, "reduce_mean", c.op("square", {centred}), axes, true)});
  c.out(c.op("broadcast_div", {centred, c.plus(deviation, 1e-9)}));
}

} // namespace

void addNormalizations(ConverterTable *t) {
  for (auto [op, to] : std::initializer_list<std::pair<const char *, const char *>>{{"Softmax", "softmax"},
                                                                                    {"LogSoftmax", "log_softmax"}})
    t->add(
        op,
        [to = std::string(to)](Conversion &c) {
          c.out(overAxis(c, c.in(0), [&](const Term &x) { return c.op(to, {x}); }));
        },
        std::string(to) + ", transpose");
  t->add("Hardmax", convertHardmax, "argmax, broadcast_equal");
  t->add("BatchNormalization", convertBatchNorm, "normalization; reductions in training mode");
  t->add("InstanceNormalization", convertInstanceNorm, "group_norm");
  t->add("GroupNormalization", convertGroupNorm, "group_norm");
  t->add("LayerNormalization", convertLayerNorm, "layer_norm");
  t->add("RMSNormalization", convertRmsNorm, "rms_norm");
  t->add("LRN", convertLrn, "square, pad, avg_pool_2d, broadcast_pow");
  t->add("LpNormalization", convertLpNorm, "abs, square, reduce_sum, broadcast_div, where");
  t->add("MeanVarianceNormalization", convertMeanVariance, "reduce_mean, square, sqrt, broadcast_div");
}

} // namespace opc::onnx
