// ONNX's ops that take and put elements by index.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <map>
#include <numeric>

namespace opc::onnx {

namespace {

/// What would be below 0 from the end, too, stays as the model gives it: the op that refuses it says what it is.
Term countedFromEnd(Conversion &c, const Term &indices, const Term &sizes) {
  const Term zero = like(c, indices, 0), fromEnd = c.op("broadcast_add", {indices, sizes});
  const Term isOne = c.op("broadcast_logical_and",
                          {c.op("broadcast_less", {indices, zero}), c.op("broadcast_greater_equal", {fromEnd, zero})});
  return c.op("where", {isOne, fromEnd, indices});
}

} // namespace

Term wrapped(Conversion &c, const Term &indices, int64_t size) {
  return countedFromEnd(c, indices, like(c, indices, static_cast<double>(size)));
}

namespace {

void convertGather(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", 0), x->rank());
  c.out(c.op("gather", {x, wrapped(c, c.in(1), x->dim(axis))}, {{"axis", axis}}));
}

void convertGatherElements(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", 0), x->rank());
  c.out(c.op("dim_gather", {x, wrapped(c, c.in(1), x->dim(axis))}, {{"dim", axis}}));
}

/// Indices [.., depth] into the first dimensions of `shape`, made positive.
Term wrappedRows(Conversion &c, const Term &indices, const Shape &shape) {
  const int64_t depth = indices->dim(-1);
  if (depth > shape.NumAxes())
    c.invalid("indices of " + std::to_string(depth) + " dimensions into a tensor of " +
              std::to_string(shape.NumAxes()));
  const Term sizes = c.constant(std::vector<int64_t>(shape.dim_vec().begin(), shape.dim_vec().begin() + depth),
                                Shape({depth}), indices->type());
  return countedFromEnd(c, indices, sizes);
}

void convertGatherND(Conversion &c) {
  const Term x = c.in(0);
  Term indices = c.in(1);
  const int64_t batch = c.i("batch_dims", 0);
  if (batch < 0 || batch >= indices->rank() || batch > x->rank()) c.invalid("batch_dims is " + std::to_string(batch));
  const Shape inner(DimVector(x->shape().dim_vec().begin() + batch, x->shape().dim_vec().end()));
  indices = wrappedRows(c, indices, inner);
  // The place within the batch stands in front of each index.
  for (int64_t k = batch; k-- > 0;) {
    DimVector dims(static_cast<size_t>(indices->rank()), 1), all = indices->shape().dim_vec();
    dims[static_cast<size_t>(k)] = x->dim(k), all.back() = 1;
    std::vector<int64_t> places(static_cast<size_t>(x->dim(k)));
    std::iota(places.begin(), places.end(), 0);
    const Term place = c.expand(c.constant(places, Shape(dims), indices->type()), Shape(all));
    indices = c.op("cat", {place, indices}, {{"axis", indices->rank() - 1}});
  }
  c.out(c.op("gather_nd", {x, indices}));
}

/// The op that puts elements along an axis.
const char *dimScatterOf(const Conversion &c) {
  static const std::map<std::string, const char *> kOps = {{"none", "dim_scatter_update"},
                                                           {"add", "dim_scatter_add"},
                                                           {"mul", "dim_scatter_mul"},
                                                           {"max", "dim_scatter_max"},
                                                           {"min", "dim_scatter_min"}};
  const std::string reduction = c.s("reduction", "none");
  const auto op = kOps.find(reduction);
  if (op == kOps.end())
    c.invalid("attribute 'reduction' is '" + reduction + "', and must be none, add, mul, max or min");
  return op->second;
}

void convertScatterElements(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", 0), x->rank());
  c.out(c.op(dimScatterOf(c), {x, wrapped(c, c.in(1), x->dim(axis)), c.in(2)}, {{"dim", axis}}));
}

/// Slices of x combined with the updates: the first dimensions of x, which the indices go over, as one.
Term combinedSlices(Conversion &c, const char *op, const Term &x, const Term &indices, const Term &updates) {
  const int64_t depth = indices->dim(-1), count = indices->shape().Count(0, indices->rank() - 1);
  const int64_t slice = x->shape().Count(depth);
  DimVector dims(indices->shape().dim_vec().begin(), indices->shape().dim_vec().end() - 1);
  dims.insert(dims.end(), x->shape().dim_vec().begin() + depth, x->shape().dim_vec().end());
  c.checkShape(2, Shape(dims), "the slices that the indices name");
  std::vector<int64_t> strides;
  for (int64_t k = 0; k < depth; ++k) strides.push_back(x->shape().Count(k + 1, depth));
  const Term steps = c.op(
      "broadcast_mul", {c.reshape(indices, {count, depth}), c.constant(strides, Shape({1, depth}), indices->type())});
  const Term places = c.expand(reduced(c, "reduce_sum", steps, {1}, true), Shape({count, slice}));
  const Term rows = c.reshape(x, {x->shape().Count(0, depth), slice});
  return c.reshape(c.op(op, {rows, places, c.reshape(updates, {count, slice})}, {{"dim", int64_t{0}}}),
                   x->shape().dim_vec());
}

void convertScatterND(Conversion &c) {
  const Term x = c.in(0), indices = wrappedRows(c, c.in(1), x->shape());
  const char *op = dimScatterOf(c);
  const std::string reduction = c.s("reduction", "none");
  if (reduction != "none" && reduction != "add") return c.out(combinedSlices(c, op, x, indices, c.in(2)));
  c.out(c.op(reduction == "add" ? "tensor_scatter_nd_add" : "tensor_scatter_nd_update", {x, c.in(2), indices}));
}

void convertOneHot(Conversion &c) {
  const Term given = c.in(0), values = c.in(2);
  const int64_t depth = c.knownInt(1);
  if (depth < 1 || depth > (1 << 28)) c.invalid("a depth of " + std::to_string(depth));
  const int64_t rank = given->rank() + 1, axis = c.axisOf(c.i("axis", -1), rank);
  if (values->shape().elem_cnt() != 2) c.invalid("its values are off and on: two are wanted");
  // Indices may have any type; numbers with fractions are cut.
  Term indices = wrapped(c, c.cast(given, kInt64), depth);
  DimVector dims = indices->shape().dim_vec(), places(static_cast<size_t>(rank), 1);
  dims.insert(dims.begin() + axis, 1);
  places[static_cast<size_t>(axis)] = depth;
  std::vector<int64_t> counted(static_cast<size_t>(depth));
  std::iota(counted.begin(), counted.end(), 0);
  const Term isOn = c.op("broadcast_equal", {c.reshape(indices, dims), c.constant(counted, Shape(places))});
  const Term flat = c.reshape(values, {2});
  c.out(c.op("where", {isOn, c.reshape(c.slice(flat, 0, 1, 2), {}), c.reshape(c.slice(flat, 0, 0, 1), {})}));
}

void convertReverseSequence(Conversion &c) {
  const Term x = c.in(0), lengths = c.cast(c.in(1), kInt64);
  const int64_t batch = c.axisOf(c.i("batch_axis", 1), x->rank()), time = c.axisOf(c.i("time_axis", 0), x->rank());
  if (batch == time) c.invalid("batch_axis and time_axis are one");
  c.checkShape(1, Shape({x->dim(batch)}), "the sequences");
  // Step t of a sequence of n comes from step n - 1 - t, behind its end from t.
  const int64_t count = x->dim(batch), length = x->dim(time);
  const bool isBatchFirst = batch < time, areNumbers = x->rank() == 2; // a step has one number
  const bool areRows = isBatchFirst || !areNumbers;                    // of the index: sequences, not steps
  std::vector<int64_t> steps(static_cast<size_t>(length));
  std::iota(steps.begin(), steps.end(), 0);
  const Term step = c.constant(steps, Shape(areRows ? DimVector{1, length} : DimVector{length, 1}));
  const Term ends = c.reshape(lengths, areRows ? DimVector{count, 1} : DimVector{1, count});
  const Term back = c.op("broadcast_sub", {c.op("broadcast_sub", {ends, c.scalar(kInt64, 1)}), step});
  const Term from = c.op("where", {c.op("broadcast_less", {step, ends}), back, step});
  if (areNumbers) return c.out(c.op("dim_gather", {x, from}, {{"dim", time}}));
  // What a step has lies together. An index over sequences and steps at once would have numbers of both, which follow
  // from sizes that may be open: sequences come first instead.
  std::vector<int64_t> perm(static_cast<size_t>(x->rank()));
  std::iota(perm.begin(), perm.end(), 0);
  if (!isBatchFirst) std::swap(perm[0], perm[1]);
  c.out(c.transpose(c.op("batch_gather", {c.transpose(x, perm), from}), perm));
}

/// Columns of indices, as many as there are elements that are not 0.
void convertNonZero(Conversion &c) {
  const Term x = c.in(0)->rank() ? c.in(0) : c.reshape(c.in(0), {1});
  const auto made = c.ops("argwhere", {x}, {{"dtype", kInt64}});
  c.out(c.cut(c.transpose(made[0], {1, 0}), 1, made[1]));
}

/// A condition that is shorter than the axis leaves out what is behind it.
void convertCompress(Conversion &c) {
  const bool isFlat = !c.hasAttr("axis");
  const Term x = isFlat ? c.reshape(c.in(0), {c.in(0)->shape().elem_cnt()}) : c.in(0);
  const int64_t axis = isFlat ? 0 : c.axisOf(c.i("axis", 0), x->rank()), size = x->dim(axis);
  Term wanted = c.in(1);
  c.checkType(1, {kBool});
  if (wanted->rank() != 1) c.invalid(c.inputText(1) + " is " + wanted->desc.toString() + ", and must have one axis");
  if (wanted->dim(0) > size) wanted = c.slice(wanted, 0, 0, size);
  const auto made = c.ops("argwhere", {wanted}, {{"dtype", kInt64}});
  const Term places = c.reshape(made[0], {wanted->dim(0)});
  const Term known = made[1]->value ? c.cut(places, 0, made[1]) : places;
  const Term taken = c.op("gather", {x, known}, {{"axis", axis}});
  c.out(made[1]->value ? taken : c.cut(taken, axis, made[1]));
}

} // namespace

void addIndexing(ConverterTable *t) {
  t->add("Gather", convertGather, "gather");
  t->add("GatherElements", convertGatherElements, "dim_gather");
  t->add("GatherND", convertGatherND, "gather_nd");
  t->add("ScatterElements", convertScatterElements,
         "dim_scatter_update, dim_scatter_add, dim_scatter_mul, dim_scatter_max, dim_scatter_min");
  t->add("Scatter", convertScatterElements, "dim_scatter_update");
  t->add("ScatterND", convertScatterND,
         "tensor_scatter_nd_update, tensor_scatter_nd_add, dim_scatter_mul, dim_scatter_max, dim_scatter_min");
  t->add("OneHot", convertOneHot, "broadcast_equal, where", "a depth of the run");
  t->add("ReverseSequence", convertReverseSequence, "transpose, batch_gather; dim_gather");
  t->add("NonZero", convertNonZero, "argwhere, transpose");
  t->add("Compress", convertCompress, "argwhere, gather");
}

} // namespace opc::onnx
