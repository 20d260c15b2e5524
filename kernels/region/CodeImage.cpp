// Images of code in memory.
// SPDX-License-Identifier: Apache-2.0
#include "CodeImage.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

namespace opc {
namespace {

class MappedImage final : public RegionCode {
public:
  ~MappedImage() override {
    if (at_ != MAP_FAILED) munmap(at_, bytes_);
  }
  bool map(const CodeImage &image) {
    bytes_ = (image.bytes.size() + kImagePage - 1) / kImagePage * kImagePage;
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at_ == MAP_FAILED) return false;
    std::memcpy(at_, image.bytes.data(), image.bytes.size());
    char *const begin = static_cast<char *>(at_), *const constants = begin + image.code;
    if (mprotect(begin, image.code, PROT_READ | PROT_EXEC) != 0) return false;
    if (image.code < bytes_ && mprotect(constants, bytes_ - image.code, PROT_READ) != 0) return false;
    function = reinterpret_cast<Function>(begin + image.entry);
    lanes = image.lanes;
    return true;
  }

private:
  void *at_ = MAP_FAILED;
  size_t bytes_ = 0;
};

} // namespace

std::string faultOf(const CodeImage &image) {
  if (image.level == CodeLevel::kNone) return "its level is none";
  if (image.bytes.size() > kMaxImageBytes) return "it has more than " + std::to_string(kMaxImageBytes) + " bytes";
  if (image.code == 0 || image.code % kImagePage != 0)
    return "its code does not end at a page of " + std::to_string(kImagePage) + " bytes";
  if (image.code > image.bytes.size()) return "its code is longer than it";
  if (image.entry >= image.code) return "its function begins behind its code";
  // Loops take as many elements at a time as kMaxRegionLanes is a multiple of.
  if (image.lanes == 0 || kMaxRegionLanes % image.lanes != 0)
    return "it computes " + std::to_string(image.lanes) + " elements at a time";
  return "";
}

std::shared_ptr<const RegionCode> mapImage(const CodeImage &image, std::string *reason) {
  *reason = faultOf(image);
  if (!reason->empty()) return nullptr;
  if (static_cast<long>(kImagePage) % sysconf(_SC_PAGESIZE) != 0) {
    *reason = "pages of this machine are larger";
    return nullptr;
  }
  auto mapped = std::make_shared<MappedImage>();
  if (mapped->map(image)) return mapped;
  *reason = std::strerror(errno);
  return nullptr;
}

} // namespace opc
