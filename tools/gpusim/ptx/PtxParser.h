// From tokens to a module: declarations here, bodies of functions in PtxBody.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Function.h"
#include "Module.h"
#include "PtxLexer.h"

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace opc::gpusim {

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
  explicit PtxParser(std::string_view ptx) : tokens_(tokenize(ptx)), module_(new Module) {}
  std::unique_ptr<Module> parse();

private:
  friend class PtxBody;

  // --- tokens
  const Token &peek(size_t ahead = 0) const {
    return tokens_[at_ + ahead < tokens_.size() ? at_ + ahead : tokens_.size() - 1];
  }
  Token take() {
    Token t = peek();
    if (t.kind != Token::kEnd) ++at_;
    return t;
  }
  bool isPunctuation(char c, size_t ahead = 0) const {
    return peek(ahead).kind == Token::kPunctuation && peek(ahead).punctuation == c;
  }
  bool isDot(std::string_view word) const { return peek().kind == Token::kDotWord && peek().text == word; }
  bool accept(char c) { return isPunctuation(c) ? ++at_, true : false; }
  bool acceptDot(std::string_view word) { return isDot(word) ? ++at_, true : false; }
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

  std::vector<Token> tokens_;
  size_t at_ = 0;
  std::unique_ptr<Module> module_;
  std::unordered_map<std::string, Symbol> globals_; // what functions can name
  std::unordered_map<std::string, size_t> functions_;
  /// .shared variables of the module: every kernel has them, one behind the other.
  uint64_t sharedBytes_ = 0;
  uint32_t dynamicAlign_ = 16;
};

} // namespace opc::gpusim
