// The kernels of regions over elements: tile by tile, so that what the steps hand to each other stays in the first
// cache.
// SPDX-License-Identifier: Apache-2.0
#include "ColumnParts.h"
#include "RegionCode.h"
#include "RegionCore.h"
#include "RowLoops.h"
#include "RowRegion.h"
#include "StepFailure.h"
#include "TilePlan.h"

#include <algorithm>
#include <numeric>

namespace opc {
namespace {

using user_op::KernelComputeContext;

constexpr int64_t kGrain = 16384; // elements that a thread takes at a time
constexpr int64_t kLeastTile = 128, kLargestTile = 4096;
constexpr int32_t kNoSlot = -1;
// Smaller outputs cost what calling a kernel costs.
constexpr int64_t kLeastAlone = 1024;

/// Where the values of a tile are. Slots are buffers of a tile's elements.
struct Layout {
  std::vector<int32_t> slotOf;    // by value; kNoSlot: in a tensor
  std::vector<int32_t> outputOf;  // by value; -1: no output
  std::vector<size_t> slotBytes;  // an element's, in each slot
  int64_t tile = 0;               // elements
  std::vector<size_t> slotOffset; // bytes
  size_t scratch = 0;
  std::vector<bool> isSteady; // by input: its elements are those of the tile before, in whole tiles
};

size_t sizeOf(const Region &region, uint32_t value) { return GetSizeOfDataType(region.descOf(value).data_type()); }

/// The largest tile of at most `most` elements that is made of whole periods of the inputs that are repeated, as far as
/// they fit: what has been written to a buffer for one tile is there for the next. Better of whole vectors, too.
int64_t wholePeriods(int64_t most, const std::vector<TileAccess> &access) {
  int64_t periods = 1;
  for (const TileAccess &a : access)
    if (const int64_t p = a.period(); p > 0 && p <= most)
      if (const int64_t both = std::lcm(periods, p); both <= most) periods = both;
  if (periods == 1) return most;
  for (const int64_t vector : {64, 16, 1})
    if (const int64_t unit = std::lcm(periods, vector); unit <= most) return most / unit * unit;
  return most;
}

/// Gives inner values slots; a slot is free again after the last step that reads it. A step may write over an operand
/// of the same size that it is the last to read.
Layout layOut(const Region &region, const std::vector<TileAccess> &access) {
  const size_t values = region.inputs.size() + region.steps.size();
  Layout l;
  l.slotOf.assign(values, kNoSlot);
  l.outputOf.assign(values, -1);
  for (size_t o = 0; o < region.outputs.size(); ++o) l.outputOf[region.outputs[o]] = static_cast<int32_t>(o);
  std::vector<size_t> lastRead(values, 0);
  for (size_t i = 0; i < region.steps.size(); ++i)
    for (uint32_t v : region.steps[i].args) lastRead[v] = i;
  std::vector<int32_t> free;
  auto take = [&](size_t bytes) {
    for (auto it = free.begin(); it != free.end(); ++it)
      if (l.slotBytes[static_cast<size_t>(*it)] == bytes) {
        const int32_t slot = *it;
        free.erase(it);
        return slot;
      }
    l.slotBytes.push_back(bytes);
    return static_cast<int32_t>(l.slotBytes.size() - 1);
  };
  for (uint32_t v = 0; v < region.inputs.size(); ++v)
    if (access[v].needsBuffer()) l.slotOf[v] = take(sizeOf(region, v));
  for (size_t i = 0; i < region.steps.size(); ++i) {
    const uint32_t made = region.valueOf(i);
    auto release = [&](bool sameSize) {
      for (uint32_t v : region.steps[i].args) {
        const bool isFree = std::find(free.begin(), free.end(), l.slotOf[v]) != free.end();
        if (l.slotOf[v] == kNoSlot || lastRead[v] != i || isFree) continue;
        if ((sizeOf(region, v) == sizeOf(region, made)) == sameSize) free.push_back(l.slotOf[v]);
      }
    };
    release(true);
    if (l.outputOf[made] < 0) l.slotOf[made] = take(sizeOf(region, made));
    release(false);
  }
  int64_t bytes = 0;
  for (size_t b : l.slotBytes) bytes += static_cast<int64_t>(b);
  for (uint32_t v = 0; v < region.inputs.size(); ++v)
    if (access[v].kind() == TileAccess::Kind::kWhole) bytes += static_cast<int64_t>(sizeOf(region, v));
  for (uint32_t v : region.outputs) bytes += static_cast<int64_t>(sizeOf(region, v));
  l.tile = std::clamp(kTileBytes / std::max<int64_t>(bytes, 1) / 64 * 64, kLeastTile, kLargestTile);
  l.tile = wholePeriods(l.tile, access);
  for (const TileAccess &a : access) l.isSteady.push_back(a.period() > 0 && l.tile % a.period() == 0);
  for (size_t b : l.slotBytes) {
    l.slotOffset.push_back(l.scratch);
    l.scratch += (b * static_cast<size_t>(l.tile) + 63) / 64 * 64;
  }
  return l;
}

/// What is the same for every task of the region.
struct Shared {
  RegionCore core;
  std::vector<TileAccess> access; // by input of the loop
  std::vector<std::unique_ptr<user_op::RowLoop>> loops;
  Layout layout;
  std::unique_ptr<const RegionCodeChoice> code;
  bool hasBuffers = false; // tile by tile even with code
};

class BoundRegion final : public user_op::BoundKernel {
public:
  BoundRegion(const Shared &shared, std::vector<const char *> in, std::vector<char *> out)
      : s_(shared), r_(*shared.core.region), whole_(std::move(in)), out_(std::move(out)) {
    for (const LoopInput &input : s_.core.inputs) in_.push_back(input.isMoved ? nullptr : whole_[input.value]);
  }

  void Run(DeviceCtx *ctx) override {
    const int64_t total = r_.shape.elem_cnt();
    code_ = s_.code->next();
    runSteps([&] {
      if (total <= kGrain || ctx->threads() <= 1) return range(0, total);
      ctx->parallelFor(total, kGrain, [this](int64_t begin, int64_t end) { range(begin, end); });
    });
  }

private:
  void range(int64_t begin, int64_t end) const {
    const void *steady[kMaxRegionTensors] = {};
    if (code_ && !s_.hasBuffers) return generated(begin, end - begin, nullptr, steady);
    char *scratch = scratchOfThread(s_.layout.scratch);
    for (; begin < end; begin += s_.layout.tile) {
      const int64_t n = std::min(s_.layout.tile, end - begin);
      code_ ? generated(begin, n, scratch, steady) : tile(begin, n, scratch);
    }
  }

  /// `steady`: by input, where the elements are that each tile of a range finds in the same place. Code has no inner
  /// values that would be written over them.
  void generated(int64_t begin, int64_t n, char *scratch, const void **steady) const {
    const void *in[kMaxRegionTensors];
    void *out[kMaxRegionTensors];
    for (size_t v = 0; v < r_.inputs.size(); ++v) {
      in[v] = steady[v] ? steady[v] : elements(v, begin, n, scratch);
      if (s_.layout.isSteady[v]) steady[v] = in[v];
    }
    for (size_t o = 0; o < r_.outputs.size(); ++o) out[o] = out_[o] + begin * size(r_.outputs[o]);
    runCode(*code_, r_, in, out, n);
  }
  /// n elements of an input, side by side, or its only one.
  const void *elements(size_t input, int64_t begin, int64_t n, char *scratch) const {
    const TileAccess &access = s_.access[input];
    if (access.kind() == TileAccess::Kind::kSingle) return in_[input];
    if (access.kind() == TileAccess::Kind::kWhole) return in_[input] + begin * size(input);
    if (access.kind() == TileAccess::Kind::kMoved) return access.moved(whole_.data(), begin, n, slot(scratch, input));
    return access.spread(in_[input], begin, n, slot(scratch, input));
  }

  void tile(int64_t begin, int64_t n, char *scratch) const {
    const size_t inputs = r_.inputs.size();
    const void *at[kMaxRegionTensors + kMaxRegionSteps];
    bool single[kMaxRegionTensors];
    for (size_t v = 0; v < inputs; ++v) {
      const TileAccess &access = s_.access[v];
      single[v] = access.kind() == TileAccess::Kind::kSingle;
      if (access.kind() == TileAccess::Kind::kMoved)
        at[v] = access.moved(whole_.data(), begin, n, slot(scratch, v));
      else if (access.kind() == TileAccess::Kind::kBroadcast)
        at[v] = access.elements(in_[v], begin, n, slot(scratch, v), &single[v]);
      else
        at[v] = single[v] ? in_[v] : in_[v] + begin * size(v);
    }
    size_t whole = 0; // the step of the whole region
    watchSteps(&whole, [&] {
      for (size_t i = 0; i < r_.steps.size(); ++i) {
        const RegionStep &step = r_.steps[i];
        const void *args[32];
        uint32_t contiguous = 0;
        for (size_t k = 0; k < step.args.size(); ++k) {
          args[k] = at[step.args[k]];
          if (step.args[k] >= inputs || !single[step.args[k]]) contiguous |= 1u << k;
        }
        const size_t made = inputs + i;
        const int32_t output = s_.layout.outputOf[made];
        char *to = output < 0 ? slot(scratch, made) : out_[static_cast<size_t>(output)] + begin * size(made);
        whole = s_.core.steps[i];
        s_.loops[i]->Run(args, contiguous, to, n);
        at[made] = to;
      }
    });
  }
  char *slot(char *scratch, size_t value) const {
    return scratch + s_.layout.slotOffset[static_cast<size_t>(s_.layout.slotOf[value])];
  }
  int64_t size(size_t value) const { return static_cast<int64_t>(sizeOf(r_, static_cast<uint32_t>(value))); }

  const Shared &s_;
  const Region &r_;
  const std::vector<const char *> whole_; // inputs of the whole region
  std::vector<const char *> in_;          // of the loop; null for those that are moved
  const std::vector<char *> out_;
  const RegionCode *code_ = nullptr; // of this run; null: the steps' own loops
};

class RegionKernel final : public user_op::OpKernel {
public:
  /// The arguments are those of the whole region, in the order of its inputs and outputs.
  RegionKernel(std::shared_ptr<const Shared> shared, user_op::ArgList inputs, user_op::ArgList outputs)
      : shared_(std::move(shared)), inputs_(std::move(inputs)), outputs_(std::move(outputs)) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    std::vector<const char *> in;
    std::vector<char *> out;
    for (const auto &[name, i] : inputs_) in.push_back(static_cast<const char *>(ctx->In(name, i).raw_dptr()));
    for (const auto &[name, i] : outputs_) out.push_back(static_cast<char *>(ctx->Out(name, i).mut_raw_dptr()));
    return std::make_unique<BoundRegion>(*shared_, std::move(in), std::move(out));
  }

private:
  const std::shared_ptr<const Shared> shared_;
  const user_op::ArgList inputs_, outputs_;
};

user_op::ArgList numbered(const char *name, size_t count) {
  user_op::ArgList args;
  for (size_t i = 0; i < count; ++i) args.emplace_back(name, static_cast<int32_t>(i));
  return args;
}

Status share(std::shared_ptr<const Region> region, const std::shared_ptr<RegionCompiler> &compiler, bool waits,
             std::shared_ptr<const Shared> *out) {
  auto shared = std::make_shared<Shared>();
  shared->core = coreOf(std::move(region));
  const Region &r = *shared->core.region;
  shared->access = shared->core.access();
  for (const RegionStep &step : r.steps) {
    OPC_ASSIGN_OR_RETURN(auto loop, rowLoopOf(step.op, *step.kernel));
    if (!loop || step.args.size() > 32) return noLoopHere(step.op);
    shared->loops.push_back(std::move(loop));
  }
  shared->layout = layOut(r, shared->access);
  for (const TileAccess &a : shared->access) shared->hasBuffers |= a.needsBuffer();
  shared->code = std::make_unique<RegionCodeChoice>(r, compiler, waits);
  *out = std::move(shared);
  return Status::ok();
}

} // namespace

user_op::KernelDef regionKernel(std::shared_ptr<const Region> region) {
  return regionKernel(std::move(region), nullptr);
}

user_op::KernelDef regionKernel(std::shared_ptr<const Region> region, std::shared_ptr<RegionCompiler> compiler) {
  user_op::KernelDef def = user_op::OpKernelRegistry(kRegionType, __FILE__, __LINE__).GetResult();
  if (!compiler) compiler = compilerOfLoad();
  if (region->rowSize > 0) {
    if (const uint64_t bytes = regionWorkspace(*region))
      def.inferTmpSize = [bytes](user_op::InferContext *) { return static_cast<size_t>(bytes); };
    def.create = [region, compiler](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
      return makeRowRegion(region, compiler, out);
    };
    return def;
  }
  def.create = [region, compiler](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
    std::shared_ptr<const Shared> shared;
    OPC_RETURN_IF_ERROR(share(region, compiler, false, &shared));
    *out = std::make_unique<RegionKernel>(std::move(shared), numbered("in", region->inputs.size()),
                                          numbered("out", region->outputs.size()));
    return Status::ok();
  };
  return def;
}

std::shared_ptr<const Region> regionOfOne(const OpInstance &op, const user_op::KernelDef &kernel, bool isEager) {
  if (!op.shards().empty() || op.outputDescs().size() != 1) return nullptr;
  const Shape &shape = op.outputDescs()[0].shape();
  if (shape.elem_cnt() < (isEager ? 1 : kLeastAlone)) return nullptr;
  for (const user_op::TensorDesc &in : op.inputDescs())
    if (!isEager && TileAccess(in.shape(), shape, GetSizeOfDataType(in.data_type())).needsBuffer()) return nullptr;
  const Joinable loop = joinable(op, kernel);
  if (!loop.may || loop.rows || loop.moves) return nullptr;
  auto region = std::make_shared<Region>();
  region->inputs = op.inputDescs();
  RegionStep step{op, &kernel, {}};
  for (uint32_t i = 0; i < region->inputs.size(); ++i) step.args.push_back(i);
  region->add(std::move(step));
  region->outputs = {region->valueOf(0)};
  return completeRegion(region.get()).isOk() ? region : nullptr;
}

user_op::KernelDef kernelOfOne(std::shared_ptr<const Region> region, std::shared_ptr<RegionCompiler> compiler) {
  const OpInstance &op = region->steps[0].op;
  const user_op::KernelDef &kernel = *region->steps[0].kernel;
  user_op::KernelDef def = regionKernel(region, compiler);
  def.opType = kernel.opType;
  def.origin = kernel.origin;
  def.proposeInplace = kernel.proposeInplace;
  def.create = [region, compiler, inputs = op.inputArgs(),
                outputs = op.outputArgs()](user_op::KernelCreateContext *, std::unique_ptr<user_op::OpKernel> *out) {
    std::shared_ptr<const Shared> shared;
    OPC_RETURN_IF_ERROR(share(region, compiler, true, &shared));
    *out = std::make_unique<RegionKernel>(std::move(shared), inputs, outputs);
    return Status::ok();
  };
  return def;
}

} // namespace opc
