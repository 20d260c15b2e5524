// Files of other kinds, told by their first bytes.
// SPDX-License-Identifier: Apache-2.0
#include "ForeignFile.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace opc {
namespace {

struct Magic {
  std::string_view bytes;
  size_t offset;
  const char *kind, *help; // FILE in the help stands for the file's name
};

using namespace std::string_view_literals;

const char *const kTensors = "tensors are given to a graph: opc run GRAPH --weights FILE, or --input NAME=@FILE";
const char *const kExport =
    "opc reads operator graphs as protobuf (docs/graph-format.md); weights alone can be saved as "
    "safetensors or npz and given with --weights";
const char *const kIr =
    "MLIR is what opc compile --emit mlir writes: opc compile --from PHASE goes on from it; else give the graph that it was made from";

constexpr std::string_view kBytecode = "ML\xefR"sv;

const auto kMagics = std::to_array<Magic>({
    {"OPCPLAN\0"sv, 0, "a plan", "it is compiled already: opc run FILE runs it, opc show FILE shows it"},
    {"\x1f\x8b"sv, 0, "compressed by gzip", "gunzip -c FILE | opc show -"},
    {"BZh"sv, 0, "compressed by bzip2", "bunzip2 -c FILE | opc show -"},
    {"\xfd"
     "7zXZ\0"sv,
     0, "compressed by xz", "xz -dc FILE | opc show -"},
    {"\x28\xb5\x2f\xfd"sv, 0, "compressed by zstd", "zstd -dc FILE | opc show -"},
    {"ustar"sv, 257, "a tar archive", "take the graph out of it: tar -xf FILE"},
    {"\x93NUMPY"sv, 0, "a numpy tensor", kTensors},
    {"\x89HDF\r\n\x1a\n"sv, 0, "an HDF5 file, as Keras writes", kExport},
    {"GGUF"sv, 0, "a GGUF model", kExport},
    {"TFL3"sv, 4, "a TensorFlow Lite model", kExport},
    {kBytecode, 0, "MLIR bytecode", kIr},
    {"BC\xc0\xde"sv, 0, "LLVM bitcode", kIr},
    {"\x7f"
     "ELF"sv,
     0, "a program or library", "a library of operators is loaded with --plugin FILE"},
    {"%PDF"sv, 0, "a PDF document", kExport},
    {"\x89PNG"sv, 0, "a PNG image", kExport},
    {"\xff\xd8\xff"sv, 0, "a JPEG image", kExport},
});

bool startsWith(std::string_view bytes, std::string_view with) { return bytes.substr(0, with.size()) == with; }

/// One byte order for each half of the characters of a text that is mostly ASCII: every other byte is 0.
const char *utf16Order(std::string_view bytes) {
  if (startsWith(bytes, "\xff\xfe"sv)) return "UTF-16";
  if (startsWith(bytes, "\xfe\xff"sv)) return "UTF-16";
  const std::string_view head = bytes.substr(0, 512);
  if (head.size() < 8 || bytes.size() % 2) return nullptr;
  size_t zeros[2] = {0, 0}, texts[2] = {0, 0};
  for (size_t i = 0; i < head.size(); ++i) {
    const auto c = static_cast<unsigned char>(head[i]);
    zeros[i % 2] += c == 0;
    texts[i % 2] += (c >= 32 && c < 127) || c == '\n' || c == '\r' || c == '\t';
  }
  const size_t most = head.size() / 2 * 9 / 10;
  if (zeros[1] >= most && texts[0] >= most) return "UTF-16LE";
  if (zeros[0] >= most && texts[1] >= most) return "UTF-16BE";
  return nullptr;
}

ForeignFile zipKind(std::string_view bytes) {
  if (bytes.find("data.pkl") != std::string_view::npos) return {"a PyTorch archive (.pt)", kExport};
  if (bytes.find(".npy") != std::string_view::npos) return {"an npz archive of tensors", kTensors};
  return {"a zip archive", "take the graph out of it: unzip FILE"};
}

bool isSafetensors(std::string_view bytes) {
  if (bytes.size() < 10 || bytes[8] != '{') return false;
  uint64_t length = 0;
  for (size_t i = 8; i-- > 0;) length = length << 8 | static_cast<unsigned char>(bytes[i]);
  return length <= bytes.size() && bytes[9] != '\0';
}

/// Without the space at the beginning.
std::string_view textOf(std::string_view bytes) {
  return bytes.substr(std::min(bytes.find_first_not_of(" \t\r\n"), bytes.size()));
}

std::optional<ForeignFile> recognizeText(std::string_view bytes) {
  const std::string_view text = textOf(bytes);
  const auto begins = [&](std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(), [&](std::string_view w) { return startsWith(text, w); });
  };
  if (begins({"{", "[{", "[\n"}))
    return ForeignFile{"JSON", "opc reads protobuf text or binary: opc compile GRAPH --emit pbtxt shows how one looks"};
  if (begins({"<?xml", "<svg"})) return ForeignFile{"XML", kExport};
  if (begins({"<"})) return ForeignFile{"an HTML page", "a download may have given a page in place of the file"};
  if (looksLikeMlir(bytes)) return ForeignFile{"MLIR text", kIr};
  if (begins({"version https://git-lfs"}))
    return ForeignFile{"a pointer of git LFS", "git lfs pull brings the file itself"};
  if (begins({"import ", "from ", "#!/", "def ", "class ", "#include ", "#include<", "#pragma ", "#ifndef ", "//", "/*",
              "package ", "using namespace ", "namespace ", "int main", "\"\"\""}))
    return ForeignFile{"a program", "run it, and give opc the graph that it writes"};
  return std::nullopt;
}

std::optional<ForeignFile> recognize(std::string_view bytes) {
  for (const Magic &m : kMagics)
    if (bytes.size() > m.offset && startsWith(bytes.substr(m.offset), m.bytes)) return ForeignFile{m.kind, m.help};
  if (startsWith(bytes, "PK\x03\x04"sv) || startsWith(bytes, "PK\x05\x06"sv)) return zipKind(bytes);
  if (const char *order = utf16Order(bytes))
    return ForeignFile{std::string("text in ") + order,
                       std::string("opc reads UTF-8: iconv -f ") + order + " -t UTF-8 FILE | opc show -"};
  if (isSafetensors(bytes)) return ForeignFile{"a safetensors file", kTensors};
  if (bytes.size() > 1 && bytes[0] == '\x80' && bytes[1] >= 2 && bytes[1] <= 5)
    return ForeignFile{"a Python pickle (.pt, .pkl)",
                       std::string("opc never reads pickles, which are programs; ") + kExport};
  return recognizeText(bytes);
}

} // namespace

bool looksLikeMlir(std::string_view bytes) {
  const std::string_view text = textOf(bytes);
  return startsWith(bytes, kBytecode) ||
         std::ranges::any_of(
             std::to_array({"module {"sv, "module @"sv, "module attributes"sv, "func.func"sv, "#loc"sv, "// -----"sv}),
             [&](std::string_view begin) { return startsWith(text, begin); });
}

/// Walks the top level of a protobuf message. An ONNX model has its version (1, a varint) first, then a graph (7) and
/// its operator sets (8), and nothing but fields up to 25.
bool looksLikeOnnx(std::string_view bytes) {
  size_t at = 0;
  const auto varint = [&](uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < bytes.size() && shift < 64; shift += 7) {
      const auto c = static_cast<unsigned char>(bytes[at++]);
      *value |= static_cast<uint64_t>(c & 0x7f) << shift;
      if (c < 0x80) return true;
    }
    return false;
  };
  uint64_t tag, value;
  bool hasVersion = false, hasGraph = false;
  while (at < bytes.size()) {
    if (!varint(&tag) || tag >> 3 == 0 || tag >> 3 > 25) return false;
    if ((tag & 7) != 0 && (tag & 7) != 2) return false;
    if (!varint(&value)) return false;
    if (tag == (1 << 3)) hasVersion = value > 0 && value < 100;
    if (tag == (7 << 3 | 2)) hasGraph = true;
    if ((tag & 7) == 2) {
      if (hasVersion && hasGraph) return true; // what is missing at the end of a damaged file does not matter
      if (value > bytes.size() - at) return false;
      at += value;
    }
  }
  return hasVersion && hasGraph;
}

std::optional<ForeignFile> recognizeFile(const std::string &name, std::string_view bytes) {
  std::optional<ForeignFile> found = recognize(bytes);
  if (!found) return found;
  for (size_t at = 0; (at = found->help.find("FILE", at)) != std::string::npos; at += name.size())
    found->help.replace(at, 4, name);
  return found;
}

} // namespace opc
