// Packs PTX modules, each with its cubins behind it, into one file and writes the tables that find them:
// PackImages OUT.bin OUT.cpp (MODULE.ptx MODULE.sm_80.cubin...)...
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>
#include <zlib.h>

namespace {

/// Of zlib: 9 takes four times as long for 3 % less.
constexpr int kLevel = 7;

/// The names after ".visible .entry".
std::vector<std::string> entriesOf(const std::string &ptx) {
  static const std::string kEntry = ".visible .entry ";
  std::vector<std::string> names;
  for (size_t at = ptx.find(kEntry); at != std::string::npos; at = ptx.find(kEntry, at + 1)) {
    const size_t begin = at + kEntry.size();
    names.push_back(ptx.substr(begin, ptx.find('(', begin) - begin));
  }
  return names;
}

/// 80 of NAME.sm_80.cubin; 0 of PTX.
int capabilityOf(const std::string &path) {
  static const std::string kBefore = ".sm_", kEnd = ".cubin";
  const size_t at = path.rfind(kBefore);
  if (at == std::string::npos || path.size() < kEnd.size() ||
      path.compare(path.size() - kEnd.size(), kEnd.size(), kEnd) != 0)
    return 0;
  return static_cast<int>(std::strtol(path.c_str() + at + kBefore.size(), nullptr, 10));
}

int fail(const std::string &message) {
  std::fprintf(stderr, "PackImages: %s\n", message.c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) return fail("usage: PackImages OUT.bin OUT.cpp (MODULE.ptx MODULE.sm_80.cubin...)...");
  std::string packed, images, code;
  int modules = 0, cubins = 0;
  std::vector<std::pair<std::string, int>> kernels;
  for (int i = 3; i < argc; ++i) {
    const std::string path = argv[i];
    std::ifstream in(path, std::ios::binary);
    const std::string data((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (data.empty()) return fail(path + " cannot be read");
    uLongf bytes = compressBound(static_cast<uLong>(data.size()));
    std::string block(bytes, '\0');
    if (compress2(reinterpret_cast<Bytef *>(block.data()), &bytes, reinterpret_cast<const Bytef *>(data.data()),
                  static_cast<uLong>(data.size()), kLevel) != Z_OK)
      return fail("zlib failed");
    const std::string place =
        std::to_string(packed.size()) + ", " + std::to_string(bytes) + ", " + std::to_string(data.size());
    packed.append(block, 0, bytes);
    if (const int capability = capabilityOf(path); capability == 0) {
      for (std::string &name : entriesOf(data)) kernels.emplace_back(std::move(name), modules);
      images += "    {" + place + "},\n";
      ++modules;
    } else {
      if (modules == 0 || data.compare(0, 4,
                                       "\x7f"
                                       "ELF") != 0)
        return fail(path + " is no cubin behind a module");
      code += "    {" + std::to_string(modules - 1) + ", " + std::to_string(capability) + ", {" + place + "}},\n";
      ++cubins;
    }
  }
  std::sort(kernels.begin(), kernels.end());
  for (size_t i = 1; i < kernels.size(); ++i)
    if (kernels[i].first == kernels[i - 1].first) return fail("two kernels are called " + kernels[i].first);

  std::ofstream(argv[1], std::ios::binary) << packed;
  std::ofstream out(argv[2]);
  out << "// Written by PackImages.\n#include \"KernelImages.h\"\n\n";
  out << "asm(\".section .rodata\\n.globl opcKernelImages\\n.hidden opcKernelImages\\nopcKernelImages:\\n.incbin \\\""
      << argv[1] << "\\\"\\n.byte 0\\n.text\\n\");\n";
  out << "extern \"C\" __attribute__((visibility(\"hidden\"))) const unsigned char opcKernelImages[];\n\n";
  out << "namespace opc::cuda::detail {\nconst unsigned char *const kImageData = opcKernelImages;\n";
  out << "const KernelImage kImages[] = {\n" << images << "    {0, 0, 0}};\n";
  out << "const int kImageCount = " << modules << ";\nconst KernelCode kCode[] = {\n" << code;
  out << "    {-1, 0, {0, 0, 0}}};\nconst int kCodeCount = " << cubins << ";\nconst KernelEntry kKernels[] = {\n";
  for (const auto &[name, image] : kernels) out << "    {\"" << name << "\", " << image << "},\n";
  out << "    {\"\", -1}};\nconst int kKernelCount = " << kernels.size() << ";\n} // namespace opc::cuda::detail\n";
  return out.good() ? 0 : fail("the tables cannot be written");
}
