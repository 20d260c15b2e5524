// The attributes that say how images are resampled: for grid_sample, the upsamplings and their gradients.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "shape/SamplePlaces.h"
#include "support/Operator.h"

namespace opc::ops {

inline Maybe<Interpolation> interpolationOf(const OpContext &ctx) {
  const std::string &m = ctx.Attr<std::string>("interpolation_mode");
  if (m == "bilinear") return Interpolation::kBilinear;
  if (m == "nearest") return Interpolation::kNearest;
  if (m == "bicubic") return Interpolation::kBicubic;
  return (Error("OPC0205") << "interpolation_mode is \"" << m << "\"")
      .help("use \"bilinear\", \"nearest\" or \"bicubic\"");
}
inline Maybe<Padding> paddingOf(const OpContext &ctx) {
  const std::string &m = ctx.Attr<std::string>("padding_mode");
  if (m == "zeros") return Padding::kZeros;
  if (m == "border") return Padding::kBorder;
  if (m == "reflection") return Padding::kReflection;
  return (Error("OPC0205") << "padding_mode is \"" << m << "\"").help("use \"zeros\", \"border\" or \"reflection\"");
}

} // namespace opc::ops
