// One graph for every size of a range: what a model becomes at several sizes, held against one another.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxSizes.h"

#include "RunOp.h"

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>

namespace opc::onnx {

using user_op::TensorDesc;

namespace {

bool isSame(const StoredTensor &a, const StoredTensor &b) {
  return a.bytes.data() == b.bytes.data() || a.bytes == b.bytes;
}

std::string numberText(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

} // namespace

/// Walks through both drafts at once; what they agree on is copied.
class SizeMerge {
public:
  SizeMerge(GraphDraft *to, const SizedModel &a, const SizedModel &b) : to_(*to), a_(a), b_(b) {}

  NamedTerms run() {
    const std::vector<size_t> fromA = needed(*a_.draft, *a_.outputs), fromB = needed(*b_.draft, *b_.outputs);
    for (size_t i = 0; i < std::min(fromA.size(), fromB.size()); ++i) {
      opA_ = &a_.draft->ops_[fromA[i]], opB_ = &b_.draft->ops_[fromB[i]];
      placeA_[static_cast<int>(fromA[i])] = placeB_[static_cast<int>(fromB[i])] = i;
      to_.places_.push_back(a_.draft->places_[opA_->place]);
      to_.names_.push_back(a_.draft->names_[opA_->place]);
      merged_.push_back(opA_->kind == Kind::kUser ? user() : source());
      for (size_t k = 0; k < merged_.back().size(); ++k)
        known_.push_back({merged_.back()[k], opA_->outputs[k], opB_->outputs[k]});
    }
    if (fromA.size() != fromB.size()) differ("it becomes other ops at other sizes");
    NamedTerms outputs;
    for (size_t k = 0; k < a_.outputs->size(); ++k) {
      if (k >= b_.outputs->size() || (*a_.outputs)[k].first != (*b_.outputs)[k].first)
        differ("the model has other outputs");
      outputs.emplace_back((*a_.outputs)[k].first, read((*a_.outputs)[k].second, (*b_.outputs)[k].second));
    }
    return outputs;
  }

private:
  using Op = GraphDraft::DraftOp;
  using Kind = GraphDraft::OpKind;
  /// A dimension at the sizes of a and of b.
  using Dim = std::pair<int64_t, int64_t>;
  struct Known {
    Term term;
    TensorDesc a, b;
  };

  static std::vector<size_t> needed(const GraphDraft &draft, const NamedTerms &outputs) {
    const std::vector<bool> is = draft.needed(outputs);
    std::vector<size_t> list;
    for (size_t i = 0; i < is.size(); ++i)
      if (is[i]) list.push_back(i);
    return list;
  }

  [[noreturn]] void differ(const std::string &what, SizesRefusal::In in = SizesRefusal::In::kOps) const {
    throw SizesRefusal{opA_ ? a_.draft->places_[opA_->place].text() : "",
                       what + " (" + a_.sizes + " against " + b_.sizes + ")", in};
  }
  [[noreturn]] void differInNumbers(const std::string &what) const {
    differ("a constant that it reads, computed from the sizes, " + what, SizesRefusal::In::kNumbers);
  }

  /// An input or a variable.
  std::vector<Term> source() {
    if (opA_->kind != opB_->kind || opA_->conf.name != opB_->conf.name) differ("it becomes other ops at other sizes");
    const TensorDesc &desc = opA_->outputs[0];
    if (opA_->kind == Kind::kInput) return {to_.input(opA_->conf.name, desc)};
    if (desc != opB_->outputs[0]) differ("a weight has another shape"); // the same name has the same value
    const bool isTrainedToo = opA_->trainedOne >= 0 && placeA_.count(opA_->trainedOne);
    return {to_.variable(GraphDraft::nameOf(*opA_, isTrainedToo), *opA_->value, opA_->trainable)};
  }

  /// An operand, in the merged graph.
  Term read(const Term &a, const Term &b) {
    if (a->op < 0 && b->op < 0) return constant(a, b);
    const auto atA = placeA_.find(a->op), atB = placeB_.find(b->op);
    if (atA == placeA_.end() || atB == placeB_.end() || atA->second != atB->second || a->output != b->output)
      differ("it reads other values at other sizes");
    return merged_[atA->second][static_cast<size_t>(a->output)];
  }

  /// What the import has computed from the sizes: the same at both, or rows that are repeated.
  Term constant(const Term &a, const Term &b) {
    if (a->type() != b->type() || a->rank() != b->rank())
      differ("a constant that it reads has another rank or type at other sizes");
    if (a->desc == b->desc && isSame(*a->value, *b->value)) return a;
    Term &made = constants_[a.get()];
    if (made) return made;
    if (a->desc == b->desc) return made = sized(*a->value, *b->value);
    const StoredTensor one = oneRow(*a->value, b->shape());
    if (!isSame(one, oneRow(*b->value, a->shape())))
      differ("a constant that it reads, computed from the sizes, has other values");
    Term rows = GraphDraft::constant(one);
    for (int64_t axis = 0; axis < a->rank(); ++axis)
      if (a->dim(axis) != b->dim(axis)) rows = repeated(rows, axis, {a->dim(axis), b->dim(axis)});
    return made = rows;
  }

  /// A constant some of whose elements are sizes that tensors have: those are counted in the run.
  Term sized(const StoredTensor &a, const StoredTensor &b) {
    const OpTensor atA = elementsOf(a), atB = elementsOf(b);
    const DataType type = atA.type();
    if (type == kBool || atA.elements() > 1024) differInNumbers("has other values");
    OpTensor rest = elementsOf(a);
    std::map<Dim, OpTensor> places; // of each size a 1 where it stands
    for (int64_t k = 0; k < atA.elements(); ++k) {
      const double before = element(atA, k), after = element(atB, k);
      const Dim dim(static_cast<int64_t>(before), static_cast<int64_t>(after));
      if (before == after) continue;
      if (static_cast<double>(dim.first) != before || static_cast<double>(dim.second) != after || !findDim(dim).first)
        differInNumbers("is " + numberText(before) + " and " + numberText(after) +
                        ", which no tensor before it has as a size");
      setElement(&rest, k, 0);
      const auto [place, isNew] = places.try_emplace(dim, OpTensor(a.desc));
      if (isNew)
        for (int64_t i = 0; i < atA.elements(); ++i) setElement(&place->second, i, 0);
      setElement(&place->second, k, 1);
    }
    Term sum = GraphDraft::constant(storedOf(std::move(rest)));
    for (auto &[dim, place] : places) {
      const Term ones = to_.add("constant_like", {zeros(dim)}, {{"dtype", kInt64}, {"integer_value", int64_t{1}}})[0];
      const Term count = to_.add("reduce_sum", {ones}, {{"axis", std::vector<int64_t>{0}}, {"keepdims", true}})[0];
      const Term number = type == kInt64 ? count : to_.add("cast", {count}, {{"dtype", type}})[0];
      const Term one = a.desc.shape().NumAxes() ? number : to_.add("reshape", {number}, {{"shape", Shape()}})[0];
      const Term part = GraphDraft::constant(storedOf(std::move(place)));
      sum = to_.add("broadcast_add", {sum, to_.add("broadcast_mul", {part, one}, {})[0]}, {})[0];
    }
    return sum;
  }

  /// The first of equal rows along the axes in which `other` has another size.
  StoredTensor oneRow(const StoredTensor &value, const Shape &other) const {
    const Shape &shape = value.desc.shape();
    StoredTensor row = value;
    for (int64_t axis = 0; axis < shape.NumAxes(); ++axis) {
      const int64_t n = row.desc.shape().At(axis);
      if (n == other.At(axis)) continue;
      if (n == 0) differ("a constant that it reads is empty at one of the sizes");
      const auto bytes =
          static_cast<size_t>(row.desc.shape().Count(axis + 1)) * GetSizeOfDataType(row.desc.data_type());
      Shape less = row.desc.shape();
      less.Set(axis, 1);
      OpTensor first(TensorDesc(less, row.desc.data_type()));
      for (int64_t k = 0; k < less.Count(0, axis); ++k) {
        const char *from = row.bytes.data() + static_cast<size_t>(k * n) * bytes;
        for (int64_t i = 1; i < n; ++i)
          if (std::memcmp(from, from + static_cast<size_t>(i) * bytes, bytes) != 0)
            differ("a constant that it reads, computed from the sizes, has other values");
        std::memcpy(static_cast<char *>(first.data()) + static_cast<size_t>(k) * bytes, from, bytes);
      }
      row = storedOf(std::move(first));
    }
    return row;
  }

  /// `x`, which has one row along `axis`, as often as the dimension says.
  Term repeated(const Term &x, int64_t axis, Dim dim) {
    return to_.add("gather", {x, zeros(dim)}, {{"axis", axis}})[0];
  }

  /// A tensor with elements that has the dimension, and its axis; null where there is none.
  std::pair<const Known *, int64_t> findDim(Dim dim) const {
    for (const Known &k : known_)
      for (int64_t axis = 0; axis < k.a.shape().NumAxes(); ++axis)
        if (Dim(k.a.shape().At(axis), k.b.shape().At(axis)) == dim && k.a.shape().elem_cnt() != 0) return {&k, axis};
    return {nullptr, 0};
  }

  /// i64[dim], all 0.
  Term zeros(Dim dim) {
    Term &made = zeros_[dim];
    if (made) return made;
    const auto [known, axis] = findDim(dim);
    if (!known)
      differ("it repeats rows " + std::to_string(dim.first) + " and " + std::to_string(dim.second) +
             " times, and no tensor before it has such a size");
    const auto rank = static_cast<size_t>(known->a.shape().NumAxes());
    std::vector<int64_t> stop(rank, 1);
    stop[static_cast<size_t>(axis)] = INT64_MAX;
    const Term line =
        to_.add("slice", {known->term},
                {{"start", std::vector<int64_t>(rank, 0)}, {"stop", stop}, {"step", std::vector<int64_t>(rank, 1)}})[0];
    const Term flat = to_.add("reshape", {line}, {{"shape", Shape({-1})}})[0];
    return made = to_.add("constant_like", {flat}, {{"dtype", kInt64}, {"integer_value", int64_t{0}}})[0];
  }

  std::vector<Term> user() {
    if (opA_->kind != opB_->kind || opA_->conf.type != opB_->conf.type || opA_->inputs.size() != opB_->inputs.size() ||
        opA_->outputs.size() != opB_->outputs.size())
      differ("it becomes other ops at other sizes");
    Op op = *opA_;
    for (size_t k = 0; k < op.inputs.size(); ++k) op.inputs[k] = read(opA_->inputs[k], opB_->inputs[k]);
    if (opA_->conf.attrs == opB_->conf.attrs) return copied(std::move(op));
    if (op.conf.type == "expand") return {named(expand(op.inputs[0]))};
    if (op.conf.type == "constant") return {named(filled(op))};
    for (auto &[name, value] : op.conf.attrs) {
      const AttrValue &other = opB_->conf.attrs.at(name);
      if (value == other) continue;
      if (op.conf.type == "reshape" && name == "shape")
        value = opened(*value.get<Shape>(), *other.get<Shape>());
      else if (op.conf.type == "slice")
        value = fromEnd(*value.get<std::vector<int64_t>>(), *other.get<std::vector<int64_t>>(), name == "stop");
      else
        differ("attribute '" + name + "' of its op " + op.conf.type + " depends on the sizes",
               SizesRefusal::In::kAttributes);
    }
    return copied(std::move(op));
  }

  std::vector<Term> copied(Op op) {
    op.place = to_.places_.size() - 1;
    const int index = static_cast<int>(to_.ops_.size());
    std::vector<Term> results;
    for (size_t k = 0; k < op.outputs.size(); ++k) {
      auto made = std::make_shared<Operand>();
      made->desc = op.outputs[k];
      made->op = index;
      made->output = static_cast<int>(k);
      results.push_back(std::move(made));
    }
    to_.ops_.push_back(std::move(op));
    return results;
  }

  Term named(const Term &term) {
    if (!opA_->tensors[0].empty()) to_.name(term, opA_->tensors[0]);
    return term;
  }

  Shape opened(const Shape &a, const Shape &b) const {
    DimVector dims = a.dim_vec();
    int64_t open = 0;
    for (size_t k = 0; k < dims.size(); ++k)
      if (a.NumAxes() != b.NumAxes() || dims[k] != b.dim_vec()[k]) dims[k] = -1, ++open;
    if (open > 1) differ("several sizes of its shape depend on the range: " + a.ToString() + " and " + b.ToString());
    return Shape(dims);
  }

  /// Places that are as far from the end of their axis at both sizes.
  std::vector<int64_t> fromEnd(const std::vector<int64_t> &a, const std::vector<int64_t> &b, bool isStop) const {
    std::vector<int64_t> places = a;
    for (size_t k = 0; k < a.size(); ++k) {
      if (a[k] == b[k]) continue;
      const int64_t end = a[k] - opA_->inputs[0]->dim(static_cast<int64_t>(k)),
                    endOfB = b[k] - opB_->inputs[0]->dim(static_cast<int64_t>(k));
      if (end != endOfB || end > 0 || (end == 0 && !isStop))
        differ("it cuts at places that depend on the sizes", SizesRefusal::In::kAttributes);
      places[k] = end == 0 ? INT64_MAX : end;
    }
    return places;
  }

  /// What is kept is -1; what is repeated as often as a size says is gathered.
  Term expand(const Term &x) {
    const Shape &a = opA_->outputs[0].shape(), &b = opB_->outputs[0].shape();
    const Shape &fromA = opA_->inputs[0]->shape(), &fromB = opB_->inputs[0]->shape();
    const int64_t lead = a.NumAxes() - fromA.NumAxes();
    DimVector fixed = a.dim_vec();
    std::vector<int64_t> grown;
    for (int64_t k = 0; k < a.NumAxes(); ++k) {
      if (a.At(k) == b.At(k)) continue;
      const bool isKept = k >= lead && fromA.At(k - lead) == a.At(k) && fromB.At(k - lead) == b.At(k);
      if (!isKept) grown.push_back(k);
      fixed[static_cast<size_t>(k)] = k < lead ? 1 : -1;
    }
    Term y = to_.add("expand", {x}, {{"expand_shape", Shape(fixed)}})[0];
    for (int64_t k : grown) y = repeated(y, k, {a.At(k), b.At(k)});
    return y;
  }

  /// The op `constant`.
  Term filled(const Op &op) {
    const Shape &a = opA_->outputs[0].shape(), &b = opB_->outputs[0].shape();
    if (a.NumAxes() != b.NumAxes()) differ("it makes a tensor of another rank");
    Attrs attrs(op.conf.attrs.begin(), op.conf.attrs.end());
    DimVector dims = a.dim_vec();
    for (int64_t k = 0; k < a.NumAxes(); ++k)
      if (a.At(k) != b.At(k)) dims[static_cast<size_t>(k)] = 1;
    attrs["shape"] = Shape(dims);
    Term y = to_.add("constant", {}, attrs)[0];
    for (int64_t k = 0; k < a.NumAxes(); ++k)
      if (a.At(k) != b.At(k)) y = repeated(y, k, {a.At(k), b.At(k)});
    return y;
  }

  GraphDraft &to_;
  const SizedModel &a_, &b_;
  const Op *opA_ = nullptr, *opB_ = nullptr;
  std::map<int, size_t> placeA_, placeB_; // of an op among those that are needed
  std::vector<std::vector<Term>> merged_; // by that place
  std::vector<Known> known_;
  std::map<Dim, Term> zeros_;
  std::unordered_map<const Operand *, Term> constants_;
};

NamedTerms mergeSizes(GraphDraft *to, const SizedModel &a, const SizedModel &b) { return SizeMerge(to, a, b).run(); }

} // namespace opc::onnx
