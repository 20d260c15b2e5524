// What roi_align and its gradient share: attributes, shapes, and what the bins of a region take of an image.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "pooling/RoiPlaces.h"
#include "support/Operator.h"

#include <limits>
#include <vector>

namespace opc::ops {

/// The attributes of both ops.
void roiAlignAttrs(OpRegistry &op);
/// The check of x, rois and batch_indices and the attributes; gives the type of y.
Maybe<TensorDesc> roiAlignOutput(const InferContext *ctx);
/// Multiplications and additions of the samples.
Maybe<double> roiAlignWork(InferContext *ctx);
/// The cases of both.
std::vector<Case> roiAlignCases(bool withGradient);

struct RoiAlignment {
  int64_t images, channels, regions;
  RoiAxis rows, columns;
  bool isMax;
  int64_t plane() const { return rows.size * columns.size; }
  int64_t bins() const { return rows.bins * columns.bins; }
};
RoiAlignment roiAlignment(const OpContext &ctx, const Shape &x, const Shape &rois);

/// What each bin takes of one axis: a run of taps. For mode "avg" those of the same place are one, and they are shares
/// of the mean.
template <class T> struct RoiTaps {
  std::vector<int64_t> place, first; // first: of each bin, and the end of the last
  std::vector<T> weight;
  std::vector<char> leavesImage; // a sample of the bin is outside, where it is 0
  std::vector<int64_t> at;       // in the line of elements that the other axis has been reduced to
  int64_t begin = 0, span = 0;   // of that line: neighbours from `begin` on, or one for each tap
  bool isDense = true;

  void fill(const RoiAxis &axis, T low, T high, bool isMax) {
    const RoiBins<T> bins(axis, low, high);
    place.clear(), weight.clear(), leavesImage.clear(), first.assign(1, 0);
    for (int64_t b = 0; b < axis.bins; ++b) {
      const int64_t from = bins.firstSample(b), to = bins.endSample(b);
      bool leaves = from > 0 || to < bins.count;
      for (int64_t k = from; k < to; ++k) {
        const RoiSample<T> s = bins.sample(b, k);
        leaves = leaves || !s.isInside;
        if (!s.isInside) continue;
        add(s.low, 1 - s.part, isMax);
        add(s.high, s.part, isMax);
      }
      if (!isMax)
        for (size_t t = static_cast<size_t>(first.back()); t < weight.size(); ++t)
          weight[t] /= static_cast<T>(bins.count);
      first.push_back(static_cast<int64_t>(place.size()));
      leavesImage.push_back(leaves);
    }
  }
  /// Whether whole runs of neighbours are read, or the elements of the taps alone.
  void layOut() {
    const int64_t taps = static_cast<int64_t>(place.size());
    at.resize(place.size());
    begin = span = 0;
    if (taps == 0) return;
    const auto [least, most] = std::minmax_element(place.begin(), place.end());
    begin = *least;
    span = *most - *least + 1;
    isDense = span <= 4 * taps;
    if (!isDense) span = taps;
    for (size_t t = 0; t < at.size(); ++t) at[t] = isDense ? place[t] - begin : static_cast<int64_t>(t);
  }

private:
  /// Samples follow one another, upwards or downwards: an equal place is among the last three.
  void add(int64_t where, T w, bool isMax) {
    if (!isMax)
      for (size_t t = place.size(); t > static_cast<size_t>(first.back()) && t + 3 > place.size(); --t)
        if (place[t - 1] == where) {
          weight[t - 1] += w;
          return;
        }
    place.push_back(where);
    weight.push_back(w);
  }
};

/// The taps of one region along both axes.
template <class T> struct RoiWindow {
  RoiTaps<T> rows, columns;
  std::vector<T> line;

  void fill(const RoiAlignment &g, const T *roi) {
    rows.fill(g.rows, roi[1], roi[3], g.isMax);
    columns.fill(g.columns, roi[0], roi[2], g.isMax);
    columns.layOut();
    line.resize(static_cast<size_t>(columns.span));
  }
};

} // namespace opc::ops
