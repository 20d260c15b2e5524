// What a session cannot be asked for.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Session.h"

namespace opc::runtime {

/// OPC0001 for a number that is out of its range.
Status checkOptions(const SessionOptions &options);

} // namespace opc::runtime
