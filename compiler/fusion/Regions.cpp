// Groups of elementwise ops: who may join whom.
// SPDX-License-Identifier: Apache-2.0
#include "Regions.h"
#include "AttrBridge.h"
#include "Graph.h"
#include "LoopGraph.h"
#include "Schedule.h"

#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <tuple>

using namespace mlir;

namespace opc {
namespace {

// A loop reads and writes this many tensors at most: more of them leave too few elements of each in the first cache.
constexpr size_t kMaxTensors = 16;
constexpr size_t kMaxSteps = 64;
// Ops further apart in the order of execution than this are not joined: what lies between them would wait.
constexpr size_t kReach = 256;
// Tasks that may be put in order for joins that are tried once more.
constexpr size_t kSecondBudget = 100'000;

using Refusal = std::optional<FusionReason>;

TaskGraph taskGraphOf(const LoopGraph &g, const std::vector<OpOrder> &orders) {
  TaskGraph graph = makeTaskGraph(g.ops, orders, [&](uint32_t op) { return g.overwrites[op]; });
  for (uint32_t op = 0; op < g.ops.size(); ++op) {
    graph.tasks[op].goesByRows = g.rows[op] != nullptr;
    graph.tasks[op].moves = g.isMove(op);
    graph.tasks[op].workspace = g.workspaces[op];
    graph.tasks[op].partBytes = g.partBytes[op];
  }
  return graph;
}

/// Whether there are two ops that one loop could compute.
bool hasPair(const LoopGraph &g) {
  for (uint32_t op = 0; op < g.ops.size(); ++op)
    if (g.keys[op])
      for (Value v : g.ops[op]->getOperands())
        if (auto p = g.loopThatMakes(v); p && together(g.keys[*p], g.keys[op])) return true;
  return false;
}

/// Groups of ops in an order of execution, each named by its leader.
class OpGroups {
protected:
  OpGroups(Block &block, const Registry &registry, DeviceType device)
      : block_(block), g_(block, registry, device), groupKeys_(g_.keys) {}

  const std::vector<uint32_t> &membersOf(uint32_t leader) const { return joins_[groups_[leader]].members; }

  uint32_t leaderAt(uint32_t op) const { return op == LoopGraph::kOutside ? kGone : leader_[op]; }
  uint32_t leaderOf(Operation *op) const {
    auto it = indexOf_.find(op);
    return it == indexOf_.end() ? kGone : leader_[it->second];
  }

  /// Bytes of the activations among `in` that nobody but these ops reads: what ends when they have run.
  int64_t dying(const ValueSet &in, llvm::function_ref<bool(Operation *)> inside) const {
    int64_t bytes = 0;
    for (Value v : in)
      if (indexOf_.count(v.getDefiningOp()) && llvm::all_of(v.getUsers(), inside)) bytes += ir::bytesOf(v);
    return bytes;
  }
  /// Bytes of the activations among `in` that nobody else reads after position `at`: what lives longer if these ops run
  /// there.
  int64_t kept(const ValueSet &in, llvm::function_ref<bool(Operation *)> inside, size_t at) const {
    int64_t bytes = 0;
    for (Value v : in) {
      auto isLater = [&](Operation *user) {
        auto it = indexOf_.find(user);
        return !inside(user) && (it == indexOf_.end() || position_[leader_[it->second]] > at);
      };
      if (indexOf_.count(v.getDefiningOp()) && llvm::none_of(v.getUsers(), isLater)) bytes += ir::bytesOf(v);
    }
    return bytes;
  }
  /// Whether no more memory is alive between the two than before: where `a` waits for what `b` needs besides, and where
  /// `b` runs before what reads `a`.
  bool keepsMemory(uint32_t a, uint32_t b, bool waits, bool hastens) const {
    const auto tensors = [&](uint32_t group, ValueSet *in, ValueSet *out) {
      g_.tensors(membersOf(group), [&](uint32_t op) { return leaderAt(op) == group; }, in, out);
    };
    if (waits) {
      ValueSet in, out;
      tensors(a, &in, &out);
      const auto inA = [&](Operation *op) { return leaderOf(op) == a; };
      if (kept(in, inA, position_[b]) > bytesOf(out)) return false;
    }
    if (hastens) {
      ValueSet in, out;
      tensors(b, &in, &out);
      const auto inB = [&](Operation *op) { return leaderOf(op) == b; };
      if (dying(in, inB) < bytesOf(out)) return false;
    }
    return true;
  }

  void accept(uint32_t a, uint32_t b, std::vector<uint32_t> members, size_t from, size_t to,
              const std::vector<uint32_t> &ahead, const std::vector<uint32_t> &after) {
    for (uint32_t m : members) leader_[m] = b;
    joins_.push_back({std::move(members), static_cast<int32_t>(groups_[a]), static_cast<int32_t>(groups_[b])});
    groups_[b] = static_cast<uint32_t>(joins_.size() - 1);
    std::vector<uint32_t> order = ahead;
    order.push_back(b);
    order.insert(order.end(), after.begin(), after.end());
    size_t at = to + 1; // what is gone leaves its place at the front
    for (uint32_t g : llvm::reverse(order)) {
      sequence_[--at] = g;
      position_[g] = at;
    }
    while (at > from) sequence_[--at] = kGone;
  }

  std::vector<uint32_t> regionsInOrder() const {
    std::vector<uint32_t> regions;
    for (uint32_t leader : sequence_)
      if (leader != kGone) regions.push_back(groups_[leader]);
    return regions;
  }
  /// Makes the groups those of `regions`, which follow each other in an order of execution.
  void restart(const std::vector<uint32_t> &regions) {
    sequence_.clear();
    for (uint32_t r : regions) {
      const uint32_t leader = joins_[r].members.back();
      position_[leader] = sequence_.size();
      sequence_.push_back(leader);
      groups_[leader] = r;
      groupKeys_[leader] = keyOf(r);
      for (uint32_t m : joins_[r].members) leader_[m] = leader;
    }
    sequence_.resize(ops_.size(), kGone);
  }
  LoopKey keyOf(uint32_t join) const {
    const RegionJoin &j = joins_[join];
    return j.first < 0 ? keys_[j.members[0]]
                       : together(keyOf(static_cast<uint32_t>(j.first)), keyOf(static_cast<uint32_t>(j.second)));
  }
  static constexpr uint32_t kGone = UINT32_MAX;
  Block &block_;
  LoopGraph g_;
  const std::vector<Operation *> &ops_ = g_.ops;
  const llvm::DenseMap<Operation *, uint32_t> &indexOf_ = g_.indexOf;
  const std::vector<LoopKey> &keys_ = g_.keys;
  std::vector<LoopKey> groupKeys_; // by leader
  std::vector<RegionJoin> joins_;  // the ops, then what was joined of them
  std::vector<uint32_t> leader_;   // by op: the leader of its group
  std::vector<uint32_t> groups_;   // by leader: its join
  std::vector<uint32_t> sequence_; // leaders in an order of execution
  std::vector<size_t> position_;   // by leader
};

class RegionFormer : OpGroups {
public:
  RegionFormer(ModuleOp module, const Registry &registry, DeviceType device, FusionFacts *facts)
      : OpGroups(graphBlock(module), registry, device), facts_(facts) {}

  LogicalResult run() {
    std::vector<uint32_t> regions;
    if (hasPair(g_)) {
      if (failed(order())) return failure();
      for (uint32_t op = 0; op < ops_.size(); ++op)
        if (keys_[op]) join(op);
      graph_ = taskGraphOf(g_, orders_);
      joined_.emplace(graph_, joins_, rank_);
      if (joins_.size() > ops_.size()) regions = keepPeak(regionsInOrder());
      if (tryAgain(regions)) regions = keepPeak(regionsInOrder());
    }
    if (facts_) describeRegions(g_, joins_, regions, refused_, facts_);
    // Without a region the ops keep their own order, which may be the better one.
    if (llvm::any_of(regions, [&](uint32_t r) { return joins_[r].first >= 0; }))
      writeRegions(block_, &g_, joins_, regions);
    return writeAlone(&g_), success();
  }

private:
  /// The edges of the graph, those of its data and those beside them, and an order that follows all of them.
  LogicalResult order() {
    auto orders = taskOrders(ops_);
    if (!orders) return failure();
    orders_ = std::move(*orders);
    before_.resize(ops_.size());
    std::vector<std::vector<uint32_t>> after(ops_.size());
    std::vector<uint32_t> pending(ops_.size(), 0);
    auto edge = [&](uint32_t from, uint32_t to) {
      before_[to].push_back(from);
      after[from].push_back(to);
      ++pending[to];
    };
    for (uint32_t op = 0; op < ops_.size(); ++op)
      for (Value v : ops_[op]->getOperands())
        if (auto it = indexOf_.find(v.getDefiningOp()); it != indexOf_.end()) edge(it->second, op);
    for (const auto &[first, second] : orders_) edge(first, second);
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;
    for (uint32_t op = 0; op < ops_.size(); ++op)
      if (pending[op] == 0) ready.push(op);
    position_.resize(ops_.size());
    leader_.resize(ops_.size());
    groups_.resize(ops_.size());
    joins_.resize(ops_.size());
    while (!ready.empty()) {
      const uint32_t op = ready.top();
      ready.pop();
      position_[op] = sequence_.size();
      leader_[op] = op;
      groups_[op] = op;
      joins_[op].members = {op};
      sequence_.push_back(op);
      for (uint32_t next : after[op])
        if (--pending[next] == 0) ready.push(next);
    }
    rank_ = position_;
    return success(sequence_.size() == ops_.size());
  }

  /// Tries to join an op's group with those of its producers, the nearest first.
  void join(uint32_t op) {
    std::vector<uint32_t> producers;
    for (Value v : ops_[op]->getOperands())
      if (auto p = g_.loopThatMakes(v)) producers.push_back(*p);
    std::sort(producers.begin(), producers.end(),
              [&](uint32_t a, uint32_t b) { return position_[leader_[a]] > position_[leader_[b]]; });
    for (uint32_t p : producers)
      if (leader_[p] != leader_[op]) {
        if (const Refusal why = tryJoin(leader_[p], leader_[op])) {
          refused_[{p, op}] = *why;
          if (g_.isMove(p) && !joinReaders(p, op)) leftMoves_ = true;
        } else if (g_.isMove(p)) {
          joinBehind(p);
        }
      }
    if (leftMoves_) joinLeft(op);
  }
  /// An op that moves elements for several others, of which `op` is the last: they are joined, and it with them. No
  /// join of two of them alone would do, as its result would have to be written for the others.
  bool joinReaders(uint32_t move, uint32_t op) {
    const Value moved = ops_[move]->getResult(0);
    const auto mayBe = [&](Operation *user) {
      const auto it = indexOf_.find(user);
      return it != indexOf_.end() && keys_[it->second] && it->second <= op;
    };
    if (moved.hasOneUse() || !llvm::all_of(moved.getUsers(), mayBe)) return false;
    if ((spent_ += ops_.size()) > kSecondBudget) return false;
    const auto before = std::tuple(groupKeys_, leader_, groups_, sequence_, position_);
    const size_t joins = joins_.size();
    const bool areJoined = llvm::all_of(moved.getUsers(), [&](Operation *user) {
      const uint32_t leader = leaderOf(user);
      return leader == leader_[op] || !tryJoin(leader, leader_[op]);
    });
    if (!areJoined || tryJoin(leader_[move], leader_[op])) {
      std::tie(groupKeys_, leader_, groups_, sequence_, position_) = before;
      joins_.resize(joins);
      return false;
    }
    for (Operation *user : moved.getUsers()) refused_.erase({move, indexOf_.lookup(user)});
    joinBehind(move);
    return true;
  }
  /// Ops that move elements for several others, which were in different groups when each was looked at and are in that
  /// of `op` now.
  void joinLeft(uint32_t op) {
    const std::vector<uint32_t> members = membersOf(leader_[op]);
    for (uint32_t m : members)
      for (Value v : ops_[m]->getOperands()) {
        const auto p = g_.loopThatMakes(v);
        if (!p || !g_.isMove(*p) || leader_[*p] == leader_[op]) continue;
        const auto isHere = [&](Operation *user) { return leaderOf(user) == leader_[op]; };
        if (!llvm::all_of(v.getUsers(), isHere) || tryJoin(leader_[*p], leader_[op])) continue;
        for (Operation *user : v.getUsers()) refused_.erase({*p, indexOf_.lookup(user)});
        joinBehind(*p);
      }
  }
  /// An op that moves elements has come into a group that computes something of them: now those that it reads may.
  void joinBehind(uint32_t move) {
    for (Value v : ops_[move]->getOperands()) {
      const auto p = g_.loopThatMakes(v);
      if (!p || leader_[*p] == leader_[move]) continue;
      if (const Refusal why = tryJoin(leader_[*p], leader_[move])) {
        refused_[{*p, move}] = *why;
      } else {
        refused_.erase({*p, move});
        if (g_.isMove(*p)) joinBehind(*p);
      }
    }
  }

  /// Group `a` makes what group `b` reads. Nothing when they are joined.
  Refusal tryJoin(uint32_t a, uint32_t b) {
    const size_t from = position_[a], to = position_[b];
    if (from >= to) return FusionReason::kCycle;
    if (to - from > kReach) return FusionReason::kDistance;
    const LoopKey key = together(groupKeys_[a], groupKeys_[b]);
    if (!key) return key.reason;
    std::vector<uint32_t> members = membersOf(a);
    members.insert(members.end(), membersOf(b).begin(), membersOf(b).end());
    if (members.size() > kMaxSteps) return FusionReason::kOps;
    std::sort(members.begin(), members.end());
    const auto inside = [&](uint32_t op) {
      const uint32_t leader = leaderAt(op);
      return leader == a || leader == b;
    };
    ValueSet in, out;
    if (!g_.tensors(members, inside, &in, &out, kMaxTensors)) return FusionReason::kTensors;
    if (out.empty())
      return FusionReason::kUnread; // an op that draws stays though nobody reads it: no loop is of it alone
    if (const Refusal unfit = g_.unfit(key, members, in, out)) return unfit;
    // What stands between them: that which needs `a` comes after both, all else before.
    std::vector<uint32_t> after, ahead;
    llvm::SmallDenseSet<uint32_t, 16> needsA{a}, neededByB;
    auto dependsOn = [&](uint32_t group, const llvm::SmallDenseSet<uint32_t, 16> &set) {
      return llvm::any_of(membersOf(group), [&](uint32_t m) {
        return llvm::any_of(before_[m], [&](uint32_t p) { return leader_[p] != group && set.count(leader_[p]); });
      });
    };
    bool boxingAfter = false, boxingAhead = false;
    for (size_t i = from + 1; i < to; ++i) {
      const uint32_t g = sequence_[i];
      if (g == kGone) continue;
      if (dependsOn(g, needsA)) {
        needsA.insert(g);
        after.push_back(g);
        boxingAfter |= isa<ir::BoxingOp>(ops_[g]);
      } else
        ahead.push_back(g);
    }
    needsA.erase(a);
    if (dependsOn(b, needsA)) return FusionReason::kCycle;
    for (uint32_t m : membersOf(b))
      for (uint32_t p : before_[m]) neededByB.insert(leader_[p]);
    for (uint32_t g : llvm::reverse(ahead)) {
      if (!neededByB.count(g)) continue;
      boxingAhead |= isa<ir::BoxingOp>(ops_[g]);
      for (uint32_t m : membersOf(g))
        for (uint32_t p : before_[m]) neededByB.insert(leader_[p]);
    }
    const bool waits = llvm::any_of(ahead, [&](uint32_t g) { return neededByB.count(g); });
    if (boxingAfter || boxingAhead) return FusionReason::kRank; // another would wait, or this one before it starts
    if (!exact_ && !keepsMemory(a, b, waits, !after.empty())) return FusionReason::kMemory;
    accept(a, b, std::move(members), from, to, ahead, after);
    groupKeys_[b] = key;
    return std::nullopt;
  }

  bool ownOrderFits() const {
    return llvm::all_of(orders_, [](const OpOrder &o) { return o.first < o.second; });
  }
  /// The groups that leave the peak of memory as it is, in order.
  std::vector<uint32_t> keepPeak(std::vector<uint32_t> regions) {
    return opc::keepPeak(graph_, joins_, &*joined_, std::move(regions), ownOrderFits());
  }

  /// Joins that the peak has undone beside others, or that looked as if they kept more alive: each is tried by itself,
  /// and stays if the graph needs no more memory. Returns whether one did.
  bool tryAgain(const std::vector<uint32_t> &regions) {
    if (!regions.empty()) restart(regions);
    exact_ = true;
    std::optional<uint64_t> allowed;
    size_t spent = 0;
    bool found = false;
    for (uint32_t op = 0; op < ops_.size(); ++op)
      for (Value v : ops_[op]->getOperands()) {
        const auto p = g_.loopThatMakes(v);
        if (!p || !keys_[op] || leader_[*p] == leader_[op]) continue;
        const auto why = refused_.find({*p, op});
        if (why != refused_.end() && why->second != FusionReason::kMemory) continue;
        if ((spent += ops_.size()) > kSecondBudget) return found;
        const auto before = std::tuple(groupKeys_, leader_, groups_, sequence_, position_);
        const size_t joins = joins_.size();
        if (tryJoin(leader_[*p], leader_[op])) continue;
        if (!allowed) allowed = leastPeak(graph_, ownOrderFits());
        if (leastPeak(joined_->contract(regionsInOrder()), true) <= *allowed) {
          refused_.erase({*p, op});
          found = true;
          continue;
        }
        std::tie(groupKeys_, leader_, groups_, sequence_, position_) = before;
        joins_.resize(joins);
        joined_->forget(joins);
      }
    return found;
  }
  FusionFacts *const facts_;                                      // null: nobody asks
  std::vector<OpOrder> orders_;                                   // edges beside those of the data
  std::vector<std::vector<uint32_t>> before_;                     // by op: ops that must run before it
  std::vector<size_t> rank_;                                      // by op: its place in an order of execution
  TaskGraph graph_;                                               // the ops
  std::optional<JoinedTasks> joined_;                             // their regions
  bool exact_ = false;                                            // the peak is looked at for each join
  bool leftMoves_ = false;                                        // some that move elements were not joined
  size_t spent_ = 0;                                              // tasks that were looked at for those
  std::map<std::pair<uint32_t, uint32_t>, FusionReason> refused_; // producer and reader: why they were not joined
};

} // namespace

LogicalResult formRegions(ModuleOp module, const Registry &registry, DeviceType device, FusionFacts *facts) {
  return RegionFormer(module, registry, device, facts).run();
}

void formSingleRegions(ModuleOp module, const Registry &registry) {
  LoopGraph graph(graphBlock(module), registry, DeviceType::kGPU);
  writeAlone(&graph);
}

} // namespace opc
