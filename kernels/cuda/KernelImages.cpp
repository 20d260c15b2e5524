// Finding and unpacking the device code of this build.
// SPDX-License-Identifier: Apache-2.0
#include "KernelImages.h"

#include <algorithm>
#include <zlib.h>

namespace opc::cuda {

using detail::kImageCount;
using detail::kImages;
using detail::kKernelCount;
using detail::kKernels;

namespace {

const detail::KernelEntry *firstFrom(std::string_view name) {
  const auto *end = kKernels + kKernelCount;
  const auto *found = std::lower_bound(kKernels, end, name, [](const detail::KernelEntry &a, std::string_view b) {
    return std::string_view(a.name) < b;
  });
  return found == end ? nullptr : found;
}

} // namespace

bool hasImages() { return kImageCount > 0; }

int imageOf(std::string_view kernel) {
  const detail::KernelEntry *found = firstFrom(kernel);
  return found && found->name == kernel ? found->image : -1;
}

std::string kernelWithPrefix(const std::string &prefix) {
  const detail::KernelEntry *found = firstFrom(prefix);
  return found && std::string_view(found->name).substr(0, prefix.size()) == prefix ? found->name : "";
}

Result<std::string> imageText(int image) {
  const detail::KernelImage &i = kImages[image];
  std::string text(i.bytes, '\0');
  uLongf bytes = i.bytes;
  const int r = uncompress(reinterpret_cast<Bytef *>(text.data()), &bytes, detail::kImageData + i.offset,
                           static_cast<uLong>(i.packedBytes));
  if (r != Z_OK || bytes != i.bytes)
    return Status(StatusCode::kInternal, "OPC0901",
                  "module " + std::to_string(image) + " of the device code is damaged");
  return text;
}

std::vector<std::string_view> kernelNames() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kKernelCount; ++i) names.emplace_back(kKernels[i].name);
  return names;
}

} // namespace opc::cuda
