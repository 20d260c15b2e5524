// Conversions of bool, and from and to the types that are only stored.
// SPDX-License-Identifier: Apache-2.0
#include "type/Cast.cuh"
#include "type/StoredFormat.cuh"

namespace opc::cuda {
namespace {

/// `each` gives the element at a place from the one there.
template <class From, class To, class Each> __device__ void forEach(const void *from, void *to, int64_t n, Each each) {
#pragma unroll 1
  for (int64_t i = firstItem(); i < n; i += itemStep())
    static_cast<To *>(to)[i] = each(static_cast<const From *>(from)[i]);
}

/// From an integer as integers are converted: to narrower ones the low bits.
template <class T> __device__ T storedNumber(const StoredFormat &f, uint8_t byte) {
  return f.bits ? converted<T>(static_cast<int8_t>(integerOf(f, byte))) : converted<T>(floatOf(f.format, byte));
}

} // namespace

OPC_CASTS(bool, bool)

extern "C" __global__ void __launch_bounds__(256)
    cast_stored_stored(const void *from, void *to, int64_t n, StoredFormat source, StoredFormat target) {
  forEach<uint8_t, uint8_t>(from, to, n, [&](uint8_t x) {
    return source.bits && target.bits ? lowBits(target, integerOf(source, x)) : storedAs(target, numberOf(source, x));
  });
}

#define OPC_STORED_CASTS(name, T)                                                                                      \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      cast_stored_##name(const void *from, void *to, int64_t n, StoredFormat f) {                                      \
    forEach<uint8_t, T>(from, to, n, [&](uint8_t x) { return storedNumber<T>(f, x); });                                \
  }                                                                                                                    \
  extern "C" __global__ void __launch_bounds__(256)                                                                    \
      cast_##name##_stored(const void *from, void *to, int64_t n, StoredFormat f) {                                    \
    forEach<T, uint8_t>(from, to, n, [&](const T &x) { return storedAs(f, load(x)); });                                \
  }
OPC_EACH_COMPUTED(OPC_STORED_CASTS)

} // namespace opc::cuda
