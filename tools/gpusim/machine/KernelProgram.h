// Functions made ready for execution: a handler and slots an instruction.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Function.h"
#include "Machine.h"

#include <array>
#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace opc::gpusim {

struct Code;
class Lanes;

/// What became of an instruction.
enum class Step : uint8_t {
  kNext,     // all lanes of the group go on behind it
  kJump,     // all lanes of the group go on at Lanes::pc
  kReselect, // lanes have places of their own now: choose a group
};

using Handler = Step (*)(Lanes &, const Code &);

/// One instruction. Slots: 0 and above a register, below a constant (~slot); kNoSlot: absent.
struct Code {
  static constexpr int32_t kNoSlot = INT32_MIN;
  Handler run = nullptr;
  int32_t guard = -1; // predicate
  bool guardNegated = false, leader = false;
  Space space = Space::kGeneric;
  uint8_t size = 0;   // bytes of an element in memory
  uint8_t vector = 1; // elements
  uint8_t detail = 0; // small enumerations of a handler's own: comparison, rounding, shuffle mode
  uint8_t flags = 0;  // bits of a handler's own
  int32_t dst = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot, d = kNoSlot;
  int32_t p = -1, q = -1; // predicates that are written
  int32_t pa = -1;        // a predicate that is read
  bool paNegated = false;
  uint32_t target = 0;           // of branches; index of tables
  int64_t value = 0;             // offsets, immediates
  uint32_t list = 0, listed = 0; // more slots, in Program::slots
  uint32_t index = 0;            // of the instruction
  uint32_t line = 0;             // in the PTX text
};

struct Program {
  const Function *function = nullptr;
  uint32_t number = 0;      // within the module
  uint32_t dynamicBase = 0; // offset at which dynamic shared memory begins
  std::vector<Code> code;
  std::vector<std::array<uint64_t, 32>> constants;
  std::vector<int32_t> slots;                                // lists of operands
  std::vector<std::pair<uint32_t, std::string>> unsupported; // instruction, why it cannot be executed
  std::vector<uint8_t> clocks;                               // by slot: reads of %clock
};

struct LoadedModule::Programs {
  const LoadedModule *loaded = nullptr;
  std::vector<std::unique_ptr<Program>> programs; // by number of the function, null until called
  std::unordered_map<std::string, uint32_t> numbers;
  std::map<std::string, std::pair<uint64_t, uint64_t>> addresses; // of variables
  std::set<uint64_t> constants;                                   // addresses of .const variables
  const Program *program(uint32_t number);
};

/// Generic addresses of other spaces than global have a tag in their highest byte.
constexpr uint64_t kSharedWindow = uint64_t(1) << 56;
constexpr uint64_t kLocalWindow = uint64_t(2) << 56;
constexpr uint64_t kParamWindow = uint64_t(3) << 56;
constexpr uint64_t kFunctionWindow = uint64_t(4) << 56;
constexpr uint64_t kWindowMask = uint64_t(0xff) << 56;

} // namespace opc::gpusim
