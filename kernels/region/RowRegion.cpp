// The kernel of a region over rows: some rows at a time, so that what the steps hand to each other stays in the cache.
// SPDX-License-Identifier: Apache-2.0
#include "RowRegion.h"
#include "ColumnParts.h"
#include "RegionCore.h"
#include "RowAccess.h"
#include "RowLoops.h"
#include "RowStages.h"
#include "StepFailure.h"

#include "opc/PositionedRows.h"

#include <algorithm>
#include <cstring>

namespace opc {
namespace {

constexpr int64_t kGrain = 16384; // elements of the rows that a thread takes at a time
constexpr int64_t kMostRows = 4096;
constexpr int64_t kGrainOfColumns = 4096; // columns that a thread finishes at a time
constexpr int32_t kNoSlot = -1;
// Between calls of machine code the next tile is asked for: elements of a call, bytes that are far enough away for
// memory and near enough for the second cache.
constexpr int64_t kCallElements = 512, kLeastAhead = 4096, kMostAhead = 64 << 10;

/// Asks for the lines of [from, from + bytes), which need not be there. Nothing is read.
void askFor(const char *from, int64_t bytes, bool toWrite) {
  for (int64_t at = 0; at < bytes; at += 64)
    if (toWrite)
      __builtin_prefetch(from + at, 1, 2);
    else
      __builtin_prefetch(from + at, 0, 2);
}

/// Where the values of a tile are. Slots are buffers of a tile's rows.
struct Layout {
  std::vector<int64_t> rowBytes;  // by value: what belongs to a row; 0: nothing that is read row by row
  std::vector<int32_t> slotOf;    // by value; kNoSlot: in a tensor
  std::vector<int32_t> outputOf;  // by value; -1: no output
  std::vector<int64_t> slotBytes; // a row's, in each slot
  std::vector<size_t> slotOffset;
  int64_t tile = 1;            // rows
  size_t steps = 0, bytes = 0; // where the memory of the steps begins; all of it
};

class LayoutMaker {
public:
  LayoutMaker(const Region &region, const std::vector<LoopInput> &inputs, const RowAccess &access)
      : r_(region), inputs_(inputs), a_(access) {}

  Layout run() {
    const size_t inputs = r_.inputs.size();
    l_.slotOf.assign(r_.values(), kNoSlot);
    l_.outputOf.assign(r_.values(), -1);
    l_.rowBytes.assign(r_.values(), 0);
    for (size_t o = 0; o < r_.outputs.size(); ++o) l_.outputOf[r_.outputs[o]] = static_cast<int32_t>(o);
    for (uint32_t v = 0; v < r_.values(); ++v)
      if (v < inputs ? isRead(v, RowRead::kRows) || isRead(v, RowRead::kBroadcast) : !a_.isWhole[v - inputs])
        l_.rowBytes[v] = elementSize(v) * (v >= inputs && a_.isOne[v - inputs] ? 1 : r_.rowSize);
    lastRead_.assign(r_.values(), 0);
    for (size_t i = 0; i < r_.steps.size(); ++i)
      for (uint32_t v : r_.steps[i].args) lastRead_[v] = i;
    for (uint32_t v = 0; v < inputs; ++v)
      if (inputs_[v].isMoved || isRead(v, RowRead::kBroadcast)) l_.slotOf[v] = take(l_.rowBytes[v]);
    for (size_t i = 0; i < r_.steps.size(); ++i) step(i);
    place();
    return std::move(l_);
  }

private:
  int64_t elementSize(uint32_t v) const { return static_cast<int64_t>(GetSizeOfDataType(r_.descOf(v).data_type())); }
  bool isRead(uint32_t value, RowRead how) const {
    for (size_t i = 0; i < r_.steps.size(); ++i)
      for (size_t k = 0; k < r_.steps[i].args.size(); ++k)
        if (r_.steps[i].args[k] == value && a_.reads[i][k] == how) return true;
    return false;
  }
  int32_t take(int64_t bytes) {
    for (auto it = free_.begin(); it != free_.end(); ++it)
      if (l_.slotBytes[static_cast<size_t>(*it)] == bytes) {
        const int32_t slot = *it;
        free_.erase(it);
        return slot;
      }
    l_.slotBytes.push_back(bytes);
    return static_cast<int32_t>(l_.slotBytes.size() - 1);
  }

  /// A slot is free again after the last step that reads it. A step over elements may write over a tile that it is the
  /// last to read.
  void step(size_t i) {
    const RegionStep &s = r_.steps[i];
    auto release = [&](bool before) {
      for (size_t k = 0; k < s.args.size(); ++k) {
        const uint32_t v = s.args[k];
        const bool over = !s.rows && a_.reads[i][k] == RowRead::kRows && elementSize(v) == elementSize(s.made);
        if (l_.slotOf[v] == kNoSlot || lastRead_[v] != i || over != before) continue;
        if (std::find(free_.begin(), free_.end(), l_.slotOf[v]) == free_.end()) free_.push_back(l_.slotOf[v]);
      }
    };
    release(true);
    const uint32_t end = i + 1 < r_.steps.size() ? r_.steps[i + 1].made : static_cast<uint32_t>(r_.values());
    for (uint32_t v = s.made; v < end; ++v)
      if (l_.outputOf[v] < 0 && l_.rowBytes[v] > 0) l_.slotOf[v] = take(l_.rowBytes[v]);
    release(false);
    for (uint32_t v = s.made; v < end; ++v) // what nobody reads
      if (l_.slotOf[v] != kNoSlot && lastRead_[v] <= i) free_.push_back(l_.slotOf[v]);
  }

  void place() {
    int64_t bytes = 0;
    for (int64_t b : l_.slotBytes) bytes += b;
    for (uint32_t v = 0; v < r_.values(); ++v)
      if (l_.slotOf[v] == kNoSlot) bytes += l_.rowBytes[v];
    l_.tile = std::clamp<int64_t>(kTileBytes / std::max<int64_t>(bytes, 1), 1, kMostRows);
    for (int64_t b : l_.slotBytes) {
      l_.slotOffset.push_back(l_.steps);
      l_.steps += (static_cast<size_t>(b * l_.tile) + 63) / 64 * 64;
    }
    l_.bytes = l_.steps;
    for (const RegionStep &s : r_.steps)
      if (s.rows) l_.bytes = std::max(l_.bytes, l_.steps + s.rows->ScratchBytes(l_.tile));
    l_.bytes = (l_.bytes + 63) / 64 * 64;
  }

  const Region &r_;
  const std::vector<LoopInput> &inputs_;
  const RowAccess &a_;
  Layout l_;
  std::vector<size_t> lastRead_;
  std::vector<int32_t> free_;
};

/// What is the same for every task of the region.
struct Shared {
  RegionCore core;
  RowAccess access;
  std::vector<TileAccess> broadcasts; // by input; of those that are broadcast to the loop, or moved
  std::vector<bool> isBroadcast;
  std::vector<std::unique_ptr<user_op::RowLoop>> loops; // by step; empty for those that go by rows
  Layout layout;
  std::vector<RowStage> stages;
  std::vector<uint32_t> ahead; // inputs whose elements lie in memory row by row, for stages with code
  std::vector<const user_op::ColumnsLoop *> columns;       // by step; null for others
  std::vector<const user_op::PositionedRows *> positioned; // likewise
  ColumnParts parts;
};

class BoundRowRegion final : public user_op::BoundKernel {
public:
  BoundRowRegion(const Shared &shared, std::vector<const char *> in, std::vector<char *> out, char *parts)
      : s_(shared), r_(*shared.core.region), whole_(std::move(in)), out_(std::move(out)), parts_(parts),
        code_(shared.stages.size()) {
    for (const LoopInput &input : s_.core.inputs) in_.push_back(input.isMoved ? nullptr : whole_[input.value]);
  }

  void Run(DeviceCtx *ctx) override {
    at_ = ctx->position();
    if (at_.step < 0) at_ = {0, run_++};
    work_ = 0;
    for (size_t i = 0; i < code_.size(); ++i) {
      code_[i] = s_.stages[i].code ? s_.stages[i].code->next() : nullptr;
      if (code_[i]) work_ += s_.stages[i].work + 1;
    }
    const int64_t rows = r_.shape.elem_cnt() / r_.rowSize;
    runSteps([&] {
      checkAll();
      if (s_.parts.pieces > 0) return byPieces(ctx, rows);
      ctx->parallelFor(rows, std::max<int64_t>(1, kGrain / r_.rowSize), [this](int64_t begin, int64_t end) {
        char *scratch = scratchOfThread(s_.layout.bytes);
        for (; begin < end; begin += s_.layout.tile) tile(begin, std::min(s_.layout.tile, end - begin), scratch);
      });
    });
  }

private:
  /// With steps that put rows together: piece by piece, and the pieces at the end.
  void byPieces(DeviceCtx *ctx, int64_t rows) {
    ctx->parallelFor(s_.parts.pieces, 1, [&](int64_t first, int64_t last) {
      char *scratch = scratchOfThread(s_.layout.bytes + s_.parts.stateBytes);
      for (int64_t piece = first; piece < last; ++piece) {
        const int64_t end = std::min(rows, (piece + 1) * s_.parts.pieceRows);
        for (int64_t begin = piece * s_.parts.pieceRows; begin < end; begin += s_.layout.tile)
          tile(begin, std::min(s_.layout.tile, end - begin), scratch);
        keep(piece, scratch);
      }
    });
    if (s_.parts.pieces == 1) return;
    size_t whole = 0;
    for (size_t i = 0; i < s_.columns.size(); ++i) {
      if (!s_.columns[i]) continue;
      whole = s_.core.steps[i];
      const auto finished = [&](int64_t begin, int64_t end) {
        watchSteps(&whole, [&] { finish(i, parts_ + s_.parts.parts[i], begin, end); });
      };
      ctx->parallelFor(r_.rowSize, kGrainOfColumns, finished);
    }
  }
  /// What a piece leaves; the only one leaves the results.
  void keep(int64_t piece, char *scratch) const {
    for (size_t i = 0; i < s_.columns.size(); ++i) {
      if (!s_.columns[i]) continue;
      const size_t bytes = s_.columns[i]->KeptBytes();
      if (s_.parts.pieces == 1)
        finish(i, stateOf(i, scratch), 0, r_.rowSize);
      else
        std::memcpy(parts_ + s_.parts.parts[i] + static_cast<size_t>(piece) * bytes, stateOf(i, scratch), bytes);
    }
  }
  void finish(size_t step, const char *parts, int64_t begin, int64_t end) const {
    void *made[kMaxRegionTensors];
    for (size_t o = 0; o < s_.columns[step]->outputs.size(); ++o) {
      const int32_t output = s_.layout.outputOf[r_.steps[step].made + o];
      made[o] = output < 0 ? nullptr : out_[static_cast<size_t>(output)];
    }
    s_.columns[step]->Finish(parts, s_.columns[step]->KeptBytes(), made, begin, end);
  }
  char *stateOf(size_t step, char *scratch) const { return scratch + s_.layout.bytes + s_.parts.states[step]; }

  /// Where the values of a tile are.
  struct Tile {
    int64_t begin, rows;
    char *scratch;
    const char *at[kMaxRegionTensors + kMaxRegionValues];
    bool isSingle[kMaxRegionTensors]; // a broadcast input that is one element in this tile
    int64_t work = 0;                 // of the stages with code, done
    double share = 0, perWork = 0;    // of all of that: done, and what a unit of it is
  };

  void checkAll() const {
    size_t whole = 0;
    watchSteps(&whole, [&] {
      for (size_t i = 0; i < r_.steps.size(); ++i) {
        whole = s_.core.steps[i];
        check(i);
      }
    });
  }

  void check(size_t step) const {
    const RegionStep &s = r_.steps[step];
    if (!s.rows) return;
    const void *in[kMaxRegionTensors] = {};
    for (size_t k = 0; k < s.args.size(); ++k) {
      const user_op::RowPart part = s.rows->inputs[k];
      if (part == user_op::RowPart::kIndex || part == user_op::RowPart::kWhole) in[k] = in_[s.args[k]];
    }
    s.rows->Check(in);
  }

  void tile(int64_t begin, int64_t rows, char *scratch) const {
    Tile t;
    t.begin = begin;
    t.rows = rows;
    t.scratch = scratch;
    t.perWork = 1 / static_cast<double>(work_ * rows * r_.rowSize);
    for (size_t v = 0; v < r_.inputs.size(); ++v) {
      t.isSingle[v] = false;
      if (s_.core.inputs[v].isMoved) {
        t.at[v] = static_cast<const char *>(
            s_.broadcasts[v].moved(whole_.data(), begin * r_.rowSize, rows * r_.rowSize, slot(t, v)));
      } else if (s_.isBroadcast[v]) {
        bool isSingle = false;
        t.at[v] = static_cast<const char *>(
            s_.broadcasts[v].elements(in_[v], begin * r_.rowSize, rows * r_.rowSize, slot(t, v), &isSingle));
        t.isSingle[v] = isSingle;
      }
    }
    for (size_t v = r_.inputs.size(); v < r_.values(); ++v) {
      if (s_.layout.rowBytes[v] == 0) continue; // it has no rows
      const int32_t output = s_.layout.outputOf[v];
      t.at[v] = output < 0 ? slot(t, v) : out_[static_cast<size_t>(output)] + begin * s_.layout.rowBytes[v];
    }
    size_t whole = 0; // the step of the whole region
    watchSteps(&whole, [&] {
      for (size_t i = 0; i < s_.stages.size(); ++i) {
        whole = s_.core.steps[s_.stages[i].begin];
        if (code_[i])
          generated(s_.stages[i], *code_[i], &t);
        else
          for (size_t step = s_.stages[i].begin; step < s_.stages[i].end; ++step) {
            whole = s_.core.steps[step];
            this->step(step, t);
          }
      }
    });
  }

  /// Where an operand begins.
  const char *operand(const Tile &t, size_t step, size_t k) const {
    const uint32_t v = r_.steps[step].args[k];
    if (v >= r_.inputs.size() || s_.core.inputs[v].isMoved) return t.at[v];
    switch (s_.access.reads[step][k]) {
    case RowRead::kRows: return in_[v] + t.begin * r_.rowSize * size(v);
    case RowRead::kOnes: return in_[v] + t.begin * size(v);
    case RowRead::kBroadcast: return t.at[v];
    default: return in_[v];
    }
  }

  void step(size_t index, const Tile &t) const {
    const RegionStep &s = r_.steps[index];
    const std::vector<RowRead> &reads = s_.access.reads[index];
    const void *args[kMaxRegionTensors];
    for (size_t k = 0; k < s.args.size(); ++k) args[k] = operand(t, index, k);
    if (s.rows) {
      void *made[kMaxRegionTensors];
      if (s_.columns[index]) {
        made[0] = stateOf(index, t.scratch);
        return s.rows->Run(args, made, t.begin, t.rows, t.scratch + s_.layout.steps);
      }
      for (size_t o = 0; o < s.rows->outputs.size(); ++o) made[o] = const_cast<char *>(t.at[s.made + o]);
      if (const user_op::PositionedRows *positioned = s_.positioned[index])
        return positioned->RunAt(at_, args, made, t.begin, t.rows, t.scratch + s_.layout.steps);
      return s.rows->Run(args, made, t.begin, t.rows, t.scratch + s_.layout.steps);
    }
    uint32_t contiguous = 0;
    bool byRow = false;
    for (size_t k = 0; k < s.args.size(); ++k) {
      byRow |= reads[k] == RowRead::kEach;
      const bool single = reads[k] == RowRead::kEach || reads[k] == RowRead::kSingle ||
                          (reads[k] == RowRead::kBroadcast && t.isSingle[s.args[k]]);
      if (!single) contiguous |= 1u << k;
    }
    char *to = const_cast<char *>(t.at[s.made]);
    const int64_t n = s_.access.isOne[s.made - r_.inputs.size()] ? 1 : r_.rowSize;
    if (!byRow) return s_.loops[index]->Run(args, contiguous, to, n * t.rows);
    for (int64_t row = 0; row < t.rows; ++row) {
      const void *rowArgs[kMaxRegionTensors];
      for (size_t k = 0; k < s.args.size(); ++k) {
        const int64_t elements = reads[k] == RowRead::kEach ? 1 : (contiguous >> k & 1u) != 0 ? n : 0;
        rowArgs[k] = static_cast<const char *>(args[k]) + row * elements * size(s.args[k]);
      }
      s_.loops[index]->Run(rowArgs, contiguous, to + row * n * size(s.made), n);
    }
  }

  /// The steps of a stage by machine code; row by row where it takes one element of each.
  void generated(const RowStage &stage, const RegionCode &code, Tile *t) const {
    const Region &part = *stage.part;
    const char *in[kMaxRegionTensors];
    int64_t inBytes[kMaxRegionTensors];
    for (size_t k = 0; k < stage.inputs.size(); ++k) {
      const RowStage::Input &input = stage.inputs[k];
      if (input.read == RowRead::kBroadcast && t->isSingle[input.value]) { // the code takes all elements
        t->at[input.value] = static_cast<const char *>(s_.broadcasts[input.value].spread(
            in_[input.value], t->begin * r_.rowSize, t->rows * r_.rowSize, slot(*t, input.value)));
        t->isSingle[input.value] = false;
      }
      in[k] = operand(*t, input.step, input.operand);
      inBytes[k] =
          input.read == RowRead::kSingle ? 0 : size(input.value) * (input.read == RowRead::kEach ? 1 : r_.rowSize);
    }
    const int64_t pieces = stage.byRow ? t->rows : 1, n = stage.byRow ? r_.rowSize : t->rows * r_.rowSize;
    for (int64_t row = 0; row < pieces; ++row)
      for (int64_t first = 0; first < n; first += kCallElements) {
        const int64_t count = std::min(kCallElements, n - first);
        const void *from[kMaxRegionTensors];
        void *to[kMaxRegionTensors];
        for (size_t k = 0; k < stage.inputs.size(); ++k) {
          const bool isSingle = part.inputs[k].shape().elem_cnt() == 1;
          const char *at = in[k] + row * inBytes[k] + (isSingle ? 0 : first * size(stage.inputs[k].value));
          from[k] = at;
        }
        askForInputs(t, (stage.work + 1) * count);
        for (size_t o = 0; o < stage.outputs.size(); ++o) {
          char *at = const_cast<char *>(t->at[stage.outputs[o]]) + (row * n + first) * size(stage.outputs[o]);
          to[o] = at;
          if (s_.layout.outputOf[stage.outputs[o]] >= 0) askForPlace(*t, at, count, stage.outputs[o]);
        }
        runCode(code, part, from, to, count);
      }
  }

  /// Asks for what lies a tile behind `count` elements.
  void askForPlace(const Tile &t, const char *at, int64_t count, size_t value) const {
    const int64_t ahead = t.rows * r_.rowSize * size(value);
    if (ahead <= kMostAhead) askFor(at + std::max(ahead, kLeastAhead), count * size(value), true);
  }
  /// Asks for as much of the next tile's inputs as this work is of the tile's: what computes for long would otherwise
  /// leave the memory idle, and what reads them would wait.
  void askForInputs(Tile *t, int64_t work) const {
    const int64_t elements = t->rows * r_.rowSize;
    const double before = t->share;
    t->work += work;
    t->share = static_cast<double>(t->work) * t->perWork;
    for (uint32_t v : s_.ahead) {
      const int64_t bytes = elements * size(v);
      const auto lines = [&](double share) { return static_cast<int64_t>(share * static_cast<double>(bytes)) & ~63; };
      const int64_t from = lines(before), to = t->work == work_ * elements ? bytes : lines(t->share);
      if (bytes <= kMostAhead)
        askFor(in_[v] + t->begin * r_.rowSize * size(v) + std::max(bytes, kLeastAhead) + from, to - from, false);
    }
  }

  char *slot(const Tile &t, size_t value) const {
    return t.scratch + s_.layout.slotOffset[static_cast<size_t>(s_.layout.slotOf[value])];
  }
  int64_t size(size_t value) const {
    return static_cast<int64_t>(GetSizeOfDataType(r_.descOf(static_cast<uint32_t>(value)).data_type()));
  }

  const Shared &s_;
  const Region &r_;
  const std::vector<const char *> whole_; // inputs of the whole region
  std::vector<const char *> in_;          // of the loop; null for those that are moved
  const std::vector<char *> out_;
  char *const parts_;                    // of the steps that put rows together
  std::vector<const RegionCode *> code_; // by stage, of this run; null: the steps' own loops
  int64_t work_ = 0;                     // of those, for an element
  RunPosition at_;                       // of this run
  int64_t run_ = 0;                      // outside of a session
};

class RowRegionKernel final : public user_op::OpKernel {
public:
  RowRegionKernel(std::shared_ptr<const Shared> shared, size_t inputs) : shared_(std::move(shared)), inputs_(inputs) {}
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return false; }
  std::unique_ptr<user_op::BoundKernel> Bind(user_op::KernelBindContext *ctx) const override {
    std::vector<const char *> in;
    std::vector<char *> out;
    for (size_t i = 0; i < inputs_; ++i)
      in.push_back(static_cast<const char *>(ctx->In("in", static_cast<int32_t>(i)).raw_dptr()));
    for (size_t i = 0; i < shared_->core.region->outputs.size(); ++i)
      out.push_back(static_cast<char *>(ctx->Out("out", static_cast<int32_t>(i)).mut_raw_dptr()));
    return std::make_unique<BoundRowRegion>(*shared_, std::move(in), std::move(out), ctx->Tmp<char>());
  }

private:
  std::shared_ptr<const Shared> shared_;
  const size_t inputs_; // of the whole region
};

/// Inputs of the stages with code whose elements come from a tensor, and those of the next tile lie behind them.
std::vector<uint32_t> readAhead(const Region &region, const std::vector<LoopInput> &inputs,
                                const std::vector<RowStage> &stages) {
  std::vector<uint32_t> found;
  for (const RowStage &stage : stages)
    for (const RowStage::Input &in : stage.inputs)
      if (stage.code && in.read == RowRead::kRows && in.value < region.inputs.size() && !inputs[in.value].isMoved &&
          std::find(found.begin(), found.end(), in.value) == found.end())
        found.push_back(in.value);
  return found;
}

} // namespace

Status makeRowRegion(std::shared_ptr<const Region> region, const std::shared_ptr<RegionCompiler> &compiler,
                     std::unique_ptr<user_op::OpKernel> *out) {
  auto shared = std::make_shared<Shared>();
  const size_t inputs = region->inputs.size();
  shared->core = coreOf(std::move(region));
  const Region &r = *shared->core.region;
  std::string why;
  findRowAccess(outlineOf(r), &shared->access, &why); // completeRegion() has done so
  shared->isBroadcast.assign(r.inputs.size(), false);
  for (size_t i = 0; i < r.steps.size(); ++i) {
    for (size_t k = 0; k < r.steps[i].args.size(); ++k)
      if (shared->access.reads[i][k] == RowRead::kBroadcast) shared->isBroadcast[r.steps[i].args[k]] = true;
    shared->loops.emplace_back();
    if (r.steps[i].rows) continue;
    OPC_ASSIGN_OR_RETURN(shared->loops.back(), rowLoopOf(r.steps[i].op, *r.steps[i].kernel));
    if (!shared->loops.back() || r.steps[i].args.size() > 32) return noLoopHere(r.steps[i].op);
  }
  shared->broadcasts = shared->core.access();
  shared->layout = LayoutMaker(r, shared->core.inputs, shared->access).run();
  shared->stages = stagesOf(r, shared->access, compiler);
  shared->ahead = readAhead(r, shared->core.inputs, shared->stages);
  for (const RegionStep &step : r.steps) {
    shared->columns.push_back(columnsOf(step));
    shared->positioned.push_back(dynamic_cast<const user_op::PositionedRows *>(step.rows.get()));
  }
  shared->parts = columnParts(shared->columns);
  *out = std::make_unique<RowRegionKernel>(std::move(shared), inputs);
  return Status::ok();
}

} // namespace opc
