// What the ops share that update a model: their arguments, the rule that checks them, and the loop over elements.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/HalfConversion.h"
#include "support/CpuKernels.h"

#include <initializer_list>
#include <string>
#include <type_traits>

namespace opc::ops::optimizer {

/// Every update op: model and its state are variables of one shape and one dtype (f32 or f64); model_diff has that
/// shape and dtype, or f16 or bf16 beside a model of f32; learning_rate, scale_by_tensor and the bias corrections are
/// of one element, f32 or the model's dtype; skip_if is an i64 of one element; model_copy, which receives the updated
/// model in another precision, f16 or bf16. `state` names the arguments beside model that must look like it.
Maybe<void> inferUpdate(InferContext *ctx, std::initializer_list<const char *> state);

/// For SetInputArgModifyFn: model, model_copy and `state` are written.
user_op::InputArgModifyFn writesModelAnd(std::vector<std::string> state);

/// For SetGetSbpFn of updates that are elementwise: everything in the model's shape is split alike, the scalars are
/// whole. Never from partial sums: the update is not linear.
Maybe<void> splitUpdate(user_op::SbpContext *ctx);

/// What every Doc says of them.
extern const char *const kCommonDoc;

/// A number that a tensor of one element gives when the task runs, or an attribute when there is no such tensor.
class RunScalar {
public:
  RunScalar() = default;
  RunScalar(const Tensor *tensor, double otherwise) : value_(otherwise) {
    if (!tensor) return;
    data_ = tensor->raw_dptr();
    type_ = tensor->data_type();
  }
  double get() const {
    if (!data_) return value_;
    if (type_ == kDouble) return *static_cast<const double *>(data_);
    if (type_ == kFloat) return static_cast<double>(*static_cast<const float *>(data_));
    return static_cast<double>(*static_cast<const int64_t *>(data_));
  }

private:
  const void *data_ = nullptr;
  DataType type_ = kFloat;
  double value_ = 0;
};

/// The common inputs and attributes of one update task.
template <class T> class Update {
public:
  explicit Update(KernelBindContext *ctx);
  /// False when skip_if says to leave everything as it is.
  bool wanted() const { return !skipIf_ || *skipIf_ == 0; }
  double learningRate() const { return rate_.get() * rateScale_; }
  int64_t size() const { return n_; }
  T *model() const { return model_; }

  /// The regularised gradient as the formulas use it: model_diff * scale + l1 * sign(model) + l2 * model.
  struct Gradient {
    T scale, l1, l2;
    T operator()(T diff, T model) const {
      return diff * scale + l1 * (static_cast<T>(model > T(0)) - static_cast<T>(model < T(0))) + l2 * model;
    }
  };
  Gradient gradient() const {
    return {static_cast<T>(scale_ * scaleBy_.get()), static_cast<T>(l1_), static_cast<T>(l2_)};
  }
  T weightDecay() const { return static_cast<T>(weightDecay_); }

  /// Calls body(begin, end, diff) on pieces that cover all elements; diff[i - begin] is element i of model_diff in the
  /// model's dtype. In parallel; where pieces begin depends on the size alone.
  template <class Body> void forPieces(DeviceCtx *dev, Body body) const {
    dev->parallelFor(pieces(), 8, [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) piece(p, body);
    });
  }
  /// The number of pieces, and one of them: for sums of each piece.
  int64_t pieces() const { return (n_ + kPiece - 1) / kPiece; }
  template <class Body> void piece(int64_t p, Body &body) const {
    const int64_t begin = p * kPiece, end = std::min(n_, begin + kPiece);
    if (diffType_ == GetDataType<T>::value) return body(begin, end, static_cast<const T *>(diff_) + begin);
    if constexpr (std::is_same_v<T, float>) {
      float wide[kPiece];
      if (diffType_ == kFloat16)
        cpu::widen(static_cast<const float16 *>(diff_) + begin, wide, end - begin);
      else
        cpu::widen(static_cast<const bfloat16 *>(diff_) + begin, wide, end - begin);
      body(begin, end, wide);
    }
  }
  /// After elements [begin, end) of the model have their new values: the half-precision copy.
  void copyModel(int64_t begin, int64_t end) const {
    if constexpr (std::is_same_v<T, float>) {
      if (!copy_) return;
      if (copyType_ == kFloat16)
        cpu::narrow(model_ + begin, static_cast<float16 *>(copy_) + begin, end - begin);
      else
        cpu::narrow(model_ + begin, static_cast<bfloat16 *>(copy_) + begin, end - begin);
    }
  }

  static constexpr int64_t kPiece = 2048;

private:
  int64_t n_ = 0;
  T *model_ = nullptr;
  const void *diff_ = nullptr;
  void *copy_ = nullptr;
  DataType diffType_ = kFloat, copyType_ = kFloat;
  const int64_t *skipIf_ = nullptr;
  RunScalar rate_, scaleBy_;
  double rateScale_ = 1, scale_ = 1, l1_ = 0, l2_ = 0, weightDecay_ = 0;
};

/// A variable of the update's state, nullptr when the instance does not have it.
template <class T> T *stateOf(KernelBindContext *ctx, const char *arg) {
  Tensor *t = ctx->Tensor4ArgNameAndIndex(arg, 0);
  return t ? t->template mut_dptr<T>() : nullptr;
}

/// Kernels of update ops have no output and always run.
class UpdateKernel : public user_op::OpKernel {
public:
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
};

} // namespace opc::ops::optimizer

/// The attributes that all update ops have, in a chain of OpRegistry.
#define OPC_UPDATE_ATTRS()                                                                                             \
  Attr<float>("learning_rate_val", 0.0f)                                                                               \
      .Attr<float>("learning_rate_scale", 1.0f)                                                                        \
      .Attr<double>("scale", 1.0)                                                                                      \
      .Attr<float>("l1", 0.0f)                                                                                         \
      .Attr<float>("l2", 0.0f)                                                                                         \
      .Attr<float>("weight_decay", 0.0f)
#define OPC_UPDATE_KERNELS(op, Kernel) OPC_CPU_KERNELS(op, "model", Kernel, float, double)
// Elementwise over arrays that are the same or do not overlap: no iteration reads what another one writes.
#define OPC_EACH_ELEMENT _Pragma("clang loop vectorize(assume_safety) interleave(enable)")
