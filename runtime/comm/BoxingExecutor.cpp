// Carries out a boxing step on one tensor or on several at once, over a communicator.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingExecutor.h"

#include "BlockCopy.h"
#include "BoxingMoves.h"
#include "OrderedSum.h"
#include "PlanAgreement.h"

#include <algorithm>
#include <cstring>

namespace opc::runtime {
namespace {

constexpr size_t kAlignment = 64;
size_t aligned(size_t n) { return (n + kAlignment - 1) / kAlignment * kAlignment; }

Box relative(Box box, const std::vector<int64_t> &origin) {
  for (size_t a = 0; a < origin.size(); ++a) box.begin[a] -= origin[a];
  return box;
}

/// Cuts a box into pieces of at most `most` elements, in row-major order, each consecutive in a tensor of the box's
/// shape.
void cutBox(const Box &box, int64_t most, std::vector<Box> &out) {
  if (box.elements() == 0) return;
  size_t axis = 0; // the outermost axis of whose slices one fits
  int64_t inner = box.elements();
  for (; axis < box.size.size() && inner > most; ++axis) inner /= box.size[axis];
  if (axis == 0) {
    out.push_back(box);
    return;
  }
  --axis;
  const int64_t step = std::max<int64_t>(1, most / inner);
  Box piece = box;
  for (size_t a = 0; a < axis; ++a) piece.size[a] = 1;
  for (bool more = true; more;) {
    for (int64_t i = 0; i < box.size[axis]; i += step) {
      piece.begin[axis] = box.begin[axis] + i;
      piece.size[axis] = std::min(step, box.size[axis] - i);
      out.push_back(piece);
    }
    more = false;
    for (size_t a = axis; a-- > 0;) {
      if (++piece.begin[a] < box.begin[a] + box.size[a]) {
        more = true;
        break;
      }
      piece.begin[a] = box.begin[a];
    }
  }
}

/// Where a block lies: its base is known when the step runs.
enum class Buffer : uint8_t { kInput, kOutput, kScratch };
struct Place {
  Buffer buffer = Buffer::kInput;
  size_t index = 0; // tensor, or offset in the scratch
};

/// One exchange with the places of its blocks.
struct Exchange {
  std::vector<CommMessage> sends, receives;
  std::vector<Place> sendPlaces, receivePlaces;
  bool empty() const { return sends.empty() && receives.empty(); }
};

/// One sum of a piece of a tensor: addends in the scratch and one in the input, into the output.
struct Sum {
  size_t tensor = 0;
  int64_t elements = 0;
  size_t outputOffset = 0;      // bytes
  CommBlock own;                // in the input
  bool ownIsContiguous = false; // otherwise it is packed first
  size_t ownOffset = 0;         // bytes in the input when it is contiguous
  size_t slot = 0;              // where in its rank's part of the scratch
};

/// A tensor's pieces on this rank.
struct LocalTensor {
  DataType type = kInvalidDataType;
  size_t elementSize = 0;
  std::vector<int64_t> inputExtent, outputExtent;
  int64_t inputBytes = 0, outputBytes = 0, inputElements = 0, outputElements = 0;
};

/// A piece of one of the tensors, in the coordinates of the box that it is cut from.
struct Item {
  size_t tensor = 0;
  Box box;
  size_t slot = 0; // offset within a rank's part of the scratch
};

struct ActivityScope {
  ActivityScope(Communicator &comm, int channel, const std::string &what) : comm(comm), channel(channel) {
    comm.setActivity(channel, &what);
  }
  ~ActivityScope() { comm.setActivity(channel, nullptr); }
  Communicator &comm;
  int channel;
};

} // namespace

struct BoxingExecutor::Impl {
  BoxingOptions options;
  BoxingStep step; // of the first tensor
  int64_t rank = 0;
  bool idle = false; // this rank has no part in it
  std::string activity;
  int64_t bytesSent = 0;
  size_t scratchBytes = 0;
  std::vector<LocalTensor> tensors;
  std::vector<int64_t> group; // ranks of this rank's group, ascending
  size_t me = 0;              // in it

  std::vector<BoxingMoves::Copy> copies;
  bool fillFirst = false; // the outputs get the neutral value before the copies
  std::vector<Exchange> exchanges;

  // Ordered sums: reduce step k is exchange k, its sums are sums[k]; the results travel in exchange k + 2.
  bool reduces = false, libraryAllowed = false;
  std::vector<std::vector<Sum>> sums;
  size_t slotsOfRank = 0; // bytes of scratch for one rank's addends of one step
  size_t packOffset = 0;  // where the own addend is packed
  std::vector<const void *> sources;

  Status prepare(const std::vector<BoxingOp> &ops, const std::string &what);
  Status prepareMoves(const std::vector<BoxingOp> &ops);
  Status prepareSums(const std::vector<BoxingOp> &ops, int64_t position);
  /// What each member of the group sums: by member, then step, in pieces that fit the scratch; the same on all members.
  using Items = std::vector<Item>;
  using Pieces = std::vector<std::vector<Items>>;
  Result<Box> pieceOf(const BoxingOp &op, int64_t position, size_t member) const;
  Status cutPieces(const std::vector<BoxingOp> &ops, int64_t position, size_t member, std::vector<Items> *steps);
  CommBlock inputBlock(const Item &item) const;
  /// Addends travel to the member that sums them, results from the member that has summed.
  void planReduce(size_t k, size_t member, const Items &mine, const Items &theirs);
  void planGather(size_t k, size_t member, const Items &mine, const Items &theirs);
  Sum sumOf(const BoxingOp &op, const Item &item, int64_t position) const;
  /// Where a member's addends of step k lie in the scratch: two steps are under way at once.
  size_t addendSlot(size_t k, size_t member) const {
    return (k % 2 * (group.size() - 1) + member - (member > me)) * slotsOfRank;
  }
  Status run(Communicator &comm, int channel, const void *const *inputs, void *const *outputs, char *scratch);
  Status runSums(Communicator &comm, int channel, const void *const *inputs, void *const *outputs, char *scratch);
  Status runLibrary(Communicator &comm, int channel, const void *const *inputs, void *const *outputs, char *scratch);
  void sumStep(size_t k, const void *const *inputs, void *const *outputs, char *scratch);
  static void bind(Exchange &e, const void *const *inputs, void *const *outputs, char *scratch);
  static Status refuse(const BoxingOp &op, const std::string &why) {
    return Status(StatusCode::kInternal, "OPC0726",
                  std::string("boxing ") + boxingKindName(op.step.kind) + " from " + toString(op.step.from) + " to " +
                      toString(op.step.to) + " of " + dataTypeName(op.type) + op.shape.ToString() + ": " + why);
  }
};

Status BoxingExecutor::Impl::prepare(const std::vector<BoxingOp> &ops, const std::string &what) {
  const BoxingOp &first = ops[0];
  step = first.step;
  int64_t total = 0;
  for (const BoxingOp &op : ops) {
    if (op.step.kind != step.kind || op.step.meshDim != step.meshDim || op.step.reduction != step.reduction ||
        op.source != first.source || op.target != first.target)
      return refuse(op, "it is in one bucket with another step");
    if (op.step.kind != BoxingKind::kExchange && op.source != op.target)
      return refuse(op, "source and target are different devices");
    if (op.step.from.size() != op.source.dims.size() || op.step.to.size() != op.target.dims.size())
      return refuse(op, "the states have not one entry for each dimension of the mesh");
    if (op.step.kind != BoxingKind::kExchange &&
        (op.step.meshDim < 0 || op.step.meshDim >= static_cast<int32_t>(op.source.dims.size())))
      return refuse(op, "no dimension " + std::to_string(op.step.meshDim) + " of the mesh");
    LocalTensor t;
    t.type = op.type;
    t.elementSize = GetSizeOfDataType(op.type);
    if (t.elementSize == 0) return refuse(op, "the element type has no size");
    const auto source = op.source.positionOf(rank), target = op.target.positionOf(rank);
    if (source) {
      const Box box = localBox(op.shape, op.step.from, op.source.dims, *source);
      t.inputExtent = box.size, t.inputElements = box.elements();
    }
    if (target) {
      const Box box = localBox(op.shape, op.step.to, op.target.dims, *target);
      t.outputExtent = box.size, t.outputElements = box.elements();
    }
    t.inputBytes = t.inputElements * static_cast<int64_t>(t.elementSize);
    t.outputBytes = t.outputElements * static_cast<int64_t>(t.elementSize);
    total += t.inputBytes;
    bytesSent += opc::bytesSent(op, rank);
    tensors.push_back(std::move(t));
  }
  const auto source = first.source.positionOf(rank), target = first.target.positionOf(rank);
  idle = !source && !target;
  if (step.kind != BoxingKind::kExchange && source) {
    group = ranksOf(first, rank);
    me = static_cast<size_t>(std::find(group.begin(), group.end(), rank) - group.begin());
  }
  activity = boxingKindName(step.kind) + (what.empty() ? std::string() : " of " + what) + ", " + std::to_string(total) +
             " bytes, ";
  if (step.kind == BoxingKind::kExchange) {
    auto sorted = [](std::vector<int64_t> v) {
      std::sort(v.begin(), v.end());
      return v;
    };
    activity += "from ranks " + rankListText(sorted(first.source.ranks)) + " to ranks " +
                rankListText(sorted(first.target.ranks));
  } else {
    activity += (group.size() == 1 ? "on rank " : "with ranks ") + rankListText(group);
  }
  if (idle) return Status::ok();
  reduces = (step.kind == BoxingKind::kAllReduce || step.kind == BoxingKind::kReduceScatter) && group.size() > 1;
  return reduces ? prepareSums(ops, *source) : prepareMoves(ops);
}

Status BoxingExecutor::Impl::prepareMoves(const std::vector<BoxingOp> &ops) {
  BoxingMoves moves = movesOf(ops, rank);
  for (size_t i = 0; i < ops.size(); ++i)
    if (ops[i].target.positionOf(rank) && !moves.fillFirst && moves.covered[i] != tensors[i].outputElements)
      return refuse(ops[i], "rank " + std::to_string(rank) + " gets " + std::to_string(moves.covered[i]) + " of " +
                                std::to_string(tensors[i].outputElements) + " elements");
  copies = std::move(moves.copies);
  fillFirst = moves.fillFirst;
  Exchange e;
  for (BoxingMoves::Message &m : moves.sends) {
    e.sends.push_back({m.rank, std::move(m.block)});
    e.sendPlaces.push_back({Buffer::kInput, m.tensor});
  }
  for (BoxingMoves::Message &m : moves.receives) {
    e.receives.push_back({m.rank, std::move(m.block)});
    e.receivePlaces.push_back({Buffer::kOutput, m.tensor});
  }
  if (!e.empty()) exchanges.push_back(std::move(e));
  return Status::ok();
}

Status BoxingExecutor::Impl::prepareSums(const std::vector<BoxingOp> &ops, int64_t position) {
  const bool all = step.kind == BoxingKind::kAllReduce;
  const size_t p = group.size();
  int64_t total = 0;
  DataType common = ops[0].type;
  for (const BoxingOp &op : ops) {
    float probe[4] = {};
    const void *one = probe;
    if (!combineInOrder(probe, &one, 1, 0, op.type, step.reduction)) return refuse(op, "the type has no sums");
    if (op.type != common) common = kInvalidDataType;
  }
  for (const LocalTensor &t : tensors) total += t.inputBytes;
  libraryAllowed = all && common != kInvalidDataType && total < options.libraryBelow &&
                   (!options.deterministic || isOrderFree(common, step.reduction, p));

  Pieces pieces(p);
  size_t steps = 0;
  for (size_t m = 0; m < p; ++m) {
    OPC_RETURN_IF_ERROR(cutPieces(ops, position, m, &pieces[m]));
    steps = std::max(steps, pieces[m].size());
  }
  packOffset = 2 * slotsOfRank * (p - 1);
  exchanges.resize(steps + (all ? 2 : 0));
  sums.resize(steps);
  bool packs = false;
  for (size_t k = 0; k < steps; ++k) {
    for (size_t m = 0; m < p; ++m) {
      if (m == me) continue;
      const auto itemsOf = [&](size_t member) { return k < pieces[member].size() ? pieces[member][k] : Items(); };
      planReduce(k, m, itemsOf(me), itemsOf(m));
      if (all) planGather(k, m, itemsOf(me), itemsOf(m));
    }
    if (k < pieces[me].size())
      for (const Item &item : pieces[me][k]) {
        sums[k].push_back(sumOf(ops[item.tensor], item, position));
        packs |= !sums[k].back().ownIsContiguous;
      }
  }
  sources.resize(p);
  scratchBytes = packOffset + (packs ? slotsOfRank : 0);
  if (libraryAllowed) scratchBytes = std::max(scratchBytes, aligned(static_cast<size_t>(total)));
  return Status::ok();
}

Result<Box> BoxingExecutor::Impl::pieceOf(const BoxingOp &op, int64_t position, size_t member) const {
  const Placement &mesh = op.source;
  const Box from = localBox(op.shape, op.step.from, mesh.dims, position);
  const int64_t there = *mesh.positionOf(group[member]);
  if (step.kind == BoxingKind::kAllReduce)
    return localBox(Shape({from.elements()}), {SbpParallel::split(0)}, {static_cast<int64_t>(group.size())},
                    mesh.coordinates(there)[static_cast<size_t>(step.meshDim)]);
  const Box to = localBox(op.shape, op.step.to, mesh.dims, there);
  if (!(intersect(to, from) == to) && to.elements() > 0)
    return refuse(op, "a piece of the result lies outside what the ranks hold");
  return relative(to, from.begin);
}

Status BoxingExecutor::Impl::cutPieces(const std::vector<BoxingOp> &ops, int64_t position, size_t member,
                                       std::vector<Items> *steps) {
  const int64_t room =
      std::max(options.leastPiece, options.scratchTarget / static_cast<int64_t>(2 * (group.size() - 1)) /
                                       static_cast<int64_t>(kAlignment) * static_cast<int64_t>(kAlignment));
  std::vector<Box> cut;
  size_t used = 0;
  for (size_t i = 0; i < ops.size(); ++i) {
    const auto elementSize = static_cast<int64_t>(tensors[i].elementSize);
    OPC_ASSIGN_OR_RETURN(const Box piece, pieceOf(ops[i], position, member));
    cut.clear();
    cutBox(piece, std::max<int64_t>(1, room / elementSize), cut);
    for (Box &box : cut) {
      const auto bytes = static_cast<size_t>(box.elements() * elementSize);
      if (steps->empty() || used + bytes > static_cast<size_t>(room)) {
        steps->emplace_back();
        used = 0;
      }
      steps->back().push_back({i, std::move(box), used});
      used = aligned(used + bytes);
      if (member == me) slotsOfRank = std::max(slotsOfRank, used);
    }
  }
  return Status::ok();
}

CommBlock BoxingExecutor::Impl::inputBlock(const Item &item) const {
  const LocalTensor &t = tensors[item.tensor];
  const bool all = step.kind == BoxingKind::kAllReduce;
  return CommBlock{nullptr, all ? std::vector<int64_t>{t.inputElements} : t.inputExtent, item.box, t.elementSize};
}

void BoxingExecutor::Impl::planReduce(size_t k, size_t member, const Items &mine, const Items &theirs) {
  Exchange &reduce = exchanges[k];
  for (const Item &item : theirs) {
    reduce.sends.push_back({group[member], inputBlock(item)});
    reduce.sendPlaces.push_back({Buffer::kInput, item.tensor});
  }
  for (const Item &item : mine) {
    const int64_t n = item.box.elements();
    reduce.receives.push_back(
        {group[member], CommBlock{nullptr, {n}, Box{{0}, {n}}, tensors[item.tensor].elementSize}});
    reduce.receivePlaces.push_back({Buffer::kScratch, addendSlot(k, member) + item.slot});
  }
}

void BoxingExecutor::Impl::planGather(size_t k, size_t member, const Items &mine, const Items &theirs) {
  Exchange &gather = exchanges[k + 2];
  for (const Item &item : mine) {
    gather.sends.push_back({group[member], inputBlock(item)});
    gather.sendPlaces.push_back({Buffer::kOutput, item.tensor});
  }
  for (const Item &item : theirs) {
    gather.receives.push_back({group[member], inputBlock(item)});
    gather.receivePlaces.push_back({Buffer::kOutput, item.tensor});
  }
}

Sum BoxingExecutor::Impl::sumOf(const BoxingOp &op, const Item &item, int64_t position) const {
  const LocalTensor &t = tensors[item.tensor];
  Sum s;
  s.tensor = item.tensor, s.elements = item.box.elements(), s.slot = item.slot, s.own = inputBlock(item);
  const BlockRuns runs(s.own);
  s.ownIsContiguous = runs.contiguous();
  s.ownOffset = static_cast<size_t>(runs.offset());
  s.outputOffset = s.ownOffset;
  if (step.kind == BoxingKind::kAllReduce) return s;
  // The output is this rank's piece of the input, and the item is consecutive in it.
  const Box to = localBox(op.shape, op.step.to, op.source.dims, position);
  const Box from = localBox(op.shape, op.step.from, op.source.dims, position);
  Box inPiece = relative(item.box, relative(to, from.begin).begin);
  const CommBlock out{nullptr, t.outputExtent, std::move(inPiece), t.elementSize};
  s.outputOffset = static_cast<size_t>(BlockRuns(out).offset());
  return s;
}

void BoxingExecutor::Impl::bind(Exchange &e, const void *const *inputs, void *const *outputs, char *scratch) {
  const auto base = [&](const Place &p) -> void * {
    switch (p.buffer) {
    case Buffer::kInput: return const_cast<void *>(inputs[p.index]); // only read
    case Buffer::kOutput: return outputs[p.index];
    case Buffer::kScratch: break;
    }
    return scratch + p.index;
  };
  for (size_t i = 0; i < e.sends.size(); ++i) e.sends[i].block.base = base(e.sendPlaces[i]);
  for (size_t i = 0; i < e.receives.size(); ++i) e.receives[i].block.base = base(e.receivePlaces[i]);
}

Status BoxingExecutor::Impl::run(Communicator &comm, int channel, const void *const *inputs, void *const *outputs,
                                 char *scratch) {
  if (idle) return Status::ok();
  const ActivityScope scope(comm, channel, activity);
  if (reduces)
    return libraryAllowed && comm.canAllReduce(tensors[0].type) ? runLibrary(comm, channel, inputs, outputs, scratch)
                                                                : runSums(comm, channel, inputs, outputs, scratch);
  if (!exchanges.empty()) {
    bind(exchanges[0], inputs, outputs, scratch);
    OPC_RETURN_IF_ERROR(comm.startExchange(channel, exchanges[0].sends, exchanges[0].receives));
  }
  if (fillFirst)
    for (size_t i = 0; i < tensors.size(); ++i)
      fillNeutral(outputs[i], tensors[i].outputElements, tensors[i].type, step.reduction);
  for (BoxingMoves::Copy &c : copies) {
    c.from.base = const_cast<void *>(inputs[c.tensor]); // only read
    c.to.base = outputs[c.tensor];
    if (c.from.base != c.to.base) copyBlock(c.from, c.to);
  }
  return exchanges.empty() ? Status::ok() : comm.finishExchange(channel);
}

void BoxingExecutor::Impl::sumStep(size_t k, const void *const *inputs, void *const *outputs, char *scratch) {
  for (Sum &s : sums[k]) {
    const char *input = static_cast<const char *>(inputs[s.tensor]) + s.ownOffset;
    if (!s.ownIsContiguous) {
      s.own.base = const_cast<void *>(inputs[s.tensor]); // only read
      char *packed = scratch + packOffset + s.slot;
      copyBlock(s.own, CommBlock{packed, {s.elements}, Box{{0}, {s.elements}}, s.own.elementSize});
      input = packed;
    }
    for (size_t m = 0; m < group.size(); ++m) sources[m] = m == me ? input : scratch + addendSlot(k, m) + s.slot;
    combineInOrder(static_cast<char *>(outputs[s.tensor]) + s.outputOffset, sources.data(), sources.size(), s.elements,
                   tensors[s.tensor].type, step.reduction);
  }
}

Status BoxingExecutor::Impl::runSums(Communicator &comm, int channel, const void *const *inputs, void *const *outputs,
                                     char *scratch) {
  const size_t steps = sums.size(), count = exchanges.size();
  const auto start = [&](size_t e) -> Status {
    if (e >= count || exchanges[e].empty()) return Status::ok();
    bind(exchanges[e], inputs, outputs, scratch);
    return comm.startExchange(channel, exchanges[e].sends, exchanges[e].receives);
  };
  const auto finish = [&](size_t e) -> Status {
    return e >= count || exchanges[e].empty() ? Status::ok() : comm.finishExchange(channel);
  };
  OPC_RETURN_IF_ERROR(start(0));
  for (size_t k = 0; k < std::max(steps, count); ++k) {
    OPC_RETURN_IF_ERROR(finish(k));
    // The results of step k travel in exchange k + 2, so the next exchange can start before the sums are made.
    OPC_RETURN_IF_ERROR(start(k + 1));
    if (k < steps) sumStep(k, inputs, outputs, scratch);
  }
  return Status::ok();
}

Status BoxingExecutor::Impl::runLibrary(Communicator &comm, int channel, const void *const *inputs,
                                        void *const *outputs, char *scratch) {
  int64_t count = 0;
  char *at = scratch;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].inputBytes == 0) continue; // perhaps no memory at all
    std::memcpy(at, inputs[i], static_cast<size_t>(tensors[i].inputBytes));
    at += tensors[i].inputBytes;
    count += tensors[i].inputElements;
  }
  OPC_RETURN_IF_ERROR(comm.allReduce(channel, group, scratch, count, tensors[0].type, step.reduction));
  at = scratch;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (tensors[i].outputBytes == 0) continue;
    std::memcpy(outputs[i], at, static_cast<size_t>(tensors[i].outputBytes));
    at += tensors[i].outputBytes;
  }
  return Status::ok();
}

BoxingExecutor::BoxingExecutor(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BoxingExecutor::BoxingExecutor(BoxingExecutor &&) = default;
BoxingExecutor &BoxingExecutor::operator=(BoxingExecutor &&) = default;
BoxingExecutor::~BoxingExecutor() = default;

Result<BoxingExecutor> BoxingExecutor::create(std::vector<BoxingOp> ops, int64_t rank, const std::string &what,
                                              const BoxingOptions &options) {
  if (ops.empty()) return Status(StatusCode::kInternal, "OPC0726", "a boxing step without a tensor");
  auto impl = std::make_unique<Impl>();
  impl->options = options;
  impl->rank = rank;
  OPC_RETURN_IF_ERROR(impl->prepare(ops, what));
  return BoxingExecutor(std::move(impl));
}

size_t BoxingExecutor::scratchBytes() const { return impl_->scratchBytes; }
int64_t BoxingExecutor::inputBytes(size_t tensor) const { return impl_->tensors[tensor].inputBytes; }
int64_t BoxingExecutor::outputBytes(size_t tensor) const { return impl_->tensors[tensor].outputBytes; }
const std::string &BoxingExecutor::activity() const { return impl_->activity; }
int64_t BoxingExecutor::bytesSent() const { return impl_->bytesSent; }

Status BoxingExecutor::run(Communicator &comm, int channel, const void *const *inputs, void *const *outputs,
                           void *scratch) {
  return impl_->run(comm, channel, inputs, outputs, static_cast<char *>(scratch));
}

Status runBoxing(Communicator &comm, int channel, const BoxingOp &op, const void *input, void *output,
                 const BoxingOptions &options) {
  OPC_ASSIGN_OR_RETURN(BoxingExecutor executor, BoxingExecutor::create({op}, comm.rank(), "", options));
  std::vector<char> memory(executor.scratchBytes() + kAlignment);
  const size_t address = reinterpret_cast<size_t>(memory.data());
  return executor.run(comm, channel, &input, &output, memory.data() + (aligned(address) - address));
}

} // namespace opc::runtime
