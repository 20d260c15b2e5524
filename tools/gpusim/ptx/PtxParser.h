// From tokens to a module: declarations here, bodies of functions in PtxBody.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Function.h"
#include "Module.h"
#include "PtxLexer.h"

#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opc::gpusim {

/// Names are looked up as the text has them, without a copy.
struct HashOfText {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>()(text); }
};
template <class T> using Names = std::unordered_map<std::string, T, HashOfText, std::equal_to<>>;

/// A variable as its declaration says it, in whatever space.
struct Declared {
  std::string name;
  Type type = Type::kNone;
  uint32_t align = 1, line = 0;
  uint64_t bytes = 0;
  bool open = false; // name[]
};

class PtxParser {
public:
  /// `ptx` must outlive the parser. Throws PtxError.
  explicit PtxParser(std::string_view ptx) : lexer_(ptx), module_(new Module) { tokens_[0] = lexer_.next(); }
  std::unique_ptr<Module> parse();

private:
  friend class PtxBody;

  // --- tokens
  const Token &peek() const { return tokens_[at_]; }
  const Token &peekBehind() {
    if (!behind_) tokens_[at_ ^ 1] = lexer_.next();
    behind_ = true;
    return tokens_[at_ ^ 1];
  }
  void skip() {
    if (peek().kind == Token::kEnd) return;
    if (behind_)
      at_ ^= 1;
    else
      tokens_[at_] = lexer_.next();
    behind_ = false;
  }
  Token take() {
    Token t = peek();
    skip();
    return t;
  }
  static bool isMark(const Token &t, char c) { return t.kind == Token::kPunctuation && t.punctuation == c; }
  bool isPunctuation(char c) const { return isMark(peek(), c); }
  bool isPunctuationBehind(char c) { return isMark(peekBehind(), c); }
  bool isDot(std::string_view word) const { return peek().kind == Token::kDotWord && peek().text == word; }
  bool accept(char c) { return isPunctuation(c) ? skip(), true : false; }
  bool acceptDot(std::string_view word) { return isDot(word) ? skip(), true : false; }
  void expect(char c);
  std::string_view expectWord(const char *what);
  uint64_t expectInteger(const char *what);
  [[noreturn]] void fail(const std::string &message) const { throw PtxError{peek().line, message}; }
  std::string found() const;
  void skipStatement();
  void skipBraces();

  // --- declarations
  void directive();
  void header(std::string_view name);
  void file();
  void variable(Space space, bool external);
  void functionOrKernel(bool kernel, bool external);
  void kernelDirectives(KernelInfo &info);
  void threads(uint32_t (&into)[3]);
  /// What stands between the space and the end: .align 4 .b8 name[16]. Adds dimensions up.
  Declared declaration();
  uint64_t dimensions(bool *open);
  std::vector<Declared> parameters();
  void initializer(Variable &v, Type type);
  void initializerList(Variable &v, uint32_t element, uint64_t &at, int depth, Type type);
  void initializerValue(Variable &v, uint32_t element, uint64_t at, Type type);
  void relocation(Variable &v, uint32_t element, uint64_t at, uint64_t mask);
  Function &declareFunction(std::string name, uint32_t line);

  Lexer lexer_;
  Token tokens_[2]; // the next one, and maybe the one behind it
  uint32_t at_ = 0;
  bool behind_ = false; // that one is there
  std::unique_ptr<Module> module_;
  Names<Symbol> globals_; // what functions can name
  Names<size_t> functions_;
  /// .shared variables of the module: every kernel has them, one behind the other.
  uint64_t sharedBytes_ = 0;
  uint32_t dynamicAlign_ = 16;
};

} // namespace opc::gpusim
