// A graph at many sizes of a range.
// SPDX-License-Identifier: Apache-2.0
#include "SizeSweep.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Graph.h"
#include "Locations.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

using namespace mlir;

namespace opc {
namespace {

using Sizes = std::vector<int64_t>;

/// Inferring an op takes about a microsecond; what is looked at is bounded for graphs of any length.
size_t samplesFor(size_t ops) { return std::clamp<size_t>(200'000 / std::max<size_t>(ops, 1), 6, 256); }

Status withSizes(const Status &s, const SizeRequest &request, const Sizes &sizes) {
  std::string ranges;
  for (const SizeRange &r : request.sizes)
    ranges += (ranges.empty() ? "" : ", ") + r.name + " from " + std::to_string(r.min) + " to " + std::to_string(r.max);
  return Status(s.code(), s.id(), s.message() + ", where " + sizesText(request.sizes, sizes))
      .withHelp(s.help() + (s.help().empty() ? "" : "\n") + "the graph must hold for " + ranges +
                ": what an attribute says of a size is fixed (a reshape takes -1 for a dimension that follows), and "
                "inputs whose sizes must be equal share a name: --shape x=n:1..64,784 y=n:1..64");
}

void setInputs(ModuleOp module, const SizeRequest &request, const Sizes &sizes) {
  for (Operation &op : graphBlock(module)) {
    auto in = dyn_cast<ir::InputOp>(&op);
    auto found = in ? request.dims.find(in.getName().str()) : request.dims.end();
    auto type = in ? dyn_cast<RankedTensorType>(in.getOut().getType()) : RankedTensorType();
    if (found == request.dims.end() || !type || found->second.size() != type.getShape().size()) continue;
    SmallVector<int64_t> dims(type.getShape());
    for (size_t i = 0; i < dims.size(); ++i)
      if (const int size = found->second[i]; size >= 0) dims[i] = sizes[static_cast<size_t>(size)];
    in.getOut().setType(RankedTensorType::get(dims, type.getElementType()));
  }
}

/// The shapes of a graph's tensors at one sample after the other.
class Sweep {
public:
  Sweep(ModuleOp module, const Registry &registry, const SizeRequest &request, SizeFacts *facts)
      : module_(module), registry_(registry), request_(request), facts_(*facts) {}

  LogicalResult run() {
    Block &block = graphBlock(module_);
    samples_ = sampleSizes(request_.sizes, samplesFor(static_cast<size_t>(std::distance(block.begin(), block.end()))));
    std::rotate(samples_.begin(), samples_.begin() + 1, samples_.end()); // the largest last: its types stay
    for (const Sizes &sizes : samples_) {
      if (setSizes(module_, request_, sizes).failed()) return failure();
      for (Operation &op : block) {
        for (Value v : op.getResults()) note(v);
        if (auto user = dyn_cast<ir::UserOp>(&op); user && kernel(user, sizes).failed()) return failure();
      }
    }
    std::rotate(samples_.begin(), samples_.end() - 1, samples_.end());
    for (auto &[value, dims] : dims_) std::rotate(dims.begin(), dims.end() - 1, dims.end());
    facts_.sizes = request_.sizes;
    for (Operation &op : block)
      for (Value v : op.getResults())
        if (fit(&op, v).failed()) return failure();
    return success();
  }

private:
  void note(Value v) {
    if (auto type = dyn_cast<RankedTensorType>(v.getType()))
      dims_[v].push_back(SmallVector<int64_t, 4>(type.getShape()));
  }

  /// Kernels may be others at other sizes: the runtime chooses anew. What they want of the memory plan is kept.
  LogicalResult kernel(ir::UserOp op, const Sizes &sizes) {
    auto instance = ir::toInstance(op, *op.def());
    auto kernel = instance->selectKernel(registry_, DeviceType::kCPU);
    if (!kernel) return refuse(op, kernel.status(), sizes);
    auto bytes = instance->tmpSize(**kernel);
    if (!bytes) return refuse(op, bytes.status(), sizes);
    uint64_t &workspace = facts_.workspace[op];
    workspace = std::max(workspace, *bytes);
    std::vector<std::pair<int, int>> offered;
    for (auto [out, in] : instance->inplacePairs(**kernel))
      if (ir::bytesOf(op.getOuts()[static_cast<unsigned>(out)]) == ir::bytesOf(op.getArgs()[static_cast<unsigned>(in)]))
        offered.push_back({out, in});
    auto [known, isFirst] = facts_.inPlace.try_emplace(op, offered);
    if (!isFirst) llvm::erase_if(known->second, [&](const auto &pair) { return !llvm::is_contained(offered, pair); });
    return success();
  }

  LogicalResult refuse(ir::UserOp op, const Status &status, const Sizes &sizes) {
    emitStatus(op, withSizes(status, request_, sizes));
    return failure();
  }

  LogicalResult fit(Operation *op, Value v) {
    const auto &dims = dims_[v];
    if (dims.empty()) return success();
    std::vector<SizeExpression> shape;
    bool isFixed = true;
    for (size_t i = 0; i < dims[0].size(); ++i) {
      Sizes values;
      for (size_t k = 0; k < dims.size() && dims[k].size() == dims[0].size(); ++k) values.push_back(dims[k][i]);
      auto expression = values.size() == dims.size() ? fitSizes(samples_, values) : std::nullopt;
      if (!expression) return noExpression(op, v, i);
      isFixed &= expression->isFixed();
      shape.push_back(std::move(*expression));
    }
    if (!isFixed) facts_.shapes[v] = std::move(shape);
    return success();
  }

  /// The samples that show why: the smallest sizes, where a line from there to the largest misses most, the largest.
  std::vector<size_t> tellingSamples(Value v, size_t axis) {
    const auto &dims = dims_[v];
    const auto total = [&](size_t k) {
      return static_cast<double>(std::accumulate(samples_[k].begin(), samples_[k].end(), int64_t{0}));
    };
    const auto at = [&](size_t k) { return axis < dims[k].size() ? static_cast<double>(dims[k][axis]) : -1; };
    size_t low = 0, middle = 0; // the largest sizes are the first
    for (size_t k = 1; k < dims.size(); ++k)
      if (total(k) < total(low)) low = k;
    const double slope = low ? (at(0) - at(low)) / (total(0) - total(low)) : 0;
    double most = 0;
    for (size_t k = 1; k < dims.size(); ++k)
      if (const double missed = std::abs(at(k) - at(low) - slope * (total(k) - total(low))); missed > most)
        most = missed, middle = k;
    std::vector<size_t> samples = {low, middle, 0};
    samples.erase(std::unique(samples.begin(), samples.end()), samples.end());
    return samples;
  }

  LogicalResult noExpression(Operation *op, Value v, size_t axis) {
    const auto &dims = dims_[v];
    std::string seen;
    for (const size_t k : tellingSamples(v, axis))
      seen += (seen.empty() ? ""
               : k          ? ", "
                            : " and ") +
              (axis < dims[k].size() ? std::to_string(dims[k][axis]) : std::string("none")) + " where " +
              sizesText(request_.sizes, samples_[k]);
    emitFinding(
        op->getLoc(), "OPC0220",
        "dimension " + std::to_string(axis) + " of " + ir::tensorName(v) +
            " does not grow with the sizes as a plan can say: it is " + seen,
        "a plan has products of quotients of sums of the sizes: not the smaller of a size and a number, nor what "
        "shrinks as a size grows; compile the graph for one size, or for a smaller range");
    return failure();
  }

  ModuleOp module_;
  const Registry &registry_;
  const SizeRequest &request_;
  SizeFacts &facts_;
  std::vector<Sizes> samples_;
  llvm::DenseMap<Value, std::vector<SmallVector<int64_t, 4>>> dims_; // by sample
};

} // namespace

std::string sizesText(const std::vector<SizeRange> &sizes, const std::vector<int64_t> &values) {
  std::string text;
  for (size_t i = 0; i < sizes.size(); ++i) text += (i ? ", " : "") + sizes[i].name + " = " + std::to_string(values[i]);
  return text;
}

std::vector<Sizes> sampleSizes(const std::vector<SizeRange> &sizes, size_t most) {
  Sizes largest, smallest;
  for (const SizeRange &r : sizes) largest.push_back(r.max), smallest.push_back(r.min);
  std::vector<Sizes> samples;
  std::set<Sizes> known;
  auto add = [&](const Sizes &s) {
    if (known.insert(s).second) samples.push_back(s);
  };
  add(largest);
  add(smallest);
  const size_t each = std::max<size_t>(4, most / std::max<size_t>(sizes.size(), 1));
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t length = sizes[i].max - sizes[i].min;
    const auto count = static_cast<int64_t>(std::min<uint64_t>(each, static_cast<uint64_t>(length) + 1));
    Sizes s = largest;
    // Neighbours at both ends, so that what is rounded shows itself; between them as many as there may be.
    for (int64_t k = 0; k < std::min<int64_t>(count / 3, length); ++k)
      for (int64_t v : {sizes[i].min + k, sizes[i].max - k}) s[i] = v, add(s);
    for (int64_t k = 0; k < count; ++k) {
      s[i] = sizes[i].min + (count > 1 ? static_cast<int64_t>(static_cast<__int128>(length) * k / (count - 1)) : 0);
      add(s);
    }
  }
  if (sizes.size() > 1)
    for (size_t k = 1; k <= 6; ++k) { // several at once, none of them alike
      Sizes s;
      for (size_t i = 0; i < sizes.size(); ++i) {
        const auto length = static_cast<uint64_t>(sizes[i].max - sizes[i].min) + 1;
        s.push_back(sizes[i].min + static_cast<int64_t>((k * 7 + i * (2 * k + 3)) % length));
      }
      add(s);
    }
  return samples;
}

LogicalResult setSizes(ModuleOp module, const SizeRequest &request, const Sizes &sizes) {
  setInputs(module, request, sizes);
  MLIRContext *context = module.getContext();
  for (Operation &op : graphBlock(module)) {
    auto user = dyn_cast<ir::UserOp>(&op);
    if (!user) continue;
    auto instance = ir::toInstance(user, *user.def());
    if (Status s = instance->infer(); !s.isOk()) {
      emitStatus(user, withSizes(s, request, sizes));
      return failure();
    }
    for (auto [i, result] : llvm::enumerate(user.getOuts()))
      result.setType(ir::tensorType(context, instance->outputDescs()[i]));
  }
  return success();
}

LogicalResult sweepSizes(ModuleOp module, const Registry &registry, const SizeRequest &request, SizeFacts *facts) {
  return Sweep(module, registry, request, facts).run();
}

} // namespace opc
