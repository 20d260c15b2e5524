// The device code that this build carries: PTX modules, the machine code that was made of them, and which kernels each
// has.
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
/// The machine code of a module that a GPU of this compute capability (80 for 8.0) runs: what was assembled for it, or
/// for an earlier one of the same major number. Empty where the build has none.
Result<std::string> imageCode(int image, int capability);
/// The compute capabilities that this build has machine code for, ascending.
std::vector<int> codeCapabilities();
/// All kernels, sorted.
std::vector<std::string_view> kernelNames();

namespace detail {
struct KernelImage {
  size_t offset, packedBytes, bytes;
};
struct KernelCode {
  int image, capability;
  KernelImage place;
};
struct KernelEntry {
  const char *name;
  int image;
};
/// What lies at a place of `data`; `what` names it in the error.
Result<std::string> unpack(const unsigned char *data, const KernelImage &place, const std::string &what);
// Written by PackImages.
extern const unsigned char *const kImageData;
extern const KernelImage kImages[];
extern const int kImageCount;
extern const KernelCode kCode[]; // sorted by image
extern const int kCodeCount;
extern const KernelEntry kKernels[]; // sorted
extern const int kKernelCount;
} // namespace detail

} // namespace opc::cuda
