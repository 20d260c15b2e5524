// Finding the smaller form of a table, and minima with it.
// SPDX-License-Identifier: Apache-2.0
#include "Factored.h"

#include <algorithm>

namespace opc::planner {
namespace {

/// Classes of equal lines (rows, or columns) of a table, in the order of their first member.
struct Lines {
  std::vector<uint32_t> classOf;
  std::vector<size_t> first;
  Lines(const CostTables::Table &table, bool columns) {
    const size_t count = table.dims[columns ? 1 : 0], length = table.dims[columns ? 0 : 1];
    const size_t step = columns ? 1 : table.dims[1], along = columns ? table.dims[1] : 1;
    SequenceIndex seen;
    std::vector<uint32_t> words(2 * length);
    for (size_t i = 0; i < count; ++i) {
      for (size_t k = 0; k < length; ++k) {
        const uint64_t e = static_cast<uint64_t>(table.entries[i * step + k * along]);
        words[2 * k] = static_cast<uint32_t>(e);
        words[2 * k + 1] = static_cast<uint32_t>(e >> 32);
      }
      classOf.push_back(seen.id(words));
      if (classOf.back() == first.size()) first.push_back(i);
    }
  }
};

} // namespace

Factored::Factored(const CostTables::Table &table) {
  const Lines columns(table, true), rows(table, false);
  classes_ = columns.first.size();
  columnClass_ = columns.classOf;
  const size_t count = rows.first.size();
  std::vector<Cost> distinct(count * classes_);
  for (size_t r = 0; r < count; ++r)
    for (size_t c = 0; c < classes_; ++c)
      distinct[r * classes_ + c] = table.entries[rows.first[r] * table.dims[1] + columns.first[c]];
  const auto row = [&](size_t r) { return distinct.data() + r * classes_; };
  const auto above = [&](size_t s, size_t r) { // s is nowhere less than r
    const Cost *a = row(s), *b = row(r);
    for (size_t c = 0; c < classes_; ++c)
      if (a[c] < b[c]) return false;
    return true;
  };

  // A row is a base when the rows above it do not come down to it everywhere.
  std::vector<std::vector<uint32_t>> over(count);
  std::vector<uint32_t> baseOf(count, UINT32_MAX);
  std::vector<Cost> low(classes_);
  for (uint32_t r = 0; r < count; ++r) {
    low.assign(classes_, kNever + 1);
    for (uint32_t s = 0; s < count; ++s) {
      if (s == r || !above(s, r)) continue;
      over[r].push_back(s);
      for (size_t c = 0; c < classes_; ++c) low[c] = std::min(low[c], row(s)[c]);
    }
    if (std::equal(low.begin(), low.end(), row(r))) continue;
    baseOf[r] = static_cast<uint32_t>(bases_++);
    entries_.insert(entries_.end(), row(r), row(r) + classes_);
  }
  // The others: bases above them, until each entry is met.
  std::vector<std::vector<uint32_t>> cover(count);
  for (uint32_t r = 0; r < count; ++r) {
    if (baseOf[r] != UINT32_MAX) {
      cover[r] = {baseOf[r]};
      continue;
    }
    std::vector<bool> met(classes_, false);
    for (size_t c = 0; c < classes_; ++c) {
      if (met[c]) continue;
      for (uint32_t s : over[r]) {
        if (baseOf[s] == UINT32_MAX || row(s)[c] != row(r)[c]) continue;
        cover[r].push_back(baseOf[s]);
        for (size_t k = c; k < classes_; ++k) met[k] = met[k] || row(s)[k] == row(r)[k];
        break;
      }
    }
  }
  coverBegin_.push_back(0);
  for (uint32_t c : rows.classOf) {
    cover_.insert(cover_.end(), cover[c].begin(), cover[c].end());
    coverBegin_.push_back(static_cast<uint32_t>(cover_.size()));
  }
}

void Factored::columnMost(const std::vector<Cost> &columns, std::vector<Cost> *most) const {
  most->assign(classes_, -kNever);
  for (size_t y = 0; y < columns.size(); ++y) {
    Cost &m = (*most)[columnClass_[y]];
    m = std::max(m, columns[y]);
  }
}

void Factored::rowMost(const std::vector<Cost> &rows, std::vector<Cost> *most) const {
  most->assign(bases_, -kNever);
  for (size_t x = 0; x < rows.size(); ++x)
    for (uint32_t i = coverBegin_[x]; i < coverBegin_[x + 1]; ++i) {
      Cost &m = (*most)[cover_[i]];
      m = std::max(m, rows[x]);
    }
}

void Factored::leastByRow(const std::vector<Cost> &columns, std::vector<Cost> *least) const {
  std::vector<Cost> &most = most_, &base = best_;
  base.resize(bases_);
  columnMost(columns, &most);
  const Cost *entry = entries_.data();
  for (size_t b = 0; b < bases_; ++b, entry += classes_) {
    Cost best[4] = {kNever, kNever, kNever, kNever}; // four chains: each comparison waits for the one before it
    size_t c = 0;
    for (; c + 4 <= classes_; c += 4)
      for (size_t k = 0; k < 4; ++k) best[k] = std::min(best[k], entry[c + k] - most[c + k]);
    for (; c < classes_; ++c) best[0] = std::min(best[0], entry[c] - most[c]);
    base[b] = std::min(std::min(best[0], best[1]), std::min(best[2], best[3]));
  }
  least->assign(coverBegin_.size() - 1, kNever);
  for (size_t x = 0; x < least->size(); ++x)
    for (uint32_t i = coverBegin_[x]; i < coverBegin_[x + 1]; ++i) (*least)[x] = std::min((*least)[x], base[cover_[i]]);
}

void Factored::leastByColumn(const std::vector<Cost> &rows, std::vector<Cost> *least) const {
  std::vector<Cost> &most = most_, &best = best_;
  best.assign(classes_, kNever);
  rowMost(rows, &most);
  const Cost *entry = entries_.data();
  for (size_t b = 0; b < bases_; ++b, entry += classes_)
    for (size_t c = 0; c < classes_; ++c) best[c] = std::min(best[c], entry[c] - most[b]);
  least->resize(columnClass_.size());
  for (size_t y = 0; y < least->size(); ++y) (*least)[y] = best[columnClass_[y]];
}

Cost Factored::least(const std::vector<Cost> &rows, const std::vector<Cost> &columns) const {
  std::vector<Cost> mostRow, mostColumn;
  rowMost(rows, &mostRow);
  columnMost(columns, &mostColumn);
  Cost best = kNever;
  for (size_t b = 0; b < bases_; ++b)
    for (size_t c = 0; c < classes_; ++c) {
      const Cost e = entries_[b * classes_ + c];
      if (e < kNever) best = std::min(best, e - mostRow[b] - mostColumn[c]);
    }
  return best;
}

} // namespace opc::planner
