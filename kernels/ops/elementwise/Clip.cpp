// Limits given as attributes: the floating pair for floating tensors, the integral pair for the others.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"
#include "opc/Dispatch.h"

#include <algorithm>
#include <limits>

namespace opc::ops {
namespace {

using namespace opc::scalar;

/// A limit: its attributes, and what they are in the sample cases.
struct Limit {
  const char *floating, *integral;
  double floatingCase;
  int64_t integralCase;
};

/// The nearest number that an integer type has: a limit beyond its range would wrap around to one within.
int64_t nearestIn(DataType type, int64_t limit) {
  visit<types::Integers>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    if constexpr (sizeof(T) < sizeof(int64_t))
      limit = std::clamp<int64_t>(limit, std::numeric_limits<T>::lowest(), std::numeric_limits<T>::max());
    else if constexpr (std::is_unsigned_v<T>)
      limit = std::max<int64_t>(limit, 0);
  });
  return limit;
}

/// x limited by F, which takes the limits as numbers.
template <class F> std::function<void(OpRegistry &)> limited(const std::vector<Limit> &limits) {
  return [limits](OpRegistry &op) {
    ElementwiseOptions options;
    for (const Limit &l : limits) {
      op.Attr<double>(l.floating, 0).Attr<int64_t>(l.integral, 0);
      options.CaseAttr(l.floating, l.floatingCase).CaseAttr(l.integral, l.integralCase);
    }
    options.Attributes([limits](const UserOpConfWrapper &conf, DataType type) {
      std::vector<ScalarValue> values;
      for (const Limit &l : limits)
        values.push_back(IsFloatingDataType(type) ? ScalarValue(conf.attr<double>(l.floating))
                                                  : ScalarValue(nearestIn(type, conf.attr<int64_t>(l.integral))));
      return values;
    });
    op.With(unary<F, types::Numbers>(options));
  };
}

REGISTER_USER_OP("clip_by_scalar")
    .With(limited<Clip>({{"floating_min", "integral_min", -1.0, 0}, {"floating_max", "integral_max", 1.5, 2}}))
    .Doc("x limited to [min, max]; NaN stays NaN. The gradient passes at the limits.");
REGISTER_USER_OP("clip_by_scalar_min")
    .With(limited<ClipMin>({{"floating_min", "integral_min", -0.5, 1}}))
    .Doc("x, but at least min; NaN stays NaN.");
REGISTER_USER_OP("clip_by_scalar_max")
    .With(limited<ClipMax>({{"floating_max", "integral_max", 0.5, 1}}))
    .Doc("x, but at most max; NaN stays NaN.");

} // namespace
} // namespace opc::ops
