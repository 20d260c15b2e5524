// The findings of a compilation.
// SPDX-License-Identifier: Apache-2.0
#include "DiagnosticList.h"

#include <algorithm>
#include <charconv>
#include <tuple>

namespace opc {

StatusCode classOf(const std::string &code) {
  // Whatever stands in no range says that the graph is not valid.
  static constexpr struct {
    int first, last;
    StatusCode status;
  } kClasses[] = {{1, 99, StatusCode::kUsage},          {110, 110, StatusCode::kUnsupported},
                  {312, 312, StatusCode::kUnsupported}, {400, 499, StatusCode::kUnsupported},
                  {901, 901, StatusCode::kInternal},    {921, 923, StatusCode::kUnsupported}};
  constexpr size_t kPrefix = 3; // "OPC"
  int number = 0;
  if (code.size() > kPrefix) std::from_chars(code.data() + kPrefix, code.data() + code.size(), number);
  for (const auto &c : kClasses)
    if (number >= c.first && number <= c.last) return c.status;
  return StatusCode::kInvalidGraph;
}

bool DiagnosticList::settle() {
  std::stable_sort(incoming_.begin(), incoming_.end(), [](const Diagnostic &a, const Diagnostic &b) {
    return std::tie(a.range.line, a.range.column) < std::tie(b.range.line, b.range.column);
  });
  bool failed = false;
  for (Diagnostic &d : incoming_) {
    d.isOfRequest |= classOf(d.code) == StatusCode::kUsage && !d.range.known();
    if (d.severity == Severity::kError) {
      failed = true;
      worst_ = std::max(worst_, d.isOfRequest ? StatusCode::kUsage : classOf(d.code));
      if (++errors_ > maxErrors_) continue;
    }
    list_.push_back(std::move(d));
  }
  incoming_.clear();
  return failed;
}

} // namespace opc
