// sort, arg_sort and top_k along the last axis.
// SPDX-License-Identifier: Apache-2.0
#include "support/ElementOrder.h"
#include "support/Rows.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <type_traits>

namespace opc::ops::reduce {
namespace {

Maybe<bool> isDescending(const OpContext *ctx) {
  const std::string &d = ctx->Attr<std::string>("direction");
  if (d != "ASCENDING" && d != "DESCENDING")
    return (Error("OPC0205") << "direction is \"" << d << "\"").help("use \"ASCENDING\" or \"DESCENDING\"");
  return d == "DESCENDING";
}
Maybe<void> needsAxis(const Shape &in) {
  if (in.NumAxes() == 0)
    return (Error::ShapeMismatch() << "the input has rank 0").help("the last axis is sorted; give at least one axis");
  return Maybe<void>::Ok();
}

Maybe<void> inferSort(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  JUST(needsAxis(in.shape()));
  JUST(isDescending(ctx));
  const bool positions = ctx->op_type_name() == "arg_sort";
  if (positions && in.shape().At(in.shape().NumAxes() - 1) > INT32_MAX)
    return Error::ShapeMismatch() << "the sorted axis has more than 2^31 entries";
  return setOut(ctx, "out", TensorDesc(in.shape(), positions ? kInt32 : in.data_type()));
}
Maybe<void> inferTopK(InferContext *ctx) {
  const TensorDesc in = ctx->In("in");
  JUST(needsAxis(in.shape()));
  const int64_t k = ctx->Attr<int32_t>("k");
  if (k < 1) return (Error("OPC0205") << "k is " << k).help("k is the number of entries wanted, 1 or more");
  Shape out = in.shape();
  out.Set(out.NumAxes() - 1, std::min(k, out.At(out.NumAxes() - 1)));
  return setOut(ctx, "out", TensorDesc(out, kInt64));
}

/// The task of f(r, n) for each of the rows of n along the last axis.
template <class F> std::unique_ptr<BoundKernel> bindLastAxis(const Shape &in, F f) {
  const int64_t n = in.At(in.NumAxes() - 1);
  return bindRows(n == 0 ? 0 : in.elem_cnt() / n, std::max<int64_t>(1, 1024 / std::max<int64_t>(1, n)),
                  [=](int64_t r) { f(r, n); });
}

template <class T> class SortKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    const T *from = in.dptr<T>();
    T *to = ctx->Out("out").mut_dptr<T>();
    const bool descending = valueOf(isDescending(ctx));
    return bindLastAxis(in.shape(), [=](int64_t r, int64_t n) {
      T *row = to + r * n;
      if (from != to) std::copy_n(from + r * n, n, row);
      if (descending)
        std::sort(row, row + n, [](T x, T y) { return isBelow(y, x); });
      else
        std::sort(row, row + n, [](T x, T y) { return isBelow(x, y); });
    });
  }
};

/// Sorts positions; ties go by position, which makes the order unique and std::sort (which does not allocate) stable.
template <class T, class I> void sortPositions(const T *x, I *positions, int64_t n, bool descending) {
  for (int64_t i = 0; i < n; ++i) positions[i] = static_cast<I>(i);
  std::sort(positions, positions + n, [x, descending](I a, I b) {
    const bool ab = descending ? isBelow(x[b], x[a]) : isBelow(x[a], x[b]);
    const bool ba = descending ? isBelow(x[a], x[b]) : isBelow(x[b], x[a]);
    return ab || (!ba && a < b);
  });
}

/// An element and where it is, in the order of top_k: larger elements are greater, of equal ones the first is.
template <class T> struct Ranked {
  T value;
  int64_t position;
  static Ranked of(T x, int64_t at) { return {x, at}; }
  int64_t at() const { return position; }
  bool operator>(const Ranked &o) const {
    return isBelow(o.value, value) || (!isBelow(value, o.value) && position < o.position);
  }
};
/// The same in one number, of elements of at most 32 bits in rows of fewer than 2^32.
struct RankedNumber {
  uint64_t number;
  template <class T> static RankedNumber of(T x, int64_t at) {
    return {uint64_t{key(x)} << 32 | (UINT32_MAX - static_cast<uint32_t>(at))};
  }
  int64_t at() const { return UINT32_MAX - static_cast<uint32_t>(number); }
  bool operator>(const RankedNumber &o) const { return number > o.number; }

private:
  template <class T> static uint32_t key(T x) {
    constexpr uint32_t kSign = uint32_t{1} << 31;
    if constexpr (std::is_integral_v<T>) {
      return static_cast<uint32_t>(x) ^ (std::is_signed_v<T> ? kSign : 0);
    } else {
      const auto value = static_cast<float>(x);
      if (value != value) return UINT32_MAX;
      const uint32_t bits = value == 0 ? 0 : std::bit_cast<uint32_t>(value);
      return bits & kSign ? ~bits : bits | kSign;
    }
  }
};

/// The positions of the k largest of n, in order. `heap` has room for k: the best so far, the least of them on top.
/// What comes later is better only where it is larger than that, which few are.
template <class R, class T> void topPositions(const T *x, int64_t *positions, R *heap, int64_t n, int64_t k) {
  constexpr int64_t kBlock = 64;
  for (int64_t i = 0; i < k; ++i) heap[i] = R::of(x[i], i);
  std::make_heap(heap, heap + k, std::greater<>());
  const auto take = [&](int64_t i) {
    const R next = R::of(x[i], i);
    if (!(next > heap[0])) return;
    int64_t hole = 0;
    for (int64_t child = 1; child < k; child = 2 * hole + 1) {
      child += child + 1 < k && heap[child] > heap[child + 1];
      if (!(next > heap[child])) break;
      heap[hole] = heap[child];
      hole = child;
    }
    heap[hole] = next;
  };
  for (int64_t i = k; i < n; i += kBlock) {
    const int64_t end = std::min(n, i + kBlock);
    const T least = x[heap[0].at()];
    bool isAny = false; // no branch in the loop, so that it vectorises
    for (int64_t j = i; j < end; ++j) isAny |= isBelow(least, x[j]);
    for (int64_t j = i; isAny && j < end; ++j) take(j);
  }
  std::sort(heap, heap + k, std::greater<>());
  for (int64_t i = 0; i < k; ++i) positions[i] = heap[i].at();
}

template <class T> class ArgSortKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    const T *from = in.dptr<T>();
    int32_t *to = ctx->Out("out").mut_dptr<int32_t>();
    const bool descending = valueOf(isDescending(ctx));
    return bindLastAxis(in.shape(),
                        [=](int64_t r, int64_t n) { sortPositions(from + r * n, to + r * n, n, descending); });
  }
};

template <class T> class TopKKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    const T *from = in.dptr<T>();
    Tensor &out = ctx->Out("out");
    int64_t *to = out.mut_dptr<int64_t>();
    const int64_t k = out.shape().At(out.shape().NumAxes() - 1);
    const auto bind = [=, &in, tmp = ctx->Tmp<uint64_t>()](auto tag) {
      auto *heap = reinterpret_cast<decltype(tag) *>(tmp);
      return bindLastAxis(in.shape(),
                          [=](int64_t r, int64_t n) { topPositions(from + r * n, to + r * k, heap + r * k, n, k); });
    };
    if constexpr (sizeof(T) <= 4)
      if (in.shape().At(in.shape().NumAxes() - 1) <= UINT32_MAX) return bind(RankedNumber{});
    return bind(Ranked<T>{});
  }
};
size_t topKTmpSize(InferContext *ctx) {
  return static_cast<size_t>(ctx->Out("out").shape().elem_cnt()) * sizeof(Ranked<int64_t>);
}

Case sample(const char *name, Shape in) { return Case(name).In("in", in, -100, 100); }
const char *const kOrder = "NaN counts as larger than every number. Equal elements keep their order. ";

/// Definition of sort and arg_sort.
std::function<void(OpRegistry &)> sortDefinition() {
  return [](OpRegistry &op) {
    op.With(TensorArgs{{"in"}, {"out"}})
        .RequiredAttr<std::string>("direction")
        .With(rules(inferSort, "... . -> ... ."))
        .Cases({sample("up", {3, 17}).Attr<std::string>("direction", "ASCENDING"),
                sample("down", {2, 2, 9}).Attr<std::string>("direction", "DESCENDING")});
  };
}

REGISTER_USER_OP("sort")
    .With(sortDefinition())
    .Doc("Sorts along the last axis; direction is \"ASCENDING\" or \"DESCENDING\". NaN counts as larger than every "
         "number. Zeros of both signs are equal, and come in any order.")
    .Kernel<SortKernel, types::Numbers>("in", KernelOptions().Inplace("out", "in"));

REGISTER_USER_OP("arg_sort")
    .With(sortDefinition())
    .NoGrad("positions are not differentiable")
    .Doc(std::string("The positions (i32) that sort the last axis; direction is \"ASCENDING\" or \"DESCENDING\". ") +
         kOrder)
    .Kernel<ArgSortKernel, types::Numbers>("in");

REGISTER_USER_OP("top_k")
    .With(TensorArgs{{"in"}, {"out"}})
    .RequiredAttr<int32_t>("k")
    .Attr<bool>("sorted", true)
    .With(rules(inferTopK, "... . -> ... ."))
    .NoGrad("positions are not differentiable")
    .Doc(std::string("The positions (i64) of the k largest elements along the last axis, largest first (whether "
                     "`sorted` or not); of all of them when k is more than the axis has. ") +
         kOrder)
    .Cases({sample("three", {3, 17}).Attr<int32_t>("k", 3), sample("all", {4}).Attr<int32_t>("k", 9),
            Case("equal").In("in", {2, 300}, -5, 5).Attr<int32_t>("k", 20)})
    .Kernel<TopKKernel, types::Numbers>("in", KernelOptions().TmpSize(topKTmpSize));

} // namespace
} // namespace opc::ops::reduce
