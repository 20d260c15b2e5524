// Gathers, scatters, sums of segments and one-hot codes as ONNX.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxEmitters.h"

#include <numeric>

namespace opc::onnx_export {
namespace {

int64_t axisOf(int64_t axis, int64_t rank) { return axis < 0 ? axis + rank : axis; }

Wire scatter(Emission &e, const Wire &onto, const Wire &indices, const Wire &values, int64_t axis,
             const char *reduction = "none") {
  NodeAttrs attrs = {{"axis", axis}};
  if (std::string(reduction) != "none") attrs.insert({"reduction", reduction});
  return e.node("ScatterElements", {onto, indices, values}, attrs, onto.type, onto.shape);
}

Wire scatterNd(Emission &e, const Wire &onto, const Wire &indices, const Wire &values, bool adds) {
  NodeAttrs attrs;
  if (adds) attrs.insert({"reduction", "add"});
  return e.node("ScatterND", {onto, indices, values}, attrs, onto.type, onto.shape);
}

Wire zeros(Emission &e, const Wire &like, const Shape &shape) { return e.filled(like.type, shape, 0); }

void convertGather(Emission &e) {
  const Wire x = e.in("in");
  e.out(e.gather(x, e.indices("indices"), axisOf(e.i("axis"), x.rank())));
}

void convertBatchGather(Emission &e) {
  const Wire x = e.in("in"), indices = e.indices("indices");
  std::vector<int64_t> dims(indices.shape.begin(), indices.shape.end()), full = dims;
  for (int64_t k = indices.rank(); k < x.rank(); ++k) dims.push_back(1), full.push_back(x.dim(k));
  const Wire at = e.expand(e.reshape(indices, dims), Shape(full.data(), static_cast<int64_t>(full.size())));
  e.out(e.node("GatherElements", {x, at}, {{"axis", indices.rank() - 1}}, x.type, at.shape));
}

void convertDimGather(Emission &e) {
  const Wire x = e.in("input"), index = e.indices("index");
  e.out(e.node("GatherElements", {x, index}, {{"axis", axisOf(e.i("dim"), x.rank())}}, x.type, index.shape));
}

void convertGatherNd(Emission &e) {
  const Wire x = e.in("params");
  e.out(e.node("GatherND", {x, e.indices("indices")}, {}, x.type, e.madeFirst().shape()));
}

/// The part of src that the index covers.
Wire covered(Emission &e, Wire src, const Shape &shape) {
  for (int64_t k = 0; k < src.rank(); ++k) src = e.slice(src, k, 0, shape.At(k));
  return src;
}

void convertDimScatter(Emission &e, const char *reduction) {
  const Wire index = e.indices("index"), src = covered(e, e.in("src"), index.shape);
  const Wire onto = e.has("input") ? e.in("input") : zeros(e, src, e.madeFirst().shape());
  e.out(scatter(e, onto, index, src, axisOf(e.i("dim"), onto.rank()), reduction));
}

void convertDimScatterChoice(Emission &e, const char *reduction) {
  e.need(18, "reductions max and min of ScatterElements");
  convertDimScatter(e, reduction);
}

/// 0, 1, 2, ... in the shape of the writes: of several to one place the last one's number stays.
Wire numbered(Emission &e, const Shape &shape) {
  std::vector<int64_t> all(static_cast<size_t>(shape.elem_cnt()));
  std::iota(all.begin(), all.end(), 0);
  return e.integers(all, shape);
}

void convertDimScatterUpdateGrad(Emission &e) {
  const Wire dy = e.in("dy"), index = e.indices("index"), own = numbered(e, index.shape);
  const int64_t axis = axisOf(e.i("dim"), dy.rank());
  const auto at = [&](const Wire &x) {
    return e.node("GatherElements", {x, index}, {{"axis", axis}}, x.type, index.shape);
  };
  const Wire last = scatter(e, e.filled(kInt64, dy.shape, -1), index, own, axis);
  const Wire dx = e.select(e.test("Equal", at(last), own), at(dy), e.number(dy, 0));
  std::vector<int64_t> before(static_cast<size_t>(dx.rank()), 0), after; // what the index does not cover gets nothing
  for (int64_t k = 0; k < dx.rank(); ++k) after.push_back(e.madeFirst().shape().At(k) - dx.dim(k));
  e.out(e.padded(dx, before, after));
}

void convertNdUpdateGrad(Emission &e) {
  const Wire dy = e.in("dy"), indices = e.indices("indices");
  const Shape writes(indices.shape.ptr(), indices.rank() - 1), places(dy.shape.ptr(), indices.dim(-1));
  const Wire own = numbered(e, writes);
  const Wire last = scatterNd(e, e.filled(kInt64, places, -1), indices, own, false);
  Wire isLast = e.test("Equal", e.node("GatherND", {last, indices}, {}, kInt64, writes), own);
  std::vector<int64_t> dims(writes.begin(), writes.end());
  dims.resize(static_cast<size_t>(e.madeFirst().shape().NumAxes()), 1);
  isLast = e.reshape(isLast, dims);
  const Wire values = e.node("GatherND", {dy, indices}, {}, dy.type, e.madeFirst().shape());
  e.out(e.select(isLast, values, e.number(dy, 0)));
}

/// Sums of rows of data[outer, n, inner] with the same id.
void segments(Emission &e, const Wire &data, const Wire &ids, int64_t outer, int64_t count, bool idsVary) {
  const int64_t inner = data.shape.elem_cnt() / std::max<int64_t>(outer * count, 1);
  const Shape whole({outer, count, inner});
  const Shape &made = e.madeFirst().shape();
  const int64_t rows = made.elem_cnt() / std::max<int64_t>(outer * inner, 1);
  const Wire at = e.expand(e.reshape(ids, {idsVary ? outer : 1, count, 1}), whole);
  const Wire sums = scatter(e, zeros(e, data, Shape({outer, rows, inner})), at, e.reshape(data, whole), 1, "add");
  e.out(e.reshape(sums, made));
}

void convertSegments(Emission &e) {
  const Wire data = e.in("data"), ids = e.indices("segment_ids");
  segments(e, data, ids, data.shape.Count(0, axisOf(e.i("axis"), data.rank())), ids.shape.elem_cnt(), false);
}

void convertBatchSegments(Emission &e) {
  const Wire data = e.in("data"), ids = e.indices("segment_ids");
  segments(e, data, ids, ids.shape.Count(0, ids.rank() - 1), ids.dim(-1), true);
}

void convertEmbedding(Emission &e) { e.out(e.gather(e.in("weight"), e.indices("indices"), 0)); }

void convertEmbeddingGrad(Emission &e) {
  const Shape &made = e.madeFirst().shape();
  const Wire ids = e.indices("indices");
  const int64_t count = ids.shape.elem_cnt(), width = made.At(1);
  const Wire flat = e.reshape(ids, {count, 1});
  Wire dy = e.reshape(e.in("dy"), {count, width});
  if (e.b("scale_grad_by_freq")) {
    const Wire ones = e.filled(dy.type, Shape({count, 1}), 1);
    const Wire counts = scatter(e, zeros(e, dy, Shape({made.At(0), 1})), flat, ones, 0, "add");
    dy = e.div(dy, e.reshape(e.gather(counts, e.reshape(flat, {count}), 0), {count, 1}));
  }
  if (const int64_t padding = e.i("padding_idx"); padding >= 0)
    dy = e.select(e.test("Equal", flat, e.integers({padding}, Shape())), e.number(dy, 0), dy);
  e.out(scatter(e, zeros(e, dy, made), e.expand(flat, dy.shape), dy, 0, "add"));
}

void convertOneHot(Emission &e) {
  const auto &made = e.madeFirst();
  const Wire ids = e.indices("indices");
  std::vector<int64_t> dims(ids.shape.begin(), ids.shape.end()), classes(static_cast<size_t>(e.i("depth")));
  dims.push_back(1);
  std::iota(classes.begin(), classes.end(), 0);
  const Wire hot = e.test("Equal", e.reshape(ids, dims), e.integers(classes));
  const bool isReal = IsFloatingDataType(made.data_type());
  const auto value = [&](const char *real, const char *whole) {
    if (isReal) return e.constant(made.data_type() == kDouble ? kDouble : kFloat, Shape(), {e.f(real)});
    return e.integers({e.i(whole)}, Shape());
  };
  e.out(
      e.select(hot, value("floating_on_value", "integer_on_value"), value("floating_off_value", "integer_off_value")));
}

/// As many rows as the values say, and zeros behind them: `count` rows in all.
Wire roomFor(Emission &e, const Wire &rows, int64_t count) {
  Shape zeros = rows.shape;
  zeros.Set(0, count);
  Wire all = e.concat({rows, e.filled(rows.type, zeros, 0)}, 0);
  all.shape.Set(0, 2 * count);
  return e.slice(all, 0, 0, count);
}

/// How many rows a value has, i64[1].
Wire rowsOf(Emission &e, const Wire &rows) {
  const Wire dims = e.node("Shape", {rows}, {}, kInt64, Shape({rows.rank()}));
  return e.slice(dims, 0, 0, 1);
}

void convertArgwhere(Emission &e) {
  const Wire x = e.raw("input");
  const DataType type = e.typeAttr("dtype");
  const Wire wide = x.type == kBool || x.type == kFloat ? x : e.cast(x, x.isFloating() ? kFloat : kInt64);
  const Wire isSet = x.type == kBool ? x : e.negated(e.test("Equal", wide, e.number(wide, 0)));
  const int64_t n = x.shape.elem_cnt(), rank = x.rank();
  if (rank == 0) {
    e.out("output", e.cast(e.integers({}, Shape({1, 0})), type));
    return e.out("output_size", e.cast(e.reshape(isSet, {1}), type));
  }
  const Wire rows = e.transpose(e.node("NonZero", {isSet}, {}, kInt64, Shape({rank, n})), {1, 0});
  e.out("output", e.cast(roomFor(e, rows, n), type));
  e.out("output_size", e.cast(rowsOf(e, rows), type));
}

void convertSuppression(Emission &e) {
  std::vector<Wire> inputs{e.in("boxes"), e.in("scores"), e.integers({e.i("max_output_boxes_per_class")}),
                           e.constant(kFloat, Shape({1}), {e.f("iou_threshold")})};
  if (e.b("has_score_threshold")) inputs.push_back(e.constant(kFloat, Shape({1}), {e.f("score_threshold")}));
  const Shape &all = e.made("output").shape();
  const Wire rows =
      e.node("NonMaxSuppression", inputs, {{"center_point_box", int64_t{e.b("center_point_box")}}}, kInt64, all);
  e.out("output", roomFor(e, rows, all.At(0)));
  e.out("output_size", rowsOf(e, rows));
}

void convertUnique(Emission &e) {
  const Wire x = e.raw("in");
  const Wire wide = e.cast(x, x.type == kDouble ? kDouble : x.isFloating() ? kFloat : kInt64);
  const Shape list({x.dim(0)});
  const auto made = e.nodes("Unique", {wide}, {{"axis", int64_t{0}}, {"sorted", int64_t{e.b("sorted")}}},
                            {{wide.type, wide.shape}, {kInt64, list}, {kInt64, list}, {kInt64, list}});
  e.out("first", roomFor(e, made[1], x.dim(0)));
  e.out("inverse", made[2]);
  e.out("counts", roomFor(e, made[3], x.dim(0)));
  e.out("output_size", rowsOf(e, made[1]));
}

void convertBounded(Emission &e) {
  const Wire x = e.in("x");
  const int64_t axis = e.i("axis");
  std::vector<int64_t> places(static_cast<size_t>(x.dim(axis))), dims(static_cast<size_t>(x.rank()), 1);
  std::iota(places.begin(), places.end(), 0);
  dims[static_cast<size_t>(axis)] = x.dim(axis);
  const Wire isThere = e.test("Less", e.integers(places, Shape(dims.data(), x.rank())),
                              e.reshape(e.indices("count"), std::initializer_list<int64_t>{}));
  e.out(e.select(isThere, x, e.number(x, 0)));
}

} // namespace

void addIndexing(EmitterTable *t) {
  t->add("gather", Types::kOwn, convertGather, "Gather");
  t->add("batch_gather", Types::kOwn, convertBatchGather, "GatherElements");
  t->add("dim_gather", Types::kOwn, convertDimGather, "GatherElements");
  t->add("gather_nd", Types::kOwn, convertGatherNd, "GatherND");
  t->add("embedding", Types::kOwn, convertEmbedding, "Gather");
  t->add("embedding_grad", Types::kWide, convertEmbeddingGrad, "ScatterElements");
  t->add("dim_scatter_update", Types::kOwn, [](Emission &e) { convertDimScatter(e, "none"); }, "ScatterElements");
  for (const char *name : {"dim_scatter_add", "dim_scatter_add_like"})
    t->add(name, Types::kWide, [](Emission &e) { convertDimScatter(e, "add"); }, "ScatterElements");
  t->add(
      "dim_scatter_max", Types::kWide, [](Emission &e) { convertDimScatterChoice(e, "max"); }, "ScatterElements",
      "from operator set 18 on");
  t->add(
      "dim_scatter_min", Types::kWide, [](Emission &e) { convertDimScatterChoice(e, "min"); }, "ScatterElements",
      "from operator set 18 on");
  t->add("dim_scatter_mul", Types::kWide, [](Emission &e) { convertDimScatter(e, "mul"); }, "ScatterElements");
  t->add("dim_scatter_update_grad", Types::kWide, convertDimScatterUpdateGrad,
         "ScatterElements, GatherElements, Where");
  t->add("tensor_scatter_nd_update_grad", Types::kWide, convertNdUpdateGrad, "ScatterND, GatherND, Where");
  for (const char *name : {"scatter_nd", "scatter_nd_like"})
    t->add(
        name, Types::kWide,
        [](Emission &e) {
          const Wire updates = e.in("updates");
          e.out(scatterNd(e, zeros(e, updates, e.madeFirst().shape()), e.indices("indices"), updates, true));
        },
        "ScatterND");
  t->add(
      "tensor_scatter_nd_add", Types::kWide,
      [](Emission &e) { e.out(scatterNd(e, e.in("params"), e.indices("indices"), e.in("updates"), true)); },
      "ScatterND");
  t->add(
      "tensor_scatter_nd_update", Types::kOwn,
      [](Emission &e) { e.out(scatterNd(e, e.in("params"), e.indices("indices"), e.in("updates"), false)); },
      "ScatterND");
  for (const char *name : {"unsorted_segment_sum", "unsorted_segment_sum_like"})
    t->add(name, Types::kWide, convertSegments, "ScatterElements");
  t->add("unsorted_batch_segment_sum", Types::kWide, convertBatchSegments, "ScatterElements");
  t->add("one_hot", Types::kOwn, convertOneHot, "Equal, Where");
  t->add("argwhere", Types::kOwn, convertArgwhere, "NonZero", "all the room that there is");
  t->add("non_max_suppression", Types::kOwn, convertSuppression, "NonMaxSuppression", "all the room that there is");
  t->add("unique_rows", Types::kOwn, convertUnique, "Unique", "all the room that there is");
  t->add("bounded", Types::kNumbers, convertBounded, "Less, Where; Slice of an output");
  t->nodesSayMore({"argwhere", "non_max_suppression", "unique_rows", "bounded"});
}

} // namespace opc::onnx_export
