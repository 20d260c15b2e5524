// A vector with a largest size. opc's own vectors are std::vector, and so is this one, with the size checked.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/util.h"

namespace oneflow {

template <class T, int kMaxSize> class fixed_vector : public std::vector<T> {
public:
  using std::vector<T>::vector;
  fixed_vector() { this->reserve(kMaxSize); }
  void push_back(const T &value) {
    CHECK_LT(this->size(), static_cast<size_t>(kMaxSize));
    std::vector<T>::push_back(value);
  }
  size_t max_size() const { return kMaxSize; }
  size_t capacity() const { return kMaxSize; }
};

} // namespace oneflow
