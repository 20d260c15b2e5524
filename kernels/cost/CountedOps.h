// Arithmetic operations of ops that no scalar function and no contraction describes: by formula.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <optional>

namespace opc {

// A multiplication, an addition, a comparison, a selection and a conversion are 1. exp, log, tanh and their like: a
// range reduction, a polynomial and its scaling; measured on the kernels of this library they take the time of some 8
// to 16 multiplications.
constexpr double kOperationsPerFunction = 12;
constexpr double kOperationsPerDivision = 4; // and of a square root

/// As many as a tensor has, in double: products of sizes pass 2^63.
double elementsOf(const user_op::TensorDesc &tensor);

/// The operations of an op of a type that has a formula here, else nothing. Ops that only move values have none.
std::optional<double> countedOperations(const OpInstance &op);

} // namespace opc
