// The last step of matching: ops that stand where another one stood.
// SPDX-License-Identifier: Apache-2.0
#include "MatchByPlace.h"

#include <algorithm>
#include <utility>

namespace opc {
namespace {

constexpr size_t kCandidates = 32; // of one node: beyond, a choice is no better

class PlaceMatcher {
public:
  PlaceMatcher(const FactNodes &a, const FactNodes &b, GraphMatch *match) : a_(a), b_(b), match_(match) {}

  /// What is left, reads the same tensors and is read by the same ops is one op under another name and of another type,
  /// where no other one stands there as well.
  void run() {
    std::vector<std::pair<uint32_t, uint32_t>> found;
    for (uint32_t b = 0; b < b_.size(); ++b) {
      if (match_->ofB[b] >= 0 || b_.nodes[b].kind != NodeKind::kOp) continue;
      int64_t only = -1;
      size_t fitting = 0;
      for (const uint32_t a : besideReaders(b)) {
        if (!standsWhere(a, b)) continue;
        only = a;
        ++fitting;
      }
      if (fitting == 1) found.push_back({static_cast<uint32_t>(only), b});
    }
    for (const auto &[a, b] : found) {
      const bool isShared =
          std::count_if(found.begin(), found.end(), [a = a](const auto &f) { return f.first == a; }) > 1;
      if (isShared || !isFree(a, b)) continue;
      match_->ofA[a] = static_cast<int32_t>(b);
      match_->ofB[b] = static_cast<int32_t>(a);
      match_->byB[b] = MatchedBy::kNeighbours;
    }
  }

private:
  bool isFree(uint32_t a, uint32_t b) const { return match_->ofA[a] < 0 && match_->ofB[b] < 0; }
  bool arePaired(int32_t a, int32_t b) const { return a >= 0 && b >= 0 && match_->ofA[static_cast<size_t>(a)] == b; }

  /// Ops of a that are left and that a partner of one of b's readers or makers is tied to.
  std::vector<uint32_t> besideReaders(uint32_t b) const {
    std::vector<uint32_t> list;
    const auto add = [&](int64_t a) {
      if (a < 0 || match_->ofA[static_cast<size_t>(a)] >= 0 || list.size() >= kCandidates) return;
      const auto node = static_cast<uint32_t>(a);
      if (a_.nodes[node].kind == NodeKind::kOp && std::find(list.begin(), list.end(), node) == list.end())
        list.push_back(node);
    };
    for (const FactNode::Reader &r : b_.nodes[b].readers) {
      if (match_->ofB[r.node] < 0) continue;
      const FactNode::Operand *other =
          operandAt(a_.nodes[static_cast<size_t>(match_->ofB[r.node])], b_.nodes[r.node].operands[r.operand].slot);
      if (other) add(other->producer);
    }
    for (const FactNode::Operand &o : b_.nodes[b].operands)
      if (o.producer >= 0 && match_->ofB[static_cast<size_t>(o.producer)] >= 0)
        for (const auto &r : a_.nodes[static_cast<size_t>(match_->ofB[static_cast<size_t>(o.producer)])].readers)
          add(r.node);
    return list;
  }

  /// Whether a's node reads what b's does, in the order of the slots, and has the same readers. Types that differ call
  /// their slots and outputs as they like.
  bool standsWhere(uint32_t a, uint32_t b) const {
    const FactNode &x = a_.nodes[a], &y = b_.nodes[b];
    if (x.operands.size() != y.operands.size() || x.readers.size() != y.readers.size()) return false;
    if (x.operands.empty() || y.readers.empty() || x.role != y.role) return false;
    for (size_t i = 0; i < y.operands.size(); ++i)
      if (!arePaired(x.operands[i].producer, y.operands[i].producer) || x.operands[i].port != y.operands[i].port)
        return false;
    return std::all_of(y.readers.begin(), y.readers.end(), [&](const FactNode::Reader &r) {
      if (match_->ofB[r.node] < 0) return false;
      const FactNode::Operand *other =
          operandAt(a_.nodes[static_cast<size_t>(match_->ofB[r.node])], b_.nodes[r.node].operands[r.operand].slot);
      return other && other->producer == static_cast<int32_t>(a);
    });
  }

  const FactNodes &a_, &b_;
  GraphMatch *match_;
};

} // namespace

void pairByPlace(const FactNodes &a, const FactNodes &b, GraphMatch *match) { PlaceMatcher(a, b, match).run(); }

} // namespace opc
