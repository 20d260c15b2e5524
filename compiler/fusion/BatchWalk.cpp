// Which ops of a graph are worth computing for one part of the batch after the other.
// SPDX-License-Identifier: Apache-2.0
#include "BatchWalk.h"
#include "AttrBridge.h"
#include "ControlOp.h"
#include "Passes.h"
#include "Region.h"
#include "Signatures.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <algorithm>

using namespace mlir;

namespace opc {
namespace {

// What is alive of a part between two ops stays in a core's second cache up to the first of these sizes, and in the
// last one, which cores share, up to the second.
constexpr int64_t kNearBytes = 1 << 20, kFarBytes = 8 << 20;
// Every part reads the weights again, from a cache that is nearer than memory: so many bytes count as one.
constexpr int64_t kWeightShare = 4;
// What the call of a kernel costs, as traffic.
constexpr int64_t kCallBytes = 32 << 10;
// A walk that saves less is not worth a plan of its own.
constexpr int64_t kLeastSaved = 8 << 20;
// What threads' graphs may have of a weight by themselves, where it is not known that they share what they pack of it
// or pack nothing.
constexpr int64_t kSmallWeight = 64 << 10;
// Rows, columns and terms of a product from which on the library computes it.
constexpr int64_t kLeastSide = 32;
// Numbers of parts that are tried, and the longest run of ops: both take time while compiling.
constexpr int kMostTried = 8;
constexpr size_t kLongestRun = 4096;
// Work that pays for a walk: without it regions do the same (docs/code-generation.md).
constexpr size_t kLeastLayers = 2;

bool isConvolution(ir::UserOp op) {
  const StringRef type = op.getOpType();
  return type == "fused_conv2d" || type == "fused_integer_conv2d";
}

bool isProduct(ir::UserOp op) {
  const StringRef type = op.getOpType();
  return type == "matmul" || type == "batch_matmul" || type == "broadcast_matmul";
}

/// A product of rows with a matrix that does not change, as it lies: its kernel packs it.
bool isLinear(ir::UserOp op) {
  if (!isProduct(op) || isSameInAllParts(op.getArgs()[0]) || !isSameInAllParts(op.getArgs()[1])) return false;
  const user_op::TensorDesc b = ir::descOf(op.getArgs()[1]);
  const auto transposed = op.getOpAttrs().getAs<BoolAttr>("transpose_a");
  return b.data_type() == kFloat && b.shape().NumAxes() == 2 && !(transposed && transposed.getValue());
}

/// Whether a part of a product has the bits that it has in the whole one, which kernels cut otherwise: with weights it
/// has where none of its sides is so small that another kernel computes it; without where there are still several.
bool keepsProductBits(ir::UserOp op, int64_t parts) {
  const Shape out = ir::descOf(op.getOuts()[0]).shape();
  const int64_t rank = out.NumAxes();
  if (!isLinear(op))
    return llvm::none_of(op.getArgs(), isSameInAllParts) && rank > 2 && out.Count(0, rank - 2) / parts >= 2;
  const Shape b = ir::descOf(op.getArgs()[1]).shape();
  return rank > 1 && out.Count(0, rank - 1) / parts >= kLeastSide && std::min(b.At(0), b.At(1)) >= kLeastSide;
}

bool isLayer(ir::UserOp op) { return isConvolution(op) || isLinear(op); }

/// Whether the op deals with samples by their place among all of them: on several devices its kernel asks where its
/// piece lies, which nobody tells a part. Triangles of one matrix; rows that constants name.
bool countsSamples(ir::UserOp op) {
  const StringRef type = op.getOpType();
  if (type == "tril" || type == "triu") return ir::descOf(op.getOuts()[0]).shape().NumAxes() == 2;
  constexpr StringLiteral kByPlace[] = {"bounded",
                                        "diagonal_grad",
                                        "dim_scatter_add",
                                        "dim_scatter_add_like",
                                        "dim_scatter_max",
                                        "dim_scatter_min",
                                        "dim_scatter_mul",
                                        "dim_scatter_update",
                                        "embedding_grad",
                                        "narrow_grad",
                                        "scatter_nd_like",
                                        "slice_update",
                                        "tensor_scatter_nd_add",
                                        "tensor_scatter_nd_update",
                                        "unsorted_segment_sum_like"};
  return llvm::is_contained(kByPlace, type) && llvm::any_of(op.getArgs(), isSameInAllParts);
}

/// Whether threads' graphs have a large weight of the op in memory once: they share what they pack, or its kernel reads
/// it as it lies.
bool sharesWeights(ir::UserOp op) {
  if (isLayer(op) || op.getOpType() == "scaled_dot_product_attention") return true;
  const auto instance = ir::toInstance(op, *op.def());
  if (!instance) return false;
  const auto kernel = instance->selectKernel(registryOf(op.getContext()), DeviceType::kCPU);
  return kernel && joinable(*instance, **kernel).may;
}

/// The number of samples where the first axis of every tensor that is no weight has them and a part of them is computed
/// from that part alone; 0 for other ops.
int64_t samplesOf(ir::UserOp op) {
  const user_op::OpDef *def = op.def();
  if (!def || op.getRole() != ir::Role::kForward || !isMemoryEffectFree(op) || op->hasAttr(ir::kCtrlInAttr) ||
      op->hasAttr(ir::kOrderedAttr) || controlKind(def->name) != ControlKind::kNone)
    return 0;
  int64_t samples = 0;
  const auto isBatch = [&](Value v) {
    const auto type = dyn_cast<RankedTensorType>(v.getType());
    if (!type || type.getEncoding() || !type.hasStaticShape() || type.getRank() == 0 || type.getDimSize(0) < 2)
      return false;
    if (samples == 0) samples = type.getDimSize(0);
    return samples == type.getDimSize(0);
  };
  for (Value v : op.getArgs())
    if (isSameInAllParts(v) ? ir::bytesOf(v) > kSmallWeight && !sharesWeights(op) : !isBatch(v)) return 0;
  if (samples == 0 || !llvm::all_of(op.getOuts(), isBatch)) return 0;
  return samples;
}

/// Whether the op is the same on each of `parts` equal parts: it says so, and its rules give those shapes.
bool computesParts(ir::UserOp op, int64_t parts) {
  if (countsSamples(op) || (isProduct(op) && !keepsProductBits(op, parts))) return false;
  auto instance = ir::toInstance(op, *op.def());
  if (!instance) return false;
  const auto signatures = signaturesOf(*instance, parts);
  if (!signatures) return false;
  const auto isWanted = [&](const SbpSignature &s) {
    for (auto [k, arg] : llvm::enumerate(instance->inputArgs())) {
      const SbpParallel *state = s.find(arg.first, arg.second);
      const bool isWhole = isSameInAllParts(op.getArgs()[static_cast<unsigned>(k)]);
      if (!state || *state != (isWhole ? SbpParallel::broadcast() : SbpParallel::split(0))) return false;
    }
    return llvm::all_of(instance->outputArgs(), [&](const auto &arg) {
      const SbpParallel *state = s.find(arg.first, arg.second);
      return state && *state == SbpParallel::split(0);
    });
  };
  if (llvm::none_of(*signatures, isWanted)) return false;
  user_op::OpConf conf = instance->conf();
  for (NamedAttribute a : attrsOfPart(op, parts)) conf.attrs[a.getName().str()] = ir::fromMlir(a.getValue());
  OpInstance part(*op.def(), std::move(conf));
  for (auto [desc, whole, v] : llvm::zip(part.inputDescs(), instance->inputDescs(), op.getArgs()))
    desc = isSameInAllParts(v) ? whole : partOf(whole, parts);
  if (!part.infer().isOk()) return false;
  for (auto [have, want] : llvm::zip(part.outputDescs(), instance->outputDescs()))
    if (have != partOf(want, parts)) return false;
  return true;
}

/// What a tensor that stays inside of a walk saves: it is neither written to memory nor read from it.
int64_t savedBy(Value v, int64_t parts) {
  const int64_t whole = ir::bytesOf(v), part = whole / parts;
  if (whole <= kNearBytes || part > kFarBytes) return 0;
  return part <= kNearBytes ? 2 * whole : whole;
}

/// A run of ops that all compute samples, and what of it is walked.
class Stretch {
public:
  explicit Stretch(std::vector<ir::UserOp> ops, int64_t samples) : ops_(std::move(ops)), samples_(samples) {}

  /// The walk of it that saves most, in as many parts as save most.
  std::optional<BatchWalk> best() const {
    BatchWalk found;
    int64_t most = kLeastSaved - 1;
    int tried = 0;
    for (int64_t part = 1; part < samples_ && tried < kMostTried; ++part) {
      if (samples_ % part != 0) continue;
      ++tried;
      const int64_t parts = samples_ / part;
      BatchWalk walk = bestIn(parts);
      const int64_t saved = walk.ops.empty() ? 0 : savedIn(walk);
      if (saved <= most) continue;
      most = saved;
      found = std::move(walk);
    }
    if (found.ops.empty()) return std::nullopt;
    return found;
  }

private:
  int64_t costOf(ir::UserOp op, int64_t parts) const {
    int64_t weights = 0;
    for (Value v : op.getArgs())
      if (isSameInAllParts(v)) weights += ir::bytesOf(v);
    return (parts - 1) * (weights / kWeightShare + kCallBytes);
  }

  /// The run of ops with the largest sum, as if everything that it makes stayed inside.
  BatchWalk bestIn(int64_t parts) const {
    BatchWalk walk;
    walk.parts = parts;
    size_t begin = 0, from = 0, to = 0;
    int64_t sum = 0, most = 0;
    for (size_t i = 0; i < ops_.size(); ++i) {
      if (!computesParts(ops_[i], parts)) {
        sum = 0, begin = i + 1;
        continue;
      }
      ir::UserOp op = ops_[i];
      for (Value v : op.getOuts()) sum += savedBy(v, parts);
      sum -= costOf(op, parts);
      if (sum > most) most = sum, from = begin, to = i + 1;
      if (sum <= 0) sum = 0, begin = i + 1;
    }
    walk.ops.assign(ops_.begin() + static_cast<ptrdiff_t>(from), ops_.begin() + static_cast<ptrdiff_t>(to));
    for (ir::UserOp op : walk.ops) walk.inside.insert(op);
    if (llvm::count_if(walk.ops, isLayer) < static_cast<ptrdiff_t>(kLeastLayers)) walk.ops.clear();
    return walk;
  }

  /// What others read is written all the same, and once more copied.
  int64_t savedIn(const BatchWalk &walk) const {
    int64_t saved = 0;
    for (ir::UserOp op : walk.ops) {
      for (Value v : op.getOuts()) {
        const bool leaves = llvm::any_of(v.getUsers(), [&](Operation *user) { return !walk.contains(user); });
        saved += leaves ? 0 : savedBy(v, walk.parts);
      }
      saved -= costOf(op, walk.parts);
    }
    return saved;
  }

  std::vector<ir::UserOp> ops_;
  int64_t samples_;
};

} // namespace

bool isSameInAllParts(Value v) {
  Operation *maker = v.getDefiningOp();
  return maker && (isa<ir::VariableOp, ir::ConstantOp>(maker) || maker->hasAttr(ir::kPreparedAttr));
}

DictionaryAttr attrsOfPart(ir::UserOp op, int64_t parts) {
  NamedAttrList attrs(op.getOpAttrs());
  const Shape whole = ir::descOf(op.getOuts()[0]).shape();
  for (NamedAttribute a : op.getOpAttrs()) {
    const AttrValue value = ir::fromMlir(a.getValue());
    const auto *shape = value.get<Shape>();
    if (!shape || shape->NumAxes() != whole.NumAxes() || whole.NumAxes() == 0) continue;
    bool isResult = true;
    for (int64_t k = 0; k < whole.NumAxes(); ++k) isResult &= shape->At(k) == whole.At(k) || shape->At(k) == -1;
    DimVector dims(whole.begin(), whole.end());
    dims[0] /= parts;
    if (isResult) attrs.set(a.getName(), ir::toMlir(op.getContext(), AttrValue(Shape(dims))));
  }
  return attrs.getDictionary(op.getContext());
}

std::vector<BatchWalk> findWalks(Block &block) {
  std::vector<BatchWalk> walks;
  const auto users = block.getOps<ir::UserOp>();
  if (std::none_of(users.begin(), users.end(), isLayer)) return walks;
  std::vector<ir::UserOp> run;
  int64_t samples = 0;
  const auto close = [&] {
    if (run.size() > 1 && run.size() <= kLongestRun)
      if (auto walk = Stretch(std::move(run), samples).best()) walks.push_back(std::move(*walk));
    run.clear();
  };
  for (Operation &o : block) {
    if (!ir::isTask(&o) || o.hasAttr(ir::kPreparedAttr)) continue; // of no step
    auto op = dyn_cast<ir::UserOp>(&o);
    const int64_t here = op ? samplesOf(op) : 0;
    if (here != samples) close();
    samples = here;
    if (here) run.push_back(op);
  }
  close();
  return walks;
}

} // namespace opc
