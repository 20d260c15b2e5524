// What ops over rows compute, in the order of additions of the CPU's kernels (RowMathLoops.h, RunReduce.h).
// SPDX-License-Identifier: Apache-2.0
#include "DeviceRows.h"
#include "RowEmitter.h"

#include <array>
#include <limits>

namespace opc::codegen {
namespace {

using llvm::Value;
using Elements = RowEmitter::Elements;
using Kind = DeviceRowOp::Kind;

constexpr unsigned kWarp = 32;
constexpr int64_t kUnit = 4096; // elements that a reduction adds before it goes on in f64

class RowFunction {
public:
  RowFunction(RowEmitter &e, size_t step, const DeviceRowOp &op) : e_(e), step_(step), op_(op) {}

  void run() {
    switch (op_.kind) {
    case Kind::kSoftmax: return softmax();
    case Kind::kLogSoftmax: return logSoftmax();
    case Kind::kSoftmaxGradient: return softmaxGradient();
    case Kind::kLogSoftmaxGradient: return logSoftmaxGradient();
    case Kind::kNorm: return norm();
    case Kind::kNormGradient: return normGradient();
    case Kind::kSparseLoss:
    case Kind::kDenseLoss: return loss();
    case Kind::kSparseLossGradient: return sparseLossGradient();
    case Kind::kDenseLossGradient: return denseLossGradient();
    default: return reduction();
    }
  }

private:
  llvm::IRBuilderBase &b() { return e_.b(); }
  Value *zero() { return e_.number(0); }
  Elements in(size_t role) { return e_.operand(step_, op_.inputs[role]); }
  Value *one(size_t role) { return e_.oneOf(step_, op_.inputs[role]); }
  bool has(size_t role) const { return op_.inputs[role] >= 0; }
  void give(size_t role, Elements f) { e_.give(step_, op_.outputs[role], std::move(f)); }
  void giveOne(size_t role, Value *number) {
    if (op_.outputs[role] >= 0) e_.giveOne(step_, op_.outputs[role], number);
  }
  Value *exponential(Value *x) { return e_.call("rowExp_f32", x); }
  /// Of what is no more than 0.
  Value *exponentialBelow(Value *x) { return e_.call("rowExpNonPositive_f32", x); }
  Value *logarithm(Value *x) { return e_.call("log_f32", x); }
  Value *count() { return e_.number(static_cast<double>(e_.size())); }
  Value *fused(Value *x, Value *y, Value *z) {
    return b().CreateIntrinsic(x->getType(), llvm::Intrinsic::fma, {x, y, z});
  }

  // ---- Sums of RowMath.

  /// Of 8 lanes that are the same modulo 8, or of the first 8.
  Value *sumOfEight(Value *v) {
    for (const unsigned mask : {4u, 2u, 1u}) v = b().CreateFAdd(v, e_.across(v, mask));
    return v;
  }

  using Add = llvm::function_ref<Value *(Value *lanes, llvm::ArrayRef<Value *> x)>;
  /// 32 lanes; of the last elements of a row, fewer than 32, each eight go to the first 8 lanes, and the rest to the
  /// next 8.
  Value *sum(llvm::ArrayRef<Elements> x, Add addTo) {
    Value *lanes = zero();
    e_.pass(lanes, [&](RowPart &part) {
      for (unsigned c = 0; c < part.chunks; ++c) {
        llvm::SmallVector<Value *, 2> at;
        for (const Elements &f : x) at.push_back(f(part, c));
        lanes = part.isCut(c) ? addLast(lanes, at, part.cut, addTo) : addTo(lanes, at);
      }
    });
    for (const unsigned mask : {8u, 16u}) lanes = b().CreateFAdd(lanes, e_.across(lanes, mask));
    return sumOfEight(lanes);
  }
  Value *addLast(Value *lanes, llvm::ArrayRef<Value *> x, unsigned n, Add addTo) {
    const auto moved = [&](unsigned first) {
      Value *from = b().CreateAdd(b().CreateAnd(e_.lane(), b().getInt32(7)), b().getInt32(first));
      llvm::SmallVector<Value *, 2> at;
      for (Value *v : x) at.push_back(e_.fromLane(v, from));
      return at;
    };
    unsigned first = 0;
    for (; first + 8 <= n; first += 8) lanes = b().CreateSelect(e_.isBelow(8), addTo(lanes, moved(first)), lanes);
    if (first == n) return lanes;
    Value *more = b().CreateFAdd(lanes, addTo(zero(), moved(first)));
    Value *place = b().CreateSub(e_.lane(), b().getInt32(8));
    return b().CreateSelect(b().CreateICmpULT(place, b().getInt32(n - first)), more, lanes);
  }
  Value *total(Elements x) {
    return sum({std::move(x)}, [&](Value *lanes, llvm::ArrayRef<Value *> v) { return b().CreateFAdd(lanes, v[0]); });
  }
  /// 16 lanes; of the last elements, fewer than 16, each eight go to the first 8 lanes, and so does the rest.
  Value *sumOfSixteen(const Elements &x) {
    Value *lanes = zero();
    const auto addFirst = [&](Value *v, unsigned n) {
      lanes = b().CreateSelect(e_.isBelow(n), b().CreateFAdd(lanes, v), lanes);
    };
    e_.pass(lanes, [&](RowPart &part) {
      for (unsigned c = 0; c < part.chunks; ++c) {
        Value *v = x(part, c);
        const unsigned n = part.isCut(c) ? part.cut : kWarp;
        unsigned done = 0;
        for (; done + 16 <= n; done += 16) lanes = b().CreateFAdd(lanes, done ? e_.across(v, 16) : v);
        for (; done < n; done += 8)
          addFirst(done ? e_.fromLane(v, b().CreateAdd(e_.lane(), b().getInt32(done))) : v, std::min(8u, n - done));
      }
    });
    lanes = b().CreateFAdd(lanes, e_.across(lanes, 8));
    return e_.fromLane(sumOfEight(lanes), b().getInt32(0));
  }
  /// NaN is not seen.
  Value *largest(const Elements &x) {
    Value *top = e_.number(-std::numeric_limits<double>::infinity());
    const auto take = [&](Value *v) { top = b().CreateSelect(b().CreateFCmpOGT(v, top), v, top); };
    e_.pass(top, [&](RowPart &part) {
      for (unsigned c = 0; c < part.chunks; ++c) take(x(part, c));
    });
    for (const unsigned mask : {16u, 8u, 4u, 2u, 1u}) take(e_.across(top, mask));
    return top;
  }

  // ---- softmax and its like.

  Elements below(Elements x, Value *top) {
    return e_.once([this, x = std::move(x), top](RowPart &part, unsigned c) {
      return exponentialBelow(b().CreateFSub(x(part, c), top));
    });
  }
  void softmax() {
    const Elements x = in(0), raised = below(x, largest(x));
    Value *factor = b().CreateFDiv(e_.number(1), sumOfSixteen(raised));
    give(0, [this, raised, factor](RowPart &part, unsigned c) { return b().CreateFMul(raised(part, c), factor); });
  }
  void logSoftmax() {
    const Elements x = in(0);
    Value *top = largest(x), *log = logarithm(total(below(x, top)));
    give(0, [=, this](RowPart &part, unsigned c) { return b().CreateFSub(b().CreateFSub(x(part, c), top), log); });
  }
  void softmaxGradient() {
    const Elements y = in(0), dy = in(1);
    Value *dot = sum({y, dy}, [&](Value *lanes, llvm::ArrayRef<Value *> v) { return fused(v[0], v[1], lanes); });
    give(0,
         [=, this](RowPart &part, unsigned c) { return b().CreateFMul(y(part, c), b().CreateFSub(dy(part, c), dot)); });
  }
  void logSoftmaxGradient() {
    const Elements y = in(0), dy = in(1);
    Value *all = total(dy);
    give(0, [=, this](RowPart &part, unsigned c) {
      return b().CreateFSub(dy(part, c), b().CreateFMul(exponential(y(part, c)), all));
    });
  }

  // ---- Losses.

  /// softmax, and the loss from the logarithm of its sum.
  void loss() {
    const Elements x = in(0);
    Value *top = largest(x);
    Value *isNothing = b().CreateFCmpOEQ(top, e_.number(-std::numeric_limits<double>::infinity()));
    Value *shift = b().CreateSelect(isNothing, zero(), top);
    const Elements raised = below(x, shift);
    Value *all = sumOfSixteen(raised), *factor = b().CreateFDiv(e_.number(1), all);
    Value *log = b().CreateFAdd(logarithm(all), shift);
    giveOne(1, op_.kind == Kind::kSparseLoss ? sparse(x, log) : dense(x, in(1), log));
    give(0, [this, raised, factor](RowPart &part, unsigned c) { return b().CreateFMul(raised(part, c), factor); });
  }
  Value *dense(const Elements &x, const Elements &target, Value *log) {
    return sum({x, target}, [&](Value *lanes, llvm::ArrayRef<Value *> v) {
      Value *isOf = b().CreateFCmpUNE(v[1], zero());
      Value *part = b().CreateFMul(v[1], b().CreateFSub(log, v[0]));
      return b().CreateFAdd(lanes, b().CreateSelect(isOf, part, zero()));
    });
  }
  /// The bits of the element are those of all lanes together.
  Value *sparse(const Elements &x, Value *log) {
    Value *label = e_.placeOf(step_, op_.inputs[1]), *bits = b().getInt32(0);
    e_.pass(bits, [&](RowPart &part) {
      for (unsigned c = 0; c < part.chunks; ++c) {
        Value *isIt = b().CreateICmpEQ(e_.place(part, c), label);
        bits = b().CreateSelect(isIt, b().CreateBitCast(x(part, c), b().getInt32Ty()), bits);
      }
    });
    for (const unsigned mask : {16u, 8u, 4u, 2u, 1u}) bits = b().CreateOr(bits, e_.across(bits, mask));
    Value *isThere = b().CreateICmpSGE(label, b().getInt32(0));
    return b().CreateSelect(isThere, b().CreateFSub(log, b().CreateBitCast(bits, b().getFloatTy())), log);
  }
  void sparseLossGradient() {
    const Elements y = in(2);
    Value *label = e_.placeOf(step_, op_.inputs[0]), *dy = one(1);
    give(0, [=, this](RowPart &part, unsigned c) {
      Value *at = b().CreateFMul(dy, b().CreateFSub(y(part, c), e_.number(1)));
      return b().CreateSelect(b().CreateICmpEQ(e_.place(part, c), label), at, b().CreateFMul(y(part, c), dy));
    });
  }
  void denseLossGradient() {
    const Elements target = in(0), y = in(2);
    Value *dy = one(1), *all = total(target);
    give(0, [=, this](RowPart &part, unsigned c) {
      return b().CreateFMul(dy, b().CreateFSub(b().CreateFMul(y(part, c), all), target(part, c)));
    });
  }

  // ---- Normalizations.

  void norm() {
    const Elements x = in(0);
    Value *mean = op_.isCentered ? b().CreateFDiv(total(x), count()) : zero();
    const Elements off = e_.once([=, this](RowPart &part, unsigned c) { return b().CreateFSub(x(part, c), mean); });
    Value *squares = sum({off}, [&](Value *lanes, llvm::ArrayRef<Value *> v) {
      return b().CreateFAdd(lanes, b().CreateFMul(v[0], v[0]));
    });
    Value *variance = b().CreateFAdd(b().CreateFDiv(squares, count()), e_.number(static_cast<float>(op_.epsilon)));
    Value *inverse = b().CreateFDiv(e_.number(1), b().CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, variance));
    giveOne(1, mean);
    giveOne(2, inverse);
    const Elements gamma = has(1) ? e_.parameter(step_, op_.inputs[1], op_.period) : nullptr;
    const Elements beta = has(2) ? e_.parameter(step_, op_.inputs[2], op_.period) : nullptr;
    give(0, [=, this](RowPart &part, unsigned c) {
      Value *made = b().CreateFMul(off(part, c), inverse);
      if (gamma) made = b().CreateFMul(made, gamma(part, c));
      if (beta) made = b().CreateFAdd(made, beta(part, c));
      return made;
    });
  }
  void normGradient() {
    const Elements dy = in(0), x = in(1), add = has(5) ? in(5) : nullptr;
    Value *mean = has(2) ? one(2) : zero(), *inverse = one(3);
    const Elements gamma = has(4) ? e_.parameter(step_, op_.inputs[4], op_.period) : nullptr;
    const Elements scaled = e_.once([=, this](RowPart &part, unsigned c) {
      return gamma ? b().CreateFMul(dy(part, c), gamma(part, c)) : dy(part, c);
    });
    const Elements off = e_.once([=, this](RowPart &part, unsigned c) { return b().CreateFSub(x(part, c), mean); });
    Value *shift = op_.isCentered ? b().CreateFDiv(total(scaled), count()) : zero();
    Value *dot = sum({scaled, off}, [&](Value *lanes, llvm::ArrayRef<Value *> v) { return fused(v[0], v[1], lanes); });
    Value *slope = b().CreateFDiv(b().CreateFMul(b().CreateFMul(dot, inverse), inverse), count());
    give(0, [=, this](RowPart &part, unsigned c) {
      Value *along = b().CreateFMul(off(part, c), slope);
      Value *made = b().CreateFMul(inverse, b().CreateFSub(b().CreateFSub(scaled(part, c), shift), along));
      return add ? b().CreateFAdd(made, add(part, c)) : made;
    });
  }

  // ---- Reductions: 32 lanes that are halved, the last elements one by one, units in f64.

  bool isExtreme() const { return op_.kind == Kind::kLargest || op_.kind == Kind::kSmallest; }
  bool isProduct() const { return op_.kind == Kind::kProduct; }
  /// In the type of lanes.
  Value *wide(Value *v) { return isProduct() ? b().CreateFPExt(v, b().getDoubleTy()) : v; }
  Value *first() {
    if (isProduct()) return llvm::ConstantFP::get(b().getDoubleTy(), 1);
    const double infinity = std::numeric_limits<double>::infinity();
    return !isExtreme() ? zero() : e_.number(op_.kind == Kind::kLargest ? -infinity : infinity);
  }
  Value *join(Value *a, Value *x) {
    if (isProduct()) return b().CreateFMul(a, x);
    if (!isExtreme()) return b().CreateFAdd(a, x);
    Value *isMore = op_.kind == Kind::kLargest ? b().CreateFCmpOGT(x, a) : b().CreateFCmpOLT(x, a);
    return b().CreateSelect(b().CreateFCmpUNO(x, x), x, b().CreateSelect(isMore, x, a)); // NaN wins
  }
  /// `n` elements from one on.
  Value *unit(const Elements &x, Value *from, int64_t n) {
    Value *lanes = first(), *rest = first();
    std::array<Value *, 1> carried = {lanes};
    e_.pass(carried, from, n, [&](RowPart &part) {
      for (unsigned c = 0; c < part.chunks; ++c)
        if (part.isCut(c))
          rest = wide(x(part, c));
        else
          carried[0] = join(carried[0], wide(x(part, c)));
    });
    lanes = carried[0];
    if (n >= kWarp) {
      for (const unsigned mask : {16u, 8u, 4u, 2u, 1u}) lanes = join(lanes, e_.across(lanes, mask));
      if (isExtreme()) lanes = e_.fromLane(lanes, b().getInt32(0)); // of both zeros the first
    }
    for (unsigned k = 0; k < n % kWarp; ++k) lanes = join(lanes, e_.fromLane(rest, b().getInt32(k)));
    return lanes;
  }
  void reduction() {
    Elements x = in(0);
    if (op_.kind == Kind::kNanSum)
      x = [this, x](RowPart &part, unsigned c) {
        Value *v = x(part, c);
        return b().CreateSelect(b().CreateFCmpUNO(v, v), zero(), v);
      };
    llvm::Type *type = isExtreme() ? b().getFloatTy() : b().getDoubleTy();
    std::array<Value *, 1> all = {isExtreme() ? first() : llvm::ConstantFP::get(type, isProduct() ? 1 : 0)};
    const auto merge = [&](Value *made) {
      if (made->getType() != type) made = b().CreateFPExt(made, type);
      all[0] = join(all[0], made);
    };
    const int64_t units = e_.size() / kUnit, rest = e_.size() % kUnit;
    if (units > 0)
      e_.repeat(all, units, [&](Value *turn) { merge(unit(x, b().CreateMul(turn, b().getInt32(kUnit)), kUnit)); });
    if (rest > 0) merge(unit(x, b().getInt32(static_cast<uint32_t>(units * kUnit)), rest));
    Value *made = all[0];
    if (op_.kind == Kind::kMean)
      made = b().CreateFDiv(made, llvm::ConstantFP::get(type, static_cast<double>(e_.size())));
    giveOne(0, isExtreme() ? made : b().CreateFPTrunc(made, b().getFloatTy()));
  }

  RowEmitter &e_;
  const size_t step_;
  const DeviceRowOp op_;
};

} // namespace

bool emitRowFunction(RowEmitter &e, const RegionStep &step, size_t number) {
  const std::optional<DeviceRowOp> op = deviceRowOp(step.op, *step.kernel);
  if (!op) return false;
  // What it gives are functions that ask for it until the kernel is finished.
  e.own(std::make_shared<RowFunction>(e, number, *op)).run();
  return true;
}

} // namespace opc::codegen
