// Maps of ops that move elements, one after the other, as seen from the loop.
// SPDX-License-Identifier: Apache-2.0
#include "MoveAccess.h"

#include <algorithm>
#include <optional>

namespace opc {
namespace {

using user_op::AxisRead;
using user_op::MovedBox;
using user_op::MoveMap;
using AxisMap = std::vector<AxisRead>; // of a value's axes, by axes of the loop

/// a + b * c. False where that does not fit.
bool addProduct(int64_t a, int64_t b, int64_t c, int64_t *sum) {
  int64_t product = 0;
  return !__builtin_mul_overflow(b, c, &product) && !__builtin_add_overflow(a, product, sum);
}

bool isDisjoint(const MovedBox &a, const MovedBox &b) {
  for (size_t k = 0; k < a.begin.size(); ++k)
    if (a.begin[k] + a.size[k] <= b.begin[k] || b.begin[k] + b.size[k] <= a.begin[k]) return true;
  return false;
}

int64_t elements(const DimVector &size) {
  int64_t n = 1;
  for (int64_t d : size) n *= d;
  return n;
}

bool makeSound(MovedBox *box, const Shape &in, const Shape &out) {
  const auto rank = static_cast<size_t>(out.NumAxes());
  if (box->begin.size() != rank || box->size.size() != rank) return false;
  for (size_t a = 0; a < rank; ++a) {
    const int64_t whole = out.At(static_cast<int64_t>(a));
    if (box->begin[a] < 0 || box->size[a] < 0 || box->begin[a] > whole || box->size[a] > whole - box->begin[a])
      return false;
  }
  if (box->reads.size() != static_cast<size_t>(in.NumAxes())) return false;
  for (size_t k = 0; k < box->reads.size(); ++k) {
    AxisRead &r = box->reads[k];
    if (r.axis < -1 || r.axis >= out.NumAxes()) return false;
    const size_t a = r.axis < 0 ? 0 : static_cast<size_t>(r.axis);
    int64_t first = r.begin, last = r.begin;
    if (r.axis >= 0 &&
        (!addProduct(r.begin, r.step, box->begin[a], &first) || !addProduct(first, r.step, box->size[a] - 1, &last)))
      return false;
    if (std::min(first, last) < 0 || std::max(first, last) >= in.At(static_cast<int64_t>(k))) return false;
    if (r.axis < 0 || r.step == 0 || box->size[a] == 1) r = {-1, first, 0};
  }
  return true;
}

class MoveFinder {
public:
  MoveFinder(const RegionOutline &outline, MoveAccess *access, std::string *why)
      : o_(outline), a_(*access), why_(*why) {
    for (size_t i = 0; i < o_.steps.size(); ++i)
      for (const Shape &made : o_.steps[i].made) {
        shapes_.push_back(&made);
        makers_.push_back(i);
      }
    maps_.resize(shapes_.size());
    a_.args.resize(o_.steps.size());
  }

  bool run() { return o_.rowSize > 0 ? byRows() : byElements(); }

private:
  struct Found {
    LoopInput input;
    bool fills = false;
    std::optional<uint32_t> made; // a value that a step computes, under `map`
    AxisMap map;
  };

  bool isInput(uint32_t value) const { return value < o_.inputs.size(); }
  size_t makerOf(uint32_t value) const { return makers_[value - o_.inputs.size()]; }
  bool isMoved(uint32_t value) const { return !isInput(value) && o_.steps[makerOf(value)].moves; }
  const Shape &shapeOf(uint32_t value) const {
    return isInput(value) ? o_.inputs[value] : *shapes_[value - o_.inputs.size()];
  }
  static AxisMap identity(const Shape &shape) {
    AxisMap map;
    for (int64_t a = 0; a < shape.NumAxes(); ++a) map.push_back(shape.At(a) == 1 ? AxisRead{} : AxisRead{a, 0, 1});
    return map;
  }
  bool no(uint32_t value, const char *what) {
    why_ = isInput(value) ? "input " + std::to_string(value) + " of a region " + what
                          : "step " + std::to_string(makerOf(value)) + " " + what;
    return false;
  }

  /// Rows are moved before the loop's ops read them, and not behind these.
  bool byRows() {
    for (uint32_t v : o_.outputs) {
      if (isMoved(v)) return no(v, "moves what goes by rows");
      a_.outputs.push_back(v);
    }
    for (size_t i = 0; i < o_.steps.size(); ++i) {
      const RegionOutline::Step &s = o_.steps[i];
      if (s.moves) continue;
      for (size_t k = 0; k < s.args.size(); ++k) {
        const uint32_t v = s.args[k];
        if (isInput(v)) {
          addInput(i, {v, o_.inputs[v], false, {}, 0, {}});
        } else if (!isMoved(v)) {
          a_.args[i].push_back({false, v});
        } else {
          const bool rows =
              s.rows ? s.rows->inputs[k] == user_op::RowPart::kRow : s.made[0] == o_.shape && shapeOf(v) == o_.shape;
          if (!rows || shapeOf(v).elem_cnt() != o_.shape.elem_cnt()) return no(v, "moves what is no rows of the loop");
          Found found;
          if (!resolve(v, identity(shapeOf(v)), wholeBox(shapeOf(v)), &found)) return false;
          if (found.made) return no(v, "moves what the loop computes by rows");
          found.input.value = v;
          found.input.isMoved = true;
          found.input.shape = shapeOf(v);
          addInput(i, std::move(found.input));
        }
      }
    }
    return true;
  }

  /// From the results back: which index of each value belongs to an index of the loop.
  bool byElements() {
    if (o_.shape.elem_cnt() == 0) {
      why_ = "a loop over nothing moves elements";
      return false;
    }
    for (uint32_t v : o_.outputs) {
      if (shapeOf(v) != o_.shape) return no(v, "makes a result of another shape than that of the loop");
      uint32_t made = v;
      AxisMap map = identity(o_.shape);
      if (isMoved(v)) {
        Found found;
        if (!resolve(v, map, wholeBox(o_.shape), &found)) return false;
        if (!found.made) return no(v, "moves elements that nothing in the loop computes");
        made = *found.made;
        map = std::move(found.map);
      }
      if (std::find(a_.outputs.begin(), a_.outputs.end(), made) != a_.outputs.end())
        return no(made, "makes two results of the region");
      a_.outputs.push_back(made);
      if (!give(made, std::move(map))) return false;
    }
    for (size_t i = o_.steps.size(), value = o_.inputs.size() + shapes_.size(); i-- > 0;) {
      const RegionOutline::Step &s = o_.steps[i];
      value -= s.made.size();
      if (!s.moves && !step(i, static_cast<uint32_t>(value))) return false;
    }
    return true;
  }

  bool step(size_t i, uint32_t value) {
    if (!maps_[value - o_.inputs.size()]) return no(value, "makes what nobody reads");
    const AxisMap map = *maps_[value - o_.inputs.size()];
    for (uint32_t v : o_.steps[i].args) {
      const Shape &shape = shapeOf(v);
      if (!broadcasts(shape, shapeOf(value))) return no(value, "reads what does not broadcast to its result");
      AxisMap read;
      const auto missing = static_cast<size_t>(shapeOf(value).NumAxes() - shape.NumAxes());
      for (int64_t a = 0; a < shape.NumAxes(); ++a)
        read.push_back(shape.At(a) == 1 ? AxisRead{} : map[missing + static_cast<size_t>(a)]);
      Found found;
      if (!resolve(v, read, wholeBox(o_.shape), &found)) return false;
      if (found.made) {
        a_.args[i].push_back({false, *found.made});
        if (!give(*found.made, std::move(found.map))) return false;
        continue;
      }
      found.input.value = v;
      found.input.map = read;
      found.input.isMoved = !isInput(v) || !isPlain(shape, read);
      found.input.shape = found.input.isMoved ? o_.shape : shape;
      addInput(i, std::move(found.input));
    }
    return true;
  }

  /// The loop computes each element of a step's value that is read once.
  bool give(uint32_t value, AxisMap map) {
    auto &known = maps_[value - o_.inputs.size()];
    if (known) return *known == map || no(value, "makes what is read in two orders");
    std::vector<int> uses(static_cast<size_t>(o_.shape.NumAxes()), 0);
    for (const AxisRead &r : map)
      if (r.axis >= 0) ++uses[static_cast<size_t>(r.axis)];
    for (int64_t a = 0; a < o_.shape.NumAxes(); ++a)
      if (o_.shape.At(a) > 1 && uses[static_cast<size_t>(a)] != 1) return no(value, "would be computed several times");
    known = std::move(map);
    return true;
  }

  bool isPlain(const Shape &shape, const AxisMap &map) const {
    const int64_t missing = o_.shape.NumAxes() - shape.NumAxes();
    if (missing < 0) return false;
    for (int64_t a = 0; a < shape.NumAxes(); ++a)
      if (shape.At(a) != 1 && !(map[static_cast<size_t>(a)] == AxisRead{missing + a, 0, 1})) return false;
    return true;
  }

  static MovedSource wholeBox(const Shape &loop) {
    MovedSource box;
    box.begin.assign(static_cast<size_t>(loop.NumAxes()), 0);
    box.size = loop.dim_vec();
    return box;
  }

  /// Where a value's elements are, for those indices of the loop that are in `box`.
  bool resolve(uint32_t value, const AxisMap &map, const MovedSource &box, Found *found) {
    if (isInput(value)) return addSource(value, map, box, found);
    const RegionOutline::Step &s = o_.steps[makerOf(value)];
    if (!s.moves) {
      if (!found->input.sources.empty() || found->made || found->fills) return no(value, "is one of several sources");
      found->made = value;
      found->map = map;
      return true;
    }
    const Shape &out = shapeOf(value);
    int64_t covered = 0;
    for (const MovedBox &b : s.moves->boxes) covered += elements(b.size);
    const bool all = covered == out.elem_cnt();
    if (!all) {
      if (found->fills && found->input.fill != s.moves->fill) return no(value, "fills beside another fill");
      found->fills = true;
      found->input.fill = s.moves->fill;
    }
    const bool several = !all || s.moves->boxes.size() != 1;
    for (const MovedBox &b : s.moves->boxes) {
      MovedSource part = box;
      if (!cut(map, b, &part)) continue;
      AxisMap read;
      for (const AxisRead &r : b.reads) {
        AxisRead to{-1, r.begin, 0};
        if (r.axis >= 0) {
          const AxisRead &m = map[static_cast<size_t>(r.axis)];
          if (!addProduct(r.begin, r.step, m.begin, &to.begin) || !addProduct(0, r.step, m.step, &to.step))
            return no(value, "reads too far");
          if (to.step != 0) to.axis = m.axis;
        }
        read.push_back(to);
      }
      if (!resolve(s.args[b.input], read, part, found)) return false;
      if (several && found->made) return no(value, "has several sources, of which the loop computes one");
    }
    return true;
  }

  /// Leaves of a box what a move takes from one of its own. False if that is nothing.
  static bool cut(const AxisMap &map, const MovedBox &b, MovedSource *part) {
    for (size_t a = 0; a < map.size(); ++a) {
      const AxisRead &m = map[a];
      const int64_t low = b.begin[a], high = b.begin[a] + b.size[a]; // of the value's index
      if (m.axis < 0) {
        if (m.begin < low || m.begin >= high) return false;
        continue;
      }
      // Elements of the loop's axis come in order, forwards or backwards: those in [low, high).
      const auto k = static_cast<size_t>(m.axis);
      const auto at = [&](int64_t i) { return m.begin + m.step * i; };
      int64_t first = part->begin[k], end = first + part->size[k];
      const auto divideUp = [](int64_t x, int64_t by) { return x > 0 ? (x - 1) / by + 1 : -(-x / by); };
      if (m.step > 0) {
        first = std::max(first, divideUp(low - m.begin, m.step));
        end = std::min(end, divideUp(high - m.begin, m.step));
      } else {
        first = std::max(first, divideUp(m.begin - high + 1, -m.step));
        end = std::min(end, divideUp(m.begin - low + 1, -m.step));
      }
      if (first >= end || at(first) < low || at(first) >= high) return false;
      part->begin[k] = first;
      part->size[k] = end - first;
    }
    return true;
  }

  bool addSource(uint32_t input, const AxisMap &map, MovedSource box, Found *found) {
    if (found->made) return no(input, "is one of several sources");
    if (found->input.sources.size() == kMaxMovedSources) return no(input, "is one of too many sources");
    const Shape &shape = o_.inputs[input];
    box.input = input;
    box.offset = 0;
    box.strides.assign(box.begin.size(), 0);
    int64_t stride = 1;
    for (size_t a = map.size(); a-- > 0;) {
      if (!addProduct(box.offset, stride, map[a].begin, &box.offset)) return no(input, "is read too far");
      if (map[a].axis >= 0) {
        int64_t &to = box.strides[static_cast<size_t>(map[a].axis)];
        if (!addProduct(to, stride, map[a].step, &to)) return no(input, "is read too far");
      }
      stride *= shape.At(static_cast<int64_t>(a));
    }
    __int128 least = box.offset, most = box.offset;
    for (size_t k = 0; k < box.begin.size(); ++k) {
      const __int128 first = static_cast<__int128>(box.strides[k]) * box.begin[k],
                     last = first + static_cast<__int128>(box.strides[k]) * (box.size[k] - 1);
      least += std::min(first, last);
      most += std::max(first, last);
    }
    if (least < 0 || most >= shape.elem_cnt()) return no(input, "is read outside of its elements");
    found->input.sources.push_back(std::move(box));
    return true;
  }

  void addInput(size_t step, LoopInput input) {
    size_t at = 0;
    while (at < a_.inputs.size() && !(a_.inputs[at].value == input.value && a_.inputs[at].map == input.map)) ++at;
    if (at == a_.inputs.size()) a_.inputs.push_back(std::move(input));
    a_.args[step].push_back({true, static_cast<uint32_t>(at)});
  }

  const RegionOutline &o_;
  MoveAccess &a_;
  std::string &why_;
  std::vector<const Shape *> shapes_; // of what steps make
  std::vector<size_t> makers_;
  std::vector<std::optional<AxisMap>> maps_; // of what steps compute
};

} // namespace

bool makeSound(MoveMap *map, const std::vector<user_op::TensorDesc> &inputs, const user_op::TensorDesc &out) {
  std::vector<MovedBox> &boxes = map->boxes;
  if (boxes.empty() || boxes.size() > kMaxMovedSources || out.shape().elem_cnt() == 0) return false;
  boxes.erase(std::remove_if(boxes.begin(), boxes.end(), [](const MovedBox &b) { return elements(b.size) == 0; }),
              boxes.end());
  for (size_t i = 0; i < boxes.size(); ++i) {
    if (boxes[i].input >= inputs.size()) return false;
    const user_op::TensorDesc &in = inputs[boxes[i].input];
    if (in.data_type() != out.data_type() || !makeSound(&boxes[i], in.shape(), out.shape())) return false;
    for (size_t k = 0; k < i; ++k)
      if (!isDisjoint(boxes[i], boxes[k])) return false;
  }
  return true;
}

bool hasMoves(const RegionOutline &outline) {
  return std::any_of(outline.steps.begin(), outline.steps.end(), [](const auto &s) { return s.moves != nullptr; });
}

LoopNumbers numbersOf(const RegionOutline &outline, const MoveAccess &access) {
  std::vector<uint32_t> made(outline.inputs.size()); // by value
  auto next = static_cast<uint32_t>(access.inputs.size());
  for (const RegionOutline::Step &s : outline.steps)
    for (size_t o = 0; o < s.made.size(); ++o) made.push_back(s.moves ? 0 : next++);
  LoopNumbers numbers;
  for (const auto &args : access.args) {
    numbers.args.emplace_back();
    for (const MoveAccess::Arg &a : args) numbers.args.back().push_back(a.isInput ? a.at : made[a.at]);
  }
  for (uint32_t v : access.outputs) numbers.outputs.push_back(made[v]);
  return numbers;
}

RegionOutline withoutMoves(const RegionOutline &outline, const MoveAccess &access) {
  LoopNumbers numbers = numbersOf(outline, access);
  RegionOutline loop;
  loop.shape = outline.shape;
  loop.rowSize = outline.rowSize;
  for (const LoopInput &in : access.inputs) loop.inputs.push_back(in.shape);
  for (size_t i = 0; i < outline.steps.size(); ++i)
    if (!outline.steps[i].moves)
      loop.steps.push_back({std::move(numbers.args[i]), outline.steps[i].made, outline.steps[i].rows, nullptr});
  loop.outputs = std::move(numbers.outputs);
  return loop;
}

bool findMoveAccess(const RegionOutline &outline, MoveAccess *access, std::string *why) {
  *access = {};
  return MoveFinder(outline, access, why).run();
}

} // namespace opc
