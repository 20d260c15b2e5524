// Which node of one graph is which of another.
// SPDX-License-Identifier: Apache-2.0
#include "GraphMatch.h"

#include "MatchByPlace.h"
#include "NodeHashes.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <tuple>
#include <utility>

namespace opc {
namespace {

constexpr size_t kCandidates = 32; // of one node: beyond, a choice is no better
constexpr int kRounds = 8;
constexpr int kLeastScore = 3;

using Key = std::pair<std::string_view, std::string_view>; // kind or type, name

class Matcher {
public:
  Matcher(const FactNodes &a, const FactNodes &b) : a_(a), b_(b) {
    match_.ofA.assign(a.size(), -1);
    match_.ofB.assign(b.size(), -1);
    match_.byB.assign(b.size(), MatchedBy::kNothing);
  }

  GraphMatch run() {
    pairPorts();
    exact_ = {hashNodes(a_, anchorsA_, true), hashNodes(b_, anchorsB_, true)};
    loose_ = {hashNodes(a_, anchorsA_, false), hashNodes(b_, anchorsB_, false)};
    pairNames();
    for (const Hashes *h : {&exact_, &loose_}) pairEqual(h->a.full, h->b.full, true);
    for (const Hashes *h : {&exact_, &loose_}) {
      pairEqual(h->a.up, h->b.up, false);
      pairEqual(h->a.down, h->b.down, false);
    }
    pairNeighbours();
    pairNamesAlone();
    pairByPlace(a_, b_, &match_);
    return std::move(match_);
  }

private:
  struct Hashes {
    NodeHashes a, b;
  };

  bool isFree(uint32_t a, uint32_t b) const { return match_.ofA[a] < 0 && match_.ofB[b] < 0; }
  bool arePaired(int32_t a, int32_t b) const { return a >= 0 && b >= 0 && match_.ofA[static_cast<size_t>(a)] == b; }
  bool sameKind(uint32_t a, uint32_t b) const {
    return a_.nodes[a].kind == b_.nodes[b].kind && a_.nodes[a].type == b_.nodes[b].type;
  }
  void pair(uint32_t a, uint32_t b, MatchedBy by) {
    match_.ofA[a] = static_cast<int32_t>(b);
    match_.ofB[b] = static_cast<int32_t>(a);
    match_.byB[b] = by;
  }

  void pairPorts() {
    anchorsA_.resize(a_.size());
    anchorsB_.resize(b_.size());
    std::map<Key, uint32_t> byName;
    for (uint32_t n = 0; n < a_.size(); ++n)
      if (a_.nodes[n].kind != NodeKind::kOp) byName.try_emplace({a_.nodes[n].type, a_.nodes[n].name}, n);
    for (uint32_t n = 0; n < b_.size(); ++n) {
      if (b_.nodes[n].kind == NodeKind::kOp) continue;
      const auto found = byName.find({b_.nodes[n].type, b_.nodes[n].name});
      if (found == byName.end() || !isFree(found->second, n)) continue;
      pair(found->second, n, MatchedBy::kName);
      anchorsA_[found->second] = anchorsB_[n] = b_.nodes[n].name;
    }
  }

  /// Names are numbered anew by many tools when an op is added, so a name alone is no proof.
  void pairNames() {
    std::map<Key, uint32_t> byName;
    for (uint32_t n = 0; n < a_.size(); ++n)
      if (a_.nodes[n].kind == NodeKind::kOp) byName.try_emplace({a_.nodes[n].type, a_.nodes[n].name}, n);
    for (uint32_t n = 0; n < b_.size(); ++n) {
      if (b_.nodes[n].kind != NodeKind::kOp) continue;
      const auto found = byName.find({b_.nodes[n].type, b_.nodes[n].name});
      if (found == byName.end() || !isFree(found->second, n)) continue;
      if (agrees(exact_, found->second, n) || agrees(loose_, found->second, n))
        pair(found->second, n, MatchedBy::kName);
    }
  }
  bool agrees(const Hashes &h, uint32_t a, uint32_t b) const {
    const bool alone = a_.nodes[a].operands.empty() && a_.nodes[a].readers.empty();
    return alone || (!b_.nodes[b].operands.empty() && h.a.up[a] == h.b.up[b]) ||
           (!b_.nodes[b].readers.empty() && h.a.down[a] == h.b.down[b]);
  }

  /// Pairs free nodes of equal hashes. A hash that several have decides when `several`, which needs hashes of the whole
  /// neighbourhood.
  void pairEqual(const std::vector<uint64_t> &ofA, const std::vector<uint64_t> &ofB, bool several) {
    std::vector<std::pair<uint64_t, uint32_t>> inA, inB;
    for (uint32_t n = 0; n < a_.size(); ++n)
      if (match_.ofA[n] < 0) inA.push_back({ofA[n], n});
    for (uint32_t n = 0; n < b_.size(); ++n)
      if (match_.ofB[n] < 0) inB.push_back({ofB[n], n});
    std::sort(inA.begin(), inA.end());
    std::sort(inB.begin(), inB.end());
    struct Bucket {
      size_t a, endA, b, endB;
    };
    std::vector<Bucket> open;
    const auto endOf = [](const auto &list, size_t i) {
      size_t end = i;
      while (end < list.size() && list[end].first == list[i].first) ++end;
      return end;
    };
    for (size_t i = 0, j = 0; i < inA.size() && j < inB.size();) {
      if (inA[i].first != inB[j].first) {
        inA[i].first < inB[j].first ? ++i : ++j;
        continue;
      }
      const Bucket bucket = {i, endOf(inA, i), j, endOf(inB, j)};
      i = bucket.endA;
      j = bucket.endB;
      if (bucket.endA - bucket.a == 1 && bucket.endB - bucket.b == 1)
        pairAndSpread(inA[bucket.a].second, inB[bucket.b].second, ofA, ofB);
      else
        open.push_back(bucket);
    }
    if (!several) return;
    // In the order of b: what is equal in everything is told apart by position.
    std::sort(open.begin(), open.end(),
              [&](const Bucket &x, const Bucket &y) { return inB[x.b].second < inB[y.b].second; });
    for (const Bucket &bucket : open) {
      size_t from = bucket.a;
      for (size_t j = bucket.b; j < bucket.endB; ++j) {
        const uint32_t b = inB[j].second;
        while (from < bucket.endA && match_.ofA[inA[from].second] >= 0) ++from;
        if (from == bucket.endA) break;
        if (match_.ofB[b] >= 0) continue;
        uint32_t best = inA[from].second;
        int most = score(best, b);
        for (size_t i = from + 1, tried = 0; i < bucket.endA && tried < kCandidates; ++i, ++tried) {
          const uint32_t a = inA[i].second;
          if (match_.ofA[a] >= 0) continue;
          if (const int s = score(a, b); s > most) std::tie(best, most) = std::make_pair(a, s);
        }
        pairAndSpread(best, b, ofA, ofB);
      }
    }
  }

  /// Pairs two nodes, and then those of their neighbours that have equal hashes: parts of a graph that are equal to one
  /// another are matched part by part.
  void pairAndSpread(uint32_t a, uint32_t b, const std::vector<uint64_t> &ofA, const std::vector<uint64_t> &ofB) {
    if (!isFree(a, b) || !sameKind(a, b)) return;
    pair(a, b, MatchedBy::kStructure);
    std::vector<std::pair<uint32_t, uint32_t>> work = {{a, b}};
    const auto add = [&](uint32_t x, uint32_t y) {
      if (!isFree(x, y) || ofA[x] != ofB[y] || !sameKind(x, y)) return;
      pair(x, y, MatchedBy::kStructure);
      work.push_back({x, y});
    };
    while (!work.empty()) {
      const auto [x, y] = work.back();
      work.pop_back();
      for (const FactNode::Operand &o : b_.nodes[y].operands) {
        const FactNode::Operand *other = operandAt(a_.nodes[x], o.slot);
        if (other && other->producer >= 0 && o.producer >= 0 && other->port == o.port)
          add(static_cast<uint32_t>(other->producer), static_cast<uint32_t>(o.producer));
      }
      spreadToReaders(x, y, ofA, ofB, add);
    }
  }

  template <class Add>
  void spreadToReaders(uint32_t x, uint32_t y, const std::vector<uint64_t> &ofA, const std::vector<uint64_t> &ofB,
                       const Add &add) {
    struct Reader {
      std::string_view slot;
      uint64_t hash;
      uint32_t node;
      bool operator<(const Reader &r) const { return std::tie(slot, hash, node) < std::tie(r.slot, r.hash, r.node); }
    };
    const auto readersOf = [](const FactNodes &g, uint32_t n, const std::vector<uint64_t> &of,
                              const std::vector<int32_t> &partners) {
      std::vector<Reader> list;
      for (const FactNode::Reader &r : g.nodes[n].readers)
        if (partners[r.node] < 0) list.push_back({g.nodes[r.node].operands[r.operand].slot, of[r.node], r.node});
      std::sort(list.begin(), list.end());
      return list;
    };
    const std::vector<Reader> inA = readersOf(a_, x, ofA, match_.ofA), inB = readersOf(b_, y, ofB, match_.ofB);
    size_t i = 0;
    for (const Reader &r : inB) {
      while (i < inA.size() && std::tie(inA[i].slot, inA[i].hash) < std::tie(r.slot, r.hash)) ++i;
      if (match_.ofB[r.node] >= 0) continue;
      int most = 0;
      const Reader *best = nullptr;
      for (size_t k = i; k < inA.size() && k < i + kCandidates; ++k) {
        if (inA[k].slot != r.slot || inA[k].hash != r.hash) break;
        if (match_.ofA[inA[k].node] >= 0) continue;
        if (const int s = score(inA[k].node, r.node); !best || s > most)
          std::tie(best, most) = std::make_pair(&inA[k], s);
      }
      if (best) add(best->node, r.node);
    }
  }

  /// How well two nodes of a type fit by what is known of their neighbours.
  int score(uint32_t a, uint32_t b) const {
    const FactNode &x = a_.nodes[a], &y = b_.nodes[b];
    int points = (x.name == y.name ? 3 : 0) + (loose_.a.own[a] == loose_.b.own[b] ? 2 : 0);
    for (const FactNode::Operand &o : y.operands) {
      const FactNode::Operand *other = operandAt(x, o.slot);
      if (!other || other->producer < 0 || o.producer < 0) continue;
      if (arePaired(other->producer, o.producer) && other->port == o.port)
        points += 3;
      else if (match_.ofA[static_cast<size_t>(other->producer)] >= 0 ||
               match_.ofB[static_cast<size_t>(o.producer)] >= 0)
        points -= 2;
    }
    int readers = 0;
    for (size_t i = 0; i < y.readers.size() && i < kCandidates; ++i) {
      const FactNode::Reader &r = y.readers[i];
      const int32_t partner = match_.ofB[r.node];
      if (partner < 0) continue;
      const FactNode::Operand *other =
          operandAt(a_.nodes[static_cast<size_t>(partner)], b_.nodes[r.node].operands[r.operand].slot);
      readers += other && other->producer == static_cast<int32_t>(a) ? 3 : -2;
    }
    return points + std::clamp(readers, -4, 6);
  }

  void pairNeighbours() {
    std::map<Key, uint32_t> byName;
    for (uint32_t n = 0; n < a_.size(); ++n)
      if (match_.ofA[n] < 0) byName.try_emplace({a_.nodes[n].type, a_.nodes[n].name}, n);
    for (int round = 0; round < kRounds; ++round) {
      bool changed = false;
      for (size_t i = 0; i < b_.size(); ++i) {
        const uint32_t b = static_cast<uint32_t>(round % 2 ? b_.size() - 1 - i : i);
        if (match_.ofB[b] < 0) changed |= pairBest(b, byName);
      }
      if (!changed && round) return;
    }
  }

  bool pairBest(uint32_t b, const std::map<Key, uint32_t> &byName) {
    std::vector<uint32_t> candidates;
    const FactNode &node = b_.nodes[b];
    if (const auto found = byName.find({node.type, node.name}); found != byName.end())
      candidates.push_back(found->second);
    for (const FactNode::Operand &o : node.operands) {
      const int32_t partner = o.producer < 0 ? -1 : match_.ofB[static_cast<size_t>(o.producer)];
      if (partner < 0) continue;
      for (const FactNode::Reader &r : a_.nodes[static_cast<size_t>(partner)].readers) {
        if (candidates.size() >= kCandidates) break;
        if (match_.ofA[r.node] < 0 && a_.nodes[r.node].operands[r.operand].slot == o.slot) candidates.push_back(r.node);
      }
    }
    for (const FactNode::Reader &r : node.readers) {
      if (candidates.size() >= 2 * kCandidates) break;
      const int32_t partner = match_.ofB[r.node];
      if (partner < 0) continue;
      const FactNode::Operand *other =
          operandAt(a_.nodes[static_cast<size_t>(partner)], b_.nodes[r.node].operands[r.operand].slot);
      if (other && other->producer >= 0) candidates.push_back(static_cast<uint32_t>(other->producer));
    }
    int most = kLeastScore - 1;
    int64_t best = -1;
    for (const uint32_t a : candidates) {
      if (!isFree(a, b) || !sameKind(a, b)) continue;
      const int s = score(a, b);
      if (s > most || (s == most && best > int64_t{a})) {
        most = s;
        best = a;
      }
    }
    if (best < 0) return false;
    const bool named = a_.nodes[static_cast<size_t>(best)].name == node.name;
    pair(static_cast<uint32_t>(best), b, named ? MatchedBy::kName : MatchedBy::kNeighbours);
    return true;
  }

  /// What is left under one name is one op, of another type perhaps.
  void pairNamesAlone() {
    std::map<std::string_view, uint32_t> byName;
    for (uint32_t n = 0; n < a_.size(); ++n)
      if (match_.ofA[n] < 0 && a_.nodes[n].kind == NodeKind::kOp) byName.try_emplace(a_.nodes[n].name, n);
    for (uint32_t n = 0; n < b_.size(); ++n) {
      if (match_.ofB[n] >= 0 || b_.nodes[n].kind != NodeKind::kOp) continue;
      const auto found = byName.find(b_.nodes[n].name);
      if (found != byName.end() && isFree(found->second, n)) pair(found->second, n, MatchedBy::kName);
    }
  }

  const FactNodes &a_, &b_;
  std::vector<std::string> anchorsA_, anchorsB_;
  Hashes exact_, loose_;
  GraphMatch match_;
};

} // namespace

double GraphMatch::quality() const {
  if (ofA.empty() && ofB.empty()) return 1;
  size_t paired = 0;
  for (const int32_t b : ofA) paired += b >= 0;
  return 2.0 * static_cast<double>(paired) / static_cast<double>(ofA.size() + ofB.size());
}

GraphMatch matchGraphs(const FactNodes &a, const FactNodes &b) { return Matcher(a, b).run(); }

} // namespace opc
