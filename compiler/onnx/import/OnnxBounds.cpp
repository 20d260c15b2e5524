// Values of which only the run knows how much there is.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxBounds.h"
#include "OnnxConverters.h"
#include "opc/Dispatch.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

namespace opc::onnx {
namespace {

using Rule = void (*)(Conversion &, const Converter &);

const Bounded *boundOf(const Conversion &c, size_t input) {
  return c.has(input) ? c.draft.bounded(c.any(input)) : nullptr;
}

/// The first input that is bounded.
size_t boundedInput(const Conversion &c) {
  size_t k = 0;
  while (k < c.inputCount() && !boundOf(c, k)) ++k;
  return k;
}

/// What the count depends on must be known.
[[noreturn]] void refuse(const Conversion &c, size_t input, const std::string &why = "") {
  const Bounded *b = boundOf(c, input);
  throw Undecided{b ? b->count : c.in(input), c.inputText(input) + (why.empty() ? "" : ", " + why + ",") +
                                                  " has as many elements as its values say, which"};
}

/// Nothing but input `input` may be bounded.
const Bounded &only(const Conversion &c, size_t input) {
  for (size_t k = 0; k < c.inputCount(); ++k)
    if (k != input && boundOf(c, k)) refuse(c, k);
  return *boundOf(c, input);
}

void bindAll(Conversion &c, int64_t axis, const Term &count) {
  for (const Term &made : c.results())
    if (made) c.draft.bind({made, count, axis});
}

/// All bounded inputs agree about the axis, counted from the last, and the count; the others broadcast along it.
void elementwise(Conversion &c, const Converter &converter) {
  const size_t first = boundedInput(c);
  const Bounded b = *boundOf(c, first);
  const int64_t fromEnd = b.value->rank() - b.axis;
  for (size_t k = 0; k < c.inputCount(); ++k) {
    if (!c.has(k)) continue;
    const Term x = c.in(k);
    if (const Bounded *other = boundOf(c, k)) {
      if (other->count != b.count || x->rank() - other->axis != fromEnd) refuse(c, k);
    } else if (x->rank() >= fromEnd && x->dim(-fromEnd) != 1) {
      refuse(c, first, "which meets " + c.inputText(k) + " of a size that is fixed");
    }
  }
  converter.convert(c);
  bindAll(c, c.results()[0]->rank() - fromEnd, b.count);
}

/// Zeros behind what there is.
Term zeroBehind(Conversion &c, const Bounded &b) { return c.op("bounded", {b.value, b.count}, {{"axis", b.axis}}); }

/// Indices behind the true ones lead to the first place.
void guardIndices(Conversion &c, size_t input) { c.replace(input, zeroBehind(c, *boundOf(c, input))); }

/// `filling`, a number, behind what there is.
Term filledBehind(Conversion &c, const Bounded &b, const Term &filling) {
  DimVector dims(static_cast<size_t>(b.value->rank()), 1);
  dims[static_cast<size_t>(b.axis)] = b.value->dim(b.axis);
  const Term isThere = c.op("bounded", {c.expand(c.scalar(kBool, 1), Shape(dims)), b.count}, {{"axis", b.axis}});
  return c.op("where", {isThere, b.value, filling});
}

void gather(Conversion &c, const Converter &converter) {
  const int64_t axis = c.axisOf(c.i("axis", 0), c.in(0)->rank());
  if (boundOf(c, 1)) {
    const Bounded b = only(c, 1);
    guardIndices(c, 1);
    converter.convert(c);
    return bindAll(c, axis + b.axis, b.count);
  }
  const Bounded b = only(c, 0);
  if (axis == b.axis) refuse(c, 0, "along the axis of which elements are taken");
  converter.convert(c);
  bindAll(c, b.axis < axis ? b.axis : b.axis - 1 + c.in(1)->rank(), b.count);
}

void gatherTuples(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 1);
  if (c.i("batch_dims", 0) != 0 || b.axis == b.value->rank() - 1) refuse(c, 1);
  guardIndices(c, 1);
  converter.convert(c);
  bindAll(c, b.axis, b.count);
}

void transpose(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  converter.convert(c);
  std::vector<int64_t> perm(static_cast<size_t>(b.value->rank()));
  std::iota(perm.rbegin(), perm.rend(), 0);
  perm = c.ints("perm", perm);
  for (size_t k = 0; k < perm.size(); ++k)
    if (c.axisOf(perm[k], b.value->rank()) == b.axis) bindAll(c, static_cast<int64_t>(k), b.count);
}

void squeeze(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  const auto axes = c.axes("axes", 13, 1);
  if (!axes) refuse(c, 0, "of which all axes of size 1 are left out");
  const auto gone = c.axesOf(*axes, b.value->rank());
  if (std::binary_search(gone.begin(), gone.end(), b.axis)) refuse(c, 0, "of which this axis is left out");
  converter.convert(c);
  bindAll(c, b.axis - (std::lower_bound(gone.begin(), gone.end(), b.axis) - gone.begin()), b.count);
}

void unsqueeze(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  converter.convert(c);
  const int64_t rank = c.results()[0]->rank();
  const auto added = c.axesOf(*c.axes("axes", 13, 1), rank);
  int64_t left = b.axis;
  for (int64_t k = 0; k < rank; ++k)
    if (!std::binary_search(added.begin(), added.end(), k) && left-- == 0) bindAll(c, k, b.count);
}

/// Of the bounded axis the first elements may be taken.
void slice(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  const bool isOld = c.version < 10;
  const auto starts = isOld ? c.ints("starts", {}) : c.knownInts(1), ends = isOld ? c.ints("ends", {}) : c.knownInts(2);
  std::vector<int64_t> axes = isOld ? c.ints("axes", {}) : c.has(3) ? c.knownInts(3) : std::vector<int64_t>();
  const std::vector<int64_t> steps = !isOld && c.has(4) ? c.knownInts(4) : std::vector<int64_t>(starts.size(), 1);
  if (axes.empty())
    for (size_t k = 0; k < starts.size(); ++k) axes.push_back(static_cast<int64_t>(k));
  Term count = b.count;
  bool isFull = false;
  for (size_t k = 0; k < axes.size() && k < std::min({starts.size(), ends.size(), steps.size()}); ++k) {
    if (c.axisOf(axes[k], b.value->rank()) != b.axis) continue;
    if (starts[k] != 0 || ends[k] < 0 || steps[k] != 1) refuse(c, 0, "of which more than the first elements are taken");
    isFull = ends[k] <= b.least;
    if (ends[k] < b.value->dim(b.axis)) count = c.op("broadcast_minimum", {count, c.constant({ends[k]}, Shape({1}))});
  }
  converter.convert(c);
  if (isFull) return; // as many as are asked for
  bindAll(c, b.axis, count);
}

/// Along the bounded axis: all the room, of which each place takes what is behind the slack of the pieces before it.
void joinPieces(Conversion &c, int64_t axis) {
  std::vector<Term> pieces;
  int64_t room = 0, least = 0;
  Term end = c.constant({0}, Shape({1})), from; // of the pieces so far
  for (size_t k = 0; k < c.inputCount(); ++k) room += c.in(k)->dim(axis);
  std::vector<int64_t> places(static_cast<size_t>(room));
  std::iota(places.begin(), places.end(), 0);
  const Term place = c.constant(places, Shape({room}));
  from = place;
  for (size_t k = 0; k < c.inputCount(); ++k) {
    pieces.push_back(c.in(k));
    const Bounded *b = boundOf(c, k);
    const Term size = c.constant({c.in(k)->dim(axis)}, Shape({1}));
    end = c.op("broadcast_add", {end, b ? b->count : size});
    if (!b) least += c.in(k)->dim(axis);
    if (!b) continue;
    const Term isBehind = c.cast(c.op("broadcast_greater_equal", {place, end}), kInt64);
    const Term slack = c.op("broadcast_sub", {size, b->count});
    from = c.op("broadcast_add", {from, c.op("broadcast_mul", {isBehind, slack})});
  }
  from = c.op("bounded", {from, end}, {{"axis", int64_t{0}}});
  const Term all = pieces.size() == 1 ? pieces[0] : c.op("cat", pieces, {{"axis", axis}});
  c.out(c.op("gather", {all, from}, {{"axis", axis}}));
  c.draft.bind({c.results()[0], end, axis, least});
}

void concat(Conversion &c, const Converter &converter) {
  const size_t first = boundedInput(c);
  const Bounded b = *boundOf(c, first);
  if (c.axisOf(c.i("axis", 1), b.value->rank()) == b.axis) {
    for (size_t k = 0; k < c.inputCount(); ++k)
      if (c.in(k)->rank() != b.value->rank() || (boundOf(c, k) && boundOf(c, k)->axis != b.axis)) refuse(c, k);
    return joinPieces(c, b.axis);
  }
  for (size_t k = 0; k < c.inputCount(); ++k) {
    const Bounded *other = boundOf(c, k);
    if (!other || other->axis != b.axis || other->count != b.count) refuse(c, other ? k : first);
  }
  converter.convert(c);
  bindAll(c, b.axis, b.count);
}

/// The sizes as numbers of the run.
void shape(Conversion &c, const Converter &) {
  const Bounded &b = only(c, 0);
  const int64_t rank = b.value->rank();
  const auto at = [&](int64_t k) { return std::clamp<int64_t>(k < 0 ? k + rank : k, 0, rank); };
  const int64_t begin = at(c.i("start", 0)), end = std::max(begin, at(c.i("end", rank)));
  std::vector<Term> parts;
  for (int64_t k = begin; k < end; ++k)
    parts.push_back(k == b.axis ? b.count : c.constant({b.value->dim(k)}, Shape({1})));
  if (parts.empty()) return c.out(c.constant(std::vector<int64_t>(), Shape({0})));
  c.out(parts.size() == 1 ? c.op("identity", {parts[0]}) : c.op("cat", parts, {{"axis", int64_t{0}}}));
}

void size(Conversion &c, const Converter &) {
  const Bounded &b = only(c, 0);
  const Shape &shape = b.value->shape();
  c.out(c.reshape(
      c.op("broadcast_mul", {b.count, c.constant({shape.Count(0, b.axis) * shape.Count(b.axis + 1)}, Shape({1}))}),
      {}));
}

/// The number that changes nothing in a reduction of numbers of `type`; null: 0.
Term neutral(const Conversion &c, const std::string &op, DataType type) {
  if (op == "ReduceProd") return c.scalar(type, 1);
  if (op == "ReduceMax" || op == "ReduceMin") return extreme(c, type, op == "ReduceMin");
  return op == "ReduceLogSumExp" ? extreme(c, type, false) : nullptr;
}

void reduction(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  const auto given = c.axes("axes", c.node.op_type() == "ReduceSum" ? 13 : 18, 1);
  const bool isNone = !given || given->empty();
  const bool keepsAll = isNone && c.flag("noop_with_empty_axes", false);
  std::vector<int64_t> axes(static_cast<size_t>(b.value->rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (keepsAll)
    axes.clear();
  else if (!isNone)
    axes = c.axesOf(*given, b.value->rank());
  if (!std::binary_search(axes.begin(), axes.end(), b.axis)) {
    converter.convert(c);
    const auto before = std::lower_bound(axes.begin(), axes.end(), b.axis) - axes.begin();
    return bindAll(c, c.flag("keepdims", true) || keepsAll ? b.axis : b.axis - before, b.count);
  }
  const bool isMean = c.node.op_type() == "ReduceMean";
  const DataType type = b.value->type();
  if (isMean && !b.value->isFloating()) refuse(c, 0, "of whole numbers");
  if (c.node.op_type() == "ReduceLogSumExp" && !b.value->isFloating()) refuse(c, 0, "of whole numbers");
  const Term filling = neutral(c, c.node.op_type(), type);
  c.replace(0, filling ? filledBehind(c, b, filling) : zeroBehind(c, b));
  converter.convert(c);
  if (!isMean) return;
  // The mean is over all the room: what it lacks is a factor.
  const Term mean = c.results()[0];
  const Term factor = c.op("broadcast_div", {c.scalar(type, static_cast<double>(b.value->dim(b.axis))),
                                             c.cast(c.reshape(b.count, {}), type)});
  c.out(c.op("broadcast_mul", {mean, factor}));
}

/// Along another axis than the bounded one.
void along(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  const bool isFlat = c.version < 13 && c.node.op_type() != "CumSum";
  const int64_t axis = c.node.op_type() == "CumSum" ? c.axisOf(c.knownInt(1), b.value->rank())
                                                    : c.axisOf(c.i("axis", isFlat ? 1 : -1), b.value->rank());
  if (isFlat ? axis <= b.axis : axis == b.axis) refuse(c, 0, "along this axis");
  converter.convert(c);
  bindAll(c, b.axis, b.count);
}

/// The rows of the first matrix may be as many as there are.
void rows(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  if (b.axis != b.value->rank() - 2 || c.flag("transA", false)) refuse(c, 0);
  if (c.has(2) && c.in(2)->rank() > 1 && c.in(2)->dim(-2) != 1) refuse(c, 0);
  converter.convert(c);
  bindAll(c, c.results()[0]->rank() - 2, b.count);
}

/// The bounded axis must be spelled as one that follows: 0 or -1.
void reshape(Conversion &c, const Converter &converter) {
  const Bounded b = only(c, 0);
  const std::vector<int64_t> dims = c.version < 5 ? c.ints("shape", {}) : c.knownInts(1);
  converter.convert(c);
  const Shape &from = b.value->shape(), &to = c.results()[0]->shape();
  const int64_t bound = from.At(b.axis);
  for (int64_t k = 0; k < to.NumAxes() && bound > 0; ++k) {
    const int64_t said = dims[static_cast<size_t>(k)];
    const bool follows = said == -1 || (said == 0 && !c.flag("allowzero", false) && k == b.axis);
    if (!follows || to.Count(0, k) != from.Count(0, b.axis) || to.At(k) % bound != 0) continue;
    const int64_t each = to.At(k) / bound;
    Term count = b.count;
    if (each != 1) count = c.op("broadcast_mul", {count, c.constant({each}, Shape({1}))});
    return bindAll(c, k, count);
  }
  refuse(c, 0, "whose new shape does not leave this size open");
}

/// Ops that look for elements see none behind the true ones.
void search(Conversion &c, const Converter &converter) {
  const bool isBoxes = c.node.op_type() == "NonMaxSuppression";
  for (size_t k = 0; k < c.inputCount(); ++k) {
    const Bounded *b = boundOf(c, k);
    if (!b) continue;
    if (isBoxes && k == 1)
      c.replace(k, filledBehind(c, *b, c.scalar(b->value->type(), std::numeric_limits<double>::quiet_NaN())));
    else if (!isBoxes && (k == 1 || c.node.op_type() == "NonZero"))
      c.replace(k, zeroBehind(c, *b));
    else if (!isBoxes || k > 1 || !boundOf(c, 1) || boundOf(c, 1)->count != b->count)
      refuse(c, k);
  }
  converter.convert(c);
}

const std::map<std::string, Rule> &rules() {
  static const std::map<std::string, Rule> kRules = [] {
    std::map<std::string, Rule> all = {{"Gather", gather},       {"GatherND", gatherTuples},
                                       {"Transpose", transpose}, {"Squeeze", squeeze},
                                       {"Slice", slice},         {"Unsqueeze", unsqueeze},
                                       {"Concat", concat},       {"Shape", shape},
                                       {"Size", size},           {"Softmax", along},
                                       {"LogSoftmax", along},    {"CumSum", along},
                                       {"MatMul", rows},         {"Gemm", rows},
                                       {"Reshape", reshape},     {"NonZero", search},
                                       {"Compress", search},     {"NonMaxSuppression", search}};
    for (const char *op : {"ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceL2",
                           "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"})
      all[op] = reduction;
    for (const char *op : {"Abs",         "Acos",        "Acosh",
                           "Add",         "And",         "Asin",
                           "Asinh",       "Atan",        "Atanh",
                           "BitShift",    "BitwiseAnd",  "BitwiseNot",
                           "BitwiseOr",   "BitwiseXor",  "Cast",
                           "CastLike",    "Ceil",        "Celu",
                           "Clip",        "Cos",         "Cosh",
                           "Div",         "Dropout",     "Elu",
                           "Equal",       "Erf",         "Exp",
                           "Floor",       "Gelu",        "Greater",
                           "HardSigmoid", "HardSwish",   "Identity",
                           "IsInf",       "IsNaN",       "LeakyRelu",
                           "Less",        "LessOrEqual", "GreaterOrEqual",
                           "Log",         "Max",         "Mean",
                           "Min",         "Mish",        "Mod",
                           "Mul",         "Neg",         "Not",
                           "Or",          "PRelu",       "Pow",
                           "Reciprocal",  "Relu",        "Round",
                           "Selu",        "Shrink",      "Sigmoid",
                           "Sign",        "Sin",         "Sinh",
                           "Softplus",    "Softsign",    "Sqrt",
                           "Sub",         "Sum",         "Swish",
                           "Tan",         "Tanh",        "ThresholdedRelu",
                           "Where",       "Xor"})
      all[op] = elementwise;
    return all;
  }();
  return kRules;
}

} // namespace

void addCounts(GraphDraft *draft, std::vector<std::pair<std::string, Term>> *outputs) {
  const GraphDraft::BoundsAllowed allowed(draft);
  std::vector<std::pair<std::string, Term>> counts;
  std::set<const Operand *> given; // several outputs may have one
  for (auto &[name, term] : *outputs) {
    const Bounded *b = draft->bounded(term);
    if (!b) continue;
    if (given.insert(b->count.get()).second) counts.emplace_back(name + ".count", b->count);
    draft->enterNode({}, name + "/bounded");
    term = draft->add("bounded", {term, b->count}, {{"axis", b->axis}})[0];
  }
  outputs->insert(outputs->end(), counts.begin(), counts.end());
}

/// Types that are only stored are moved and converted.
void checkStored(Conversion &c, const Converter &converter) {
  static const std::set<std::string> kConverts = {"DequantizeLinear", "Cast", "CastLike", "QuantizeLinear"};
  static const std::set<std::string> kMoves = {"BitCast",
                                               "Compress",
                                               "Concat",
                                               "ConcatFromSequence",
                                               "Constant",
                                               "ConstantOfShape",
                                               "Expand",
                                               "Flatten",
                                               "Gather",
                                               "GatherElements",
                                               "GatherND",
                                               "Identity",
                                               "If",
                                               "Loop",
                                               "Optional",
                                               "OptionalGetElement",
                                               "OptionalHasElement",
                                               "Pad",
                                               "Reshape",
                                               "Scan",
                                               "ScatterElements",
                                               "ScatterND",
                                               "SequenceAt",
                                               "SequenceConstruct",
                                               "SequenceErase",
                                               "SequenceInsert",
                                               "SequenceLength",
                                               "SequenceMap",
                                               "Shape",
                                               "Size",
                                               "Slice",
                                               "Split",
                                               "SplitToSequence",
                                               "Squeeze",
                                               "Tile",
                                               "Transpose",
                                               "Unsqueeze",
                                               "Where"};
  const bool isOnnx = converter.domain.empty() || converter.domain == "com.microsoft";
  if (isOnnx && kConverts.count(converter.op)) return;
  for (size_t k = 0; k < c.inputCount(); ++k) {
    if (!c.has(k) || c.any(k)->kind != Operand::Kind::kTensor) continue;
    const DataType type = c.draft.typeInModel(*c.any(k));
    if (!contains<types::Storage>(type)) continue;
    if (!isOnnx || !kMoves.count(converter.op))
      c.unsupported(c.inputText(k) + " is of type " + elementType(type).name + ", which no op computes in",
                    "put DequantizeLinear or Cast before it");
    c.replace(k, c.draft.whole(c.any(k)));
  }
}

void convertWithBounds(Conversion &c, const Converter &converter) {
  checkStored(c, converter);
  const size_t input = boundedInput(c);
  if (input == c.inputCount()) return converter.convert(c);
  const auto rule = converter.domain.empty() ? rules().find(converter.op) : rules().end();
  if (rule == rules().end()) refuse(c, input);
  const GraphDraft::BoundsAllowed allowed(&c.draft);
  rule->second(c, converter);
}

} // namespace opc::onnx
