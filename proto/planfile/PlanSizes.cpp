// Plans whose sizes are known when they run.
// SPDX-License-Identifier: Apache-2.0
#include "PlanSizes.h"

#include <set>

namespace opc {
namespace {

using plan::Extent;
using plan::Plan;
using plan::Tensor;

// Far above any graph, low enough that checking costs nothing.
constexpr int kMaxSizes = 64, kMaxFactors = 16;

Status bad(std::string message) {
  return Status(StatusCode::kInvalidGraph, "OPC0822", "invalid plan: " + std::move(message))
      .withHelp("compile the graph again");
}

int64_t divisorOf(const Extent::Factor &f) { return f.divisor() == 0 ? 1 : f.divisor(); }

/// The value, with every step checked: a number below zero, or one that does not fit, is none.
std::optional<int64_t> checkedFactor(const Extent::Factor &f, const SizeValues &sizes) {
  int64_t sum = f.constant();
  for (int i = 0; i < f.coefficient_size(); ++i) {
    int64_t term = 0;
    if (__builtin_mul_overflow(f.coefficient(i), sizes[static_cast<size_t>(i)], &term) ||
        __builtin_add_overflow(sum, term, &sum))
      return std::nullopt;
  }
  return sum < 0 ? std::nullopt : std::optional<int64_t>(sum / divisorOf(f));
}
std::optional<int64_t> checkedExtent(const Extent &e, const SizeValues &sizes) {
  int64_t product = 1;
  for (const Extent::Factor &f : e.factor()) {
    const std::optional<int64_t> v = checkedFactor(f, sizes);
    if (!v || __builtin_mul_overflow(product, *v, &product)) return std::nullopt;
  }
  return product;
}

/// The size that a dimension is, when it is one alone.
std::optional<int> sizeAlone(const Extent &e) {
  if (e.factor_size() != 1 || e.factor(0).constant() != 0 || divisorOf(e.factor(0)) != 1) return std::nullopt;
  std::optional<int> found;
  for (int i = 0; i < e.factor(0).coefficient_size(); ++i) {
    if (e.factor(0).coefficient(i) == 0) continue;
    if (found || e.factor(0).coefficient(i) != 1) return std::nullopt;
    found = i;
  }
  return found;
}

Status checkRanges(const Plan &plan) {
  if (plan.size_size() > kMaxSizes)
    return bad(std::to_string(plan.size_size()) + " sizes; the limit is " + std::to_string(kMaxSizes));
  std::set<std::string> names;
  for (const plan::Size &s : plan.size()) {
    if (s.name().empty() || !names.insert(s.name()).second)
      return bad(s.name().empty() ? "a size without a name" : "two sizes named '" + s.name() + "'");
    for (char c : s.name())
      if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') return bad("a size has control characters in its name");
    if (s.min() < 1 || s.max() < s.min())
      return bad("size " + s.name() + " goes from " + std::to_string(s.min()) + " to " + std::to_string(s.max()));
  }
  if (plan.part_size() || plan.placement_size() || plan.micro_batches() > 1)
    return bad("sizes in a range, and several ranks or micro-batches");
  for (const plan::Task &t : plan.task())
    if (t.has_boxing()) return bad("sizes in a range, and task " + t.name() + " for several ranks");
  if (plan.stream_size() > 1) return bad("sizes in a range, and several streams");
  for (const plan::Register &r : plan.register_())
    if (r.kind() == plan::Register::PREPARED) return bad("sizes in a range, and the prepared tensor " + r.name());
  return Status::ok();
}

Status checkExtent(const Plan &plan, const Extent &e, int64_t bound, const std::string &what) {
  if (e.factor_size() > kMaxFactors) return bad(what + " has " + std::to_string(e.factor_size()) + " factors");
  for (const Extent::Factor &f : e.factor()) {
    if (f.coefficient_size() > plan.size_size())
      return bad(what + " depends on size " + std::to_string(f.coefficient_size() - 1) + " of " +
                 std::to_string(plan.size_size()));
    for (int64_t c : f.coefficient())
      if (c < 0) return bad(what + " shrinks as a size grows");
    if (f.divisor() < 0) return bad(what + " has the divisor " + std::to_string(f.divisor()));
    if (!checkedFactor(f, smallestSizes(plan))) return bad(what + " is below zero or too large at the smallest sizes");
  }
  const std::optional<int64_t> most = checkedExtent(e, largestSizes(plan));
  if (!most || *most != bound)
    return bad(what + " is " + (most ? std::to_string(*most) : "too large") +
               " at the largest sizes, and its bound is " + std::to_string(bound));
  return Status::ok();
}

Status checkTensor(const Plan &plan, const Tensor &t) {
  const std::string name = "tensor " + t.name();
  if (t.extent_size() == 0) {
    for (int64_t d : t.dim())
      if (d == -1) return bad(name + " has a dimension that no size gives");
    return Status::ok();
  }
  if (t.extent_size() != t.dim_size() || t.bound_size() != t.dim_size())
    return bad(name + " has " + std::to_string(t.dim_size()) + " dimensions, " + std::to_string(t.bound_size()) +
               " bounds and " + std::to_string(t.extent_size()) + " expressions");
  for (int i = 0; i < t.dim_size(); ++i) {
    const std::string what = "dimension " + std::to_string(i) + " of " + name;
    if ((t.dim(i) == -1) != (t.extent(i).factor_size() > 0))
      return bad(what + (t.dim(i) == -1 ? " has no expression" : " is known and has an expression"));
    if (t.dim(i) == -1) {
      if (Status s = checkExtent(plan, t.extent(i), t.bound(i), what); !s.isOk()) return s;
    }
  }
  return Status::ok();
}

bool isFixed(const Plan &plan, uint32_t tensor) {
  return tensor >= static_cast<uint32_t>(plan.tensor_size()) ||
         plan.tensor(static_cast<int>(tensor)).extent_size() == 0;
}

/// Every size is a dimension of an input, which alone can give it; what a plan brings along has one shape.
Status checkInterface(const Plan &plan) {
  std::vector<bool> isGiven(static_cast<size_t>(plan.size_size()));
  for (const auto &in : plan.interface().input()) {
    if (isFixed(plan, in.tensor())) continue;
    const Tensor &t = plan.tensor(static_cast<int>(in.tensor()));
    for (int i = 0; i < t.dim_size(); ++i) {
      if (t.dim(i) != -1) continue;
      const std::optional<int> size = sizeAlone(t.extent(i));
      if (!size) return bad("dimension " + std::to_string(i) + " of input '" + in.name() + "' is no size by itself");
      isGiven[static_cast<size_t>(*size)] = true;
    }
  }
  for (int i = 0; i < plan.size_size(); ++i)
    if (!isGiven[static_cast<size_t>(i)]) return bad("no input gives size " + plan.size(i).name());
  for (const auto &v : plan.interface().variable())
    if (!isFixed(plan, v.tensor())) return bad("variable '" + v.name() + "' depends on the sizes");
  for (const auto &c : plan.interface().constant())
    if (!isFixed(plan, c.tensor())) return bad("a constant depends on the sizes");
  for (const plan::Task &t : plan.task())
    if (t.workspace() && !isFixed(plan, t.workspace() - 1))
      return bad("the workspace of task " + t.name() + " depends on the sizes");
  return Status::ok();
}

std::string factorText(const Plan &plan, const Extent::Factor &f, bool isOneOfMany) {
  std::string sum;
  int terms = 0;
  auto add = [&](const std::string &term) { sum += (terms++ ? "+" : "") + term; };
  for (int i = 0; i < f.coefficient_size(); ++i) {
    if (f.coefficient(i) == 0) continue;
    const std::string &name = plan.size(i).name();
    add(f.coefficient(i) == 1 ? name : std::to_string(f.coefficient(i)) + "*" + name);
  }
  if (terms == 0)
    add(std::to_string(f.constant()));
  else if (f.constant() < 0)
    sum += std::to_string(f.constant()), ++terms;
  else if (f.constant() > 0)
    add(std::to_string(f.constant()));
  const int64_t divisor = divisorOf(f);
  if (terms > 1 && (isOneOfMany || divisor != 1)) sum = "(" + sum + ")";
  return divisor == 1 ? sum : sum + "/" + std::to_string(divisor);
}

} // namespace

SizeValues largestSizes(const Plan &plan) {
  SizeValues sizes;
  for (const plan::Size &s : plan.size()) sizes.push_back(s.max());
  return sizes;
}
SizeValues smallestSizes(const Plan &plan) {
  SizeValues sizes;
  for (const plan::Size &s : plan.size()) sizes.push_back(s.min());
  return sizes;
}

Status checkPlanSizes(const Plan &plan) {
  for (const Plan &part : plan.part())
    if (hasSizes(part)) return bad("a part for one of several ranks has sizes in a range");
  if (!hasSizes(plan)) {
    for (const Tensor &t : plan.tensor())
      if (t.extent_size()) return bad("tensor " + t.name() + " depends on sizes, and the plan has none");
    return Status::ok();
  }
  if (Status s = checkRanges(plan); !s.isOk()) return s;
  for (const Tensor &t : plan.tensor())
    if (Status s = checkTensor(plan, t); !s.isOk()) return s;
  return checkInterface(plan);
}

int64_t extentAt(const Extent &extent, const SizeValues &sizes) { return checkedExtent(extent, sizes).value_or(0); }

std::vector<int64_t> dimsAt(const Tensor &tensor, const SizeValues &sizes) {
  std::vector<int64_t> dims(tensor.dim().begin(), tensor.dim().end());
  for (int i = 0; i < tensor.extent_size(); ++i)
    if (tensor.extent(i).factor_size()) dims[static_cast<size_t>(i)] = extentAt(tensor.extent(i), sizes);
  return dims;
}

void fixSizes(Plan *plan, const SizeValues &sizes) {
  for (Tensor &t : *plan->mutable_tensor()) {
    if (t.extent_size() == 0) continue;
    const std::vector<int64_t> dims = dimsAt(t, sizes);
    t.mutable_dim()->Assign(dims.begin(), dims.end());
    t.clear_bound();
    t.clear_extent();
  }
  plan->clear_size();
}

std::string sizeText(const Plan &plan, const Tensor &tensor) {
  if (tensor.extent_size() == 0) return "";
  std::string text;
  for (int i = 0; i < tensor.dim_size(); ++i) {
    const Extent &e = tensor.extent(i);
    text += i ? "," : "";
    for (int k = 0; k < e.factor_size(); ++k)
      text += (k ? "*" : "") + factorText(plan, e.factor(k), e.factor_size() > 1);
    if (e.factor_size() == 0) text += std::to_string(tensor.dim(i));
  }
  return text;
}

bool sizesOf(const Plan &plan, const Tensor &tensor, const std::vector<int64_t> &dims,
             std::vector<std::optional<int64_t>> *sizes) {
  sizes->assign(static_cast<size_t>(plan.size_size()), std::nullopt);
  if (dims.size() != static_cast<size_t>(tensor.dim_size())) return false;
  for (int i = 0; i < tensor.dim_size(); ++i) {
    const int64_t d = dims[static_cast<size_t>(i)];
    const std::optional<int> size = tensor.dim(i) == -1 ? sizeAlone(tensor.extent(i)) : std::nullopt;
    if (!size) {
      if (tensor.dim(i) != d) return false;
      continue;
    }
    std::optional<int64_t> &known = (*sizes)[static_cast<size_t>(*size)];
    if (known && *known != d) return false;
    known = d;
  }
  return true;
}

} // namespace opc
