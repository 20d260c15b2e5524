// A kernel for GPUs that computes a region by rows: a warp a row, each lane every 32nd element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RegionSteps.h"
#include "RowAccess.h"

#include "llvm/ADT/STLFunctionalExtras.h"

#include <functional>
#include <map>
#include <tuple>

namespace opc::codegen {

/// Some elements of a row: as many for each lane as there are chunks, 32 apart.
struct RowPart {
  llvm::Value *start = nullptr; // i32: the first one's place in the row
  unsigned chunks = 0;
  unsigned cut = 0; // elements of the last chunk where those are fewer than 32; else 0
  std::map<std::tuple<int, size_t, size_t, unsigned>, llvm::Value *> known;
  bool isCut(unsigned chunk) const { return cut > 0 && chunk + 1 == chunks; }
};

/// Emits a region by rows. What an op over rows computes is given by RowFunctions.cpp: scalars of a row, and its
/// results as functions of elements. Rows of up to kMostKept chunks are in registers from the first read to the last
/// write; of longer ones a few chunks are, and each pass over the row computes them anew.
class RowEmitter {
public:
  /// A number of a chunk of a part, for each lane.
  using Elements = std::function<llvm::Value *(RowPart &, unsigned chunk)>;

  RowEmitter(const Region &region, const RowAccess &access, LeafLibrary &leaves, llvm::LLVMContext &context,
             const std::string &name);
  /// Null, with the reason, where there is no code for a step.
  std::unique_ptr<llvm::Module> run(std::string *reason);

  // ---- For functions on rows. Numbers are f32, of short floats as well.

  llvm::IRBuilderBase &b() { return s_.body; }
  int64_t size() const { return r_.rowSize; }
  /// Calls `f` for the parts of the row's `count` elements from `first` on, in their order. It changes what is carried
  /// from one to the next.
  void pass(llvm::MutableArrayRef<llvm::Value *> carried, llvm::Value *first, int64_t count,
            llvm::function_ref<void(RowPart &)> f);
  void pass(llvm::MutableArrayRef<llvm::Value *> carried, llvm::function_ref<void(RowPart &)> f) {
    pass(carried, b().getInt32(0), size(), f);
  }
  /// A loop of `count` turns, numbered from 0.
  void repeat(llvm::MutableArrayRef<llvm::Value *> carried, int64_t count, llvm::function_ref<void(llvm::Value *)> f);
  /// Operand k of a step.
  Elements operand(size_t step, int k);
  llvm::Value *oneOf(size_t step, int k);
  /// Of an operand that is read whole: element i % period, for element i of the row.
  Elements parameter(size_t step, int k, int64_t period);
  /// An operand that names an element of the row: the place of that, and -1 where it has none, which is noted.
  llvm::Value *placeOf(size_t step, int k);
  /// The place of this lane's element of a chunk; that of the last one of the chunk where it has none.
  llvm::Value *place(RowPart &part, unsigned chunk);
  /// A function of elements, computed once for each part.
  Elements once(Elements f);
  void give(size_t step, int output, Elements f);
  void giveOne(size_t step, int output, llvm::Value *number);
  /// Keeps what such functions ask.
  template <class T> T &own(std::shared_ptr<T> kept) {
    owned_.push_back(kept);
    return *kept;
  }
  /// A function of ScalarLeaves.cpp on one number.
  llvm::Value *call(const char *name, llvm::Value *x);
  llvm::Value *number(double value) { return llvm::ConstantFP::get(b().getFloatTy(), value); }

  // ---- Between lanes.

  llvm::Value *lane() const { return lane_; }
  /// What the lane with this number in all bits but those of `mask` has; what lane `from` has.
  llvm::Value *across(llvm::Value *v, unsigned mask);
  llvm::Value *fromLane(llvm::Value *v, llvm::Value *from);
  llvm::Value *isBelow(unsigned lanes) { return b().CreateICmpULT(lane_, b().getInt32(lanes)); }

private:
  using Value = RegionSteps::Value;

  bool plan();
  void frame(const std::string &name);
  void beginRow();
  void store();
  void storePart(RowPart &part);
  void storeOnes();
  bool fail(const std::string &reason);
  bool isOneForEachRow(uint32_t input) const { return isOneForEach(r_.inputs[input].shape(), r_.shape, r_.rowSize); }
  llvm::BasicBlock *block(const char *name) { return llvm::BasicBlock::Create(context_, name, function_); }
  llvm::Type *typeOf(uint32_t value) { return s_.storedType(r_.descOf(value).data_type()); }
  Value load(uint32_t value, llvm::Value *at, llvm::IRBuilderBase &b);
  Value element(RowPart &part, uint32_t value, unsigned chunk);
  Value operandOf(RowPart &part, size_t step, size_t k, unsigned chunk);
  Value broadcastOf(RowPart &part, uint32_t value, unsigned chunk);
  Value oneOperand(size_t step, size_t k);
  Value single(uint32_t value);
  llvm::Value *asNumber(DataType type, Value v);
  Value asStored(DataType type, llvm::Value *number);
  llvm::Value *shuffled(unsigned intrinsic, llvm::Value *v, llvm::Value *lane);

  const Region &r_;
  const RowAccess &access_;
  llvm::LLVMContext &context_;
  std::unique_ptr<llvm::Module> module_;
  llvm::Function *function_ = nullptr;
  RegionSteps s_;
  unsigned width_ = 0; // chunks of a part
  RowPart kept_;       // a row that is in registers; no chunks: it is not
  llvm::Value *lane_ = nullptr, *row_ = nullptr, *rows_ = nullptr, *warps_ = nullptr;
  llvm::PHINode *rowPhi_ = nullptr;
  llvm::BasicBlock *exit_ = nullptr;
  std::vector<llvm::Value *> begins_;      // by input, then output: where the row's elements begin, or its one
  std::map<uint32_t, Value> ones_;         // by value: of this row
  std::map<uint32_t, Value> singles_;      // by input
  std::map<uint32_t, Elements> functions_; // by value that an op over rows makes
  std::vector<std::shared_ptr<void>> owned_;
  size_t memos_ = 0;
  unsigned watched_ = 0; // operands that name elements
  std::string reason_;
};

/// Emits what step `step`, an op over rows, computes of the row. False where there is no code for it.
bool emitRowFunction(RowEmitter &e, const RegionStep &step, size_t number);

} // namespace opc::codegen
