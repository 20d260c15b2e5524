// Another learning rate than the one that a training graph was written with.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpcDialect.h"
#include "Registry.h"

#include "mlir/IR/BuiltinOps.h"

#include <string>

namespace opc {

/// Whether the rates of a learning_rate_schedule of this decay_type are parts of its learning_rate, and not all given.
bool hasBaseRate(const std::string &decayType);

/// Gives every schedule with such a rate, and every update op with a rate of its own, this rate. How many ops those
/// are.
size_t setLearningRate(mlir::ModuleOp module, const Registry &registry, double rate);

} // namespace opc
