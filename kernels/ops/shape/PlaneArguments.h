// What the device code of triangles, edge pads and patches is given. Read by the host's compiler and by nvcc.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace opc::ops {

/// Planes of height x width, and what a pad puts around them: `left` and `top` before, to outHeight x outWidth.
struct EdgeArguments {
  const void *in;
  void *out;
  int64_t planes, height, width, left, top, outHeight, outWidth;
  int32_t reflects, unused;
};

/// Planes of an image and their patches.
struct PatchArguments {
  const void *in;
  void *out;
  int64_t planes, h, w, kh, kw, padH, padW, strideH, strideW, dilationH, dilationW, oh, ow;
};

} // namespace opc::ops
