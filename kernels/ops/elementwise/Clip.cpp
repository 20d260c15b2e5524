// Limits given as attributes: the floating pair for floating tensors, the integral pair for the others.
// SPDX-License-Identifier: Apache-2.0
#include "ArithmeticScalars.h"
#include "elementwise/ElementwiseOps.h"

namespace opc::ops {
namespace {

using namespace opc::scalar;

/// A limit: its attributes, and what they are in the sample cases.
struct Limit {
  const char *floating, *integral;
  double floatingCase;
  int64_t integralCase;
};

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
                                                  : ScalarValue(conf.attr<int64_t>(l.integral)));
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
