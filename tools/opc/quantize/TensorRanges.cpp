// Ranges by extent, by percentile and by the least loss of information.
// SPDX-License-Identifier: Apache-2.0
#include "TensorRanges.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace opc::cli {

AffineScale affineScale(const TensorRange &range) {
  const double low = std::min(range.low, 0.0), high = std::max(range.high, 0.0);
  AffineScale s;
  if (high - low <= 0) return s;
  s.scale = std::max(static_cast<float>((high - low) / 255), std::numeric_limits<float>::min());
  s.zero = static_cast<uint8_t>(std::clamp(std::rint(-low / static_cast<double>(s.scale)), 0.0, 255.0));
  return s;
}

void TensorSpread::extend(const float *values, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<double>(values[i]);
    if (!std::isfinite(v)) finite_ = false;
    if (!std::isfinite(v)) continue;
    extent_.low = seen_ ? std::min(extent_.low, v) : v;
    extent_.high = seen_ ? std::max(extent_.high, v) : v;
    ++seen_;
  }
}

void TensorSpread::count(const float *values, int64_t count) {
  bins_.resize(kBins);
  magnitudes_.resize(kBins);
  const double width = extent_.high - extent_.low, most = std::max(-extent_.low, extent_.high);
  for (int64_t i = 0; i < count; ++i) {
    const auto v = static_cast<double>(values[i]);
    if (!std::isfinite(v)) continue;
    const auto bin = [](double share) { return std::clamp(static_cast<int>(share * kBins), 0, kBins - 1); };
    ++bins_[static_cast<size_t>(width > 0 ? bin((v - extent_.low) / width) : 0)];
    if (v != 0) ++magnitudes_[static_cast<size_t>(most > 0 ? bin(std::abs(v) / most) : 0)];
  }
}

TensorRange TensorSpread::range(RangeMethod method, double percentile) const {
  if (bins_.empty()) return extent_;
  if (method == RangeMethod::kPercentile) return percentileRange(percentile);
  return method == RangeMethod::kEntropy ? entropyRange() : extent_;
}

/// What is left out is left out in equal parts on both sides.
TensorRange TensorSpread::percentileRange(double percentile) const {
  uint64_t all = 0;
  for (uint64_t n : bins_) all += n;
  const double cut = static_cast<double>(all) * (100 - percentile) / 200, width = (extent_.high - extent_.low) / kBins;
  const auto binsCut = [&](auto begin, auto end) {
    double sum = 0;
    int bins = 0;
    for (auto it = begin; it != end && sum + static_cast<double>(*it) <= cut; ++it, ++bins)
      sum += static_cast<double>(*it);
    return std::min(bins, kBins - 1);
  };
  return {extent_.low + width * binsCut(bins_.begin(), bins_.end()),
          extent_.high - width * binsCut(bins_.rbegin(), bins_.rend())};
}

/// The bound on absolute values at which 128 levels tell least less than the values themselves: the relative entropy of
/// what is cut at the bound to what the levels make of it is least.
TensorRange TensorSpread::entropyRange() const {
  constexpr size_t kLevels = 128;
  double least = std::numeric_limits<double>::infinity();
  size_t best = kBins;
  for (size_t kept = kLevels; kept <= kBins; kept += 16) {
    std::vector<double> cut(magnitudes_.begin(), magnitudes_.begin() + static_cast<int64_t>(kept)), levels(kept, 0);
    for (size_t level = 0; level < kLevels; ++level) {
      const size_t begin = level * kept / kLevels, end = (level + 1) * kept / kLevels;
      double sum = 0;
      size_t filled = 0;
      for (size_t i = begin; i < end; ++i) sum += cut[i], filled += cut[i] > 0;
      for (size_t i = begin; i < end; ++i)
        if (cut[i] > 0) levels[i] = sum / static_cast<double>(filled);
    }
    for (size_t i = kept; i < kBins; ++i) cut[kept - 1] += static_cast<double>(magnitudes_[i]);
    double all = 0, made = 0, entropy = 0;
    for (size_t i = 0; i < kept; ++i) all += cut[i], made += levels[i];
    if (made <= 0) continue;
    for (size_t i = 0; i < kept; ++i) {
      if (cut[i] <= 0) continue;
      const double share = cut[i] / all, level = std::max(levels[i] / made, 1e-12);
      entropy += share * std::log(share / level);
    }
    if (entropy < least) least = entropy, best = kept;
  }
  const double bound = std::max(-extent_.low, extent_.high) * static_cast<double>(best) / kBins;
  return {std::max(extent_.low, -bound), std::min(extent_.high, bound)};
}

Status RangeObserver::before(const ObservedTask &task, int64_t, TaskData &data) {
  const auto watched = arguments_.find(task.name);
  if (watched == arguments_.end()) return Status::ok();
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    if (task.inputs[i].argument != watched->second || task.inputs[i].desc.data_type() != kFloat) continue;
    OPC_ASSIGN_OR_RETURN(const void *bytes, data.input(i));
    TensorSpread &spread = spreads_[task.name];
    const int64_t count = task.inputs[i].desc.shape().elem_cnt();
    if (isCounting_)
      spread.count(static_cast<const float *>(bytes), count);
    else
      spread.extend(static_cast<const float *>(bytes), count);
  }
  return Status::ok();
}

} // namespace opc::cli
