// A part of OneFlow's framework; here all of it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/framework/framework.h"
