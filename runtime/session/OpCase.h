// One task of a plan as a graph of its own: what a trap leaves behind so that the failure can be run alone.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "OpInstance.h"
#include "RunObserver.h"

#include <string>
#include <vector>

namespace opc::runtime {

/// The text of a graph that holds the task's op alone. Every distinct tensor that it reads is an input (a variable
/// where the op writes it), called after the tensor: "fc1/out_0" is the input "fc1_out_0". `inputNames` gets one name
/// for each input of the task, in order; the same tensor twice has the same name. Outputs are called "y_0" after their
/// argument.
Result<std::string> taskGraphText(const ObservedTask &task, const OpInstance &op, std::vector<std::string> *inputNames);

} // namespace opc::runtime
