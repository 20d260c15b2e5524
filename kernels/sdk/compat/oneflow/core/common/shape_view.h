// ShapeView, which is the SDK's Shape.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/shape.h"
