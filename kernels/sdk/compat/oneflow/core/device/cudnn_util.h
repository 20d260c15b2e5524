// cuDNN. Sources include it for kernels of both devices; without WITH_CUDA it declares nothing.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/device/device_context.h"

#ifdef WITH_CUDA
#error "opc's compat headers have no cuDNN: build without WITH_CUDA, or include cudnn.h and keep the handle yourself"
#endif
