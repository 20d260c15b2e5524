// The part of TOML that opc.toml needs.
// SPDX-License-Identifier: Apache-2.0
#include "Toml.h"

#include "NumberText.h"

#include <algorithm>

namespace opc::cli {

namespace {

constexpr int kMaxDepth = 32;

class TomlParser {
public:
  TomlParser(std::string_view text, const std::string &name) : text_(text), name_(name) {}

  Result<TomlValue> run() {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;
    TomlValue root;
    root.value = TomlValue::Table();
    TomlValue *current = &root;
    for (;;) {
      skipBlank(true);
      if (end()) return root;
      if (peek() == '[') {
        current = header(&root);
      } else if (!keyValue(current)) {
        current = nullptr;
      }
      if (!current) return error_;
      skipBlank(false);
      if (!end() && peek() != '\n' && !(peek() == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n'))
        return fail("one statement a line: '" + std::string(1, peek()) + "' follows");
    }
  }

private:
  bool end() const { return at_ >= text_.size(); }
  char peek() const { return text_[at_]; }

  /// Blanks and comments; with `lines` the ends of lines, too.
  void skipBlank(bool lines) {
    while (!end()) {
      const char c = peek();
      if (c == '#') {
        while (!end() && peek() != '\n') ++at_;
      } else if (c == ' ' || c == '\t' || (lines && (c == '\n' || c == '\r'))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  void place(size_t at, int *line, int *column) const {
    *line = 1 + static_cast<int>(std::count(text_.begin(), text_.begin() + static_cast<ptrdiff_t>(at), '\n'));
    const size_t start = at ? text_.rfind('\n', at - 1) : std::string_view::npos;
    *column = static_cast<int>(at - (start == std::string_view::npos ? 0 : start + 1)) + 1;
  }

  Status fail(const std::string &what, size_t at = SIZE_MAX) {
    int line = 0, column = 0;
    place(std::min(at == SIZE_MAX ? at_ : at, text_.size()), &line, &column);
    error_ = Status(StatusCode::kUsage, "OPC0008",
                    name_ + ":" + std::to_string(line) + ":" + std::to_string(column) + ": " + what);
    return error_;
  }
  /// What a function returns that found a mistake: false, or no table.
  struct None {
    operator bool() const { return false; }
    operator TomlValue *() const { return nullptr; }
  };
  None none(const std::string &what, size_t at = SIZE_MAX) {
    (void)fail(what, at);
    return {};
  }

  /// A key: bare words and quoted strings, joined by dots.
  bool key(std::vector<std::string> *parts) {
    for (;;) {
      skipBlank(false);
      if (end()) return none("a key is missing");
      std::string part;
      if (peek() == '"' || peek() == '\'') {
        if (!string(&part)) return false;
      } else {
        const size_t start = at_;
        while (!end() && (std::isalnum(static_cast<unsigned char>(peek())) || peek() == '_' || peek() == '-')) ++at_;
        if (at_ == start) return none(std::string("a key cannot begin with '") + peek() + "'");
        part = text_.substr(start, at_ - start);
      }
      parts->push_back(std::move(part));
      if (parts->size() > kMaxDepth) return none("a key of more than 32 parts");
      skipBlank(false);
      if (end() || peek() != '.') return true;
      ++at_;
    }
  }

  /// The table that `path` names below `from`, made where it is missing.
  TomlValue *descend(TomlValue *from, const std::vector<std::string> &path, size_t count, size_t at) {
    for (size_t i = 0; i < count; ++i) {
      auto *table = std::get_if<TomlValue::Table>(&from->value);
      if (!table) return none("'" + path[i - 1] + "' is no table", at);
      auto it = std::find_if(table->entries.begin(), table->entries.end(),
                             [&](const TomlValue::Entry &e) { return e.key == path[i]; });
      if (it == table->entries.end()) {
        TomlValue fresh;
        fresh.value = TomlValue::Table();
        place(at, &fresh.line, &fresh.column);
        table->entries.push_back({path[i], std::move(fresh)});
        it = table->entries.end() - 1;
      }
      from = &it->value;
    }
    if (!from->table()) return none("'" + path[count - 1] + "' is no table", at);
    return from;
  }

  TomlValue *header(TomlValue *root) {
    const size_t start = at_++;
    if (!end() && peek() == '[') return none("opc reads no arrays of tables ([[...]])", start);
    std::vector<std::string> path;
    if (!key(&path)) return nullptr;
    if (end() || peek() != ']') return none("']' is missing");
    ++at_;
    std::string joined;
    for (const std::string &p : path) joined += p + '\n';
    if (std::find(headers_.begin(), headers_.end(), joined) != headers_.end())
      return none("this table is there already", start);
    headers_.push_back(joined);
    return descend(root, path, path.size(), start);
  }

  bool keyValue(TomlValue *table) {
    const size_t start = at_;
    std::vector<std::string> path;
    if (!key(&path)) return false;
    if (end() || peek() != '=') return none("'=' is missing");
    ++at_;
    skipBlank(false);
    TomlValue v;
    if (!value(&v, 0)) return false;
    TomlValue *into = descend(table, path, path.size() - 1, start);
    if (!into) return false;
    auto &entries = std::get<TomlValue::Table>(into->value).entries;
    for (const TomlValue::Entry &e : entries)
      if (e.key == path.back()) return none("'" + path.back() + "' is given twice", start);
    entries.push_back({path.back(), std::move(v)});
    return true;
  }

  bool string(std::string *out) {
    const size_t start = at_;
    const char quote = peek();
    if (text_.substr(at_, 3) == std::string(3, quote)) return none("opc reads no strings of several lines");
    for (++at_;; ++at_) {
      if (end() || peek() == '\n') return none("the string is not closed", start);
      if (peek() == quote) break;
      if (peek() != '\\' || quote == '\'') {
        *out += peek();
        continue;
      }
      if (++at_ >= text_.size()) return none("the string is not closed", start);
      const char c = peek();
      const size_t which = std::string_view("btnfr\"\\").find(c);
      if (which == std::string_view::npos) {
        if (c != 'u') return none(std::string("no escape '\\") + c + "'", at_ - 1);
        unsigned code = 0;
        for (int i = 0; i < 4; ++i) {
          const size_t digit = ++at_ < text_.size()
                                   ? std::string_view("0123456789abcdef").find(static_cast<char>(std::tolower(peek())))
                                   : std::string_view::npos;
          if (digit == std::string_view::npos) return none("\\u wants four hexadecimal digits");
          code = code * 16 + static_cast<unsigned>(digit);
        }
        if (code >= 0xD800 && code < 0xE000) return none("\\u names half a character");
        if (code < 0x80) {
          *out += static_cast<char>(code);
        } else if (code < 0x800) {
          *out += static_cast<char>(0xC0 | code >> 6);
          *out += static_cast<char>(0x80 | (code & 63));
        } else {
          *out += static_cast<char>(0xE0 | code >> 12);
          *out += static_cast<char>(0x80 | (code >> 6 & 63));
          *out += static_cast<char>(0x80 | (code & 63));
        }
        continue;
      }
      *out += "\b\t\n\f\r\"\\"[which];
    }
    ++at_;
    return true;
  }

  bool value(TomlValue *v, int depth) {
    if (depth > kMaxDepth) return none("values are nested more than 32 deep");
    if (end() || peek() == '\n' || peek() == '\r' || peek() == '#') return none("a value is missing");
    place(at_, &v->line, &v->column);
    if (peek() == '"' || peek() == '\'') return string(&v->value.emplace<std::string>());
    if (peek() == '[') return array(v, depth);
    if (peek() == '{') return inlineTable(v, depth);
    const size_t start = at_;
    while (!end() && std::string_view(" \t\r\n,]}#").find(peek()) == std::string_view::npos) ++at_;
    const std::string word(text_.substr(start, at_ - start));
    if (word == "true" || word == "false") {
      v->value = word == "true";
      return true;
    }
    // "1_000": an underscore stands between digits.
    std::string digits;
    for (size_t i = 0; i < word.size(); ++i) {
      const bool between = i && i + 1 < word.size() && std::isdigit(static_cast<unsigned char>(word[i - 1])) &&
                           std::isdigit(static_cast<unsigned char>(word[i + 1]));
      if (word[i] == '_' && !between) return none("'" + word + "' is no value", start);
      if (word[i] != '_') digits += word[i];
    }
    if (const auto n = parseInteger<int64_t>(digits)) {
      v->value = *n;
      return true;
    }
    if (const auto d = parseReal(digits)) {
      v->value = *d;
      return true;
    }
    return none("'" + word + "' is no value" + (word.empty() ? "" : "; text stands in quotes: \"" + word + "\""),
                start);
  }

  bool array(TomlValue *v, int depth) {
    const size_t start = at_++;
    auto &list = v->value.emplace<TomlValue::Array>();
    for (;;) {
      skipBlank(true);
      if (end()) return none("the array is not closed", start);
      if (peek() == ']') break;
      if (!list.empty()) {
        if (peek() != ',') return none("',' or ']' is missing");
        ++at_;
        skipBlank(true);
        if (end()) return none("the array is not closed", start);
        if (peek() == ']') break;
      }
      TomlValue item;
      if (!value(&item, depth + 1)) return false;
      list.push_back(std::move(item));
    }
    ++at_;
    return true;
  }

  bool inlineTable(TomlValue *v, int depth) {
    const size_t start = at_++;
    v->value = TomlValue::Table();
    for (bool first = true;; first = false) {
      skipBlank(false);
      if (end() || peek() == '\n') return none("the table is not closed", start);
      if (peek() == '}') break;
      if (!first) {
        if (peek() != ',') return none("',' or '}' is missing");
        ++at_;
        skipBlank(false);
      }
      if (depth >= kMaxDepth) return none("values are nested more than 32 deep");
      depth_ += 1;
      const bool ok = depth_ <= kMaxDepth ? keyValue(v) : none("values are nested more than 32 deep");
      depth_ -= 1;
      if (!ok) return false;
    }
    ++at_;
    return true;
  }

  std::string_view text_;
  const std::string &name_;
  size_t at_ = 0;
  int depth_ = 0; // of inline tables, whose values start anew
  Status error_;
  std::vector<std::string> headers_;
};

} // namespace

const TomlValue *TomlValue::Table::find(const std::string &key) const {
  for (const Entry &e : entries)
    if (e.key == key) return &e.value;
  return nullptr;
}

const char *TomlValue::kind() const {
  static const char *const kKinds[] = {"true or false", "an integer", "a number", "a string", "an array", "a table"};
  return kKinds[value.index()];
}

Result<TomlValue> parseToml(std::string_view text, const std::string &name) { return TomlParser(text, name).run(); }

} // namespace opc::cli
