// Plain protobuf text, through protobuf's binary form.
// SPDX-License-Identifier: Apache-2.0
#include "PlainText.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/io/coded_stream.h>

#include <array>
#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <unordered_map>

namespace opc {
namespace {

namespace pb = google::protobuf;
using Field = pb::FieldDescriptor;

/// Below protobuf's limits for text and for binary input.
constexpr int kMaxNesting = 90;
/// So much of the binary form is parsed at once: it stays in the cache.
constexpr size_t kPartBytes = 64 << 10;

bool isBlank(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
constexpr bool isDigit(char c) { return c >= '0' && c <= '9'; }

/// For each character whether it is of a kind.
using Kind = std::array<bool, 256>;
template <class F> constexpr Kind kindOf(F is) {
  Kind kind{};
  for (int c = 0; c < 256; ++c) kind[static_cast<size_t>(c)] = is(static_cast<char>(c));
  return kind;
}
constexpr Kind kWord =
    kindOf([](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || isDigit(c); });
/// Of strings: what stands for itself wherever it is.
constexpr Kind kPlain =
    kindOf([](char c) { return c != '"' && c != '\'' && c != '\\' && static_cast<signed char>(c) >= ' '; });
bool is(const Kind &kind, char c) { return kind[static_cast<unsigned char>(c)]; }
bool isWord(char c) { return is(kWord, c); }

/// What the reader asks of a message's type.
struct Table {
  struct Entry {
    std::string_view name;
    const Field *field;
    uint32_t tag;  // in binary form
    uint64_t once; // the bit of what a message has at most once: a field, or all of a oneof; 0 if repeated
    Table *table;  // of messages, made when one is met
    Entry *next;   // what followed it the last time
  };
  std::vector<Entry> entries;
  Entry *first = nullptr; // what a message began with the last time

  /// The field of a name; `last` is the one before it, if any. Messages of a type have much the same fields.
  Entry *find(std::string_view name, Entry *last) {
    Entry *&guess = last ? last->next : first;
    if (guess && guess->name == name) return guess;
    for (Entry &e : entries)
      if (e.name == name) return guess = &e;
    return nullptr;
  }
};

/// 3 bits of the tag. Other types stand in no graph.
int wireType(Field::Type type) {
  switch (type) {
  case Field::TYPE_INT32:
  case Field::TYPE_INT64:
  case Field::TYPE_UINT32:
  case Field::TYPE_UINT64:
  case Field::TYPE_BOOL:
  case Field::TYPE_ENUM: return 0;
  case Field::TYPE_DOUBLE: return 1;
  case Field::TYPE_STRING:
  case Field::TYPE_BYTES:
  case Field::TYPE_MESSAGE: return 2;
  case Field::TYPE_FLOAT: return 5;
  default: return -1;
  }
}

class Reader {
public:
  Reader(std::string_view text, const Field *wanted, TextBlocks *blocks)
      : begin_(text.data()), at_(begin_), end_(begin_ + text.size()), wanted_(wanted), blocks_(*blocks) {}

  bool read(pb::Message *message) {
    root_ = message;
    return fields(tableOf(message->GetDescriptor()), '\0', 0) && flush();
  }

private:
  Table &tableOf(const pb::Descriptor *type) {
    auto [found, isNew] = tables_.try_emplace(type);
    Table &table = found->second;
    for (int i = 0; isNew && i < type->field_count() && i < 64; ++i) {
      const Field *f = type->field(i);
      const auto *oneof = f->containing_oneof();
      const int once = oneof ? oneof->field(0)->index() : i;
      const int wire = wireType(f->type());
      if (wire < 0 || once >= 64 || f->options().deprecated() || f->is_map()) continue; // protobuf's parser knows them
      table.entries.push_back({f->name(), f, static_cast<uint32_t>(f->number() << 3 | wire),
                               f->is_repeated() ? 0 : uint64_t{1} << once, nullptr, nullptr});
    }
    return table;
  }

  void skipBlanks() {
    for (; at_ != end_; ++at_) {
      if (*at_ == '#')
        while (at_ != end_ && *at_ != '\n') ++at_;
      if (at_ == end_ || !isBlank(*at_)) return;
    }
  }
  bool takes(char c) { return at_ != end_ && *at_ == c ? ++at_, true : false; }
  std::string_view word() {
    const char *from = at_;
    while (at_ != end_ && isWord(*at_)) ++at_;
    return {from, static_cast<size_t>(at_ - from)};
  }

  /// The fields of a message up to its closing brace, or of the whole text.
  bool fields(Table &table, char closing, int depth) {
    Table::Entry *entry = nullptr;
    for (uint64_t seen = 0;;) {
      skipBlanks();
      if (at_ == end_) return closing == '\0';
      if (takes(closing)) return closing != '\0';
      const char *from = at_;
      entry = table.find(word(), entry);
      if (!entry || (entry->once & seen)) return false;
      seen |= entry->once;
      if (!value(entry, depth)) return false;
      if (entry->field == wanted_)
        blocks_.emplace_back(static_cast<size_t>(from - begin_), static_cast<size_t>(at_ - begin_));
      skipBlanks();
      if (!takes(';')) takes(',');
      if (depth == 0 && wire_.size() > kPartBytes && !flush()) return false;
    }
  }

  bool value(Table::Entry *entry, int depth) {
    const Field *field = entry->field;
    skipBlanks();
    const bool hasColon = takes(':');
    skipBlanks();
    putVarint(entry->tag);
    if (field->type() == Field::TYPE_MESSAGE) return nested(entry, depth);
    if (!hasColon || at_ == end_) return false;
    switch (field->type()) {
    case Field::TYPE_STRING:
    case Field::TYPE_BYTES: return string();
    case Field::TYPE_INT32: return integer(std::numeric_limits<int32_t>::min(), std::numeric_limits<int32_t>::max());
    case Field::TYPE_UINT32: return integer(0, std::numeric_limits<uint32_t>::max());
    case Field::TYPE_INT64: return integer(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max());
    case Field::TYPE_UINT64: return integer(0, std::numeric_limits<int64_t>::max());
    case Field::TYPE_BOOL: return truth(word());
    case Field::TYPE_ENUM: return named(field->enum_type()->FindValueByName(std::string(word())));
    case Field::TYPE_DOUBLE: return number<double>();
    case Field::TYPE_FLOAT: return number<float>();
    default: return false;
    }
  }

  bool nested(Table::Entry *entry, int depth) {
    if (depth == kMaxNesting) return false;
    const char closing = takes('{') ? '}' : '>';
    if (closing == '>' && !takes('<')) return false;
    if (!entry->table) entry->table = &tableOf(entry->field->message_type());
    const size_t lengthAt = wire_.size();
    wire_.push_back(0);
    if (!fields(*entry->table, closing, depth + 1)) return false;
    putLength(lengthAt);
    return true;
  }

  bool string() {
    constexpr std::string_view kEscaped = "abfnrtv\\?'\"", kMeant = "\a\b\f\n\r\t\v\\?'\"";
    const char quote = *at_++;
    if (quote != '"' && quote != '\'') return false;
    const size_t lengthAt = wire_.size();
    wire_.push_back(0);
    for (const char *from = at_; at_ != end_; ++at_) {
      while (at_ != end_ && is(kPlain, *at_)) ++at_;
      if (at_ == end_) break;
      if (*at_ == (quote ^ '"' ^ '\'')) continue; // the other quote
      wire_.append(from, at_);
      if (*at_ == quote) break;
      if (*at_ != '\\' || ++at_ == end_) return false;
      const size_t escape = kEscaped.find(*at_);
      if (escape == std::string_view::npos) return false;
      wire_.push_back(kMeant[escape]);
      from = at_ + 1;
    }
    if (at_ == end_) return false;
    ++at_;
    putLength(lengthAt);
    skipBlanks();
    return at_ == end_ || (*at_ != '"' && *at_ != '\''); // two strings side by side are one
  }

  /// A decimal literal; `negative` is its sign. Octal and hexadecimal ones, and what is glued to others, are not plain.
  template <class T> bool literal(T *value, bool *negative) {
    *negative = takes('-');
    if (at_ == end_ || !isDigit(*at_) || (*at_ == '0' && end_ - at_ > 1 && isDigit(at_[1]))) return false;
    const auto [after, error] = std::from_chars(at_, end_, *value);
    if (error != std::errc()) return false;
    at_ = after;
    return at_ == end_ || (!isWord(*at_) && *at_ != '.');
  }

  bool integer(int64_t least, int64_t most) {
    int64_t value = 0;
    bool negative = false;
    if (!literal(&value, &negative)) return false;
    if (negative) value = -value;
    putVarint(static_cast<uint64_t>(value));
    return value >= least && value <= most;
  }

  template <class T> bool number() {
    double value = 0;
    bool negative = false;
    if (!literal(&value, &negative) || value > std::numeric_limits<T>::max()) return false;
    const T bits = static_cast<T>(negative ? -value : value);
    wire_.append(reinterpret_cast<const char *>(&bits), sizeof bits);
    return true;
  }

  bool truth(std::string_view word) {
    putVarint(word == "true");
    return word == "true" || word == "false";
  }

  bool named(const pb::EnumValueDescriptor *value) {
    if (value) putVarint(static_cast<uint64_t>(int64_t{value->number()}));
    return value != nullptr;
  }

  static size_t encode(uint64_t value, char *bytes) {
    size_t n = 0;
    for (; value >= 0x80; value >>= 7) bytes[n++] = static_cast<char>(value | 0x80);
    bytes[n++] = static_cast<char>(value);
    return n;
  }
  void putVarint(uint64_t value) {
    char bytes[10];
    wire_.append(bytes, encode(value, bytes));
  }

  /// Of what follows the byte at `lengthAt`, in its place: nearly all messages are short, and one byte holds it.
  void putLength(size_t lengthAt) {
    char bytes[10];
    const size_t n = encode(wire_.size() - lengthAt - 1, bytes);
    if (n == 1)
      wire_[lengthAt] = bytes[0];
    else
      wire_.replace(lengthAt, 1, bytes, n);
  }

  /// Parses what has been written.
  bool flush() {
    pb::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(wire_.data()), static_cast<int>(wire_.size()));
    const bool isParsed = root_->MergePartialFromCodedStream(&in) && in.ConsumedEntireMessage();
    wire_.clear();
    return isParsed;
  }

  const char *begin_, *at_, *end_;
  const Field *wanted_;
  TextBlocks &blocks_;
  pb::Message *root_ = nullptr;
  std::unordered_map<const pb::Descriptor *, Table> tables_;
  std::string wire_;
};

} // namespace

bool readPlainText(std::string_view text, pb::Message *message, const Field *field, TextBlocks *blocks) {
  if (Reader(text, field, blocks).read(message)) return true;
  message->Clear();
  blocks->clear();
  return false;
}

} // namespace opc
