// A kernel tied to the tensors of one task, ready to run.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <memory>
#include <utility>
#include <vector>

namespace opc {

/// A kernel tied to the tensors of one task. Owns the kernel object, its state and, when it binds, its bound form.
class KernelTask {
public:
  /// `data`: pointers of inputs, then outputs, flat; `constant[i]` says that input i never changes. After an error `op`
  /// is what it was, for another try.
  static Result<std::unique_ptr<KernelTask>> create(OpInstance &&op, const user_op::KernelDef &kernel, DeviceCtx *ctx,
                                                    const std::vector<void *> &data, const std::vector<bool> &constant,
                                                    void *workspace, uint64_t workspaceBytes);
  ~KernelTask();
  /// Whether a kernel for `op` reads its input (counted flat) wherever it begins (opc/UnalignedInputs.h).
  static bool mayBeUnaligned(const OpInstance &op, const user_op::KernelDef &kernel, size_t input);
  /// Does the work. The hot path: no allocation, no look-up when the kernel is bound.
  Status run(DeviceCtx *ctx) {
    running_ = this;
    if (number_ || isNoted_) noteNames();
    Status s = bound_ ? run_(*bound_, ctx) : runUnbound(ctx);
    running_ = nullptr;
    return s;
  }
  /// The task whose kernel this thread is in; nullptr outside of kernels.
  static const KernelTask *running() { return running_; }
  /// Its op's name and type, null outside of kernels, for a handler of signals. Where plugins are loaded they are
  /// copies: a kernel that writes past its tensors may have written over the task.
  static std::pair<const char *, const char *> runningOp() noexcept;

  /// Whether both kernels are run by a function that is not the SDK's and is one for both: what one has taken for its
  /// work (a lock, an interpreter) it may leave to the next, when it is told that there is one.
  bool mayLeaveTo(const KernelTask &next) const;
  /// run(), when `next` begins as soon as this one ends well.
  Status runBefore(DeviceCtx *ctx) {
    followed_ = true;
    Status s = run(ctx);
    followed_ = false;
    return s;
  }
  /// Of the task that this thread is in.
  static bool isFollowed() { return followed_; }
  const OpInstance &op() const;
  /// The kernel; null where it is not made by an object.
  const user_op::OpKernel *kernel() const;
  /// The bound form; null for a kernel that does not bind.
  const user_op::BoundKernel *bound() const { return bound_.get(); }
  user_op::BoundKernel *bound() { return bound_.get(); }
  /// Which output bytes equal which input's address is the caller's affair; this only moves the tensors.
  /// Binds again with new addresses (the sizes stay).
  Status rebind(const std::vector<void *> &data, void *workspace, DeviceCtx *ctx);

private:
  static thread_local const KernelTask *running_;
  static thread_local bool followed_;
  static thread_local bool isNoted_; // whether runningNames() are anybody's
  KernelTask() = default;
  Status runUnbound(DeviceCtx *ctx);
  void noteNames();
  struct Impl;
  std::unique_ptr<Impl> impl_;
  std::unique_ptr<user_op::BoundKernel> bound_;
  Status (*run_)(user_op::BoundKernel &, DeviceCtx *) = nullptr;
  uint64_t number_ = 0; // where plugins are loaded: a task's own
};

} // namespace opc
