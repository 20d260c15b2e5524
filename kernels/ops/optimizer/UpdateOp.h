// What the ops share that update a model: their arguments, the rule that checks them, and the task.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/HalfConversion.h"
#include "opc/PieceTask.h"
#include "support/Operator.h"
#include "support/SbpRules.h"

#include <type_traits>

namespace opc::ops::optimizer {

/// Every update op: model and its state are variables of one shape and one dtype (f32 or f64); model_diff has that
/// shape and dtype, or f16 or bf16 beside a model of f32; learning_rate, scale_by_tensor and the bias corrections are
/// of one element, f32 or the model's dtype; skip_if is an i64 of one element; model_copy, which receives the updated
/// model in another precision, f16 or bf16. `state` names the arguments beside model that must look like it.
Maybe<void> inferUpdate(InferContext *ctx, const std::vector<std::string> &state);

/// Parts of a definition: model and model_diff; learning_rate, scale_by_tensor and skip_if; the attributes of the rate
/// and the gradient; those and the rules of an update that writes model, model_copy and `state`.
void modelInputs(OpRegistry &op);
void rateInputs(OpRegistry &op);
void gradientAttrs(OpRegistry &op);
std::function<void(OpRegistry &)> updates(const std::vector<std::string> &state);

/// Part of `updates`, and of ops like them: everything in the model's shape is split alike, the scalars and norms are
/// whole, outputs are addends. Never from partial sums: the update is not linear. Goes after the inputs.
void splitUpdate(OpRegistry &op);

/// The norms of a layer, which an update may be given: f64, the sum of the squares of the model, and of what it is
/// compared with.
inline const TensorDesc kNorms(Shape({2}), kDouble);

/// What every Doc says of them.
extern const char *const kCommonDoc;

/// A case with model and model_diff.
Case updateCase(const char *name, const Shape &shape);

/// `arg` has one element of the type, or of the other one.
Maybe<void> checkScalar(InferContext *ctx, const char *arg, DataType type, DataType orType);
inline Maybe<void> checkScalar(InferContext *ctx, const char *arg, DataType type) {
  return checkScalar(ctx, arg, type, type);
}
/// The attribute dtype of an op that makes a rate: f32 or f64.
Maybe<DataType> rateType(InferContext *ctx);
/// Stores it in a tensor of one element, f32 or f64.
void putScalar(Tensor *out, double value);

/// A number that a tensor of one element gives when the task runs, or `otherwise` when there is no such tensor.
class RunScalar {
public:
  explicit RunScalar(double otherwise = 0) : value_(otherwise) {}
  RunScalar(KernelBindContext *ctx, const char *arg, double otherwise) : value_(otherwise) {
    if (!ctx->Has(arg)) return;
    data_ = ctx->In(arg).raw_dptr();
    type_ = ctx->In(arg).data_type();
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
  double value_;
};

/// f(i) for elements of arrays that are the same or do not overlap: no call reads what another one writes.
template <class F> void eachElement(int64_t begin, int64_t end, F f) {
#pragma clang loop vectorize(assume_safety) interleave(enable)
  for (int64_t i = begin; i < end; ++i) f(i);
}

/// The regularised gradient as the formulas use it: model_diff * scale + l1 * sign(model) + l2 * model.
template <class T> struct Gradient {
  T scale, l1, l2;
  T operator()(T diff, T model) const {
    return diff * scale + l1 * (static_cast<T>(model > T(0)) - static_cast<T>(model < T(0))) + l2 * model;
  }
};

/// The common inputs and attributes of one update task, or of one that only reads what an update would.
template <class T> class Update {
public:
  explicit Update(KernelBindContext *ctx, bool writes = true);
  /// False when skip_if says to leave everything as it is.
  bool wanted() const { return !skipIf_ || *skipIf_ == 0; }
  double learningRate() const { return rate_.get() * rateScale_; }
  const T *model() const { return model_; }
  Gradient<T> gradient() const {
    return {static_cast<T>(scale_ * scaleBy_.get()), static_cast<T>(l1_), static_cast<T>(l2_)};
  }
  T weightDecay() const { return static_cast<T>(weightDecay_); }

  /// Element i of the model becomes f(i, element, gradient), in parallel. f may change its own state at i.
  template <class Threads, class F> void update(Threads *dev, F f) const {
    forPieces(dev, [this, f, model = written_, g = gradient()](int64_t, int64_t begin, int64_t end, const T *diff) {
      eachElement(begin, end, [=](int64_t i) { model[i] = f(i, model[i], g(diff[i - begin], model[i])); });
      copyModel(begin, end);
    });
  }
  /// Calls body(piece, begin, end, diff) on pieces that cover all elements; diff[i - begin] is element i of model_diff
  /// in the model's dtype. In parallel; where pieces begin depends on the size alone.
  template <class Threads, class Body> void forPieces(Threads *dev, const Body &body) const {
    dev->parallelFor(pieces(n_), PieceTask::kGrain, [&](int64_t b, int64_t e) {
      for (int64_t p = b; p < e; ++p) piece(p, body);
    });
  }
  int64_t pieces() const { return pieces(n_); }
  static int64_t pieces(int64_t elements) { return (elements + kPiece - 1) / kPiece; }

private:
  template <class Body> void piece(int64_t p, const Body &body) const {
    const int64_t begin = p * kPiece, end = std::min(n_, begin + kPiece);
    if (diffType_ == GetDataType<T>::value) return body(p, begin, end, static_cast<const T *>(diff_) + begin);
    if constexpr (std::is_same_v<T, float>) {
      float wide[kPiece];
      if (diffType_ == kFloat16)
        cpu::widen(static_cast<const float16 *>(diff_) + begin, wide, end - begin);
      else
        cpu::widen(static_cast<const bfloat16 *>(diff_) + begin, wide, end - begin);
      body(p, begin, end, wide);
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

  int64_t n_ = 0;
  const T *model_ = nullptr;
  T *written_ = nullptr;
  const void *diff_ = nullptr;
  void *copy_ = nullptr;
  DataType diffType_ = kFloat, copyType_ = kFloat;
  const int64_t *skipIf_ = nullptr;
  RunScalar rate_, scaleBy_;
  double rateScale_ = 1, scale_ = 1, l1_ = 0, l2_ = 0, weightDecay_ = 0;
};

/// A variable of the update's state, nullptr when the instance does not have it.
template <class T> T *stateOf(KernelBindContext *ctx, const char *arg) {
  return ctx->Has(arg) ? ctx->Out(arg).template mut_dptr<T>() : nullptr;
}
/// An attribute that graphs give in f32.
inline double real(const OpContext *ctx, const char *attr) { return static_cast<double>(ctx->Attr<float>(attr)); }

/// The task of a Rule<T>, which is built of the context and has `run(dev, update)`.
template <class T, template <class> class Rule> class UpdateKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    return bindTask([rule = Rule<T>(ctx), u = Update<T>(ctx)](DeviceCtx *dev) {
      if (u.wanted()) rule.run(dev, u);
    });
  }
};

/// The same for a Rule<T> whose run() goes over the elements once, whoever gives it threads: it can be one of many
/// updates in a task.
template <class T, template <class> class Rule>
class ElementwiseUpdate final : public BindingKernel, public PieceKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override { return std::make_unique<Task>(ctx); }

private:
  /// What run() sees in place of a device: some of the pieces.
  struct Pieces {
    int64_t begin, end;
    template <class F> void parallelFor(int64_t, int64_t, F &&f) const { f(begin, end); }
  };
  class Task final : public PieceTask {
  public:
    explicit Task(KernelBindContext *ctx) : rule_(ctx), update_(ctx) {}
    int64_t Pieces() const override { return update_.pieces(); }
    void RunPieces(int64_t begin, int64_t end) const override {
      const struct Pieces some{begin, end};
      if (update_.wanted()) rule_.run(&some, update_);
    }

  private:
    const Rule<T> rule_;
    const Update<T> update_;
  };
};
using ModelTypes = types::Of<float, double>;

} // namespace opc::ops::optimizer
