// Kernels that compute row by row: what joins several ops into one loop takes their rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/StagedKernel.h"

#include <functional>

namespace opc::user_op {

/// What belongs to a row of an op: `size` neighbouring elements of a tensor; one element; one that is looked at before
/// any row is computed; or, for every row, all of it.
enum class RowPart { kRow, kOne, kIndex, kWhole };

/// The loop of one op over rows, with its attributes read. Several threads may call Run at once.
class RowsLoop {
public:
  virtual ~RowsLoop() = default;
  int64_t rows = 0, size = 0;
  std::vector<RowPart> inputs, outputs; // of the op, in their order

  /// Called before the rows of a run, with where the inputs begin that are kIndex or kWhole; the others are null.
  /// Throws ContractError for values that the op does not take.
  virtual void Check(const void *const *) const {}
  /// Bytes that Run needs for so many rows.
  virtual size_t ScratchBytes(int64_t) const { return 0; }
  /// Computes `count` rows from row `first` on. in[k] and out[k] are where those rows begin; of a kWhole, the tensor.
  /// No output may be where an input is.
  virtual void Run(const void *const *in, void *const *out, int64_t first, int64_t count, void *scratch) const = 0;
};

/// An OpKernel whose outputs' row r depends on rows r of its inputs alone, and on inputs that are read whole.
class RowsKernel {
public:
  virtual ~RowsKernel() = default;
  /// Leaves `loop` empty where this op instance has none. Needs attributes and descriptors, and no tensors.
  virtual Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const = 0;
};

/// Where the rows of a RowFunction's arguments begin: as T, or as they are in the tensor where that holds integers.
/// Arguments that the op instance does not have are null.
template <class T> struct RowArguments {
  static constexpr size_t kMost = 8;
  const void *in[kMost] = {};
  T *out[kMost] = {};
  int64_t first = 0, count = 0; // rows
  const T *x(size_t k) const { return static_cast<const T *>(in[k]); }
};

/// How an op computes rows, in T: f16 and bf16 rows are widened and narrowed around it.
template <class T> struct RowFunction {
  struct Argument {
    const char *name;
    RowPart part;
  };
  int64_t rows = 0, size = 0;
  bool joins = true;                     // whether rows may be computed beside those of other ops
  std::vector<Argument> inputs, outputs; // those that may be there, in the order of RowArguments
  std::function<void(const RowArguments<T> &)> run;
  /// Called with the inputs that are kIndex or kWhole, before any row.
  std::function<void(const RowArguments<T> &)> check = nullptr;
};

template <class T> std::unique_ptr<RowsLoop> makeRowsLoop(const KernelContext &ctx, RowFunction<T> function);
/// A task that computes all rows of an op, in parallel.
std::unique_ptr<BoundKernel> bindRowsLoop(KernelBindContext *ctx, std::shared_ptr<const RowsLoop> loop);

extern template std::unique_ptr<RowsLoop> makeRowsLoop<float>(const KernelContext &, RowFunction<float>);
extern template std::unique_ptr<RowsLoop> makeRowsLoop<double>(const KernelContext &, RowFunction<double>);

/// A kernel that is written as a RowFunction, alone as in a loop with others. Registered for a list of types, it serves
/// f16 and bf16 with T = float.
template <class T> class RowFunctionKernel : public BindingKernel, public RowsKernel {
public:
  using StagedType = T;
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const final {
    return bindRowsLoop(ctx, makeRowsLoop<T>(*ctx, Rows(*ctx)));
  }
  Status MakeRows(const KernelContext &ctx, std::unique_ptr<RowsLoop> *loop) const final {
    RowFunction<T> function = Rows(ctx);
    if (function.joins) *loop = makeRowsLoop<T>(ctx, std::move(function));
    return Status::ok();
  }

protected:
  virtual RowFunction<T> Rows(const KernelContext &ctx) const = 0;
};

} // namespace opc::user_op
