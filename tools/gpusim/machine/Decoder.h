// From parsed instructions to handlers: what a family of instructions needs to choose its handler.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "KernelProgram.h"

#include <string>
#include <string_view>
#include <unordered_map>

namespace opc::gpusim {

/// An instruction that cannot be executed, with the reason. Thrown and caught within the decoder.
struct Unsupported {
  std::string reason;
};

class Decoder {
public:
  Decoder(LoadedModule::Programs &programs, const Function &function, Program &program)
      : programs_(programs), f_(function), program_(program) {}
  void decodeAll();

  // --- the instruction at hand
  std::string_view name() const { return f_.opcode(*i_); }
  bool has(std::string_view modifier) const { return f_.has(*i_, modifier); }
  uint32_t modifiers() const { return i_->modifiers; }
  std::string_view modifier(uint32_t n) const { return f_.modifier(*i_, n); }
  bool hasPrefix(std::string_view prefix) const;
  /// The n-th modifier that is a type; kNone if there are not so many.
  Type type(uint32_t n = 0) const;
  [[noreturn]] void unsupported(const std::string &reason) const { throw Unsupported{reason}; }

  // --- its operands, counted without elements of vectors
  uint32_t operands() const { return count_; }
  const Operand &operand(uint32_t n) const;
  bool isVector(uint32_t n) const { return n < count_ && operand(n).kind == Operand::kVector; }
  /// Slots of a register, a constant (as wide as `type`) or a symbol's address.
  int32_t source(uint32_t n, Type type) { return sourceOf(operand(n), type); }
  int32_t destination(uint32_t n) { return destinationOf(operand(n)); }
  int32_t predicateDestination(uint32_t n) const;
  void predicateSource(uint32_t n, Code &c) const;
  /// A constant's value; unsupported for registers.
  int64_t immediate(uint32_t n) const;
  /// Elements of a vector, or the one register: into Program::slots.
  void list(uint32_t n, Code &c, Type type, bool destination);
  uint32_t appendList(uint32_t n, Type type, bool destination);
  /// [slot + value] into c.a and c.value; the space of a symbol.
  void address(uint32_t n, Code &c, Space space);
  int32_t constant(uint64_t bits);
  Program &program() { return program_; }
  const Function &function() const { return f_; }
  LoadedModule::Programs &programs() { return programs_; }
  uint64_t symbolValue(int32_t symbol, bool *local) const;

private:
  int32_t sourceOf(const Operand &o, Type type);
  int32_t destinationOf(const Operand &o) const;
  void one(const Instruction &i, Code &c);

  LoadedModule::Programs &programs_;
  const Function &f_;
  Program &program_;
  const Instruction *i_ = nullptr;
  uint32_t starts_[8] = {}, count_ = 0;
  std::unordered_map<uint64_t, int32_t> constants_;
};

/// Fills c and returns its handler.
using Decode = Handler (*)(Decoder &, Code &);
using DecodeTable = std::unordered_map<std::string_view, Decode>;

void addIntegers(DecodeTable &);
void addBits(DecodeTable &);
void addFloats(DecodeTable &);
void addComparisons(DecodeTable &);
void addConversions(DecodeTable &);
void addMoves(DecodeTable &);
void addAccesses(DecodeTable &);
void addAtomics(DecodeTable &);
void addControl(DecodeTable &);
void addBarriers(DecodeTable &);
void addWarpOperations(DecodeTable &);
void addMatrices(DecodeTable &);

// add, sub, mul, ... have integer and float forms: the integers' table asks these.
Handler decodeFloatArithmetic(Decoder &, Code &);
// bar.warp.sync is an operation of a warp.
Handler decodeWarpBarrier(Decoder &, Code &);

inline bool isFloat(Type t) {
  return t == Type::kF16 || t == Type::kF16x2 || t == Type::kBf16 || t == Type::kBf16x2 || t == Type::kF32 ||
         t == Type::kF64;
}

} // namespace opc::gpusim
