// How the steps of a region by rows read their operands.
// SPDX-License-Identifier: Apache-2.0
#include "RowAccess.h"

#include "opc/ColumnsLoop.h"

namespace opc {
namespace {

using user_op::RowPart;

class AccessFinder {
public:
  AccessFinder(const RegionOutline &outline, RowAccess *access) : o_(outline), a_(*access) {}

  bool run(std::string *why) {
    const int64_t total = o_.shape.elem_cnt();
    if (o_.rowSize < 2 || total == 0 || total % o_.rowSize != 0) {
      *why = "the loop " + o_.shape.ToString() + " has no rows of " + std::to_string(o_.rowSize) + " elements";
      return false;
    }
    rows_ = total / o_.rowSize;
    for (size_t i = 0; i < o_.steps.size(); ++i)
      if (!step(o_.steps[i])) {
        *why = "step " + std::to_string(i) + " does not go by the rows of " + o_.shape.ToString() + ", of " +
               std::to_string(o_.rowSize) + " elements";
        return false;
      }
    return true;
  }

private:
  bool isInput(uint32_t value) const { return value < o_.inputs.size(); }
  const Shape &shapeOf(uint32_t value) const {
    return isInput(value) ? o_.inputs[value] : made_[value - o_.inputs.size()];
  }
  bool isOne(uint32_t value) const { return a_.isOne[value - o_.inputs.size()]; }
  bool isWhole(uint32_t value) const { return !isInput(value) && a_.isWhole[value - o_.inputs.size()]; }

  bool step(const RegionOutline::Step &s) {
    a_.reads.emplace_back();
    for (size_t k = 0; k < s.args.size(); ++k) {
      if (isWhole(s.args[k])) return false;
      const bool found = s.rows                  ? readByRows(s.args[k], s.rows->inputs[k])
                         : s.made[0] == o_.shape ? readForElements(s.args[k])
                                                 : readForOnes(s.args[k]);
      if (!found) return false;
    }
    if (s.rows && (s.rows->size != o_.rowSize || s.rows->rows != rows_ || !hasPieces(*s.rows))) return false;
    for (size_t i = 0; i < s.made.size(); ++i) {
      const RowPart part = s.rows ? s.rows->outputs[i] : s.made[i] == o_.shape ? RowPart::kRow : RowPart::kOne;
      const bool one = part == RowPart::kOne, whole = part == RowPart::kWhole;
      if (part == RowPart::kIndex) return false;
      if (s.made[i].elem_cnt() != (one ? rows_ : whole ? o_.rowSize : rows_ * o_.rowSize)) return false;
      made_.push_back(s.made[i]);
      a_.isOne.push_back(one);
      a_.isWhole.push_back(whole);
    }
    return true;
  }
  /// Loops that put rows together share their pieces.
  bool hasPieces(const user_op::RowsLoop &loop) {
    const auto *columns = dynamic_cast<const user_op::ColumnsLoop *>(&loop);
    if (!columns) return true;
    if (pieceRows_ == 0) pieceRows_ = columns->pieceRows;
    return columns->pieceRows == pieceRows_;
  }

  bool read(RowRead how) {
    a_.reads.back().push_back(how);
    return true;
  }
  bool readByRows(uint32_t value, RowPart part) {
    if (part == RowPart::kWhole) return isInput(value) && read(RowRead::kWhole);
    if (part == RowPart::kIndex && !isInput(value)) return false;
    const bool one = part != RowPart::kRow;
    if (shapeOf(value).elem_cnt() != (one ? rows_ : rows_ * o_.rowSize)) return false;
    return (isInput(value) || isOne(value) == one) && read(one ? RowRead::kOnes : RowRead::kRows);
  }
  /// For a result of the loop's shape.
  bool readForElements(uint32_t value) {
    const Shape &shape = shapeOf(value);
    if (!broadcasts(shape, o_.shape)) return false;
    if (isInput(value))
      return read(shape.elem_cnt() == o_.shape.elem_cnt() ? RowRead::kRows
                  : shape.elem_cnt() == 1                 ? RowRead::kSingle
                                                          : RowRead::kBroadcast);
    if (!isOne(value)) return read(RowRead::kRows);
    return isOneForEach(shape, o_.shape, o_.rowSize) && read(RowRead::kEach);
  }
  /// For a result with an element for each row.
  bool readForOnes(uint32_t value) {
    const Shape &shape = shapeOf(value);
    if (isInput(value) && shape.elem_cnt() == 1 && rows_ != 1) return read(RowRead::kSingle);
    return shape.elem_cnt() == rows_ && (isInput(value) || isOne(value)) && read(RowRead::kOnes);
  }

  const RegionOutline &o_;
  RowAccess &a_;
  int64_t rows_ = 0, pieceRows_ = 0;
  std::vector<Shape> made_;
};

} // namespace

bool broadcasts(const Shape &from, const Shape &to) {
  const int64_t rank = from.NumAxes(), missing = to.NumAxes() - rank;
  for (int64_t axis = 0; missing >= 0 && axis < rank; ++axis)
    if (from.At(axis) != 1 && from.At(axis) != to.At(missing + axis)) return false;
  return missing >= 0;
}

bool isOneForEach(const Shape &shape, const Shape &loop, int64_t rowSize) {
  if (shape.NumAxes() != loop.NumAxes()) return false;
  int64_t inRow = 1;
  for (int64_t axis = shape.NumAxes(); axis-- > 0;) {
    const bool isInside = inRow < rowSize;
    if (shape.At(axis) != (isInside ? 1 : loop.At(axis))) return false;
    if (isInside) inRow *= loop.At(axis);
  }
  return inRow == rowSize;
}

bool findRowAccess(const RegionOutline &outline, RowAccess *access, std::string *why) {
  *access = {};
  return AccessFinder(outline, access).run(why);
}

} // namespace opc
