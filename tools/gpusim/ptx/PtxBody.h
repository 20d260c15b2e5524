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
  struct Known {
    Symbol symbol;
    int32_t index = -1; // in Function::symbols, once an operand names it
  };
  struct Scope {
    Names<Register> registers;
    bool hasSingle = false; // a register without a number
    Names<Known> symbols;
    Names<uint32_t> labels; // also of branch tables: kTable | index
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
  void declare(const std::string &name, Symbol::Kind kind, uint64_t offset);
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
  Names<uint16_t> words_;
  Names<int32_t> globals_; // the module's symbols that operands name: indices in Function::symbols
  std::unordered_map<uint8_t, uint32_t> specials_;
  uint32_t file_ = 0, line_ = 0;
  bool atLabel_ = true;
};

} // namespace opc::gpusim
