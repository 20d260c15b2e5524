// Which known names a misspelt one may have meant.
// SPDX-License-Identifier: Apache-2.0
#include "NearestNames.h"

#include "TextParts.h"

#include <algorithm>
#include <utility>

namespace opc {
namespace {

/// Levenshtein distance.
size_t editDistance(const std::string &a, const std::string &b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, substituted});
    }
  }
  return row[b.size()];
}

} // namespace

std::vector<std::string> nearestNames(const std::string &name, const std::vector<std::string> &candidates,
                                      size_t count) {
  const size_t limit = std::max<size_t>(2, name.size() / 3);
  std::vector<std::pair<size_t, std::string>> scored;
  for (const std::string &c : candidates) {
    // The difference in length is the least there can be: a hostile name of a megabyte costs nothing.
    const size_t least = std::max(name.size(), c.size()) - std::min(name.size(), c.size());
    size_t d = least > limit ? least : editDistance(name, c);
    // "sum" for "reduce_sum": a part of a name is near, too.
    if (name.size() >= 3 && c.find(name) != std::string::npos) d = std::min<size_t>(d, 1);
    if (d <= limit) scored.push_back({d, c});
  }
  std::sort(scored.begin(), scored.end());
  std::vector<std::string> result;
  for (size_t i = 0; i < scored.size() && i < count; ++i) result.push_back(scored[i].second);
  return result;
}

std::string didYouMean(const std::string &name, const std::vector<std::string> &candidates,
                       const std::string &otherwise, const std::string &quote, size_t count) {
  const std::vector<std::string> near = nearestNames(name, candidates, count);
  return near.empty() ? otherwise : "did you mean " + quote + joined(near, quote + " or " + quote) + quote + "?";
}

std::string didYouMeanAmong(const std::string &name, const std::vector<std::string> &candidates,
                            const std::string &none, const std::string &has, size_t count) {
  constexpr size_t kShown = 10;
  const size_t more = candidates.size() - std::min(candidates.size(), kShown);
  const std::vector<std::string> shown(candidates.begin(), candidates.end() - static_cast<ptrdiff_t>(more));
  const std::string all = has + joined(shown, ", ") + (more ? concat(" and ", more, " more") : "");
  return didYouMean(name, candidates, candidates.empty() ? none : all, "'", count);
}

} // namespace opc
