// The planner against exhaustive search on small random graphs, and what it says about problems without an answer.
// SPDX-License-Identifier: Apache-2.0
#include "SignaturePlanner.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

using namespace opc::planner;

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

struct Random { // xorshift64: the same everywhere
  uint64_t state;
  explicit Random(uint64_t seed) : state(seed * 0x9e3779b97f4a7c15ull + 88172645463325252ull) {}
  uint32_t below(uint32_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<uint32_t>((state >> 11) % n);
  }
  double cost() { return below(1000) / 64.0; }
};

Problem randomProblem(uint64_t seed) {
  Random random(seed);
  Problem p;
  const uint32_t tensorKinds = 1 + random.below(3), ops = 1 + random.below(10);
  for (uint32_t k = 0; k < tensorKinds; ++k) {
    TensorKind kind;
    kind.states = 1 + random.below(4);
    for (uint32_t a = 0; a < kind.states; ++a)
      for (uint32_t b = 0; b < kind.states; ++b)
        kind.boxing.push_back(a == b ? 0 : random.below(6) == 0 ? kInfinity : random.below(5) == 0 ? 0 : random.cost());
    for (uint32_t a = 0; a < kind.states; ++a) kind.bytes.push_back(random.below(1000));
    p.tensorKinds.push_back(kind);
  }
  for (uint32_t o = 0; o < ops; ++o) {
    Op op;
    const uint32_t inputs = p.tensors.empty() ? 0 : random.below(4), outputs = random.below(8) == 0 ? 2 : 1;
    for (uint32_t i = 0; i < inputs; ++i) op.inputs.push_back(random.below(static_cast<uint32_t>(p.tensors.size())));
    // Sometimes an earlier kind again, when it fits.
    for (uint32_t i = 0; i < outputs; ++i) {
      Tensor t;
      t.kind = random.below(tensorKinds);
      t.discount = random.below(4) == 0 ? 0.5 : 1;
      t.held = random.below(2);
      op.outputs.push_back(static_cast<uint32_t>(p.tensors.size()));
      p.tensors.push_back(t);
    }
    OpKind kind;
    const uint32_t signatures = 1 + random.below(3);
    auto state = [&](uint32_t t) { return random.below(p.tensorKinds[p.tensors[t].kind].states); };
    for (uint32_t s = 0; s < signatures; ++s) {
      OpKind::Signature signature;
      for (uint32_t t : op.inputs) signature.inputs.push_back(state(t));
      for (uint32_t t : op.outputs) signature.outputs.push_back(state(t));
      signature.seconds = random.below(12) == 0 ? kInfinity : random.cost();
      kind.signatures.push_back(signature);
    }
    if (random.below(3) == 0)
      for (uint32_t i = 0; i < inputs; ++i) kind.pinned.push_back(random.below(4) == 0);
    op.kind = static_cast<uint32_t>(p.opKinds.size());
    p.opKinds.push_back(kind);
    p.ops.push_back(op);
  }
  return p;
}

/// The definition in SignaturePlanner.h, written once more: the cost and the least bytes are over all sets of copies.
/// `memory` limits the held bytes.
struct Exhaustive {
  const Problem &p;
  int copies;
  double memory;
  double best = kInfinity;
  uint64_t leastBytes = UINT64_MAX;
  std::vector<uint32_t> chosen, bestChoice;

  Exhaustive(const Problem &problem, int copyLimit, double memoryLimit = kInfinity)
      : p(problem), copies(copyLimit), memory(memoryLimit), chosen(problem.ops.size()) {
    search(0);
  }
  void search(size_t op) {
    if (op == p.ops.size()) return leaf();
    for (uint32_t s = 0; s < p.opKinds[p.ops[op].kind].signatures.size(); ++s) {
      if (p.opKinds[p.ops[op].kind].signatures[s].seconds == kInfinity) continue;
      chosen[op] = s;
      search(op + 1);
    }
  }
  void leaf() {
    // For every tensor the (cost, bytes) of each set of copies; combined over tensors as a list of all that are not
    // worse in both than another.
    double fixed = 0;
    std::vector<uint32_t> made(p.tensors.size());
    std::vector<std::vector<uint32_t>> wanted(p.tensors.size());
    for (size_t o = 0; o < p.ops.size(); ++o) {
      const OpKind &kind = p.opKinds[p.ops[o].kind];
      const auto &s = kind.signatures[chosen[o]];
      fixed += s.seconds;
      for (size_t i = 0; i < s.outputs.size(); ++i) made[p.ops[o].outputs[i]] = s.outputs[i];
      for (size_t i = 0; i < s.inputs.size(); ++i) {
        const uint32_t t = p.ops[o].inputs[i];
        if (!kind.pinned.empty() && kind.pinned[i]) {
          if (made[t] != s.inputs[i]) return;
        } else
          wanted[t].push_back(s.inputs[i]);
      }
    }
    std::vector<std::pair<double, double>> front = {{fixed, 0}};
    for (size_t t = 0; t < p.tensors.size(); ++t) {
      const TensorKind &kind = p.tensorKinds[p.tensors[t].kind];
      std::vector<std::pair<double, double>> options;
      for (uint32_t set = 0; set < 1u << kind.states; ++set) {
        if (__builtin_popcount(set) > copies || (set >> made[t] & 1)) continue;
        double cost = 0, bytes = static_cast<double>(kind.bytes[made[t]]);
        for (uint32_t c = 0; c < kind.states; ++c)
          if (set >> c & 1) {
            cost += kind.boxing[made[t] * kind.states + c];
            bytes += static_cast<double>(kind.bytes[c]);
          }
        for (uint32_t w : wanted[t]) {
          double least = kind.boxing[made[t] * kind.states + w];
          for (uint32_t c = 0; c < kind.states; ++c)
            if (set >> c & 1) least = std::min(least, kind.boxing[c * kind.states + w]);
          cost += least;
        }
        if (cost < kInfinity) options.push_back({cost * p.tensors[t].discount, bytes * p.tensors[t].held});
      }
      std::vector<std::pair<double, double>> next;
      for (const auto &a : front)
        for (const auto &b : options) next.push_back({a.first + b.first, a.second + b.second});
      std::sort(next.begin(), next.end());
      front.clear();
      for (const auto &n : next)
        if (front.empty() || n.second < front.back().second) front.push_back(n);
    }
    for (const auto &[cost, bytes] : front) {
      leastBytes = std::min(leastBytes, static_cast<uint64_t>(bytes));
      if (bytes <= memory && cost < best) {
        best = cost;
        bestChoice = chosen;
      }
    }
  }
};

} // namespace

TEST_CASE("planner: as good as exhaustive search on random graphs", "[planner]") {
  int impossible = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Problem p = randomProblem(seed);
    Options options;
    options.copies = static_cast<int>(seed % 3);
    const Exhaustive truth(p, options.copies);
    for (const bool tight : {false, true}) {
      if (tight) options.tableLimit = 4; // most must go through the dual bounds
      const Solution s = solve(p, options);
      INFO("seed " << seed << " copies " << options.copies << " method " << s.method);
      REQUIRE(s.feasible == (truth.best < kInfinity));
      if (!s.feasible) {
        impossible += !tight;
        CHECK(s.blamed >= 0);
        continue;
      }
      CHECK(costOf(p, s.signature, options.copies) == Approx(s.cost).epsilon(1e-12).margin(1e-12));
      CHECK(s.lowerBound <= truth.best + 1e-9);
      if (!tight) {
        CHECK(s.gap == 0);
        CHECK(s.cost == Approx(truth.best).epsilon(1e-12).margin(1e-12));
      } else {
        CHECK(s.cost >= truth.best - 1e-9);
        CHECK(s.cost - s.gap <= truth.best + 1e-9);
      }
    }
  }
  CHECK(impossible > 5); // the graphs are of both sorts
  CHECK(impossible < 150);
}

TEST_CASE("planner: memory limits against exhaustive search", "[planner]") {
  int binding = 0, failing = 0, exact = 0;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
    const Problem p = randomProblem(seed);
    Options options;
    options.copies = static_cast<int>(seed % 3);
    const Solution free = solve(p, options);
    if (!free.feasible || free.bytes == 0) continue;
    const Exhaustive any(p, options.copies);
    for (const double part : {0.9, 0.6, 0.3}) {
      options.memoryLimit = std::max<uint64_t>(1, static_cast<uint64_t>(part * static_cast<double>(free.bytes)));
      INFO("seed " << seed << " copies " << options.copies << " limit " << options.memoryLimit);
      const Exhaustive truth(p, options.copies, static_cast<double>(options.memoryLimit));
      const Solution s = solve(p, options);
      REQUIRE(s.feasible == (truth.best < kInfinity));
      if (!s.feasible) {
        ++failing;
        CHECK(s.blamed == -1);
        CHECK(s.bytes == any.leastBytes);
        continue;
      }
      ++binding;
      CHECK(s.bytes <= options.memoryLimit);
      CHECK(s.cost >= truth.best - 1e-9);
      CHECK(s.lowerBound <= truth.best + 1e-9);
      CHECK(s.lowerBound >= free.cost - 1e-9);
      CHECK(s.gap == Approx(s.cost - s.lowerBound).margin(1e-9));
      exact += s.cost <= truth.best + 1e-9;
    }
  }
  CHECK(binding > 40);
  CHECK(failing > 40);
  CHECK(exact * 2 > binding); // the price finds the best in most cases; the bound is honest in all
}

TEST_CASE("planner: the same answer every time", "[planner]") {
  for (uint64_t seed : {3, 17, 40, 77}) {
    const Problem p = randomProblem(seed);
    const Solution a = solve(p), b = solve(p);
    CHECK(a.signature == b.signature);
    CHECK(a.copies == b.copies);
    CHECK(a.cost == b.cost);
  }
  // Equal signatures: the first.
  Problem p;
  p.tensorKinds.push_back({2, {0, 1, 1, 0}, {8, 8}});
  p.opKinds.push_back({{{{}, {1}, 1}, {{}, {0}, 1}, {{}, {1}, 1}}, {}});
  p.tensors.push_back({});
  p.ops.push_back({0, {}, {0}});
  CHECK(solve(p).signature == std::vector<uint32_t>{0});
}

TEST_CASE("planner: boxing is shared between readers", "[planner]") {
  // One producer in state 0, three readers that want state 1: one copy, or three transitions.
  Problem p;
  p.tensorKinds.push_back({2, {0, 5, 5, 0}, {8, 8}});
  p.opKinds.push_back({{{{}, {0}, 0}}, {}});
  p.opKinds.push_back({{{{1}, {}, 0}}, {}});
  p.tensors.push_back({});
  p.ops.push_back({0, {}, {0}});
  for (int i = 0; i < 3; ++i) p.ops.push_back({1, {0}, {}});
  Options options;
  CHECK(solve(p, options).cost == 5);
  CHECK(solve(p, options).copies[0] == std::vector<uint32_t>{1});
  options.copies = 0;
  CHECK(solve(p, options).cost == 15);
  CHECK(costOf(p, {0, 0, 0, 0}, 0) == 15);
  CHECK(costOf(p, {0, 0, 0, 0}, 1) == 5);
  p.tensors[0].discount = 0.5;
  CHECK(solve(p).cost == 2.5);
  // A pinned reader takes what was produced, or nothing.
  p.opKinds[1].pinned = {true};
  const Solution s = solve(p);
  CHECK_FALSE(s.feasible);
  CHECK(s.blamed >= 0);
  CHECK(costOf(p, {0, 0, 0, 0}) == kInfinity);
}

TEST_CASE("planner: problems that are none", "[planner]") {
  Problem good;
  good.tensorKinds.push_back({2, {0, 1, 1, 0}, {8, 8}});
  good.opKinds.push_back({{{{}, {0}, 1}}, {}});
  good.opKinds.push_back({{{{0}, {}, 1}}, {}});
  good.tensors.push_back({});
  good.ops.push_back({0, {}, {0}});
  good.ops.push_back({1, {0}, {}});
  REQUIRE(solve(good).feasible);
  CHECK(solve({}).feasible); // nothing to decide
  CHECK(solve({}).cost == 0);

  const auto refused = [&](const std::function<void(Problem &)> &damage, const std::string &what, int64_t op = -1) {
    Problem p = good;
    damage(p);
    const Solution s = solve(p);
    INFO(what << " / " << s.method);
    CHECK_FALSE(s.feasible);
    CHECK(s.method.find(what) != std::string::npos);
    CHECK(s.blamed == op);
    CHECK(costOf(p, {0, 0}) == kInfinity);
  };
  refused([](Problem &p) { p.tensorKinds[0].states = 0; }, "no state");
  refused([](Problem &p) { p.tensorKinds[0].boxing.pop_back(); }, "states * states");
  refused([](Problem &p) { p.tensorKinds[0].bytes.pop_back(); }, "bytes");
  refused([](Problem &p) { p.tensorKinds[0].boxing[0] = 1; }, "to itself");
  refused([](Problem &p) { p.tensorKinds[0].boxing[1] = -1; }, "negative");
  refused([](Problem &p) { p.tensorKinds[0].boxing[1] = std::nan(""); }, "negative");
  refused([](Problem &p) { p.tensors[0].kind = 7; }, "unknown kind");
  refused([](Problem &p) { p.tensors[0].held = -1; }, "held");
  refused([](Problem &p) { p.tensors[0].discount = kInfinity; }, "discount");
  refused([](Problem &p) { p.tensors.push_back({}); }, "output of no op");
  refused([](Problem &p) { p.ops[1].kind = 9; }, "unknown kind", 1);
  refused([](Problem &p) { p.ops[1].inputs[0] = 9; }, "no op before it makes", 1);
  refused([](Problem &p) { std::swap(p.ops[0], p.ops[1]); }, "no op before it makes", 0);
  refused([](Problem &p) { p.ops.push_back(p.ops[0]); }, "two ops", 2);
  refused([](Problem &p) { p.opKinds[1].signatures[0].inputs.clear(); }, "for each input", 1);
  refused([](Problem &p) { p.opKinds[1].signatures[0].inputs[0] = 2; }, "does not have", 1);
  refused([](Problem &p) { p.opKinds[0].signatures[0].outputs[0] = 2; }, "does not have", 0);
  refused([](Problem &p) { p.opKinds[0].signatures[0].seconds = -1; }, "negative", 0);
  refused([](Problem &p) { p.opKinds[1].pinned = {true, false}; }, "pinned", 1);

  Options options;
  options.copies = 3;
  CHECK_FALSE(solve(good, options).feasible);
  Problem none = good; // an op without a signature
  none.opKinds[1].signatures.clear();
  CHECK_FALSE(solve(none).feasible);
  CHECK(solve(none).blamed == 1);
  CHECK(costOf(good, {0}) == kInfinity);
  CHECK(costOf(good, {0, 5}) == kInfinity);
}
