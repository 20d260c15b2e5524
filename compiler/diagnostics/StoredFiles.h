// The files in which tensors lie: whether they are what they were.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StoredTensor.h"
#include "opc/Status.h"

#include <map>
#include <string>

namespace opc {

/// Before mapped tensors are read: to read behind the end of a file that has become shorter ends the process. Files
/// that were replaced, not written over, are as they were. Errors: OPC0323.
Status filesAreComplete(const std::map<std::string, StoredTensor> &tensors);

} // namespace opc
