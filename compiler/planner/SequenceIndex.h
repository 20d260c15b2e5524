// Sequences of numbers to dense ids: how the planner knows that it has met something before.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace opc::planner {

/// Mixes a word into a hash.
inline uint64_t mixHash(uint64_t hash, uint64_t word) {
  hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 29);
}

/// Gives each distinct sequence an id: 0, 1, 2, ... in order of arrival, so that nothing depends on the hash.
class SequenceIndex {
public:
  SequenceIndex() : slots_(64, kNone), begins_(1, 0) {}

  /// The id of a sequence; equal to the former size() when it is new.
  uint32_t id(const uint32_t *words, size_t count) {
    uint64_t hash = count;
    for (size_t i = 0; i < count; ++i) hash = mixHash(hash, words[i]);
    size_t slot = hash & (slots_.size() - 1);
    for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1))
      if (hashes_[slots_[slot]] == hash && equal(slots_[slot], words, count)) return slots_[slot];
    const uint32_t fresh = static_cast<uint32_t>(size());
    slots_[slot] = fresh;
    hashes_.push_back(hash);
    words_.insert(words_.end(), words, words + count);
    begins_.push_back(words_.size());
    if (hashes_.size() * 2 > slots_.size()) grow();
    return fresh;
  }
  uint32_t id(const std::vector<uint32_t> &words) { return id(words.data(), words.size()); }

  size_t size() const { return hashes_.size(); }
  /// Words held in all, as a measure of memory.
  size_t words() const { return words_.size(); }
  /// The sequence with an id; valid until the next new one.
  const uint32_t *data(uint32_t id) const { return words_.data() + begins_[id]; }
  size_t length(uint32_t id) const { return begins_[id + 1] - begins_[id]; }

private:
  static constexpr uint32_t kNone = UINT32_MAX;

  bool equal(uint32_t id, const uint32_t *words, size_t count) const {
    if (length(id) != count) return false;
    const uint32_t *mine = data(id);
    for (size_t i = 0; i < count; ++i)
      if (mine[i] != words[i]) return false;
    return true;
  }
  void grow() {
    slots_.assign(slots_.size() * 2, kNone);
    for (uint32_t i = 0; i < hashes_.size(); ++i) {
      size_t slot = hashes_[i] & (slots_.size() - 1);
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = i;
    }
  }

  std::vector<uint32_t> slots_;
  std::vector<uint64_t> hashes_;
  std::vector<uint32_t> words_;
  std::vector<size_t> begins_;
};

} // namespace opc::planner
