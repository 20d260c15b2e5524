// The files beside an ONNX model that hold its tensors. Messages are walked over: no element of a tensor is read.
// SPDX-License-Identifier: Apache-2.0
#include "ModelData.h"

#include "FileBytes.h"

#include <sys/stat.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string_view>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

constexpr int kMostDepth = 200; // of messages in one another

enum class Message { kModel, kFunction, kGraph, kNode, kAttribute, kSparse, kTensor, kPair };

/// The message that a field of `in` is, where tensors can lie in it (onnx.proto).
std::optional<Message> messageAt(Message in, uint64_t field) {
  switch (in) {
  case Message::kModel:
    if (field == 7) return Message::kGraph;
    if (field == 25) return Message::kFunction;
    break;
  case Message::kFunction:
    if (field == 7) return Message::kNode;
    break;
  case Message::kGraph:
    if (field == 1) return Message::kNode;
    if (field == 5) return Message::kTensor;
    if (field == 15) return Message::kSparse;
    break;
  case Message::kNode:
    if (field == 5) return Message::kAttribute;
    break;
  case Message::kAttribute:
    if (field == 5 || field == 10) return Message::kTensor;
    if (field == 6 || field == 11) return Message::kGraph;
    if (field == 22 || field == 23) return Message::kSparse;
    break;
  case Message::kSparse:
    if (field == 1 || field == 2) return Message::kTensor;
    break;
  case Message::kTensor:
    if (field == 13) return Message::kPair;
    break;
  case Message::kPair: break;
  }
  return std::nullopt;
}

std::optional<uint64_t> number(std::string_view *bytes) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && !bytes->empty(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes->front());
    bytes->remove_prefix(1);
    value |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) return value;
  }
  return std::nullopt;
}

/// One field: its number, and its bytes where it has a length. False where there is none.
bool next(std::string_view *bytes, uint64_t *field, std::optional<std::string_view> *part) {
  const auto tag = number(bytes);
  if (!tag) return false;
  *field = *tag >> 3;
  part->reset();
  switch (*tag & 7) {
  case 0: return number(bytes).has_value();
  case 1:
  case 5: {
    const size_t size = (*tag & 7) == 1 ? 8 : 4;
    if (bytes->size() < size) return false;
    bytes->remove_prefix(size);
    return true;
  }
  case 2: {
    const auto size = number(bytes);
    if (!size || *size > bytes->size()) return false;
    *part = bytes->substr(0, *size);
    bytes->remove_prefix(*size);
    return true;
  }
  default: return false;
  }
}

/// False where it is no message of that kind.
bool walk(Message message, std::string_view bytes, int depth, std::set<std::string> *locations) {
  if (depth > kMostDepth) return false;
  std::string_view key, value;
  while (!bytes.empty()) {
    uint64_t field = 0;
    std::optional<std::string_view> part;
    if (!next(&bytes, &field, &part)) return false;
    if (!part) continue;
    if (message == Message::kPair && field == 1) key = *part;
    if (message == Message::kPair && field == 2) value = *part;
    const auto inner = messageAt(message, field);
    if (inner && !walk(*inner, *part, depth + 1, locations)) return false;
  }
  static constexpr std::string_view kLocation = "location"; // a word of ONNX
  if (message == Message::kPair && key == kLocation && !value.empty()) locations->insert(std::string(value));
  return true;
}

} // namespace

std::vector<std::string> modelDataFiles(const std::string &path) {
  struct stat st;
  // What a pipe or the standard input has can be read once.
  if (path == "-" || ::stat(path.c_str(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  const auto file = FileBytes::open(path);
  std::set<std::string> locations;
  if (!file || !walk(Message::kModel, file->view(), 0, &locations)) return {};
  std::error_code error;
  const fs::path model = fs::is_symlink(path, error) ? fs::weakly_canonical(path, error) : fs::path(path);
  if (error) return {};
  std::vector<std::string> files;
  for (const std::string &l : locations)
    if (l.find('\0') == std::string::npos) files.push_back((model.parent_path() / l).string());
  return files;
}

} // namespace opc::cli
