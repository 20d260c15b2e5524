// Fat binaries are read as nvcc 13 writes them: a header, and entries of PTX (kind 1) or machine code (kind 2).
// SPDX-License-Identifier: Apache-2.0
#include "PtxImages.h"

#include "DroppedWaits.h"
#include "Module.h"

#include <algorithm>
#include <cstring>

namespace opc::gpusim::driver {
namespace {

constexpr uint32_t kWrapperMagic = 0x466243b1, kFatbinMagic = 0xba55ed50;

struct FatbinWrapper {
  uint32_t magic, version;
  const void *data, *name;
};

struct FatbinHeader {
  uint32_t magic;
  uint16_t version, headerBytes;
  uint64_t bytes; // behind the header
};

struct FatbinEntry {
  uint16_t kind, version;
  uint32_t headerBytes;
  uint64_t bytes; // behind the header
  uint32_t compressedBytes, options;
  uint16_t minor, major;
  uint32_t arch;
};

template <class T> T readAt(const char *at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

bool looksLikePtx(const char *text, uint64_t bytes) {
  const uint64_t n = std::min<uint64_t>(bytes, 4096);
  return std::string_view(text, n).find(".version") != std::string_view::npos &&
         std::none_of(text, text + std::min<uint64_t>(n, 256),
                      [](unsigned char c) { return c < 0x20 && c != '\n' && c != '\t' && c != '\r' && c != 0; });
}

/// The PTX of the largest architecture that the device can run.
CuResult fromFatbin(const char *data, const SimOptions &options, std::string_view *ptx, std::string *error) {
  const auto header = readAt<FatbinHeader>(data);
  if (header.headerBytes < sizeof header) return *error = "the fat binary is damaged", kInvalidImage;
  uint32_t best = 0;
  bool compressed = false, machineCode = false;
  std::string newer;
  for (uint64_t at = 0; at + sizeof(FatbinEntry) <= header.bytes;) {
    const char *place = data + header.headerBytes + at;
    const auto entry = readAt<FatbinEntry>(place);
    if (entry.headerBytes < sizeof entry ||
        entry.bytes > header.bytes - at - std::min<uint64_t>(entry.headerBytes, header.bytes - at))
      return *error = "the fat binary is damaged", kInvalidImage;
    const char *payload = place + entry.headerBytes;
    at += entry.headerBytes + entry.bytes;
    machineCode |= entry.kind == 2;
    if (entry.kind != 1) continue;
    if (entry.arch > static_cast<uint32_t>(options.computeCapability)) {
      newer = "sm_" + std::to_string(entry.arch);
    } else if (entry.compressedBytes || !looksLikePtx(payload, entry.bytes)) {
      compressed = true;
    } else if (entry.arch >= best) {
      best = entry.arch;
      *ptx = std::string_view(payload, strnlen(payload, entry.bytes));
    }
  }
  if (best) return kSuccess;
  *error = compressed       ? "the fat binary's PTX is compressed: give nvcc -no-compress"
           : !newer.empty() ? "the fat binary has PTX of " + newer + " only, and the device is sm_" +
                                  std::to_string(options.computeCapability)
           : machineCode    ? "the fat binary has machine code and no PTX, which is all that can run here: give nvcc "
                              "-gencode arch=compute_75,code=compute_75"
                            : "the fat binary is empty";
  return kNoBinaryForGpu;
}

/// The newest PTX that a driver's compiler takes, as 90 for 9.0 (CUDA's release notes of PTX).
uint32_t newestPtx(int driver) {
  static constexpr uint32_t of11[] = {70, 71, 72, 73, 74, 75, 76, 77, 78},
                            of12[] = {80, 81, 82, 83, 84, 85, 85, 86, 87, 88};
  const auto minor = static_cast<size_t>(driver % 1000 / 10);
  if (driver < 12000) return of11[std::min<size_t>(minor, std::size(of11) - 1)];
  if (driver < 13000) return of12[std::min<size_t>(minor, std::size(of12) - 1)];
  return static_cast<uint32_t>(90 + minor);
}

} // namespace

CuResult readImage(const void *image, const SimOptions &options, std::shared_ptr<const Module> *module,
                   std::string *error) {
  const char *text = static_cast<const char *>(image);
  std::string_view ptx;
  char first[4] = {};
  for (int i = 0; i < 4 && (i == 0 || first[i - 1]); ++i) first[i] = text[i]; // an empty text ends here
  uint32_t magic = 0;
  std::memcpy(&magic, first, sizeof magic);
  if (magic == kWrapperMagic) {
    text = static_cast<const char *>(readAt<FatbinWrapper>(text).data);
    magic = readAt<uint32_t>(text);
  }
  if (magic == kFatbinMagic) {
    if (const CuResult r = fromFatbin(text, options, &ptx, error)) return r;
  } else if (!std::memcmp(first,
                          "\x7f"
                          "ELF",
                          4)) {
    *error = "a cubin is machine code of a GPU; only PTX can run here";
    return kNoBinaryForGpu;
  } else {
    ptx = text;
  }
  std::string changed;
  if (!options.dropped.empty()) {
    if (!dropWaits(ptx, options.dropped, &changed, error)) return kInvalidPtx;
    ptx = changed;
  }
  std::string parseError;
  std::shared_ptr<const Module> parsed = Module::parse(ptx, &parseError);
  if (!parsed) {
    *error = "the PTX is wrong: " + parseError;
    return kInvalidPtx;
  }
  if (parsed->version() > newestPtx(options.driver)) {
    const auto dotted = [](uint32_t v) { return std::to_string(v / 10) + "." + std::to_string(v % 10); };
    *error = "PTX of version " + dotted(parsed->version()) + ", and this driver's newest is " +
             dotted(newestPtx(options.driver)) + " (driver= of CUDA_SIM)";
    return kUnsupportedPtxVersion;
  }
  const std::string &target = parsed->target(); // sm_90a: for sm_90
  const int arch = target.rfind("sm_", 0) == 0 ? std::atoi(target.c_str() + 3) : 0;
  if (arch > options.computeCapability) {
    *error = "PTX for " + target + ", and the device is sm_" + std::to_string(options.computeCapability);
    return kInvalidPtx;
  }
  *module = std::move(parsed);
  return kSuccess;
}

} // namespace opc::gpusim::driver
