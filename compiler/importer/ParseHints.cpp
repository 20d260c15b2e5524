// Words of protobuf's messages, found in the text and compared with what could stand there.
// SPDX-License-Identifier: Apache-2.0
#include "ParseHints.h"

#include "NearestNames.h"
#include "TextParts.h"
#include "graph.pb.h"
#include "opc/DataType.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

namespace opc {
namespace {

namespace pb = google::protobuf;

/// The text between the first `open` of a message and the first `close` behind it, or "".
std::string between(const std::string &message, std::string_view open, std::string_view close) {
  const size_t begin = message.find(open);
  if (begin == std::string::npos) return "";
  const size_t end = message.find(close, begin + open.size());
  return end == std::string::npos ? "" : message.substr(begin + open.size(), end - begin - open.size());
}

bool isWordByte(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; }

/// Whether a comment has begun before `at` in its line.
bool isInComment(std::string_view text, size_t at) {
  char quote = 0;
  for (size_t i = text.rfind('\n', at) + 1; i < at; ++i) { // npos + 1 is 0
    if (quote && text[i] == '\\')
      ++i;
    else if (quote ? text[i] == quote : text[i] == '"' || text[i] == '\'')
      quote = quote ? 0 : text[i];
    else if (!quote && text[i] == '#')
      return true;
  }
  return false;
}

/// The last place of a word at `from` or shortly before it.
size_t findBackwards(std::string_view text, const std::string &word, size_t from) {
  constexpr size_t kFar = 1 << 16; // comments may lie between a word and the one that the parser stood at
  const size_t least = from - std::min(from, kFar);
  for (size_t at = text.rfind(word, from); at != std::string_view::npos && at >= least;
       at = at ? text.rfind(word, at - 1) : std::string_view::npos) {
    const size_t end = at + word.size();
    const bool begins = at == 0 || !isWordByte(text[at - 1]) || !isWordByte(word.front());
    if (begins && (end >= text.size() || !isWordByte(text[end]) || !isWordByte(word.back())) && !isInComment(text, at))
      return at;
  }
  return std::string_view::npos;
}

void setRange(std::string_view text, size_t begin, size_t length, SourceRange *range) {
  const std::string_view before = text.substr(0, begin);
  range->line = range->endLine = static_cast<uint32_t>(std::count(before.begin(), before.end(), '\n') + 1);
  const size_t lineBegin = before.rfind('\n') + 1; // npos + 1 is 0
  range->column = static_cast<uint32_t>(begin - lineBegin + 1);
  range->endColumn = range->column + static_cast<uint32_t>(std::max<size_t>(length, 1));
}

/// Every message of the file and what it imports.
void collectMessages(const pb::FileDescriptor *file, std::vector<const pb::Descriptor *> *all) {
  for (int i = 0; i < file->message_type_count(); ++i) all->push_back(file->message_type(i));
  for (int i = 0; i < file->dependency_count(); ++i) collectMessages(file->dependency(i), all);
}

/// The values that a field of this name takes, whatever message it is in.
std::vector<std::string> valuesOf(const std::string &field) {
  std::vector<const pb::Descriptor *> messages;
  collectMessages(graph::Job::descriptor()->file(), &messages);
  std::set<std::string> values;
  for (size_t m = 0; m < messages.size(); ++m) {
    for (int i = 0; i < messages[m]->nested_type_count(); ++i) messages.push_back(messages[m]->nested_type(i));
    const pb::FieldDescriptor *f = messages[m]->FindFieldByName(field);
    if (!f || !f->enum_type()) continue;
    for (int i = 0; i < f->enum_type()->value_count(); ++i) values.insert(f->enum_type()->value(i)->name());
  }
  values.erase("kInvalidDataType");
  return {values.begin(), values.end()};
}

/// What others call the element types, beside numpy.
const auto kTypeNames = std::to_array<std::pair<std::string_view, DataType>>({
    {"float", kFloat},
    {"fp32", kFloat},
    {"single", kFloat},
    {"double", kDouble},
    {"fp64", kDouble},
    {"half", kFloat16},
    {"fp16", kFloat16},
    {"short", kInt16},
    {"int", kInt32},
    {"long", kInt64},
    {"byte", kUInt8},
    {"boolean", kBool},
});

DataType typeCalled(const std::string &name) {
  for (const auto &[other, type] : kTypeNames)
    if (name == other) return type;
  return parseDataType(name);
}

/// "torch.float32", "DT_FLOAT", "KFLOAT": without what stands before the name, in small letters.
std::string plainTypeName(std::string word) {
  if (const size_t dot = word.rfind('.'); dot != std::string::npos) word.erase(0, dot + 1);
  for (char &c : word) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word.rfind("dt_", 0) == 0) word.erase(0, 3);
  if (word.size() > 1 && word[0] == 'k' && word != "k") word.erase(0, 1);
  return word;
}

/// What may have been meant by a value of an enumeration.
std::string valueHelp(const std::string &word, const std::vector<std::string> &values) {
  if (std::find(values.begin(), values.end(), word) != values.end()) return "write " + word + " without quotes";
  const char *meant = DataType_Name(typeCalled(plainTypeName(word)));
  if (std::find(values.begin(), values.end(), meant) != values.end()) return concat("did you mean ", meant, "?");
  return didYouMean(word, values, values.empty() ? "" : "it takes " + joined(values, ", "));
}

std::string fieldHelp(const std::string &message, const std::string &word) {
  const pb::Descriptor *type = pb::DescriptorPool::generated_pool()->FindMessageTypeByName(message);
  if (!type) return "";
  std::vector<std::string> fields;
  for (int i = 0; i < type->field_count(); ++i) fields.push_back(type->field(i)->name());
  return didYouMean(word, fields);
}

/// The word that the message is about, and what helps.
struct Hint {
  std::string word, help;
};

Hint hintOf(const std::string &message) {
  if (message.rfind("Unknown enumeration value of", 0) == 0) {
    const std::string word = between(message, "of \"", "\"");
    return {word, valueHelp(word, valuesOf(between(message, "field \"", "\"")))};
  }
  if (message.rfind("Message type", 0) == 0) {
    const std::string word = between(message, "named \"", "\"");
    return {word, fieldHelp(between(message, "type \"", "\""), word)};
  }
  if (message.rfind("Invalid value for boolean field", 0) == 0)
    return {between(message, "Value: \"", "\""), "write true or false"};
  const size_t got = message.find("got: ");
  const std::string token = got != std::string::npos ? message.substr(got + 5) : between(message, "found \"", "\"");
  if (message.rfind("Expected string", 0) == 0) return {token, "put it in quotes: \"" + token + "\""};
  if (message.rfind("Expected integer or identifier", 0) == 0 && token.size() > 2 && token.front() == '"')
    return {token, valueHelp(token.substr(1, token.size() - 2), valuesOf("data_type"))};
  return {token, ""};
}

} // namespace

size_t offsetOf(std::string_view text, int line, int column) {
  size_t at = 0;
  for (; line > 0 && at < text.size(); --line) at = std::min(text.find('\n', at), text.size() - 1) + 1;
  for (int seen = 0; seen < column && at < text.size() && text[at] != '\n'; ++at)
    seen += text[at] == '\t' ? 8 - seen % 8 : 1;
  return at;
}

void explainParseError(std::string_view text, int line, int column, Diagnostic *found) {
  const Hint hint = hintOf(found->message);
  if (!hint.help.empty()) found->help = hint.help;
  if (line < 0) return;
  const std::string_view begin = text.substr(offsetOf(text, line, 0)).substr(0, 7);
  if (begin == "<<<<<<<" || begin == "=======" || begin == ">>>>>>>")
    found->help = "a merge has left its marks: both sides have changed the graph, and one is to be chosen";
  const size_t stood = offsetOf(text, line, column);
  const size_t word = hint.word.empty() ? std::string_view::npos : findBackwards(text, hint.word, stood);
  if (word == std::string_view::npos)
    setRange(text, stood, 1, &found->range);
  else
    setRange(text, word, hint.word.size(), &found->range);
}

} // namespace opc
