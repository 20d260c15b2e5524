// Packs PTX modules into one file and writes the tables that find them: PackImages OUT.bin OUT.cpp MODULE.ptx...
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>
#include <zlib.h>

namespace {

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

int fail(const std::string &message) {
  std::fprintf(stderr, "PackImages: %s\n", message.c_str());
  return 1;
}

} // namespace

int main(int argc, char **argv) {
  if (argc < 3) return fail("usage: PackImages OUT.bin OUT.cpp MODULE.ptx...");
  std::string packed, images;
  std::vector<std::pair<std::string, int>> kernels;
  for (int i = 3; i < argc; ++i) {
    std::ifstream in(argv[i], std::ios::binary);
    const std::string ptx((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    if (ptx.empty()) return fail(std::string(argv[i]) + " cannot be read");
    for (std::string &name : entriesOf(ptx)) kernels.emplace_back(std::move(name), i - 3);
    uLongf bytes = compressBound(static_cast<uLong>(ptx.size()));
    std::string block(bytes, '\0');
    if (compress2(reinterpret_cast<Bytef *>(block.data()), &bytes, reinterpret_cast<const Bytef *>(ptx.data()),
                  static_cast<uLong>(ptx.size()), 9) != Z_OK)
      return fail("zlib failed");
    images += "    {" + std::to_string(packed.size()) + ", " + std::to_string(bytes) + ", " +
              std::to_string(ptx.size()) + "},\n";
    packed.append(block, 0, bytes);
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
  out << "const int kImageCount = " << argc - 3 << ";\nconst KernelEntry kKernels[] = {\n";
  for (const auto &[name, image] : kernels) out << "    {\"" << name << "\", " << image << "},\n";
  out << "    {\"\", -1}};\nconst int kKernelCount = " << kernels.size() << ";\n} // namespace opc::cuda::detail\n";
  return out.good() ? 0 : fail("the tables cannot be written");
}
