// The device code that this build carries: PTX modules, and which kernels each has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc::cuda {

/// False in builds without nvcc.
bool hasImages();
/// The module that has the kernel; -1 when none has.
int imageOf(std::string_view kernel);
/// The first kernel whose name begins so; "" when none does.
std::string kernelWithPrefix(const std::string &prefix);
/// The PTX of a module.
Result<std::string> imageText(int image);
/// All kernels, sorted.
std::vector<std::string_view> kernelNames();

namespace detail {
struct KernelImage {
  size_t offset, packedBytes, bytes;
};
struct KernelEntry {
  const char *name;
  int image;
};
// Written by PackImages.
extern const unsigned char *const kImageData;
extern const KernelImage kImages[];
extern const int kImageCount;
extern const KernelEntry kKernels[]; // sorted
extern const int kKernelCount;
} // namespace detail

} // namespace opc::cuda
