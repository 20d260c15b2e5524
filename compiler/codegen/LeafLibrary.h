// Scalar functions in LLVM's form, and the same on vectors: one instruction at a time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "llvm/IR/IRBuilder.h"
#include "llvm/IR/Module.h"

#include <map>
#include <memory>
#include <optional>
#include <string>

namespace opc::codegen {

/// What vectors there are: numbers side by side, and whether AVX-512 has them.
struct VectorKind {
  unsigned lanes = 1;
  bool isV4 = false;
};

/// The functions of ScalarLeaves.cpp, read when they are first asked for.
class LeafLibrary {
public:
  explicit LeafLibrary(llvm::LLVMContext &context);
  ~LeafLibrary();

  /// A function on numbers; null when there is none of that name ("exp_f32").
  const llvm::Function *find(const std::string &name);
  /// Emits the function on vectors of numbers: its own instructions, each on whole vectors, where it is made of
  /// such that a vector has, and otherwise a call for each number. The bits are those of the function.
  llvm::Value *emit(llvm::IRBuilderBase &b, const llvm::Function &leaf, llvm::ArrayRef<llvm::Value *> args,
                    VectorKind vectors);
  /// Puts the functions that a module calls into it, so that it names nothing but them. All but `entry` become its own.
  /// False, with the reason, where that cannot be.
  static bool close(llvm::Module *module, llvm::StringRef entry, std::string *reason);

private:
  bool isVectorizable(const llvm::Function &leaf);

  llvm::LLVMContext &context_;
  std::unique_ptr<llvm::Module> module_;
  std::map<const llvm::Function *, bool> vectorizable_;
};

} // namespace opc::codegen
