// DeviceCtx, which is the SDK's.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"
