// The device code that a build carries: PTX modules, and cubins of the right architecture with the same kernels.
// SPDX-License-Identifier: Apache-2.0
#include "KernelImages.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <elf.h>
#include <map>
#include <set>

using namespace opc;
using namespace opc::cuda;

namespace {

constexpr int kMachineOfCuda = 190; // EM_CUDA

template <class T> T readAt(const std::string &bytes, size_t at) {
  T value{};
  REQUIRE(at + sizeof value <= bytes.size());
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

/// The kernels of a cubin: what has code in a section of its own.
std::set<std::string> kernelsOf(const std::string &cubin, const Elf64_Ehdr &header) {
  const auto section = [&](size_t i) { return readAt<Elf64_Shdr>(cubin, header.e_shoff + i * sizeof(Elf64_Shdr)); };
  const Elf64_Shdr names = section(header.e_shstrndx);
  std::set<std::string> found;
  for (size_t i = 0; i < header.e_shnum; ++i) {
    const std::string name = cubin.c_str() + names.sh_offset + section(i).sh_name;
    if (name.rfind(".text.", 0) == 0) found.insert(name.substr(6));
  }
  return found;
}

std::map<int, std::set<std::string>> kernelsByImage() {
  std::map<int, std::set<std::string>> kernels;
  for (const std::string_view name : kernelNames()) kernels[imageOf(name)].insert(std::string(name));
  return kernels;
}

} // namespace

TEST_CASE("Each module has its kernels in PTX", "[cuda]") {
  for (const auto &[image, kernels] : kernelsByImage()) {
    const Result<std::string> text = imageText(image);
    REQUIRE(text);
    for (const std::string &k : kernels) CHECK(text->find(".visible .entry " + k + "(") != std::string::npos);
  }
}

TEST_CASE("Cubins are machine code of their architecture, with the kernels of the PTX", "[cuda]") {
  for (const int capability : codeCapabilities())
    for (const auto &[image, kernels] : kernelsByImage()) {
      INFO("module " << image << " for sm_" << capability);
      const Result<std::string> ptx = imageText(image), code = imageCode(image, capability);
      REQUIRE(code);
      const bool isForLater = ptx->find(".target sm_80") != std::string::npos && capability < 80;
      REQUIRE(code->empty() == isForLater);
      if (isForLater) continue;
      const auto header = readAt<Elf64_Ehdr>(*code, 0);
      REQUIRE(std::memcmp(header.e_ident, ELFMAG, SELFMAG) == 0);
      CHECK(header.e_machine == kMachineOfCuda);
      CHECK((header.e_flags >> 8 & 0xff) == static_cast<unsigned>(capability));
      CHECK(kernelsOf(*code, header) == kernels);
    }
}

TEST_CASE("A GPU runs code of its own major number, made for its minor one or an earlier", "[cuda]") {
  const std::vector<int> made = codeCapabilities();
  if (made.empty()) return; // a build without ptxas, or with OPC_CUBINS=none
  const int image = imageOf("add_n_f32");
  for (const int gpu : {70, 75, 80, 86, 87, 89, 90, 100, 120}) {
    int best = 0;
    for (const int c : made)
      if (c / 10 == gpu / 10 && c <= gpu) best = c;
    const Result<std::string> code = imageCode(image, gpu);
    REQUIRE(code);
    CHECK((code->empty() ? 0 : static_cast<int>(readAt<Elf64_Ehdr>(*code, 0).e_flags >> 8 & 0xff)) == best);
  }
}

TEST_CASE("Device code that is damaged is an error", "[cuda]") {
  if (!hasImages()) return;
  const detail::KernelImage place = detail::kImages[0];
  std::string packed(reinterpret_cast<const char *>(detail::kImageData) + place.offset, place.packedBytes);
  const detail::KernelImage alone{0, place.packedBytes, place.bytes}, shorter{0, place.packedBytes, place.bytes - 1};
  const auto unpacked = [&](const detail::KernelImage &p) {
    return detail::unpack(reinterpret_cast<const unsigned char *>(packed.data()), p, "module 0");
  };
  REQUIRE(unpacked(alone));
  CHECK(*unpacked(alone) == *imageText(0));
  CHECK(unpacked(shorter).status().id() == "OPC0901");
  for (const size_t at : {size_t{0}, packed.size() / 2, packed.size() - 1}) {
    packed[at] ^= 0x10;
    const Result<std::string> r = unpacked(alone);
    REQUIRE_FALSE(r);
    CHECK(r.status().id() == "OPC0901");
    CHECK(r.status().message() == "module 0 of the device code is damaged");
    packed[at] ^= 0x10;
  }
}
