// The body of one function: scopes, registers, labels, instructions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "PtxParser.h"

namespace opc::gpusim {

class PtxBody {
public:
  PtxBody(PtxParser &parser, Function &function, const std::vector<Declared> &params,
          const std::vector<Declared> &results);
  void parse();

private:
  struct Register {
    bool predicate;
    uint32_t first, count; // count 0: one register without a number
  };
  struct Fixup { // an operand or an entry of a branch table that waits for its label
    uint32_t operand;
    int32_t table, entry; // table < 0: an operand
    std::string label;
    uint32_t line;
  };
  struct Scope {
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, Symbol> symbols;
    std::unordered_map<std::string, uint32_t> labels; // also of branch tables: kTable | index
    std::vector<Fixup> fixups;
  };

  void statement();
  void closeScope();
  void directive();
  void loc();
  void registers();
  void localVariable(std::string_view space);
  void label(std::string name);
  void instruction();
  void checkVector(const Instruction &i, bool store) const;
  void guard(Instruction &i);
  void operand(bool branch);
  void addressOperand();
  void vectorOperand(char close);
  void wordOperand(bool branch);
  void call();
  void callList();
  Operand number(bool negative);
  Operand registerOperand(std::string_view name, bool negated);
  const Register *findRegister(std::string_view name, uint32_t *number) const;
  bool special(std::string_view name, Operand &o);
  int32_t symbolNamed(std::string_view name);
  uint32_t placeLocal(const Declared &d, bool parameter);
  uint16_t word(std::string_view text);

  PtxParser &p_;
  Function &f_;
  std::vector<Scope> scopes_;
  std::unordered_map<std::string, uint16_t> words_;
  std::unordered_map<std::string, int32_t> symbols_;
  std::unordered_map<uint8_t, uint32_t> specials_;
  uint32_t file_ = 0, line_ = 0;
  bool atLabel_ = true;
};

} // namespace opc::gpusim
