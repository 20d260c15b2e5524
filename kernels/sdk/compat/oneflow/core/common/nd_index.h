// An index on each axis of an array.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/shape.h"

namespace oneflow {

class NdIndex final {
public:
  NdIndex() = default;
  NdIndex(std::initializer_list<int64_t> index) : index_(index) {}
  explicit NdIndex(DimVector index) : index_(std::move(index)) {}
  int64_t At(int64_t axis) const { return index_.at(static_cast<size_t>(axis)); }
  int64_t NumAxes() const { return static_cast<int64_t>(index_.size()); }
  const DimVector &dim_vec() const { return index_; }
  bool operator==(const NdIndex &o) const { return index_ == o.index_; }
  bool operator!=(const NdIndex &o) const { return index_ != o.index_; }

private:
  DimVector index_;
};

} // namespace oneflow
