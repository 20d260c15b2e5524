// Functions of a PTX module as flat instructions: registers are slots, labels are indices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Module.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace opc::gpusim {

/// Fundamental types, with the sizes that registers have.
enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kF16,
  kF16x2,
  kBf16,
  kBf16x2,
  kTf32,
  kF32,
  kF64,
  kE4m3x2,
  kE5m2x2,
  kU16x2,
  kS16x2
};

uint32_t sizeOf(Type type);            // bytes; 0 for none and predicates
Type typeNamed(std::string_view name); // "f32" -> kF32; kNone for what is no type

enum class Space : uint8_t { kGeneric, kGlobal, kShared, kLocal, kConst, kParam };

/// A name that an address operand or an initializer refers to.
struct Symbol {
  enum Kind : uint8_t { kVariable, kShared, kLocal, kParam, kFunction } kind = kVariable;
  std::string name;
  uint64_t offset = 0; // in its window, for shared, local and parameters; ~0: where dynamic shared memory begins
};

struct Operand {
  enum Kind : uint8_t {
    kRegister,  // slot
    kImmediate, // value: the bits, as wide as the instruction's type
    kFloat,     // value: bits of an f64 that was written as 0d.. or in decimal; 0f.. has kFloat32
    kFloat32,   // value: bits of an f32
    kPredicate, // slot, maybe negated
    kAddress,   // [slot or symbol + value]; slot < 0: none, symbol < 0: none
    kSymbol,    // the address of a symbol
    kVector,    // count elements, which follow it in the list
    kSink,      // _
    kTarget,    // value: index of an instruction
    kTable,     // value: index of a branch table
    kCallee,    // symbol: a function's name; slot: an indirect one
    kList,      // ( ... ) of a call: count elements follow
  } kind = kSink;
  bool negated = false;
  uint16_t count = 0;
  int32_t slot = -1;
  int32_t symbol = -1;
  int64_t value = 0;
};

struct Instruction {
  uint16_t opcode = 0;    // index into Function::words: "add"
  uint16_t modifiers = 0; // count, from firstModifier on: "rn", "f32"
  uint32_t firstModifier = 0;
  uint32_t firstOperand = 0;
  uint16_t operands = 0; // entries in Function::operands, elements of vectors included
  bool leader = false;   // a label is here
  bool guardNegated = false;
  int32_t guard = -1; // predicate's slot
  uint32_t line = 0;  // in the PTX text
  uint32_t file = 0, sourceLine = 0;
};

/// Special registers that have slots of their own, filled when a frame begins.
enum class Special : uint8_t {
  kTidX,
  kTidY,
  kTidZ,
  kNtidX,
  kNtidY,
  kNtidZ,
  kCtaidX,
  kCtaidY,
  kCtaidZ,
  kNctaidX,
  kNctaidY,
  kNctaidZ,
  kLaneid,
  kWarpid,
  kNwarpid,
  kWarpSize,
  kSmid,
  kNsmid,
  kGridid,
  kLanemaskEq,
  kLanemaskLe,
  kLanemaskLt,
  kLanemaskGe,
  kLanemaskGt,
  kClock,
  kClock64,
  kGlobaltimer,
  kDynamicShared,
  kTotalShared,
  kZero,
};

struct Function {
  std::string name;
  bool kernel = false, external = false;
  uint32_t line = 0;
  uint32_t slots = 0;                                 // of registers, each 32 lanes of 64 bits
  uint32_t predicates = 0;                            // of predicate registers, 32 bits each
  uint32_t sharedBytes = 0;                           // static
  uint32_t dynamicAlign = 16;                         // of extern shared arrays, which begin behind the static bytes
  uint32_t localBytes = 0;                            // .local variables and, but for kernels, parameters
  std::vector<std::pair<uint32_t, Special>> specials; // slot, what
  std::vector<Param> params, results;                 // offsets in the frame's local bytes (kernels: in the parameters)
  std::vector<Instruction> instructions;
  std::vector<Operand> operands;
  std::vector<std::string> words; // opcodes and modifiers, each once
  std::vector<uint16_t> modifierWords;
  std::vector<Symbol> symbols;
  std::vector<std::vector<uint32_t>> tables; // of brx.idx

  const std::string &opcode(const Instruction &i) const { return words[i.opcode]; }
  const std::string &modifier(const Instruction &i, uint32_t n) const {
    return words[modifierWords[i.firstModifier + n]];
  }
  bool has(const Instruction &i, std::string_view modifier) const;
};

} // namespace opc::gpusim
