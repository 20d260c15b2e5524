// The reasons for which ops are not computed by one loop: their names and what they mean.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FusionFacts.h"

namespace opc {

/// Why an op is in no region, or not in that of an op beside it.
enum class FusionReason : int {
  kNoLoop,
  kView,
  kWrites,
  kOpenShape,
  kNoNeighbour,
  kShape,
  kRows,
  kAccess,
  kMoves,
  kStride,
  kLength,
  kStep,
  kDevice,
  kPrepared,
  kCycle,
  kOps,
  kTensors,
  kDistance,
  kUnread,
  kRank,
  kMemory,
  kPeak,
  kDeviceCode,
};

struct FusionReasonText {
  FusionReason reason;
  const char *name, *doc;
};
/// All of them, in their order.
inline constexpr FusionReasonText kFusionReasons[] = {
    {FusionReason::kNoLoop, "no_loop", "its kernel has no loop that others can join"},
    {FusionReason::kView, "view", "it moves nothing: its result is where its input is"},
    {FusionReason::kWrites, "writes", "it writes a variable, or does more than make its result"},
    {FusionReason::kOpenShape, "open_shape", "its shape is not known"},
    {FusionReason::kNoNeighbour, "no_neighbour", "no op that makes what it reads, or reads what it makes, has a loop"},
    {FusionReason::kShape, "shape", "the loops have different shapes"},
    {FusionReason::kRows, "rows", "the loops have rows of different lengths"},
    {FusionReason::kAccess, "access",
     "one needs elements of other rows, or in another order, than those that the loop is at"},
    {FusionReason::kMoves, "moves", "they move elements, and nothing is computed of them in one loop"},
    {FusionReason::kStride, "stride", "the elements lie too far apart to be read in the order of the loop"},
    {FusionReason::kLength, "length", "the rows are too few for several threads, or too long for the cache"},
    {FusionReason::kStep, "step", "they belong to different steps of a pipeline"},
    {FusionReason::kDevice, "device", "they run on different devices"},
    {FusionReason::kPrepared, "prepared", "one of them runs once, before the first step"},
    {FusionReason::kCycle, "cycle", "an op outside would wait for the region, and the region for it"},
    {FusionReason::kOps, "ops", "the loop would have too many ops"},
    {FusionReason::kTensors, "tensors", "the loop would read and write too many tensors"},
    {FusionReason::kDistance, "distance", "too many ops stand between the two"},
    {FusionReason::kUnread, "unread", "nobody reads what the two make"},
    {FusionReason::kRank, "rank", "another rank would wait, or this one"},
    {FusionReason::kMemory, "memory", "tensors would live longer"},
    {FusionReason::kPeak, "peak", "the peak of memory would be higher"},
    {FusionReason::kDeviceCode, "device_code", "regions on a GPU have no code for it"},
};
constexpr const char *fusionReasonName(FusionReason reason) { return kFusionReasons[static_cast<size_t>(reason)].name; }

} // namespace opc
