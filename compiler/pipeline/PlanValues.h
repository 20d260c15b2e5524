// A plan that was made without the values of its variables gets them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "StoredTensor.h"
#include "opc/Status.h"

#include <map>
#include <string>
#include <string_view>

namespace opc {

/// OPC0806 where a plan cannot hold the values.
Status valuesFitPlan(const std::map<std::string, StoredTensor> &values);

/// The plan that CompileOptions::planHasValues would have made. `plan` is one of this program's own.
Result<std::string> planWithValues(std::string_view plan, const std::map<std::string, StoredTensor> &values);

} // namespace opc
