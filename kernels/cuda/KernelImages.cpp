// Finding and unpacking the device code of this build.
// SPDX-License-Identifier: Apache-2.0
#include "KernelImages.h"

#include <algorithm>
#include <set>
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

Result<std::string> detail::unpack(const unsigned char *data, const KernelImage &place, const std::string &what) {
  std::string text(place.bytes, '\0');
  uLongf bytes = place.bytes;
  const int r = uncompress(reinterpret_cast<Bytef *>(text.data()), &bytes, data + place.offset,
                           static_cast<uLong>(place.packedBytes));
  if (r != Z_OK || bytes != place.bytes)
    return Status(StatusCode::kInternal, "OPC0901", what + " of the device code is damaged");
  return text;
}

Result<std::string> imageText(int image) {
  return detail::unpack(detail::kImageData, kImages[image], "module " + std::to_string(image));
}

Result<std::string> imageCode(int image, int capability) {
  const detail::KernelCode *best = nullptr;
  for (const detail::KernelCode *c = detail::kCode, *end = c + detail::kCodeCount; c != end; ++c)
    if (c->image == image && c->capability / 10 == capability / 10 && c->capability <= capability &&
        (!best || c->capability > best->capability))
      best = c;
  if (!best) return std::string();
  return detail::unpack(detail::kImageData, best->place,
                        "module " + std::to_string(image) + " for sm_" + std::to_string(best->capability));
}

std::vector<int> codeCapabilities() {
  std::set<int> found;
  for (int i = 0; i < detail::kCodeCount; ++i) found.insert(detail::kCode[i].capability);
  return {found.begin(), found.end()};
}

std::vector<std::string_view> kernelNames() {
  std::vector<std::string_view> names;
  for (int i = 0; i < kKernelCount; ++i) names.emplace_back(kKernels[i].name);
  return names;
}

} // namespace opc::cuda
