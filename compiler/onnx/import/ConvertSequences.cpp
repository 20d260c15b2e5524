// ONNX's sequences and optionals: lists that are known while importing, and no ops of the graph.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

namespace opc::onnx {
namespace {

Term listOf(std::vector<Term> elements) {
  auto made = std::make_shared<Operand>();
  made->kind = Operand::Kind::kList;
  made->list = std::move(elements);
  return made;
}

std::vector<Term> elements(const Conversion &c, size_t input) {
  const Term t = c.any(input);
  if (t->kind != Operand::Kind::kList) c.invalid(c.inputText(input) + " is no sequence");
  return t->list;
}

/// A sequence that the model is given is empty where nobody says what is in it.
constexpr const char *kGiveElements =
    "elements of a sequence that is an input of the model are given by their places: --shape NAME.0=DIMS, NAME.1=DIMS";

[[noreturn]] void isEmpty(const Conversion &c, size_t input) {
  c.invalid(c.inputText(input) + " is an empty sequence", kGiveElements);
}

/// A position within a sequence of `size`, from the end where it is negative.
int64_t position(const Conversion &c, size_t input, size_t size, bool mayBeEnd) {
  const int64_t given = c.knownInt(input);
  const auto count = static_cast<int64_t>(size);
  const int64_t at = given < 0 ? given + count : given;
  if (at < 0 || at >= count + mayBeEnd)
    c.invalid(c.inputText(input) + " is place " + std::to_string(given) + " of a sequence that has " +
                  std::to_string(count) + (count == 1 ? " element" : " elements"),
              count == 0 ? kGiveElements : "");
  return at;
}

void convertInsert(Conversion &c) {
  auto list = elements(c, 0);
  const int64_t at = c.has(2) ? position(c, 2, list.size(), true) : static_cast<int64_t>(list.size());
  list.insert(list.begin() + at, c.in(1));
  c.out(listOf(std::move(list)));
}

void convertErase(Conversion &c) {
  auto list = elements(c, 0);
  if (list.empty()) isEmpty(c, 0);
  list.erase(list.begin() + (c.has(1) ? position(c, 1, list.size(), false) : static_cast<int64_t>(list.size()) - 1));
  c.out(listOf(std::move(list)));
}

void convertSplitTo(Conversion &c) {
  const Term x = c.in(0);
  const int64_t axis = c.axisOf(c.i("axis", 0), x->rank()), size = x->dim(axis);
  const bool isDropped = !c.has(1) && !c.flag("keepdims", true);
  std::vector<int64_t> sizes;
  const auto checkCount = [&](int64_t pieces) {
    if (pieces > static_cast<int64_t>(GraphDraft::kMostOps))
      c.unsupported("a sequence of " + std::to_string(pieces) + " pieces becomes more than 1,000,000 ops");
  };
  if (!c.has(1)) {
    checkCount(size);
    sizes.assign(static_cast<size_t>(size), 1);
  } else {
    sizes = c.knownInts(1);
    if (c.in(1)->rank() == 0) { // pieces of one size, the last may be shorter
      const int64_t part = sizes.at(0);
      if (part < 1) c.invalid("pieces of " + std::to_string(part));
      sizes.clear();
      checkCount(size / part);
      for (int64_t left = size; left > 0; left -= part) sizes.push_back(std::min(part, left));
    }
  }
  std::vector<Term> list;
  int64_t begin = 0;
  for (int64_t n : sizes) {
    if (n < 0 || n > size - begin)
      c.invalid("pieces of more than the " + std::to_string(size) + " elements of axis " + std::to_string(axis));
    Term piece = c.slice(x, axis, begin, begin + n);
    if (isDropped) {
      DimVector dims = piece->shape().dim_vec();
      dims.erase(dims.begin() + axis);
      piece = c.reshape(piece, dims);
    }
    list.push_back(piece);
    begin += n;
  }
  if (begin != size)
    c.invalid("pieces of " + std::to_string(begin) + " elements in all, axis " + std::to_string(axis) + " has " +
              std::to_string(size));
  c.out(listOf(std::move(list)));
}

void convertConcatFrom(Conversion &c) {
  auto list = elements(c, 0);
  if (list.empty()) isEmpty(c, 0);
  const bool isNew = c.flag("new_axis", false);
  const int64_t axis = c.axisOf(c.required("axis"), list[0]->rank() + isNew);
  for (const Term &t : list)
    if (t->rank() != list[0]->rank())
      c.invalid("its sequence has tensors of the ranks " + std::to_string(list[0]->rank()) + " and " +
                std::to_string(t->rank()));
  if (isNew)
    for (Term &t : list) {
      DimVector dims = t->shape().dim_vec();
      dims.insert(dims.begin() + axis, 1);
      t = c.reshape(t, dims);
    }
  c.out(list.size() == 1 ? list[0] : c.op("cat", list, {{"axis", axis}}));
}

void convertMap(Conversion &c) {
  const Attribute *body = c.attr("body", Attribute::GRAPH);
  if (!body) c.invalid("attribute 'body' is missing");
  const auto first = elements(c, 0);
  std::vector<std::vector<Term>> results(static_cast<size_t>(c.node.output_size()));
  for (size_t k = 0; k < first.size(); ++k) {
    std::vector<Term> inputs{first[k]};
    for (size_t j = 1; j < c.inputCount(); ++j) {
      const Term t = c.any(j);
      if (t->kind == Operand::Kind::kList && t->list.size() != first.size())
        c.invalid("sequences of " + std::to_string(first.size()) + " and " + std::to_string(t->list.size()));
      inputs.push_back(t->kind == Operand::Kind::kList ? t->list[k] : t);
    }
    const auto made = c.inliner().inlined(body->g(), inputs);
    if (made.size() < results.size()) c.invalid("its body has " + std::to_string(made.size()) + " outputs");
    for (size_t j = 0; j < results.size(); ++j) results[j].push_back(made[j]);
  }
  for (size_t j = 0; j < results.size(); ++j) c.out(static_cast<int>(j), listOf(std::move(results[j])));
}

void convertOptional(Conversion &c) {
  if (c.has(0)) return c.out(c.any(0));
  auto nothing = std::make_shared<Operand>();
  nothing->kind = Operand::Kind::kNothing;
  c.out(Term(nothing));
}

} // namespace

void addSequences(ConverterTable *t) {
  t->add("SequenceConstruct", [](Conversion &c) { c.out(listOf(c.all())); }, "nothing");
  t->add("SequenceEmpty", [](Conversion &c) { c.out(listOf({})); }, "nothing");
  t->add(
      "SequenceAt",
      [](Conversion &c) {
        const auto list = elements(c, 0);
        c.out(list[static_cast<size_t>(position(c, 1, list.size(), false))]);
      },
      "nothing", "a position of the run");
  t->add(
      "SequenceLength",
      [](Conversion &c) { c.out(c.constant({static_cast<int64_t>(elements(c, 0).size())}, Shape())); }, "a constant");
  t->add("SequenceInsert", convertInsert, "nothing", "a position of the run");
  t->add("SequenceErase", convertErase, "nothing", "a position of the run");
  t->add("SplitToSequence", convertSplitTo, "slice", "sizes of the run");
  t->add("ConcatFromSequence", convertConcatFrom, "cat");
  t->add("SequenceMap", convertMap, "its body, once for each element");
  t->add("Optional", convertOptional, "nothing");
  t->add("OptionalGetElement", [](Conversion &c) { c.out(c.any(0)); }, "nothing");
  t->add(
      "OptionalHasElement",
      [](Conversion &c) { c.out(c.scalar(kBool, c.has(0) && c.any(0)->kind != Operand::Kind::kNothing ? 1 : 0)); },
      "a constant");
}

} // namespace opc::onnx
