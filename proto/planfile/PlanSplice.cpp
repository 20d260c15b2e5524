// The wire format of protobuf, as far as the way to the values of a plan's variables.
// SPDX-License-Identifier: Apache-2.0
#include "PlanSplice.h"

#include "plan.pb.h"

#include <utility>

namespace opc {
namespace {

constexpr uint32_t kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5;

struct Field {
  uint32_t number = 0, type = 0;
  std::string_view whole, content; // with its tag; of kBytes alone
};

class Fields {
public:
  explicit Fields(std::string_view bytes) : rest_(bytes) {}
  bool isRead() const { return rest_.empty(); }

  /// False at the end, and at what this program does not write.
  bool next(Field *field) {
    const std::string_view from = rest_;
    uint64_t tag = 0, length = 0;
    if (!varint(&tag) || tag >> 3 == 0 || tag >> 3 > 0xffff) return stop(from);
    field->number = static_cast<uint32_t>(tag >> 3), field->type = static_cast<uint32_t>(tag & 7);
    if (field->type == kVarint && !varint(&length)) return stop(from);
    if (field->type == kBytes && !varint(&length)) return stop(from);
    if (field->type == kVarint) length = 0;
    if (field->type == kFixed64) length = 8;
    if (field->type == kFixed32) length = 4;
    const bool isKnown =
        field->type == kVarint || field->type == kBytes || field->type == kFixed64 || field->type == kFixed32;
    if (!isKnown || length > rest_.size()) return stop(from);
    field->content = rest_.substr(0, static_cast<size_t>(length));
    rest_.remove_prefix(static_cast<size_t>(length));
    field->whole = from.substr(0, from.size() - rest_.size());
    return true;
  }

private:
  bool stop(std::string_view at) {
    rest_ = at;
    return false;
  }
  bool varint(uint64_t *value) {
    *value = 0;
    for (size_t i = 0; i < 10 && i < rest_.size(); ++i) {
      const auto byte = static_cast<unsigned char>(rest_[i]);
      *value |= uint64_t{byte & 0x7fU} << (7 * i);
      if (byte & 0x80U) continue;
      if (i > 0 && byte == 0) return false; // longer than need be
      rest_.remove_prefix(i + 1);
      return true;
    }
    return false;
  }

  std::string_view rest_;
};

std::string tagAndLength(uint32_t number, uint64_t length) {
  std::string text;
  for (uint64_t value : {uint64_t{number} << 3 | kBytes, length}) {
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(value | 0x80);
    text += static_cast<char>(value);
  }
  return text;
}

class Splicer {
public:
  explicit Splicer(const SpliceValue &value) : value_(value) {}

  /// A plan, or one of its parts.
  bool plan(std::string_view bytes, int part, SplicedMessage *out) {
    int parts = 0, variables = 0;
    return fields(bytes, out, [&](const Field &field, SplicedMessage *inner) {
      if (field.number == plan::Plan::kInterfaceFieldNumber) return interface(field.content, part, &variables, inner);
      if (field.number != plan::Plan::kPartFieldNumber || part >= 0) return true;
      return plan(field.content, parts++, inner);
    });
  }

private:
  bool interface(std::string_view bytes, int part, int *variables, SplicedMessage *out) {
    return fields(bytes, out, [&](const Field &field, SplicedMessage *inner) {
      if (field.number != plan::Interface::kVariableFieldNumber) return true;
      return variable(field.content, {part, (*variables)++}, inner);
    });
  }

  bool variable(std::string_view bytes, VariablePlace place, SplicedMessage *out) {
    bool isThere = false;
    return fields(bytes, out, [&](const Field &field, SplicedMessage *inner) {
      if (field.number != plan::Interface::Variable::kDataFieldNumber) return true;
      if (std::exchange(isThere, true)) return false;
      if (const auto value = value_(place, field.content)) {
        add({*value, place}, inner);
        hasChanged_ = true;
      }
      return true;
    });
  }

  /// splice(field, inner) for those of bytes: leaves in `inner` what stands in place of their content. Those in which
  /// nothing changes remain as they are.
  template <class Splice> bool fields(std::string_view bytes, SplicedMessage *out, Splice splice) {
    Fields all(bytes);
    size_t at = 0, unchanged = 0; // where the field ends, and where what does not change begins
    const auto keep = [&](size_t end) { add({bytes.substr(unchanged, end - unchanged), std::nullopt}, out); };
    for (Field field; all.next(&field);) {
      SplicedMessage inner;
      const bool before = std::exchange(hasChanged_, false);
      if (field.type == kBytes && !splice(field, &inner)) return false;
      at += field.whole.size();
      if (hasChanged_) {
        keep(at - field.whole.size());
        unchanged = at;
        inner.lengths.push_front(tagAndLength(field.number, inner.size));
        add({inner.lengths.front(), std::nullopt}, out);
        for (const SplicedMessage::Piece &piece : inner.pieces) add(piece, out);
        out->lengths.splice(out->lengths.end(), inner.lengths); // they stay where they are
      }
      hasChanged_ |= before;
    }
    keep(at);
    return all.isRead();
  }

  static void add(const SplicedMessage::Piece &piece, SplicedMessage *out) {
    if (piece.bytes.empty()) return;
    out->size += piece.bytes.size();
    out->pieces.push_back(piece);
  }

  const SpliceValue &value_;
  bool hasChanged_ = false; // in the field at hand
};

} // namespace

std::optional<SplicedMessage> spliceValues(std::string_view message, const SpliceValue &value) {
  SplicedMessage out;
  if (!Splicer(value).plan(message, -1, &out)) return std::nullopt;
  return out;
}

} // namespace opc
