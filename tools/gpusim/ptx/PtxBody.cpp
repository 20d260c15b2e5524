// Bodies of functions: statements and instructions become flat lists, names become slots and indices.
// SPDX-License-Identifier: Apache-2.0
#include "PtxBody.h"

#include <algorithm>

namespace opc::gpusim {

namespace {

constexpr uint32_t kMostSlots = 1 << 16;
constexpr uint32_t kTableLabel = 1u << 31;  // in Scope::labels: a branch table
constexpr uint32_t kPrototype = ~0u;        // in Scope::labels: a prototype, which says nothing that the call does not
constexpr uint64_t kMostLocal = 512 * 1024; // CUDA's limit of a thread
constexpr size_t kMostInstructions = 1 << 24;

} // namespace

PtxBody::PtxBody(PtxParser &parser, Function &function, const std::vector<Declared> &params,
                 const std::vector<Declared> &results)
    : p_(parser), f_(function) {
  scopes_.emplace_back();
  uint32_t at = 0;
  for (const Declared &d : params) {
    if (d.bytes > 32768) throw PtxError{d.line, "a parameter is too large"};
    uint32_t size = uint32_t(d.bytes), offset;
    if (f_.kernel) {
      offset = at = (at + d.align - 1) / d.align * d.align;
      at += size;
      declare(d.name, Symbol::kParam, offset);
    } else {
      offset = placeLocal(d, true);
    }
    f_.params.push_back({offset, size, d.align});
  }
  for (const Declared &d : results) f_.results.push_back({placeLocal(d, true), uint32_t(d.bytes), d.align});
  f_.sharedBytes = uint32_t(p_.sharedBytes_);
  f_.dynamicAlign = p_.dynamicAlign_;
}

void PtxBody::declare(const std::string &name, Symbol::Kind kind, uint64_t offset) {
  scopes_.back().symbols[name] = {{kind, name, offset}};
}

uint32_t PtxBody::placeLocal(const Declared &d, bool parameter) {
  uint64_t at = (uint64_t(f_.localBytes) + d.align - 1) / d.align * d.align;
  if (at + d.bytes > kMostLocal) throw PtxError{d.line, "local memory is too large"};
  f_.localBytes = uint32_t(at + d.bytes);
  declare(d.name, Symbol::kLocal, at);
  return uint32_t(at);
}

uint16_t PtxBody::word(std::string_view text) {
  if (auto it = words_.find(text); it != words_.end()) return it->second;
  if (f_.words.size() >= 60000) p_.fail("too many different words");
  const uint16_t number = words_[std::string(text)] = uint16_t(f_.words.size());
  f_.words.emplace_back(text);
  return number;
}

void PtxBody::parse() {
  p_.expect('{');
  while (!p_.isPunctuation('}') || scopes_.size() > 1) statement();
  p_.take();
  closeScope();
  // So that a body which ends without ret does not run on.
  Instruction end;
  end.opcode = word("ret"), end.line = p_.peek().line, end.leader = true;
  end.firstModifier = uint32_t(f_.modifierWords.size()), end.firstOperand = uint32_t(f_.operands.size());
  f_.instructions.push_back(end);
}

void PtxBody::statement() {
  const Token &t = p_.peek();
  if (t.kind == Token::kEnd) p_.fail("the function " + f_.name + " has no end");
  if (p_.accept(';')) return;
  if (p_.isPunctuation('{')) {
    if (scopes_.size() > 64) p_.fail("scopes are nested too deeply");
    p_.take();
    scopes_.emplace_back();
    return;
  }
  if (p_.accept('}')) return closeScope();
  if (t.kind == Token::kDotWord) return directive();
  if (t.kind == Token::kWord && p_.isPunctuationBehind(':')) return label(std::string(t.text));
  if (t.kind != Token::kWord && !p_.isPunctuation('@')) p_.fail("expected an instruction, found " + p_.found());
  if (f_.instructions.size() >= kMostInstructions) p_.fail("too many instructions");
  instruction();
}

void PtxBody::closeScope() {
  Scope inner = std::move(scopes_.back());
  scopes_.pop_back();
  for (Fixup &fix : inner.fixups) {
    auto it = inner.labels.find(fix.label);
    if (it == inner.labels.end()) {
      if (scopes_.empty()) throw PtxError{fix.line, "the label " + fix.label + " is nowhere"};
      scopes_.back().fixups.push_back(std::move(fix));
      continue;
    }
    if (fix.table >= 0) {
      f_.tables[fix.table][fix.entry] = it->second;
      continue;
    }
    Operand &o = f_.operands[fix.operand];
    bool table = it->second != kPrototype && (it->second & kTableLabel);
    o.kind = it->second == kPrototype ? Operand::kSink : table ? Operand::kTable : Operand::kTarget;
    o.value = it->second & ~kTableLabel;
  }
}

void PtxBody::directive() {
  std::string_view name = p_.take().text;
  if (name == "loc") return loc();
  if (name == "reg") return registers();
  if (name == "local" || name == "shared" || name == "param") return localVariable(name);
  if (name == "pragma" || name == "callprototype" || name == "alias") return p_.skipStatement();
  if (name == "file") return p_.file();
  if (name == "section") return p_.skipBraces();
  throw PtxError{p_.peek().line, "a directive that is not known in a function: ." + std::string(name)};
}

void PtxBody::loc() {
  file_ = uint32_t(p_.expectInteger("the number of a file"));
  line_ = uint32_t(p_.expectInteger("a line"));
  p_.expectInteger("a column");
  if (!p_.accept(',')) return;
  p_.expectWord("function_name"); // function_name $L__info_string0, inlined_at 1 30 3
  p_.expectWord("a label");
  if (p_.accept('+')) p_.expectInteger("an offset");
  if (!p_.accept(',')) return;
  p_.expectWord("inlined_at");
  uint32_t file = uint32_t(p_.expectInteger("the file of a call")),
           line = uint32_t(p_.expectInteger("the line of a call"));
  p_.expectInteger("the column of a call");
  // Of a header's function that was inlined, the line that called it says more.
  if (file != file_) file_ = file, line_ = line;
}

void PtxBody::registers() {
  uint32_t vector = 1;
  Type type = Type::kNone;
  while (p_.peek().kind == Token::kDotWord) {
    std::string_view word = p_.take().text;
    if (word == "v2" || word == "v4")
      vector = word == "v2" ? 2 : 4;
    else if ((type = typeNamed(word)) == Type::kNone)
      p_.fail("no type of a register: ." + std::string(word));
  }
  if (type == Type::kNone || vector != 1) p_.fail("a register has one type");
  do {
    std::string name(p_.expectWord("the name of a register"));
    uint64_t count = 0;
    if (p_.accept('<')) {
      count = p_.expectInteger("a number of registers");
      p_.expect('>');
    }
    // 128-bit registers take two slots each.
    uint64_t take = std::max<uint64_t>(count, 1) * (type == Type::kB128 ? 2 : 1);
    uint32_t &total = type == Type::kPred ? f_.predicates : f_.slots;
    if (take > kMostSlots || total + take > kMostSlots) p_.fail("too many registers");
    if (type == Type::kB128) p_.fail("registers of 128 bits are not supported");
    scopes_.back().registers[name] = {type == Type::kPred, total, uint32_t(count)};
    scopes_.back().hasSingle |= count == 0;
    total += uint32_t(take);
  } while (p_.accept(','));
  p_.expect(';');
}

void PtxBody::localVariable(std::string_view space) {
  do {
    Declared d = p_.declaration();
    if (space == "shared") {
      uint64_t at = (uint64_t(f_.sharedBytes) + d.align - 1) / d.align * d.align;
      if (d.open) {
        f_.dynamicAlign = std::max(f_.dynamicAlign, d.align);
      } else if (at + d.bytes > (1u << 20)) {
        p_.fail("shared memory is too large");
      } else {
        f_.sharedBytes = uint32_t(at + d.bytes);
        if (!f_.kernel) p_.sharedBytes_ = f_.sharedBytes; // whoever calls the function has it as well
      }
      declare(d.name, Symbol::kShared, d.open ? ~uint64_t(0) : at);
    } else {
      placeLocal(d, space == "param");
    }
  } while (p_.accept(','));
  p_.expect(';');
}

void PtxBody::label(std::string name) {
  p_.take();
  p_.take();
  auto &labels = scopes_.back().labels;
  if (labels.count(name)) p_.fail("the label " + name + " is there twice");
  if (p_.isDot("callprototype")) {
    labels[name] = kPrototype;
    return p_.skipStatement();
  }
  if (!p_.acceptDot("branchtargets")) {
    labels[name] = uint32_t(f_.instructions.size());
    atLabel_ = true;
    return;
  }
  int32_t table = int32_t(f_.tables.size());
  f_.tables.emplace_back();
  labels[name] = kTableLabel | uint32_t(table);
  do {
    scopes_.back().fixups.push_back(
        {0, table, int32_t(f_.tables[table].size()), std::string(p_.expectWord("a label")), p_.peek().line});
    f_.tables[table].push_back(0);
  } while (p_.accept(','));
  p_.expect(';');
}

void PtxBody::guard(Instruction &i) {
  if (!p_.accept('@')) return;
  i.guardNegated = p_.accept('!');
  uint32_t number = 0;
  const Register *r = findRegister(p_.expectWord("a predicate"), &number);
  if (!r || !r->predicate) p_.fail("the guard is no predicate");
  i.guard = int32_t(r->first + number);
}

void PtxBody::instruction() {
  Instruction i;
  guard(i);
  i.line = p_.peek().line, i.file = file_, i.sourceLine = line_, i.leader = atLabel_;
  std::string_view name = p_.expectWord("an instruction");
  i.opcode = word(name);
  i.firstModifier = uint32_t(f_.modifierWords.size());
  for (; p_.peek().kind == Token::kDotWord; ++i.modifiers) f_.modifierWords.push_back(word(p_.take().text));
  size_t first = f_.operands.size();
  i.firstOperand = uint32_t(first);
  atLabel_ = false;
  if (name == "call") {
    call();
  } else if (!p_.isPunctuation(';')) {
    bool branch = name == "bra" || name == "brx";
    do operand(branch);
    while (p_.accept(',') || p_.accept('|'));
  }
  p_.expect(';');
  if (name == "ld" || name == "ldu" || name == "st") checkVector(i, name == "st");
  size_t count = f_.operands.size() - first;
  if (count > 4096) p_.fail("too many operands");
  i.operands = uint16_t(count);
  atLabel_ = name == "bra" || name == "brx" || name == "ret" || name == "exit";
  f_.instructions.push_back(i);
}

/// .v4 wants four registers in braces, no .vN one register.
void PtxBody::checkVector(const Instruction &i, bool store) const {
  const size_t at = i.firstOperand + (store ? 1 : 0);
  if (at >= f_.operands.size()) return;
  uint32_t wanted = 1;
  for (uint32_t m = 0; m < i.modifiers; ++m)
    if (const std::string &w = f_.words[f_.modifierWords[i.firstModifier + m]]; w == "v2" || w == "v4" || w == "v8")
      wanted = uint32_t(w[1] - '0');
  const Operand &o = f_.operands[at];
  const uint32_t given = o.kind == Operand::kVector ? o.count : 1;
  if (given != wanted)
    throw PtxError{i.line, "an access to " + std::to_string(wanted) + (wanted == 1 ? " element" : " elements") +
                               " names " + std::to_string(given)};
}

void PtxBody::operand(bool branch) {
  const Token &t = p_.peek();
  if (t.kind == Token::kWord) return wordOperand(branch);
  if (p_.accept('[')) return addressOperand();
  if (p_.accept('{')) return vectorOperand('}');
  if (p_.accept('!')) {
    f_.operands.push_back(registerOperand(p_.expectWord("a predicate"), true));
    return;
  }
  bool negative = p_.accept('-');
  f_.operands.push_back(number(negative));
}

Operand PtxBody::number(bool negative) {
  Token t = p_.take();
  Operand o;
  o.kind = t.kind == Token::kFloat32   ? Operand::kFloat32
           : t.kind == Token::kFloat64 ? Operand::kFloat
                                       : Operand::kImmediate;
  if (t.kind != Token::kInteger && t.kind != Token::kFloat32 && t.kind != Token::kFloat64)
    throw PtxError{t.line, "expected an operand, found '" + std::string(t.text.substr(0, 40)) + "'"};
  uint64_t bits = t.value;
  if (negative)
    bits = t.kind == Token::kFloat32   ? bits ^ 0x80000000u
           : t.kind == Token::kFloat64 ? bits ^ (uint64_t(1) << 63)
                                       : ~bits + 1;
  o.value = int64_t(bits);
  return o;
}

void PtxBody::vectorOperand(char close) {
  size_t head = f_.operands.size();
  f_.operands.push_back({Operand::kVector});
  uint32_t count = 0;
  do {
    if (p_.isPunctuation('{') || p_.isPunctuation('['))
      p_.fail("a vector has registers and numbers, found " + p_.found());
    operand(false);
    if (++count > 256) p_.fail("a vector is too long");
  } while (p_.accept(','));
  p_.expect(close);
  f_.operands[head].count = uint16_t(count);
}

void PtxBody::wordOperand(bool branch) {
  const std::string_view name = p_.take().text;
  if (name == "_") {
    f_.operands.push_back({Operand::kSink});
    return;
  }
  if (name[0] == '%') {
    f_.operands.push_back(registerOperand(name, false));
    return;
  }
  Operand o;
  uint32_t number = 0;
  if (const Register *r = findRegister(name, &number)) {
    o.kind = r->predicate ? Operand::kPredicate : Operand::kRegister;
    o.slot = int32_t(r->first + number);
  } else if (branch) {
    scopes_.back().fixups.push_back({uint32_t(f_.operands.size()), -1, 0, std::string(name), p_.peek().line});
  } else if (name == "WARP_SZ") {
    o.kind = Operand::kImmediate, o.value = 32;
  } else {
    o.kind = Operand::kSymbol;
    o.symbol = symbolNamed(name);
    if (o.symbol < 0) p_.fail("the name " + std::string(name) + " is not declared");
    if (p_.accept('+')) o.value = int64_t(p_.expectInteger("an offset"));
  }
  f_.operands.push_back(o);
}

int32_t PtxBody::symbolNamed(std::string_view name) {
  for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it)
    if (auto found = it->symbols.find(name); found != it->symbols.end()) {
      Known &known = found->second;
      if (known.index < 0) known.index = int32_t(f_.symbols.size()), f_.symbols.push_back(known.symbol);
      return known.index;
    }
  if (auto known = globals_.find(name); known != globals_.end()) return known->second;
  auto found = p_.globals_.find(name);
  if (found == p_.globals_.end()) return -1;
  f_.symbols.push_back(found->second);
  return globals_[found->first] = int32_t(f_.symbols.size()) - 1;
}

const PtxBody::Register *PtxBody::findRegister(std::string_view name, uint32_t *number) const {
  size_t end = name.size();
  while (end > 0 && name[end - 1] >= '0' && name[end - 1] <= '9') --end;
  const std::string_view family = name.substr(0, end), digits = name.substr(end);
  const bool numbered = !digits.empty() && digits.size() < 8 && (digits.size() == 1 || digits[0] != '0');
  uint32_t n = 0;
  for (size_t i = 0; numbered && i < digits.size(); ++i) n = n * 10 + uint32_t(digits[i] - '0');
  *number = 0;
  for (auto it = scopes_.rbegin(); it != scopes_.rend(); ++it) {
    if (it->hasSingle)
      if (auto found = it->registers.find(name); found != it->registers.end() && found->second.count == 0)
        return &found->second;
    if (!numbered) continue;
    auto found = it->registers.find(family);
    if (found == it->registers.end() || n >= found->second.count) continue;
    *number = n;
    return &found->second;
  }
  return nullptr;
}

Operand PtxBody::registerOperand(std::string_view name, bool negated) {
  Operand o;
  o.negated = negated;
  uint32_t number = 0;
  if (const Register *r = findRegister(name, &number)) {
    o.kind = r->predicate ? Operand::kPredicate : Operand::kRegister;
    o.slot = int32_t(r->first + number);
  } else if (!special(name, o)) {
    p_.fail("the register " + std::string(name) + " is not declared");
  }
  return o;
}

bool PtxBody::special(std::string_view name, Operand &o) {
  static const std::unordered_map<std::string_view, Special> kNames = {
      {"%tid.x", Special::kTidX},
      {"%tid.y", Special::kTidY},
      {"%tid.z", Special::kTidZ},
      {"%ntid.x", Special::kNtidX},
      {"%ntid.y", Special::kNtidY},
      {"%ntid.z", Special::kNtidZ},
      {"%ctaid.x", Special::kCtaidX},
      {"%ctaid.y", Special::kCtaidY},
      {"%ctaid.z", Special::kCtaidZ},
      {"%nctaid.x", Special::kNctaidX},
      {"%nctaid.y", Special::kNctaidY},
      {"%nctaid.z", Special::kNctaidZ},
      {"%laneid", Special::kLaneid},
      {"%warpid", Special::kWarpid},
      {"%nwarpid", Special::kNwarpid},
      {"%smid", Special::kSmid},
      {"%nsmid", Special::kNsmid},
      {"%gridid", Special::kGridid},
      {"%lanemask_eq", Special::kLanemaskEq},
      {"%lanemask_le", Special::kLanemaskLe},
      {"%lanemask_lt", Special::kLanemaskLt},
      {"%lanemask_ge", Special::kLanemaskGe},
      {"%lanemask_gt", Special::kLanemaskGt},
      {"%clock", Special::kClock},
      {"%clock64", Special::kClock64},
      {"%clock_hi", Special::kZero},
      {"%globaltimer", Special::kGlobaltimer},
      {"%globaltimer_lo", Special::kClock},
      {"%dynamic_smem_size", Special::kDynamicShared},
      {"%total_smem_size", Special::kTotalShared},
      {"%WARP_SZ", Special::kWarpSize},
  };
  std::string whole(name);
  if (p_.peek().kind == Token::kDotWord && (p_.isDot("x") || p_.isDot("y") || p_.isDot("z")))
    whole += "." + std::string(p_.take().text);
  auto it = kNames.find(whole);
  if (it == kNames.end()) return false;
  auto [slot, fresh] = specials_.emplace(uint8_t(it->second), f_.slots);
  if (fresh) f_.specials.push_back({f_.slots++, it->second});
  o.kind = Operand::kRegister;
  o.slot = int32_t(slot->second);
  return true;
}

void PtxBody::addressOperand() {
  Operand o;
  o.kind = Operand::kAddress;
  if (p_.peek().kind == Token::kInteger) {
    o.value = int64_t(p_.take().value);
  } else {
    const std::string_view name = p_.expectWord("an address");
    uint32_t number = 0;
    const Register *r = findRegister(name, &number);
    if (r && r->predicate) p_.fail("a predicate is no address");
    if (r)
      o.slot = int32_t(r->first + number);
    else if ((o.symbol = symbolNamed(name)) < 0)
      p_.fail("the name " + std::string(name) + " is not declared");
  }
  if (p_.isPunctuation('+') || p_.isPunctuation('-')) {
    bool negative = p_.take().punctuation == '-';
    negative ^= p_.accept('-');
    int64_t offset = int64_t(p_.expectInteger("an offset"));
    o.value += negative ? -offset : offset;
  }
  p_.expect(']');
  f_.operands.push_back(o);
}

void PtxBody::callList() {
  p_.expect('(');
  size_t head = f_.operands.size();
  f_.operands.push_back({Operand::kList});
  uint32_t count = 0;
  while (!p_.isPunctuation(')')) {
    operand(false);
    if (++count > 1024) p_.fail("too many arguments");
    if (!p_.accept(',')) break;
  }
  p_.expect(')');
  f_.operands[head].count = uint16_t(count);
}

/// Always three: results, callee, arguments.
void PtxBody::call() {
  if (p_.isPunctuation('(')) {
    callList();
    p_.expect(',');
  } else {
    f_.operands.push_back({Operand::kList});
  }
  Operand callee;
  callee.kind = Operand::kCallee;
  std::string name(p_.expectWord("a function"));
  uint32_t number = 0;
  if (const Register *r = findRegister(name, &number))
    callee.slot = int32_t(r->first + number);
  else if ((callee.symbol = symbolNamed(name)) < 0)
    p_.fail("the function " + name + " is not declared");
  f_.operands.push_back(callee);
  bool list = false;
  while (p_.accept(',')) {
    if (p_.isPunctuation('(') && !list) {
      callList();
      list = true;
    } else {
      p_.expectWord("a prototype");
    }
  }
  if (!list) f_.operands.push_back({Operand::kList});
}

} // namespace opc::gpusim
