// Machine code against the loops of the steps.
// SPDX-License-Identifier: Apache-2.0
#include "RegionCode.h"
#include "RowLoops.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <cmath>
#include <cstring>
#include <limits>

namespace opc {
namespace {

constexpr int64_t kElements = 4 * kMaxRegionLanes;
using Buffer = std::vector<char>;

uint64_t mix(uint64_t x) { // splitmix64
  x += 0x9e3779b97f4a7c15ull;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ x >> 27) * 0x94d049bb133111ebull;
  return x ^ x >> 31;
}

/// Small numbers, special ones, and any bits.
template <class T> T valueAt(uint64_t at) {
  const uint64_t bits = mix(at);
  if constexpr (std::is_same_v<T, bool>) {
    return bits & 1u;
  } else if constexpr (std::is_integral_v<T>) {
    return bits % 3 == 0 ? static_cast<T>(bits >> 8) : static_cast<T>(static_cast<int64_t>(bits >> 8 & 15u) - 4);
  } else if (bits % 4 == 0) {
    const uint64_t random = mix(bits);
    T any;
    std::memcpy(&any, &random, sizeof any);
    return any;
  } else if (bits % 4 == 1) {
    const float inf = std::numeric_limits<float>::infinity();
    const float special[] = {0.0f, -0.0f, 1.0f, -1.0f, 0.5f, 2.0f, inf, -inf, std::nanf(""), 1e-40f, 88.5f, -104.0f};
    return static_cast<T>(special[(bits >> 8) % std::size(special)]);
  } else {
    return static_cast<T>((static_cast<float>(bits >> 40) / 16777216.0f - 0.5f) * (bits % 4 == 2 ? 2.0f : 20.0f));
  }
}

bool fill(DataType type, uint64_t seed, Buffer *to) {
  to->assign(static_cast<size_t>(kElements) * GetSizeOfDataType(type), 0);
  return visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (contains<types::Storage>(GetDataType<T>::value)) {
      return false;
    } else {
      for (int64_t i = 0; i < kElements; ++i) {
        const T v = valueAt<T>(seed * kElements + static_cast<uint64_t>(i));
        std::memcpy(to->data() + static_cast<size_t>(i) * sizeof(T), &v, sizeof v);
      }
      return true;
    }
  });
}

bool isEqual(DataType type, const Buffer &a, const Buffer &b) {
  return visit(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t i = 0; i + sizeof(T) <= a.size(); i += sizeof(T)) {
      if (std::memcmp(a.data() + i, b.data() + i, sizeof(T)) == 0) continue;
      if constexpr (std::is_same_v<T, bool> || std::is_integral_v<T>) {
        return false;
      } else {
        T x, y;
        std::memcpy(&x, a.data() + i, sizeof x);
        std::memcpy(&y, b.data() + i, sizeof y);
        if (!std::isnan(numberOf(x)) || !std::isnan(numberOf(y))) return false;
      }
    }
    return true;
  });
}

} // namespace

bool agreesWithLoops(const Region &region, const RegionCode &code) {
  std::vector<Buffer> values(region.inputs.size() + region.steps.size());
  std::vector<bool> isSingle(values.size());
  for (size_t v = 0; v < values.size(); ++v) {
    const bool isInput = v < region.inputs.size();
    const DataType type = region.descOf(static_cast<uint32_t>(v)).data_type();
    if (!fill(type, v, &values[v])) return false;
    isSingle[v] = isInput && region.inputs[v].shape().elem_cnt() == 1 && region.shape.elem_cnt() != 1;
  }
  std::vector<const void *> in;
  std::vector<void *> out;
  std::vector<Buffer> made;
  for (size_t v = 0; v < region.inputs.size(); ++v) in.push_back(values[v].data());
  for (uint32_t v : region.outputs) made.push_back(values[v]);
  for (Buffer &b : made) out.push_back(b.data());
  code.function(in.data(), out.data(), kElements);
  for (size_t i = 0; i < region.steps.size(); ++i) {
    const RegionStep &step = region.steps[i];
    auto loop = rowLoopOf(step.op, *step.kernel);
    if (!loop || !*loop) return false;
    std::vector<const void *> args;
    uint32_t contiguous = 0;
    for (size_t k = 0; k < step.args.size(); ++k) {
      args.push_back(values[step.args[k]].data());
      if (!isSingle[step.args[k]]) contiguous |= 1u << k;
    }
    (*loop)->Run(args.data(), contiguous, values[region.valueOf(i)].data(), kElements);
  }
  for (size_t o = 0; o < made.size(); ++o)
    if (!isEqual(region.descOf(region.outputs[o]).data_type(), made[o], values[region.outputs[o]])) return false;
  return true;
}

} // namespace opc
