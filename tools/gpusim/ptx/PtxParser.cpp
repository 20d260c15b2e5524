// Declarations of a PTX module: directives, kernels' heads, variables.
// SPDX-License-Identifier: Apache-2.0
#include "PtxParser.h"
#include "PtxBody.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

constexpr uint64_t kLargest = uint64_t(1) << 40;
constexpr uint64_t kLargestShared = 1 << 20;

uint64_t aligned(uint64_t at, uint64_t align) { return (at + align - 1) / align * align; }

bool isSpace(std::string_view word, Space *space) {
  constexpr std::pair<std::string_view, Space> kSpaces[] = {
      {"global", Space::kGlobal}, {"const", Space::kConst}, {"shared", Space::kShared}};
  for (auto [name, s] : kSpaces)
    if (name == word) return *space = s, true;
  return false;
}

} // namespace

std::unique_ptr<Module> Module::parse(std::string_view ptx, std::string *error) {
  try {
    return PtxParser(ptx).parse();
  } catch (const PtxError &e) {
    *error = "line " + std::to_string(e.line) + ": " + e.message;
  }
  return nullptr;
}

std::unique_ptr<Module> PtxParser::parse() {
  if (!isDot("version")) fail("a PTX module begins with .version, found " + found());
  while (peek().kind != Token::kEnd) directive();
  if (module_->target_.empty()) fail("the module has no .target");
  return std::move(module_);
}

std::string PtxParser::found() const {
  return peek().kind == Token::kEnd ? "the end of the text"
                                    : "'" + std::string(peek().kind == Token::kDotWord ? "." : "") +
                                          std::string(peek().text.substr(0, 40)) + "'";
}

void PtxParser::expect(char c) {
  if (!accept(c)) fail(std::string("expected '") + c + "', found " + found());
}

std::string_view PtxParser::expectWord(const char *what) {
  if (peek().kind != Token::kWord) fail(std::string("expected ") + what + ", found " + found());
  return take().text;
}

uint64_t PtxParser::expectInteger(const char *what) {
  if (peek().kind != Token::kInteger) fail(std::string("expected ") + what + ", found " + found());
  return take().value;
}

void PtxParser::skipStatement() {
  while (!isPunctuation(';')) {
    if (peek().kind == Token::kEnd) fail("a statement has no ';'");
    take();
  }
  take();
}

void PtxParser::skipBraces() {
  expect('{');
  for (int depth = 1; depth > 0; take()) {
    if (peek().kind == Token::kEnd) fail("a '{' has no '}'");
    depth += isPunctuation('{') - isPunctuation('}');
  }
}

void PtxParser::directive() {
  if (accept(';')) return;
  if (peek().kind != Token::kDotWord) fail("expected a directive, found " + found());
  std::string_view name = take().text;
  if (name == "version" || name == "target" || name == "address_size") return header(name);
  if (name == "file") return file();
  if (name == "loc") { // between functions it says nothing
    while (peek().kind == Token::kInteger) take();
    return;
  }
  if (name == "section") {
    if (!isPunctuation('{')) take();
    return skipBraces();
  }
  if (name == "pragma" || name == "alias") return skipStatement();
  bool external = false;
  for (; name == "visible" || name == "extern" || name == "weak" || name == "common"; name = take().text) {
    external |= name == "extern";
    if (peek().kind != Token::kDotWord)
      fail("expected a directive behind ." + std::string(name) + ", found " + found());
  }
  Space space;
  if (name == "entry" || name == "func") return functionOrKernel(name == "entry", external);
  if (isSpace(name, &space)) return variable(space, external);
  throw PtxError{peek().line, "a directive that is not known here: ." + std::string(name)};
}

void PtxParser::header(std::string_view name) {
  if (name == "version") {
    if (peek().kind != Token::kFloat64) fail("expected a version as 8.0, found " + found());
    std::string text(take().text);
    module_->version_ = uint32_t(std::stod(text) * 10 + 0.5);
  } else if (name == "target") {
    module_->target_ = expectWord("a target as sm_80");
    while (accept(',')) expectWord("a target's option");
  } else if (expectInteger("the size of addresses") != 64) {
    fail("addresses have 64 bits: .address_size 64");
  }
}

void PtxParser::file() {
  uint64_t number = expectInteger("the number of a file");
  if (peek().kind != Token::kString) fail("expected the name of a file, found " + found());
  if (number > 65535) fail("the number of a file is at most 65535");
  if (module_->files_.size() <= number) module_->files_.resize(number + 1);
  module_->files_[number] = take().text;
  while (accept(',')) expectInteger("time stamp or size of a file");
}

uint64_t PtxParser::dimensions(bool *open) {
  uint64_t count = 1;
  while (accept('[')) {
    if (accept(']')) {
      *open = true;
      continue;
    }
    uint64_t n = expectInteger("the size of an array");
    if (n > kLargest || (n && count > kLargest / n)) fail("an array is too large");
    count *= n;
    expect(']');
  }
  return count;
}

Declared PtxParser::declaration() {
  Declared d;
  uint64_t vector = 1;
  for (; peek().kind == Token::kDotWord; take()) {
    std::string_view word = peek().text;
    if (word == "align") {
      take();
      if (peek().kind != Token::kInteger || peek().value == 0 || peek().value > 4096 ||
          (peek().value & (peek().value - 1)))
        fail("an alignment is a power of two, found " + found());
      d.align = std::max(d.align, uint32_t(peek().value));
    } else if (word == "v2" || word == "v4") {
      vector = word == "v2" ? 2 : 4;
    } else if (Type type = typeNamed(word); type != Type::kNone && d.type == Type::kNone) {
      d.type = type;
    } else if (word == "attribute") {
      take();
      expect('(');
      while (!isPunctuation(')'))
        if (take().kind == Token::kEnd) fail("an attribute has no ')'");
    } else if (word != "ptr" && word != "global" && word != "const" && word != "shared" && word != "local" &&
               word != "param") {
      fail("what a declaration cannot have: " + found());
    }
  }
  if (d.type == Type::kNone) fail("a declaration has no type");
  d.line = peek().line;
  d.name = expectWord("a name");
  d.bytes = dimensions(&d.open) * vector * sizeOf(d.type);
  d.align = std::max<uint32_t>(d.align, uint32_t(vector) * sizeOf(d.type));
  return d;
}

void PtxParser::variable(Space space, bool external) {
  do {
    Declared d = declaration();
    if (d.type == Type::kPred) fail("a variable in memory is no predicate");
    if (globals_.count(d.name) && !external) {
      bool known = std::any_of(module_->variables_.begin(), module_->variables_.end(),
                               [&](const Variable &v) { return v.name == d.name && v.external; });
      if (!known) fail("the name " + d.name + " is taken");
    }
    if (space == Space::kShared) {
      uint64_t at = aligned(sharedBytes_, d.align);
      if (!d.open && (sharedBytes_ = at + d.bytes) > kLargestShared) fail("shared memory is too large");
      if (d.open) dynamicAlign_ = std::max(dynamicAlign_, d.align);
      globals_[d.name] = {Symbol::kShared, d.name, d.open ? ~uint64_t(0) : at};
      continue;
    }
    Variable v;
    v.name = d.name, v.bytes = d.bytes, v.align = d.align, v.external = external, v.constant = space == Space::kConst;
    if (d.bytes > kLargest) fail("a variable is too large");
    if (accept('=')) initializer(v, d.type);
    globals_[d.name] = {Symbol::kVariable, d.name, 0};
    std::erase_if(module_->variables_, [&](const Variable &old) { return old.name == v.name && old.external; });
    module_->variables_.push_back(std::move(v));
  } while (accept(','));
  expect(';');
}

void PtxParser::initializer(Variable &v, Type type) {
  uint32_t element = sizeOf(type);
  uint64_t at = 0;
  if (v.bytes > (uint64_t(1) << 28)) fail("an initialized variable is too large");
  v.initialized = true;
  v.initial.resize(v.bytes);
  if (!isPunctuation('{')) return initializerValue(v, element, at, type);
  initializerList(v, element, at, 0, type);
}

void PtxParser::initializerList(Variable &v, uint32_t element, uint64_t &at, int depth, Type type) {
  if (depth > 8) fail("an initializer is nested too deeply");
  expect('{');
  while (!isPunctuation('}')) {
    if (isPunctuation('{')) {
      initializerList(v, element, at, depth + 1, type);
    } else {
      initializerValue(v, element, at, type);
      at += element;
    }
    if (!accept(',')) break;
  }
  expect('}');
}

void PtxParser::initializerValue(Variable &v, uint32_t element, uint64_t at, Type type) {
  if (at + element > v.initial.size()) fail("an initializer is larger than its variable " + v.name);
  bool negative = accept('-');
  uint64_t bits = peek().value;
  if (peek().kind == Token::kWord || (peek().kind == Token::kInteger && isPunctuationBehind('('))) {
    uint64_t mask = ~uint64_t(0);
    if (peek().kind == Token::kInteger) { // 0xFF00(symbol): one byte of an address
      mask = take().value;
      expect('(');
      relocation(v, element, at, mask);
      expect(')');
      return;
    }
    return relocation(v, element, at, mask);
  }
  if (peek().kind == Token::kFloat64 && element == 4) {
    float f = float(__builtin_bit_cast(double, bits));
    bits = __builtin_bit_cast(uint32_t, f);
  } else if (peek().kind != Token::kInteger && peek().kind != Token::kFloat32 && peek().kind != Token::kFloat64) {
    fail("expected a value, found " + found());
  }
  bool real = peek().kind != Token::kInteger;
  take();
  if (negative) bits = real ? bits ^ (uint64_t(1) << (element * 8 - 1)) : ~bits + 1;
  for (uint32_t i = 0; i < element; ++i) v.initial[at + i] = std::byte(bits >> (8 * i));
}

void PtxParser::relocation(Variable &v, uint32_t element, uint64_t at, uint64_t mask) {
  std::string name(expectWord("a symbol"));
  bool generic = name == "generic" && accept('(');
  if (generic) name = expectWord("a symbol");
  if (generic) expect(')');
  uint64_t offset = 0;
  if (accept('+')) offset = expectInteger("an offset");
  uint32_t shift = mask == ~uint64_t(0) || mask == 0 ? 0 : uint32_t(__builtin_ctzll(mask));
  offset >>= shift;
  for (uint32_t i = 0; i < element; ++i) v.initial[at + i] = std::byte(offset >> (8 * i));
  v.relocations.push_back({at, element, shift, name});
}

std::vector<Declared> PtxParser::parameters() {
  std::vector<Declared> all;
  expect('(');
  while (!isPunctuation(')')) {
    if (!acceptDot("param"))
      fail(isDot("reg") ? "parameters in registers are not supported: use .param"
                        : "expected .param, found " + found());
    all.push_back(declaration());
    if (!accept(',')) break;
  }
  expect(')');
  return all;
}

Function &PtxParser::declareFunction(std::string name, uint32_t line) {
  auto [it, fresh] = functions_.emplace(name, module_->functions_.size());
  if (fresh) {
    if (globals_.count(name)) fail("the name " + name + " is taken");
    module_->functions_.push_back(std::make_unique<Function>());
    globals_[name] = {Symbol::kFunction, name, 0};
  }
  Function &f = *module_->functions_[it->second];
  if (!fresh && !f.external) fail("the function " + name + " is defined twice");
  f.name = std::move(name), f.line = line, f.external = true;
  return f;
}

void PtxParser::functionOrKernel(bool kernel, bool external) {
  while (isDot("attribute")) {
    take();
    expect('(');
    while (!accept(')'))
      if (take().kind == Token::kEnd) fail("an attribute has no ')'");
  }
  std::vector<Declared> results, params;
  if (!kernel && isPunctuation('(')) results = parameters();
  uint32_t line = peek().line;
  std::string name(expectWord("the name of a function"));
  if (isPunctuation('(')) params = parameters();
  KernelInfo info;
  info.name = name, info.line = line;
  kernelDirectives(info);
  Function &f = declareFunction(name, line);
  f.kernel = kernel;
  if (accept(';')) return; // a declaration
  if (external) fail("an external function has no body");
  f.external = false;
  PtxBody body(*this, f, params, results);
  body.parse();
  if (!kernel) return;
  info.params = f.params;
  for (const Param &p : f.params) info.paramBytes = std::max(info.paramBytes, p.offset + p.size);
  info.staticShared = f.sharedBytes, info.localBytes = f.localBytes;
  module_->kernels_.push_back(std::move(info));
}

void PtxParser::threads(uint32_t (&into)[3]) {
  for (uint32_t &n : into) n = 1;
  for (int i = 0; i < 3 && (i == 0 || accept(',')); ++i) {
    uint64_t n = expectInteger("a number of threads");
    if (n == 0) fail("a block has at least one thread");
    if (n > 65536) fail("so many threads no block has");
    into[i] = uint32_t(n);
  }
}

void PtxParser::kernelDirectives(KernelInfo &info) {
  while (peek().kind == Token::kDotWord) {
    std::string_view word = take().text;
    uint32_t dims[3];
    if (word == "maxntid" || word == "reqntid") {
      threads(dims);
      uint64_t all = uint64_t(dims[0]) * dims[1] * dims[2];
      info.maxThreads = uint32_t(std::min<uint64_t>(all, 1 << 20));
      if (word == "reqntid") std::copy(dims, dims + 3, info.requiredBlock);
    } else if (word == "minnctapersm" || word == "maxnctapersm" || word == "maxnreg" || word == "maxclusterrank") {
      uint64_t n = expectInteger("a number");
      if (word == "minnctapersm") info.minBlocks = uint32_t(n);
    } else if (word == "pragma") {
      if (take().kind != Token::kString) fail("expected a pragma's text");
      accept(';');
    } else if (word == "reqnctapercluster" || word == "blocksareclusters") {
      fail("clusters of blocks are not supported: ." + std::string(word));
    } else if (word == "abi_preserve" || word == "abi_preserve_control") {
      expectInteger("a number");
    } else if (word != "noreturn" && word != "explicitcluster") {
      fail("a directive that is not known for a function: ." + std::string(word));
    }
  }
}

} // namespace opc::gpusim
