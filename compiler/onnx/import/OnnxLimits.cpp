// The least and the most that numbers of the run can be, as far as the ops that make them say it.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxLimits.h"
#include "OnnxConversion.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace opc::onnx {
namespace {

/// Of each element of a small tensor, else one for all.
using Intervals = std::vector<Interval>;

constexpr int64_t kMostElements = 64;
constexpr int kMostDepth = 200; // of ops behind one another

Interval either(const Interval &a, const Interval &b) { return {std::min(a.least, b.least), std::max(a.most, b.most)}; }

Interval hullOf(const Intervals &all) {
  Interval hull = all[0];
  for (const Interval &one : all) hull = either(hull, one);
  return hull;
}

const Interval &at(const Intervals &all, size_t k) { return all[all.size() == 1 ? 0 : k]; }

/// What every number of the type is within; 32 bits are taken for as many as there are numbers.
Interval rangeOf(DataType type) {
  if (type == kBool) return {0, 1};
  const ElementType &form = elementType(type);
  if (IsFloatingDataType(type) || form.bits > 16) return {};
  return {form.lowest, form.highest};
}

Interval ordered(std::initializer_list<double> ends) {
  for (double end : ends)
    if (std::isnan(end)) return {};
  return {std::min(ends), std::max(ends)};
}

Interval sum(const Interval &a, const Interval &b) { return {a.least + b.least, a.most + b.most}; }
Interval difference(const Interval &a, const Interval &b) { return {a.least - b.most, a.most - b.least}; }
Interval lesser(const Interval &a, const Interval &b) { return {std::min(a.least, b.least), std::min(a.most, b.most)}; }
Interval greater(const Interval &a, const Interval &b) {
  return {std::max(a.least, b.least), std::max(a.most, b.most)};
}
Interval times(const Interval &a, const Interval &b) {
  return ordered({a.least * b.least, a.least * b.most, a.most * b.least, a.most * b.most});
}
Interval quotient(const Interval &a, const Interval &b) {
  if (b.least <= 0 && b.most >= 0) return {};
  return ordered({a.least / b.least, a.least / b.most, a.most / b.least, a.most / b.most});
}

/// Finds them once for each value.
class Limits {
public:
  explicit Limits(GraphDraft *draft) : draft_(draft) {}
  const Intervals &of(const Term &t);
  Interval hull(const Term &t) { return hullOf(of(t)); }
  /// The numbers of a value that is known, on which what is found relies.
  std::vector<double> numbers(const Term &known) {
    used_.push_back(known);
    return Conversion::peeked(known);
  }
  /// What has been found decides something.
  void rely() const {
    for (const Term &known : used_) draft_->rely(known);
  }

private:
  Intervals found(const Term &t);

  GraphDraft *draft_;
  std::unordered_map<const Operand *, Intervals> known_;
  std::vector<Term> used_;
  int depth_ = 0;
};

using Made = GraphDraft::MadeBy;
using Rule = Intervals (*)(Limits &, const Term &, const Made &);

/// What does not fit its type wraps around; fractions are rounded.
Intervals held(const Term &t, Intervals all, bool isExact) {
  const Interval range = rangeOf(t->type());
  for (Interval &one : all) {
    if (std::isnan(one.least) || std::isnan(one.most)) one = {};
    if (!t->isFloating()) {
      one = {std::floor(one.least), std::ceil(one.most)};
      if (one.least < range.least || one.most > range.most) one = range;
    } else if (!isExact) {
      const double slack = std::pow(2.0, -elementType(t->type()).mantissa);
      one = {one.least - std::abs(one.least) * slack, one.most + std::abs(one.most) * slack};
    }
  }
  return all;
}

template <Interval (*kNumber)(const Interval &, const Interval &)>
Intervals elementwise(Limits &limits, const Term &t, const Made &made) {
  const Intervals a = limits.of(made.inputs[0]), b = limits.of(made.inputs[1]);
  const bool isExact = kNumber == lesser || kNumber == greater;
  if (made.inputs[0]->shape() != made.inputs[1]->shape() && a.size() > 1 && b.size() > 1)
    return held(t, {kNumber(hullOf(a), hullOf(b))}, isExact);
  Intervals all;
  for (size_t k = 0; k < std::max(a.size(), b.size()); ++k) all.push_back(kNumber(at(a, k), at(b, k)));
  return held(t, std::move(all), isExact);
}

Intervals same(Limits &limits, const Term &, const Made &made) { return limits.of(made.inputs[0]); }
Intervals anyOf(Limits &limits, const Term &, const Made &made) { return {limits.hull(made.inputs[0])}; }

Intervals cast(Limits &limits, const Term &t, const Made &made) {
  Intervals all = limits.of(made.inputs[0]);
  if (t->type() == kBool) return {{0, 1}};
  if (made.inputs[0]->isFloating() && !t->isFloating()) // NaN becomes 0
    for (Interval &one : all) one = either(one, {0, 0});
  return held(t, std::move(all), false);
}

Intervals where(Limits &limits, const Term &, const Made &made) {
  const Interval yes = limits.hull(made.inputs[1]);
  return {either(yes, limits.hull(made.inputs[2]))};
}

bool isShortLine(const Term &t) { return t->rank() == 1 && t->dim(0) > 0 && t->dim(0) <= kMostElements; }

Intervals joined(Limits &limits, const Term &t, const Made &made) {
  Intervals all;
  for (const Term &piece : made.inputs) {
    const Intervals &own = limits.of(piece);
    for (int64_t k = 0; k < (isShortLine(t) ? piece->dim(0) : 1); ++k)
      all.push_back(isShortLine(t) ? at(own, static_cast<size_t>(k)) : hullOf(own));
  }
  return isShortLine(t) ? all : Intervals{hullOf(all)};
}

Intervals taken(Limits &limits, const Term &t, const Made &made) {
  const Term &places = made.inputs[1];
  const bool isKnown = isShortLine(made.inputs[0]) && places->value && t->shape().elem_cnt() <= kMostElements;
  if (!isKnown || t->shape().elem_cnt() == 0) return anyOf(limits, t, made);
  const Intervals table = limits.of(made.inputs[0]);
  Intervals all;
  for (const double k : limits.numbers(places)) all.push_back(at(table, static_cast<size_t>(k)));
  return all;
}

Intervals cutOut(Limits &limits, const Term &t, const Made &made) {
  const auto *from = made.attrs.at("start").get<std::vector<int64_t>>();
  const auto *by = made.attrs.at("step").get<std::vector<int64_t>>();
  if (!isShortLine(made.inputs[0]) || !isShortLine(t)) return anyOf(limits, t, made);
  const Intervals table = limits.of(made.inputs[0]);
  Intervals all;
  for (int64_t k = 0; k < t->dim(0); ++k) all.push_back(at(table, static_cast<size_t>(from->at(0) + k * by->at(0))));
  return all;
}

Intervals total(Limits &limits, const Term &t, const Made &made) {
  const int64_t results = std::max<int64_t>(t->shape().elem_cnt(), 1);
  const double each = static_cast<double>(made.inputs[0]->shape().elem_cnt()) / static_cast<double>(results);
  return held(t, {times(limits.hull(made.inputs[0]), {each, each})}, false);
}

Intervals Limits::found(const Term &t) {
  static const std::map<std::string, Rule> kRules = {
      {"broadcast_add", elementwise<sum>},
      {"broadcast_div", elementwise<quotient>},
      {"broadcast_maximum", elementwise<greater>},
      {"broadcast_minimum", elementwise<lesser>},
      {"broadcast_mul", elementwise<times>},
      {"broadcast_sub", elementwise<difference>},
      {"cast", cast},
      {"cat", joined},
      {"expand", anyOf},
      {"gather", taken},
      {"identity", same},
      {"reduce_max", anyOf},
      {"reduce_min", anyOf},
      {"reduce_sum", total},
      {"reshape", same},
      {"slice", cutOut},
      {"where", where},
  };
  const int64_t elements = t->shape().elem_cnt();
  if (t->value && elements > 0 && elements <= kMostElements) {
    Intervals all;
    for (const double v : numbers(t)) all.push_back(std::isnan(v) ? Interval{} : Interval{v, v});
    return all;
  }
  if (const auto room = draft_->roomOf(t)) return {{0, static_cast<double>(*room)}};
  const std::optional<Made> made = draft_->madeBy(t);
  const auto rule = made && depth_ < kMostDepth ? kRules.find(made->type) : kRules.end();
  if (rule == kRules.end()) return {rangeOf(t->type())};
  ++depth_;
  Intervals all = rule->second(*this, t, *made);
  --depth_;
  return all;
}

const Intervals &Limits::of(const Term &t) {
  if (const auto known = known_.find(t.get()); known != known_.end()) return known->second;
  Intervals all = found(t);
  return known_[t.get()] = std::move(all);
}

} // namespace

Interval intervalOf(GraphDraft *draft, const Term &number) {
  Limits limits(draft);
  const Interval found = limits.hull(number);
  if (std::isfinite(found.most)) limits.rely();
  return found;
}

Term countBehind(GraphDraft *draft, Term number) {
  enum class Step { kOn, kTaken, kJoined };
  static const std::map<std::string, Step> kSteps = {
      {"cat", Step::kJoined}, {"gather", Step::kTaken}, {"identity", Step::kOn}, {"reshape", Step::kOn}};
  const auto isOne = [](const Term &t) { return t->shape().elem_cnt() == 1; };
  while (number && !draft->roomOf(number)) {
    const auto made = isOne(number) ? draft->madeBy(number) : std::nullopt;
    const auto step = made ? kSteps.find(made->type) : kSteps.end();
    if (step == kSteps.end()) return nullptr;
    const Term from = made->inputs[0];
    if (step->second == Step::kTaken && from->shape().elem_cnt() > 1) { // of the sizes of a shape
      const auto sizes = made->inputs[1]->value ? draft->madeBy(from) : std::nullopt;
      const auto join = sizes ? kSteps.find(sizes->type) : kSteps.end();
      if (join == kSteps.end() || join->second != Step::kJoined) return nullptr;
      if (!std::all_of(sizes->inputs.begin(), sizes->inputs.end(), isOne)) return nullptr;
      draft->rely(made->inputs[1]);
      number = sizes->inputs[static_cast<size_t>(Conversion::peeked(made->inputs[1]).at(0))];
    } else {
      number = from;
    }
  }
  return number;
}

std::optional<double> mostBetween(GraphDraft *draft, const Term &high, const Term &low) {
  Limits limits(draft);
  const Interval top = limits.hull(high);
  double most = difference(top, limits.hull(low)).most;
  // From n to n + m there are m.
  if (const auto made = draft->madeBy(high); made && made->type == "broadcast_add" && !low->isFloating())
    for (const size_t k : {0, 1})
      if (made->inputs[k] == low) most = std::min(most, limits.hull(made->inputs[1 - k]).most);
  if (!std::isfinite(most)) return std::nullopt;
  limits.rely();
  return most;
}

} // namespace opc::onnx
