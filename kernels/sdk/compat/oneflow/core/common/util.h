// What OneFlow's sources take from its general header: containers, loops, seeds and sizes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/maybe.h"
#include "oneflow/core/common/preprocessor.h"

#include <algorithm>
#include <atomic>
#include <cfloat>
#include <climits>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <fstream>
#include <functional>
#include <iostream>
#include <limits>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <queue>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#define OF_DISALLOW_COPY(Class)                                                                                        \
  Class(const Class &) = delete;                                                                                       \
  Class &operator=(const Class &) = delete
#define OF_DISALLOW_MOVE(Class)                                                                                        \
  Class(Class &&) = delete;                                                                                            \
  Class &operator=(Class &&) = delete
#define OF_DISALLOW_COPY_AND_MOVE(Class)                                                                               \
  OF_DISALLOW_COPY(Class);                                                                                             \
  OF_DISALLOW_MOVE(Class)
#define OF_COMMA ,
#define FOR_EACH(it, container) for (auto it = (container).begin(); it != (container).end(); ++it)
#ifndef ALWAYS_INLINE
#define ALWAYS_INLINE __attribute__((always_inline))
#endif

#define DIM_SEQ                                                                                                        \
  OF_PP_MAKE_TUPLE_SEQ(1)                                                                                              \
  OF_PP_MAKE_TUPLE_SEQ(2)                                                                                              \
  OF_PP_MAKE_TUPLE_SEQ(3)                                                                                              \
  OF_PP_MAKE_TUPLE_SEQ(4)                                                                                              \
  OF_PP_MAKE_TUPLE_SEQ(5)                                                                                              \
  OF_PP_MAKE_TUPLE_SEQ(6)
#define BOOL_SEQ (true)(false)

namespace oneflow {

template <class Key, class Value, class Hash = std::hash<Key>> using HashMap = std::unordered_map<Key, Value, Hash>;
template <class Key, class Hash = std::hash<Key>> using HashSet = std::unordered_set<Key, Hash>;

/// n rounded up to a multiple of `unit`.
inline size_t RoundUp(size_t n, size_t unit) { return (n + unit - 1) / unit * unit; }
constexpr size_t kCudaAlignSize = 512;
constexpr size_t kCudaMemAllocAlignSize = 512;
inline size_t GetCudaAlignedSize(size_t bytes) { return RoundUp(bytes, kCudaAlignSize); }
/// May a loop over n elements count in int32_t, with room for a stride?
inline bool IsKernelSafeInt32(int64_t n) { return n <= INT32_MAX / 2; }

/// A seed that nobody knows beforehand.
inline uint32_t NewRandomSeed() {
  static std::mt19937 generator{std::random_device{}()};
  return static_cast<uint32_t>(generator());
}
inline void HashCombine(size_t *seed, size_t hash) { *seed ^= hash + 0x9e3779b9U + (*seed << 6U) + (*seed >> 2U); }

template <class T> void SortAndRemoveDuplication(std::vector<T> *list) {
  std::sort(list->begin(), list->end());
  list->erase(std::unique(list->begin(), list->end()), list->end());
}

/// Enumerators are written as their numbers.
template <class T> std::enable_if_t<std::is_enum_v<T>, std::ostream &> operator<<(std::ostream &out, const T &value) {
  return out << static_cast<int>(value);
}

/// One object of T for the process, where OneFlow has one; New() makes it.
template <class T> class Global {
public:
  static T *Get() { return object().get(); }
  template <class... Args> static void New(Args &&...args) {
    object() = std::make_unique<T>(std::forward<Args>(args)...);
  }
  static void Delete() { object().reset(); }

private:
  static std::unique_ptr<T> &object() {
    static std::unique_ptr<T> it;
    return it;
  }
};

} // namespace oneflow
