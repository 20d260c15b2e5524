// What the losses over rows of classes share: the checks of their arguments, and the class of each row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/IndexCheck.h"
#include "support/Operator.h"

#include "opc/RowsKernel.h"

#include <optional>

namespace opc::ops::loss {

/// The shape without its last axis, that of the classes; the size of that axis.
inline Shape rowsOf(const Shape &classes) { return Shape(DimVector(classes.begin(), classes.end() - 1)); }
inline int64_t classesOf(const Shape &classes) { return classes.At(classes.NumAxes() - 1); }

/// `classes` has rank 1 or more, and `rows` is its shape without the last axis.
inline Maybe<void> checkRows(const InferContext *ctx, const char *classes, const char *rows) {
  const Shape &c = ctx->In(classes).shape(), &r = ctx->In(rows).shape();
  if (c.NumAxes() == 0 || rowsOf(c) != r)
    return (Error::ShapeMismatch() << classes << " is " << c.ToString() << ", " << rows << " is " << r.ToString())
        .help(std::string("the last axis of ") + classes + " holds the classes; " + rows + " has the axes before it");
  return Maybe<void>::Ok();
}
/// `label` names a class of each row.
inline Maybe<void> checkLabels(const InferContext *ctx, const char *classes, const char *label) {
  JUST(checkIndexType(ctx, label));
  return checkRows(ctx, classes, label);
}
inline Maybe<void> checkDepth(const InferContext *ctx, const char *classes) {
  const int64_t depth = ctx->Attr<int64_t>("depth"), n = classesOf(ctx->In(classes).shape());
  if (depth > 0 && depth != n)
    return (Error("OPC0205") << "depth is " << depth << ", " << classes << " has " << n << " classes")
        .help("leave depth out, or make it the number of classes");
  return Maybe<void>::Ok();
}
/// A weight, if given, has one entry a class.
inline Maybe<void> checkWeight(const InferContext *ctx, const char *classes) {
  const TensorDesc &x = ctx->In(classes);
  const int64_t n = classesOf(x.shape());
  if (ctx->Has("weight") && ctx->In("weight") != TensorDesc(Shape({n}), x.data_type()))
    return (Error::ShapeMismatch() << "weight is " << ctx->In("weight").toString() << ", " << classes << " has " << n
                                   << " classes")
        .help(std::string("weight has one entry a class, in the dtype of ") + classes);
  return Maybe<void>::Ok();
}

/// The class that an integer names for each row, where all labels are checked before any row is computed. `ignore` need
/// not be a class.
class ClassOfRow {
public:
  ClassOfRow(const KernelContext &ctx, const char *label, const char *classes, std::optional<int64_t> ignore = {})
      : name_(label), ignore_(ignore) {
    const Shape &full = ctx.Desc(classes).shape();
    range_ = pieceRange(&ctx, classes, full.NumAxes() - 1);
    size = range_.size;
    shape_ = ctx.Desc(label).shape();
    rows = shape_.elem_cnt();
    isWide_ = ctx.Desc(label).data_type() == kInt64;
  }
  int64_t rows, size; // classes of this device
  bool hasAllClasses() const { return range_.all(); }

  void check(const void *labels) const {
    if (ignore_) return checkOthers(labels);
    withType([&](auto tag) {
      checkIndices(nullptr, static_cast<const decltype(tag) *>(labels), shape_, range_.whole, name_, "the classes");
    });
  }
  /// A loop over these rows of classes without what it computes. Its argument `at` is the labels, which are checked
  /// first.
  template <class T>
  RowFunction<T> function(std::vector<typename RowFunction<T>::Argument> in,
                          std::vector<typename RowFunction<T>::Argument> out, size_t at = 1) const {
    RowFunction<T> f;
    f.rows = rows;
    f.size = size;
    f.joins = hasAllClasses();
    f.inputs = std::move(in);
    f.outputs = std::move(out);
    f.check = [label = *this, at](const RowArguments<T> &a) { label.check(a.in[at]); };
    return f;
  }
  /// Of row r among the labels that begin here; -1 where another device has it or it is ignored.
  int64_t of(const void *labels, int64_t r) const {
    int64_t k = number(labels, r);
    if (k == ignore_) return -1;
    k = range_.place(k);
    return range_.holds(k) ? k : -1;
  }

private:
  int64_t number(const void *labels, int64_t r) const {
    return isWide_ ? static_cast<const int64_t *>(labels)[r] : static_cast<const int32_t *>(labels)[r];
  }
  void checkOthers(const void *labels) const {
    for (int64_t r = 0; r < rows; ++r)
      if (const int64_t k = number(labels, r); k != *ignore_ && (k < 0 || k >= range_.whole))
        throw ContractError(name_ + positionText(shape_, r) + " = " + std::to_string(k) + " is outside [0, " +
                            std::to_string(range_.whole) + "), the range of the classes, and is not ignore_index (" +
                            std::to_string(*ignore_) + ")");
  }
  template <class F> void withType(F &&f) const { isWide_ ? f(int64_t{}) : f(int32_t{}); }
  const char *name_;
  PieceRange range_;
  std::optional<int64_t> ignore_;
  Shape shape_;
  bool isWide_ = false;
};

} // namespace opc::ops::loss
