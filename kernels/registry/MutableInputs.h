// Which inputs of an op its kernel writes: optimizer updates write the variables they are given.
#pragma once

#include "OpInstance.h"

#include <vector>

namespace opc {

/// For each input, flat, whether the op's definition declares it mutable (SetInputArgModifyFn). All false for most ops.
std::vector<bool> mutableInputs(const OpInstance &op);

} // namespace opc
