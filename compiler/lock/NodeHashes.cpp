// Hashes of the nodes of a graph.
// SPDX-License-Identifier: Apache-2.0
#include "NodeHashes.h"

#include <algorithm>
#include <string_view>

namespace opc {
namespace {

// Equal hashes propose a pair and decide nothing: what differs in a pair is compared in full.
uint64_t mixed(uint64_t h, uint64_t v) {
  h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
  h ^= h >> 30;
  h *= 0xbf58476d1ce4e5b9u;
  h ^= h >> 27;
  h *= 0x94d049bb133111ebu;
  return h ^ (h >> 31);
}

uint64_t hashOf(std::string_view text) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
  return mixed(h, text.size());
}

constexpr int kRounds = 3;

} // namespace

NodeHashes hashNodes(const FactNodes &graph, const std::vector<std::string> &anchors, bool types) {
  const size_t n = graph.size();
  NodeHashes hashes;
  hashes.own.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const FactNode &node = graph.nodes[i];
    uint64_t h = mixed(hashOf(node.type), hashOf(node.content));
    h = mixed(h, hashOf(anchors[i]));
    hashes.own[i] = types ? mixed(h, hashOf(node.types)) : h;
  }

  hashes.up.assign(n, 0);
  for (size_t i = 0; i < n; ++i) {
    uint64_t h = hashes.own[i];
    for (const FactNode::Operand &o : graph.nodes[i].operands) {
      h = mixed(h, hashOf(o.slot));
      h = mixed(h, hashOf(o.port));
      h = mixed(h, o.producer < 0 ? 1 : hashes.up[static_cast<size_t>(o.producer)]);
    }
    hashes.up[i] = h;
  }

  // Readers have no order: their hashes are sorted.
  std::vector<uint64_t> parts;
  const auto fromReaders = [&](size_t i, const std::vector<uint64_t> &of, uint64_t h) {
    parts.clear();
    for (const FactNode::Reader &r : graph.nodes[i].readers) {
      const FactNode::Operand &o = graph.nodes[r.node].operands[r.operand];
      parts.push_back(mixed(mixed(hashOf(o.slot), hashOf(o.port)), of[r.node]));
    }
    std::sort(parts.begin(), parts.end());
    for (const uint64_t part : parts) h = mixed(h, part);
    return h;
  };
  hashes.down.assign(n, 0);
  for (size_t i = n; i-- > 0;) hashes.down[i] = fromReaders(i, hashes.down, hashes.own[i]);

  hashes.full.resize(n);
  for (size_t i = 0; i < n; ++i) hashes.full[i] = mixed(hashes.up[i], hashes.down[i]);
  for (int round = 0; round < kRounds; ++round) {
    std::vector<uint64_t> next(n);
    for (size_t i = 0; i < n; ++i) {
      uint64_t h = hashes.full[i];
      for (const FactNode::Operand &o : graph.nodes[i].operands)
        h = mixed(h, o.producer < 0 ? 1 : hashes.full[static_cast<size_t>(o.producer)]);
      next[i] = fromReaders(i, hashes.full, h);
    }
    hashes.full = std::move(next);
  }
  return hashes;
}

} // namespace opc
