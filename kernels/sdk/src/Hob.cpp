// The conditions that kernels share.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Hob.h"

#include <map>
#include <mutex>
#include <tuple>

namespace opc::user_op::detail {

namespace {

/// By key, each made when it is first asked for; libraries are loaded in any thread. Kernels may outlive static
/// objects, so it is never taken down.
template <class Key> class Made {
public:
  template <class Make> MatchCondition get(Key key, const Make &make) {
    const std::lock_guard<std::mutex> lock(mutex_);
    MatchCondition &condition = conditions_[std::move(key)];
    if (!condition) condition = make();
    return condition;
  }

private:
  std::mutex mutex_;
  std::map<Key, MatchCondition> conditions_;
};

template <class Key> Made<Key> &made() {
  static Made<Key> &all = *new Made<Key>;
  return all;
}

} // namespace

MatchCondition isDevice(const std::string &tag) {
  const std::string device = tag == "cuda" ? "gpu" : tag;
  return made<std::string>().get(
      device, [&] { return equals("device", [](const KernelRegContext &c) { return c.device_tag(); }, device); });
}

MatchCondition isType(const std::string &arg, int32_t index, DataType type) {
  return made<std::tuple<std::string, int32_t, DataType>>().get({arg, index, type}, [&] {
    return equals(
        "dtype of " + arg + "_" + std::to_string(index),
        [arg, index](const KernelRegContext &c) -> std::string {
          const TensorDesc *d = c.TensorDesc4ArgNameAndIndex(arg, index);
          return d ? dataTypeName(d->data_type()) : "absent";
        },
        dataTypeName(type));
  });
}

MatchCondition isBoth(const MatchCondition &a, const MatchCondition &b) {
  return made<std::pair<MatchCondition, MatchCondition>>().get({a, b}, [&] { return a & b; });
}

} // namespace opc::user_op::detail
