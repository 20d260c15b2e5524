// Which inputs of an op its kernel writes: optimizer updates write the variables they are given.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"

#include <vector>

namespace opc {

/// For each input, flat, whether the op's definition declares it mutable (SetInputArgModifyFn). All false for most ops.
std::vector<bool> mutableInputs(const OpInstance &op);

/// What is wrong with the op's SetInputArgModifyFn and SetOutputArgModifyFn: one that fails, or names an argument that
/// its definition does not have (an optional one may be absent). OPC0203.
Status checkModifiers(const OpInstance &op);

/// Whether an op of this configuration declares any input mutable.
bool writesInputs(const user_op::OpDef &def, const user_op::OpConf &conf);

/// Mutable inputs must be variables, with one exception: an optional one of an op that has outputs (the moving
/// statistics of normalization). Bound to another tensor it is only read.
bool mayStayUnwritten(const OpInstance &op, size_t input);

} // namespace opc
