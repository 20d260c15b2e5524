// OpKernelStateWrapper: any object as the state of a kernel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/framework/framework.h"

namespace oneflow {

template <class T> class OpKernelStateWrapper final : public user_op::OpKernelState {
public:
  template <class... Args> explicit OpKernelStateWrapper(Args &&...args) : object_(std::forward<Args>(args)...) {}
  const T &Get() const { return object_; }
  T *Mutable() { return &object_; }

private:
  T object_;
};

} // namespace oneflow
