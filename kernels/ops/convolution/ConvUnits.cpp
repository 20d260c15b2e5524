// The host's side of convolutions on matrix units: which kernel, which factors come in whole accesses.
// SPDX-License-Identifier: Apache-2.0
#include "ConvUnits.h"

#include "CudaPrecision.h"

namespace opc::ops {
namespace {

/// Sums of two indices, and of an index and a constant that is outside, must be 32-bit numbers.
bool fitsTables(const ConvGeometry &g) {
  constexpr int64_t kMost = int64_t{1} << 28;
  for (size_t i = 0; i < 3; ++i)
    if (g.in[i] + 2 * g.padding[i] >= kMost || g.stride[i] >= kMost) return false;
  return true;
}

bool beginsWhole(const void *at) { return reinterpret_cast<uintptr_t>(at) % 16 == 0; }

/// Whether pieces of `chunk` elements that follow on each other lie side by side, for each factor.
void findWhole(const ConvGeometry &g, ConvProduct product, int64_t chunk, ConvUnitArguments *u) {
  const ConvArguments &a = u->conv;
  auto whole = [&](const void *begin, int64_t count) { return beginsWhole(begin) && count % chunk == 0; };
  const bool last = g.channelsLast;
  switch (product) {
  case ConvProduct::kForward: // taps of a filter lie one after the other in both layouts
    u->isWhole[0] = last && whole(a.x, a.own);
    u->isWhole[1] = whole(a.weight, a.own * volume(g.kernel));
    break;
  case ConvProduct::kData:
    u->isWhole[0] = last && whole(a.y, a.perGroup);
    u->isWhole[1] = last && whole(a.weight, a.own);
    break;
  case ConvProduct::kFilter:
    u->isWhole[0] = last ? whole(a.y, a.perGroup) : whole(a.y, volume(g.out)) && a.sliceLength % chunk == 0;
    u->isWhole[1] = last && whole(a.x, a.own);
    break;
  }
}

const char *nameOf(ConvProduct product) {
  switch (product) {
  case ConvProduct::kForward: return "forward";
  case ConvProduct::kData: return "data";
  case ConvProduct::kFilter: return "filter";
  }
  return "";
}

} // namespace

std::optional<ConvUnits> ConvUnits::of(DeviceCtx *device, const ConvGeometry &g, const ConvArguments &a,
                                       ConvProduct product, DataType type) {
  if (!cuda::CudaPrecision::of(device).takesMatrixUnits(type) || !fitsTables(g)) return std::nullopt;
  ConvUnits c;
  c.arguments_ = {};
  c.arguments_.conv = a;
  c.arguments_.isLast = g.channelsLast;
  findWhole(g, product, 16 / static_cast<int64_t>(GetSizeOfDataType(type)), &c.arguments_);
  c.kernel_ =
      cuda::CudaLaunch::of(device).function(std::string("conv_units_") + nameOf(product) + "_" + dataTypeName(type));
  const bool isFilter = product == ConvProduct::kFilter;
  const int64_t rows = isFilter                           ? a.perGroup
                       : product == ConvProduct::kForward ? g.batch * volume(g.out)
                                                          : g.batch * volume(g.in),
                columns = isFilter                           ? a.own * volume(g.kernel)
                          : product == ConvProduct::kForward ? a.perGroup
                                                             : a.own;
  c.grid_ = {limited(tilesOf(rows) * tilesOf(columns) * a.groups * (isFilter ? a.sliceCount : 1), INT32_MAX), 1, 1};
  return c;
}

void ConvUnits::run(DeviceCtx *device) const {
  cuda::CudaLaunch::of(device).run(kernel_, grid_, {cuda::kBlock, 1, 1}, 0, arguments_);
}

} // namespace opc::ops
