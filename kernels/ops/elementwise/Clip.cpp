// Limits given as attributes: the floating pair for floating tensors, the integral pair for the others.
// SPDX-License-Identifier: Apache-2.0
#include "elementwise/ElementwiseOps.h"

#include "ArithmeticScalars.h"

namespace opc::scalar {

namespace {
std::vector<ScalarValue> limits(const user_op::UserOpConfWrapper &conf, DataType type, bool min, bool max) {
  std::vector<ScalarValue> values;
  const bool floating = IsFloatingDataType(type);
  if (min)
    values.push_back(floating ? ScalarValue(conf.attr<double>("floating_min"))
                              : ScalarValue(conf.attr<int64_t>("integral_min")));
  if (max)
    values.push_back(floating ? ScalarValue(conf.attr<double>("floating_max"))
                              : ScalarValue(conf.attr<int64_t>("integral_max")));
  return values;
}
} // namespace

OPC_UNARY_OP("clip_by_scalar")
    .Attr<double>("floating_min", 0)
    .Attr<int64_t>("integral_min", 0)
    .Attr<double>("floating_max", 0)
    .Attr<int64_t>("integral_max", 0)
    .Doc("x limited to [min, max]; NaN stays NaN.")
    .Elementwise<Clip, types::Numbers>(ElementwiseOptions()
                                           .Attributes([](const user_op::UserOpConfWrapper &conf, DataType type) {
                                             return limits(conf, type, true, true);
                                           })
                                           .CaseAttr("floating_min", -1.0)
                                           .CaseAttr("floating_max", 1.5)
                                           .CaseAttr("integral_min", int64_t{0})
                                           .CaseAttr("integral_max", int64_t{2}));
OPC_UNARY_OP("clip_by_scalar_min")
    .Attr<double>("floating_min", 0)
    .Attr<int64_t>("integral_min", 0)
    .Doc("x, but at least min; NaN stays NaN.")
    .Elementwise<Maximum, types::Numbers>(ElementwiseOptions()
                                              .Attributes([](const user_op::UserOpConfWrapper &conf, DataType type) {
                                                return limits(conf, type, true, false);
                                              })
                                              .CaseAttr("floating_min", -0.5)
                                              .CaseAttr("integral_min", int64_t{1}));
OPC_UNARY_OP("clip_by_scalar_max")
    .Attr<double>("floating_max", 0)
    .Attr<int64_t>("integral_max", 0)
    .Doc("x, but at most max; NaN stays NaN.")
    .Elementwise<Minimum, types::Numbers>(ElementwiseOptions()
                                              .Attributes([](const user_op::UserOpConfWrapper &conf, DataType type) {
                                                return limits(conf, type, false, true);
                                              })
                                              .CaseAttr("floating_max", 0.5)
                                              .CaseAttr("integral_max", int64_t{1}));

} // namespace opc::scalar
