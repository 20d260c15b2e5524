// What the sources of built-in operators start from: the SDK's names, and axes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"
#include "opc/StagedKernel.h"
#include "support/Axes.h"

namespace opc::ops {

using namespace user_op;

} // namespace opc::ops
