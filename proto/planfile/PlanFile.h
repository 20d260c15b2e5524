// The container of plans: a fixed header with version, length and checksum, then one protobuf message.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "FilePieces.h"
#include "OutsideValues.h"
#include "opc/Status.h"
#include "plan.pb.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace opc {

/// The newest version that this build reads and writes. A plan gets the oldest one that has what it needs: 2 has
/// regions, bodies and devices of tasks, sizes in a range, 3 values of variables, 4 machine code, 5 graphs of tasks,
/// 6 batches in parts and numbers of a model, 7 prepared tensors. tests/compat has a plan of each.
constexpr uint32_t kPlanVersion = 7;

/// The most slots of a register, and so the most micro-batches of a step and steps that a task lags by: an input has a
/// slot for each micro-batch.
constexpr uint32_t kMostSlots = 1024;

/// XXH64 (seed 0) of some bytes; https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.
uint64_t planChecksum(std::string_view bytes);
uint64_t planChecksum(const FilePieces &bytes);

/// The bytes of a plan file. Equal plans give equal bytes (plan.proto has no map fields).
std::string encodePlan(const plan::Plan &plan);

/// The same, with the data of some variables, which is read where it lies.
FilePieces encodePlan(const plan::Plan &plan, const OutsideValues &outside);

/// Whether some bytes begin like a plan file.
bool looksLikePlan(std::string_view bytes);

/// The message in a plan file that encodePlan() has written.
std::string planPayload(std::string_view bytes);

/// Reads the container, not the plan's meaning. Errors: OPC0801 not a plan, OPC0802 another version (kUnsupported),
/// OPC0803 truncated or with trailing bytes, OPC0804 damaged (checksum), OPC0805 the message does not parse.
Result<plan::Plan> decodePlan(std::string_view bytes);
/// The same into a message of the caller's, which may live on a protobuf arena (much faster for large plans).
Status decodePlan(std::string_view bytes, plan::Plan *plan);
/// The same, and large data of variables stays in `bytes`, which may be a mapped file's: `pages`, or null.
Status decodePlan(std::string_view bytes, const std::shared_ptr<ValuePages> &pages, plan::Plan *plan,
                  OutsideValues *outside);

} // namespace opc
