// Boxing: names of the steps.
#include "Boxing.h"

namespace opc {

namespace {
constexpr const char *kNames[] = {"slice",      "partial_of",     "pad",        "all_gather",
                                  "all_to_all", "reduce_scatter", "all_reduce", "exchange"};
}

const char *boxingKindName(BoxingKind kind) { return kNames[static_cast<size_t>(kind)]; }
std::optional<BoxingKind> parseBoxingKind(const std::string &name) {
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (name == kNames[i]) return static_cast<BoxingKind>(i);
  return std::nullopt;
}

} // namespace opc
