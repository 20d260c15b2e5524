// NdarrayUtil: arithmetic, broadcasting and reductions on arrays with shapes, on the CPU.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/ndarray/binary_func.h"
#include "oneflow/core/ndarray/unary_func.h"
#include "oneflow/core/ndarray/xpu_var_ndarray_builder.h"

namespace oneflow {

namespace detail {

/// Where the element of a broadcast array lies that belongs to an element of the whole.
class BroadcastIndex {
public:
  BroadcastIndex(const XpuShape &whole, const XpuShape &part) : whole_(whole) {
    CHECK_EQ(whole.NumAxes(), part.NumAxes()) << whole.ToString() << " and " << part.ToString() << " differ in rank";
    for (size_t i = 0; i < whole.NumAxes(); ++i) {
      const int64_t axis = static_cast<int64_t>(i);
      CHECK(part.At(axis) == whole.At(axis) || part.At(axis) == 1)
          << part.ToString() << " does not broadcast to " << whole.ToString();
      strides_.push_back(part.At(axis) == 1 ? 0 : part.DimElemNum(axis));
    }
    same_ = whole == part;
  }
  int64_t operator()(int64_t offset) const {
    if (same_) return offset;
    int64_t at = 0;
    for (size_t i = 0; i < strides_.size(); ++i) {
      const int64_t step = whole_.DimElemNum(static_cast<int64_t>(i));
      at += offset / step * strides_[i];
      offset %= step;
    }
    return at;
  }

private:
  XpuShape whole_;
  DimVector strides_;
  bool same_;
};

} // namespace detail

/// y = x reduced by Func over the axes on which y has 1. Nothing is kept in the temporary array.
template <DeviceType device, class T, template <class> class Func> struct NdarrayReduce final {
  static_assert(device == DeviceType::kCPU, "NdarrayReduce computes on the CPU");
  static void Reduce(DeviceCtx *, const XpuVarNdarray<T> &y, const XpuVarNdarray<const T> &x,
                     const XpuVarNdarray<T> &) {
    const detail::BroadcastIndex at(x.shape(), y.shape());
    std::vector<T> sums(y.shape().ElemNum(), detail::UnitOf<Func, T>::value());
    for (size_t i = 0; i < x.shape().ElemNum(); ++i) {
      T &sum = sums[static_cast<size_t>(at(static_cast<int64_t>(i)))];
      sum = static_cast<T>(Func<T>::Invoke(sum, x.ptr()[i]));
    }
    std::copy(sums.begin(), sums.end(), y.ptr());
  }
};

template <DeviceType device, class T> struct NdarrayUtil final {
  static_assert(device == DeviceType::kCPU, "NdarrayUtil computes on the CPU");
  using In = XpuVarNdarray<const T>;
  using Out = XpuVarNdarray<T>;
  template <template <class> class Func> using UnaryOut = XpuVarNdarray<typename UnaryFuncTrait<Func, T>::return_type>;
  template <template <class> class Func>
  using BinaryOut = XpuVarNdarray<typename BinaryFuncTrait<Func, T>::return_type>;

  static XpuVarNdarrayBuilder<const T> GetValNdarrayBuilder() { return {}; }
  static XpuVarNdarrayBuilder<T> GetVarNdarrayBuilder() { return {}; }
  static void Assign(DeviceCtx *ctx, const Out &y, const In &x) { unary<UnaryFuncIdentity>(ctx, y, x); }
  static void BroadcastTo(DeviceCtx *ctx, const Out &y, const In &x) { unary<UnaryFuncIdentity>(ctx, y, x); }

  // F(ctx, y, x): the same shape; BroadcastF: x broadcasts to y's; InplaceF(ctx, y): y = f(y).
#define OPC_NDARRAY_UNARY(name)                                                                                        \
  static void name(DeviceCtx *ctx, const UnaryOut<UnaryFunc##name> &y, const In &x) {                                  \
    CHECK(x.shape() == y.shape());                                                                                     \
    unary<UnaryFunc##name>(ctx, y, x);                                                                                 \
  }                                                                                                                    \
  static void Broadcast##name(DeviceCtx *ctx, const UnaryOut<UnaryFunc##name> &y, const In &x) {                       \
    unary<UnaryFunc##name>(ctx, y, x);                                                                                 \
  }                                                                                                                    \
  static void Inplace##name(DeviceCtx *ctx, const Out &y) { unary<UnaryFunc##name>(ctx, y, In(y.shape(), y.ptr())); }
  OF_PP_FOR_EACH_ATOMIC(OPC_NDARRAY_UNARY, ARITHMETIC_UNARY_FUNC_NAME_SEQ)
#undef OPC_NDARRAY_UNARY

  // F(ctx, y, a, b): the same shape; BroadcastF: a and b broadcast to y's.
#define OPC_NDARRAY_BINARY(name)                                                                                       \
  static void name(DeviceCtx *ctx, const BinaryOut<BinaryFunc##name> &y, const In &a, const In &b) {                   \
    CHECK(a.shape() == y.shape() && b.shape() == y.shape());                                                           \
    binary<BinaryFunc##name>(ctx, y, a, b);                                                                            \
  }                                                                                                                    \
  static void Broadcast##name(DeviceCtx *ctx, const BinaryOut<BinaryFunc##name> &y, const In &a, const In &b) {        \
    binary<BinaryFunc##name>(ctx, y, a, b);                                                                            \
  }
  OF_PP_FOR_EACH_ATOMIC(OPC_NDARRAY_BINARY, BINARY_FUNC_NAME_SEQ)
#undef OPC_NDARRAY_BINARY

  // InplaceF(ctx, y, x): y = f(y, x); InplaceBroadcastF: x broadcasts to y's shape.
#define OPC_NDARRAY_INPLACE(name)                                                                                      \
  static void Inplace##name(DeviceCtx *ctx, const Out &y, const In &x) { name(ctx, y, In(y.shape(), y.ptr()), x); }    \
  static void InplaceBroadcast##name(DeviceCtx *ctx, const Out &y, const In &x) {                                      \
    Broadcast##name(ctx, y, In(y.shape(), y.ptr()), x);                                                                \
  }
  OF_PP_FOR_EACH_ATOMIC(OPC_NDARRAY_INPLACE, ARITHMETIC_BINARY_FUNC_NAME_SEQ)
#undef OPC_NDARRAY_INPLACE

  // ReduceF(ctx, y, x, tmp): over the axes on which y has 1.
#define OPC_NDARRAY_REDUCE(name)                                                                                       \
  static void Reduce##name(DeviceCtx *ctx, const Out &y, const In &x, const Out &tmp) {                                \
    NdarrayReduce<device, T, BinaryFunc##name>::Reduce(ctx, y, x, tmp);                                                \
  }
  OF_PP_FOR_EACH_ATOMIC(OPC_NDARRAY_REDUCE, REDUCE_BINARY_FUNC_NAME_SEQ)
#undef OPC_NDARRAY_REDUCE

private:
  template <template <class> class Func> static void unary(DeviceCtx *ctx, const UnaryOut<Func> &y, const In &x) {
    const detail::BroadcastIndex at(y.shape(), x.shape());
    detail::eachElement(ctx, static_cast<int64_t>(y.shape().ElemNum()),
                        [&](int64_t i) { y.ptr()[i] = Func<T>::Invoke(x.ptr()[at(i)]); });
  }
  template <template <class> class Func>
  static void binary(DeviceCtx *ctx, const BinaryOut<Func> &y, const In &a, const In &b) {
    const detail::BroadcastIndex atA(y.shape(), a.shape()), atB(y.shape(), b.shape());
    detail::eachElement(ctx, static_cast<int64_t>(y.shape().ElemNum()),
                        [&](int64_t i) { y.ptr()[i] = Func<T>::Invoke(a.ptr()[atA(i)], b.ptr()[atB(i)]); });
  }
};

} // namespace oneflow
