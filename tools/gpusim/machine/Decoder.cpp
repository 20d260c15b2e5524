// From parsed instructions to handlers: operands become slots, constants become registers that never change.
// SPDX-License-Identifier: Apache-2.0
#include "Decoder.h"

#include "Lanes.h"

#include <bit>

namespace opc::gpusim {

namespace {

const DecodeTable &table() {
  static const DecodeTable kTable = [] {
    DecodeTable t;
    addIntegers(t);
    addBits(t);
    addFloats(t);
    addComparisons(t);
    addConversions(t);
    addMoves(t);
    addAccesses(t);
    addAtomics(t);
    addControl(t);
    addBarriers(t);
    addWarpOperations(t);
    addMatrices(t);
    return t;
  }();
  return kTable;
}

Step unsupportedInstruction(Lanes &x, const Code &c) {
  x.find(std::countr_zero(x.active), "not supported", kCudaIllegalInstruction,
         x.program->unsupported[size_t(c.value)].second);
  return Step::kReselect;
}

uint64_t floatBits(double value, Type type) {
  if (type == Type::kF64 || type == Type::kB64) return std::bit_cast<uint64_t>(value);
  return std::bit_cast<uint32_t>(float(value));
}

} // namespace

const Program *LoadedModule::Programs::program(uint32_t number) {
  if (programs[number]) return programs[number].get();
  auto made = std::make_unique<Program>();
  const Function &f = *loaded->module().functions()[number];
  made->function = &f, made->number = number;
  made->dynamicBase = (f.sharedBytes + f.dynamicAlign - 1) / f.dynamicAlign * f.dynamicAlign;
  Decoder(*this, f, *made).decodeAll();
  programs[number] = std::move(made);
  return programs[number].get();
}

void Decoder::decodeAll() {
  program_.clocks.assign(f_.slots + 1, 0);
  for (auto [slot, special] : f_.specials)
    program_.clocks[slot] =
        special == Special::kClock || special == Special::kClock64 || special == Special::kGlobaltimer;
  program_.code.resize(f_.instructions.size());
  for (size_t n = 0; n < f_.instructions.size(); ++n) {
    Code &c = program_.code[n];
    c.index = uint32_t(n);
    one(f_.instructions[n], c);
  }
}

void Decoder::one(const Instruction &i, Code &c) {
  i_ = &i;
  c.guard = i.guard, c.guardNegated = i.guardNegated, c.leader = i.leader, c.line = i.line;
  count_ = 0;
  for (uint32_t at = 0; at < i.operands && count_ < 8; ++count_) {
    starts_[count_] = i.firstOperand + at;
    const Operand &o = f_.operands[i.firstOperand + at];
    at += o.kind == Operand::kVector || o.kind == Operand::kList ? 1 + o.count : 1;
  }
  auto entry = table().find(f_.opcode(i));
  try {
    if (entry == table().end()) unsupported("no such instruction is known here");
    c.run = entry->second(*this, c);
  } catch (const Unsupported &u) {
    std::string text = f_.opcode(i);
    for (uint32_t n = 0; n < i.modifiers; ++n) text += "." + f_.modifier(i, n);
    c.run = unsupportedInstruction;
    c.value = int64_t(program_.unsupported.size());
    program_.unsupported.emplace_back(c.index, text + ": " + u.reason);
  }
}

bool Decoder::hasPrefix(std::string_view prefix) const {
  for (uint32_t n = 0; n < modifiers(); ++n)
    if (modifier(n).substr(0, prefix.size()) == prefix) return true;
  return false;
}

Type Decoder::type(uint32_t wanted) const {
  for (uint32_t n = 0; n < modifiers(); ++n)
    if (Type t = typeNamed(modifier(n)); t != Type::kNone && wanted-- == 0) return t;
  return Type::kNone;
}

const Operand &Decoder::operand(uint32_t n) const {
  if (n >= count_) unsupported("an operand is missing");
  return f_.operands[starts_[n]];
}

int32_t Decoder::constant(uint64_t bits) {
  auto [it, fresh] = constants_.emplace(bits, ~int32_t(program_.constants.size()));
  if (fresh) program_.constants.emplace_back().fill(bits);
  return it->second;
}

uint64_t Decoder::symbolValue(int32_t index, bool *local) const {
  const Symbol &s = f_.symbols[index];
  *local = s.kind == Symbol::kLocal;
  switch (s.kind) {
  case Symbol::kVariable: {
    auto it = programs_.addresses.find(s.name);
    if (it == programs_.addresses.end()) unsupported("the variable " + s.name + " is defined nowhere");
    return it->second.first;
  }
  case Symbol::kFunction: return kFunctionWindow | (programs_.numbers.at(s.name) + 1);
  case Symbol::kShared: return s.offset == ~uint64_t(0) ? program_.dynamicBase : s.offset;
  default: return s.offset;
  }
}

int32_t Decoder::sourceOf(const Operand &o, Type type) {
  switch (o.kind) {
  case Operand::kRegister: return o.slot;
  case Operand::kImmediate:
    if (isFloat(type)) return constant(floatBits(double(o.value), type));
    return constant(sizeOf(type) && sizeOf(type) < 8 ? uint64_t(o.value) & ((uint64_t(1) << (8 * sizeOf(type))) - 1)
                                                     : uint64_t(o.value));
  case Operand::kFloat: return constant(floatBits(std::bit_cast<double>(o.value), type));
  case Operand::kFloat32: {
    float f = std::bit_cast<float>(uint32_t(o.value));
    return constant(type == Type::kF64 ? std::bit_cast<uint64_t>(double(f)) : uint32_t(o.value));
  }
  case Operand::kSymbol: {
    bool local;
    uint64_t value = symbolValue(o.symbol, &local) + uint64_t(o.value);
    if (local) unsupported("the address of local memory is wanted in another place than mov");
    return constant(value);
  }
  case Operand::kSink: return constant(0);
  default: unsupported("an operand of a kind that has no value");
  }
}

int32_t Decoder::destinationOf(const Operand &o) const {
  // What is not wanted goes to a register behind all others.
  if (o.kind == Operand::kSink) return int32_t(f_.slots);
  if (o.kind != Operand::kRegister) unsupported("the result goes to no register");
  return o.slot;
}

int32_t Decoder::predicateDestination(uint32_t n) const {
  const Operand &o = operand(n);
  if (o.kind == Operand::kSink) return int32_t(f_.predicates);
  if (o.kind != Operand::kPredicate) unsupported("the result goes to no predicate");
  return o.slot;
}

void Decoder::predicateSource(uint32_t n, Code &c) const {
  const Operand &o = operand(n);
  if (o.kind == Operand::kImmediate) { // a constant truth: one predicate behind the sink
    c.pa = int32_t(f_.predicates) + 1;
    c.paNegated = o.value != 0;
    return;
  }
  if (o.kind != Operand::kPredicate) unsupported("a predicate is wanted");
  c.pa = o.slot, c.paNegated = o.negated;
}

int64_t Decoder::immediate(uint32_t n) const {
  if (operand(n).kind != Operand::kImmediate) unsupported("a constant is wanted");
  return operand(n).value;
}

uint32_t Decoder::appendList(uint32_t n, Type type, bool destination) {
  const Operand &o = operand(n);
  uint32_t count = o.kind == Operand::kVector ? o.count : 1;
  uint32_t first = starts_[n] + (o.kind == Operand::kVector ? 1 : 0);
  for (uint32_t i = 0; i < count; ++i) {
    const Operand &element = f_.operands[first + i];
    program_.slots.push_back(destination ? destinationOf(element) : sourceOf(element, type));
  }
  return count;
}

void Decoder::list(uint32_t n, Code &c, Type type, bool destination) {
  c.list = uint32_t(program_.slots.size());
  c.listed = appendList(n, type, destination);
}

void Decoder::address(uint32_t n, Code &c, Space space) {
  const Operand &o = operand(n);
  if (o.kind != Operand::kAddress) unsupported("an address is wanted");
  c.space = space;
  c.value = o.value;
  c.a = o.slot >= 0 ? o.slot : constant(0);
  if (o.symbol < 0) return;
  bool local;
  c.value += int64_t(symbolValue(o.symbol, &local));
  Symbol::Kind kind = f_.symbols[o.symbol].kind;
  if (kind == Symbol::kLocal)
    c.space = Space::kLocal, c.detail |= 0x80; // relative to the frame
  else if (kind == Symbol::kParam)
    c.space = Space::kParam;
  else if (kind == Symbol::kShared && space == Space::kGeneric)
    c.space = Space::kShared;
}

} // namespace opc::gpusim
