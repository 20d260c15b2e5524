// What a region's loop computes of a vector of each input: the same for every kind of loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "LeafLibrary.h"
#include "Region.h"

#include "opc/Scalar.h"

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"
#include "llvm/IR/NoFolder.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace opc::codegen {

/// Emits the steps of a region on vectors.
class RegionSteps {
public:
  /// A vector of a region's value. What is the same for all elements is computed before the loop.
  struct Value {
    llvm::Value *v = nullptr;
    bool isUniform = false;
  };

  using Values = llvm::SmallVector<Value, 4>;

  RegionSteps(const Region &region, LeafLibrary &leaves, llvm::Module &module, VectorKind vectors);

  /// Where what is the same for all elements goes, and the loop's body. Nothing is folded: the processor's NaN is
  /// another one than the compiler's.
  llvm::IRBuilder<llvm::NoFolder> entry, body;

  /// Of inputs and of results: whether there is code for their type, and how they lie in memory.
  bool mayRead(DataType type);
  llvm::Type *storedType(DataType type);
  llvm::Type *vectorOf(llvm::Type *t) const { return llvm::FixedVectorType::get(t, lanes_); }
  /// The next input's elements, as they are stored.
  void addInput(Value v) { values_.push_back(v); }
  /// After all inputs. False, with a reason, where there is no code for a step.
  bool steps();
  /// One step over elements of these operands.
  bool step(const RegionStep &step, const Values &args, Value *made);
  llvm::Value *valueOf(uint32_t value) const { return values_[value].v; }
  const std::string &reason() const { return reason_; }

  /// Between how elements are kept and what is computed with.
  Value widen(DataType type, Value x);
  bool narrow(DataType type, Value *x);
  /// A function of ScalarLeaves.cpp.
  bool call(const std::string &name, const Values &args, Value *made);

private:
  bool refuse(const std::string &reason);
  llvm::Type *bitsOf(DataType type);
  llvm::IRBuilderBase &builder(bool isUniform) { return isUniform ? entry : body; }
  Value isNonZero(Value x);
  Value asByte(Value mask);
  bool choose(DataType conditionType, Value condition, Value a, Value b, Value *made);
  bool fill(const RegionStep &step, const Values &args, Value *made);
  bool keep(const OpInstance &op, const Values &args, Value *made);
  bool convert(const OpInstance &op, Value x, Value *made);
  bool expression(const OpInstance &op, const Values &args, Value *made);
  Value asNumber(Value mask, DataType type);
  Value attribute(const scalar::ScalarValue &v, DataType type);
  bool node(const scalar::ScalarProgram::Node &n, const std::vector<Value> &nodes, const Values &parameters,
            DataType type, Value *made);

  const Region &r_;
  LeafLibrary &leaves_;
  llvm::Module &module_;
  llvm::LLVMContext &context_;
  const VectorKind vectors_;
  const unsigned lanes_;
  std::vector<Value> values_; // of the region
  std::map<std::pair<const llvm::Function *, std::vector<llvm::Value *>>, llvm::Value *> known_;
  std::string reason_;
};

} // namespace opc::codegen
