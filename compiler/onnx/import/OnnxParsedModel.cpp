// ONNX models without copies of their tensors.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxParsedModel.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

namespace opc::onnx {

namespace pb = google::protobuf;
using Wire = pb::internal::WireFormatLite;

namespace {

constexpr int kMaxNesting = 300; // of messages: a graph in a graph is three
// What is smaller is parsed as protobuf does it: a large graph of small nodes is one piece.
constexpr uint32_t kWorthIt = 4096;

} // namespace

bool ParsedModel::parse(SharedBytes file) {
  file_ = std::move(file);
  return merge(&model_, file_.view(), 0);
}

std::string_view ParsedModel::rawData(const Tensor &tensor) const {
  if (!tensor.raw_data().empty()) return tensor.raw_data();
  const auto found = inFile_.find(&tensor);
  return found == inFile_.end() ? std::string_view() : found->second;
}

bool ParsedModel::mergePlain(pb::Message *to, std::string_view bytes, int depth) {
  if (bytes.empty()) return true;
  pb::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  input.SetRecursionLimit(kMaxNesting - depth);
  return to->MergeFromCodedStream(&input) && input.ConsumedEntireMessage();
}

/// The system may bring as much as 2 MiB around a byte that is read into the process: that goes again from time to
/// time.
void ParsedModel::letGoUntil(const char *end) {
  constexpr size_t kAround = 2 << 20, kMost = 8 << 20;
  if (!file_.isMapped() || (inMemory_ += kAround) < kMost) return;
  const std::string_view all = file_.view();
  letGo({{}, all.substr(0, static_cast<size_t>(end - all.data())), nullptr, true});
  inMemory_ = 0;
}

/// Fields in the order of the bytes, as protobuf has it: what comes later is merged into what came before.
bool ParsedModel::merge(pb::Message *to, std::string_view bytes, int depth) {
  if (depth >= kMaxNesting) return false;
  pb::io::CodedInputStream input(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  const pb::Descriptor &type = *to->GetDescriptor();
  const pb::Reflection &reflection = *to->GetReflection();
  size_t merged = 0;
  const auto at = [&] { return static_cast<size_t>(input.CurrentPosition()); };
  const auto mergeUntil = [&](size_t end) { return mergePlain(to, bytes.substr(merged, end - merged), depth); };
  for (;;) {
    const size_t begin = at();
    const uint32_t tag = input.ReadTag();
    if (tag == 0) break; // the end, or damage: what follows is parsed, and fails
    if (Wire::GetTagWireType(tag) != Wire::WIRETYPE_LENGTH_DELIMITED) {
      if (!Wire::SkipField(&input, tag)) return false;
      continue;
    }
    uint32_t length = 0;
    if (!input.ReadVarint32(&length) || length > bytes.size() - at()) return false;
    const std::string_view content = bytes.substr(at(), length);
    if (!input.Skip(static_cast<int>(length))) return false;
    const pb::FieldDescriptor *field =
        length < kWorthIt ? nullptr : type.FindFieldByNumber(Wire::GetTagFieldNumber(tag));
    const bool isRaw = field && &type == Tensor::descriptor() && field->number() == Tensor::kRawDataFieldNumber;
    if (!field || (!isRaw && field->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE)) continue;
    if (!mergeUntil(begin)) return false;
    merged = at();
    if (isRaw) {
      auto *tensor = static_cast<Tensor *>(to);
      tensor->set_raw_data("");
      inFile_[tensor] = content;
      letGoUntil(content.data() + content.size());
    } else if (!merge(field->is_repeated() ? reflection.AddMessage(to, field) : reflection.MutableMessage(to, field),
                      content, depth + 1)) {
      return false;
    }
  }
  return mergeUntil(bytes.size());
}

} // namespace opc::onnx
