// Convolutions of cuDNN: nothing without WITH_CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/device/cudnn_util.h"
