// Boxing: the table of collectives and their bytes; every pair of states carried out on small meshes; shortest paths.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingCost.h"
#include "BoxingSimulation.h"

using namespace opc;
using namespace opc::boxing_simulation;

namespace {

NdSbp nd(const std::string &text) { return *parseNdSbp(text); }

MeshLinks someLinks(size_t dims) {
  MeshLinks links;
  for (size_t i = 0; i < dims; ++i)
    links.dims.push_back({1e-6 * static_cast<double>(dims - i), 1e9 * static_cast<double>(i + 1)});
  links.between = {1e-5, 5e8};
  return links;
}

BoxingOp collective(const Shape &shape, const std::vector<int64_t> &dims, const std::string &from,
                    const std::string &to) {
  const auto step = collectiveStep(nd(from), nd(to), dims);
  REQUIRE(step);
  return {*step, shape, kFloat, Placement::dense(dims), Placement::dense(dims)};
}

std::vector<int64_t> sentBytes(const BoxingOp &op) {
  std::vector<int64_t> bytes;
  for (int64_t r : op.source.ranks) bytes.push_back(bytesSent(op, r));
  return bytes;
}

BoxingOp exchange(const Shape &shape, const NdSbp &from, const Placement &source, const NdSbp &to,
                  const Placement &target) {
  return {{BoxingKind::kExchange, -1, from, to, BoxingReduction::kSum}, shape, kFloat, source, target};
}

/// Legal states and, on meshes of one dimension, those with empty parts.
std::vector<NdSbp> statesOf(const Shape &shape, const std::vector<int64_t> &dims) {
  std::vector<NdSbp> states = legalStates(shape, kFloat, dims);
  if (dims.size() == 1)
    for (int64_t a = 0; a < shape.NumAxes(); ++a)
      if (shape.At(a) < dims[0]) states.push_back({SbpParallel::split(a)});
  return states;
}

} // namespace

TEST_CASE("boxing table, one mesh dimension, even splits: bytes that a rank sends are the published formulas") {
  for (int64_t p : {2, 3, 4}) {
    const Shape shape({12, 24});
    const int64_t total = 12 * 24 * 4; // f32
    struct Row {
      const char *from, *to;
      BoxingKind kind;
      int64_t numerator, denominator; // of the whole tensor's bytes
    };
    for (const Row &row :
         {Row{"B", "S0", BoxingKind::kSlice, 0, 1}, Row{"B", "P", BoxingKind::kPartialOf, 0, 1},
          Row{"S0", "P", BoxingKind::kPad, 0, 1}, Row{"S0", "B", BoxingKind::kAllGather, p - 1, p},
          Row{"S1", "B", BoxingKind::kAllGather, p - 1, p}, Row{"S0", "S1", BoxingKind::kAllToAll, p - 1, p * p},
          Row{"S1", "S0", BoxingKind::kAllToAll, p - 1, p * p}, Row{"P", "S0", BoxingKind::kReduceScatter, p - 1, p},
          Row{"P", "S1", BoxingKind::kReduceScatter, p - 1, p},
          Row{"P", "B", BoxingKind::kAllReduce, 2 * (p - 1), p}}) {
      CAPTURE(p, row.from, row.to);
      const BoxingOp op = collective(shape, {p}, row.from, row.to);
      CHECK(op.step.kind == row.kind);
      for (int64_t bytes : sentBytes(op)) CHECK(bytes * row.denominator == total * row.numerator);
    }
  }
}

TEST_CASE("boxing table, uneven splits") {
  // 7 rows of 5 floats on 3 ranks: 3, 2, 2 rows (60, 40, 40 bytes); columns 2, 2, 1.
  const Shape shape({7, 5});
  using V = std::vector<int64_t>;
  CHECK(sentBytes(collective(shape, {3}, "S0", "B")) == V{120, 80, 80});              // the own piece to both others
  CHECK(sentBytes(collective(shape, {3}, "P", "S0")) == V{80, 100, 100});             // all but the own piece
  CHECK(sentBytes(collective(shape, {3}, "S0", "S1")) == V{36, 24, 32});              // own rows x others' columns
  CHECK(sentBytes(collective(shape, {3}, "P", "B")) == V{92 + 96, 92 + 96, 96 + 88}); // 35 = 12 + 12 + 11 elements
  // 2 elements on 3 ranks: the last holds nothing.
  CHECK(sentBytes(collective(Shape({2}), {3}, "S0", "B")) == V{8, 8, 0});
  CHECK(sentBytes(collective(Shape({2}), {3}, "P", "B")) == V{4 + 8, 4 + 8, 8});
  CHECK(sentBytes(collective(Shape({}), {2}, "P", "B")) == V{4, 4}); // the first sums the only element
}

TEST_CASE("boxing table, two mesh dimensions: a step happens within the groups of its dimension") {
  const Shape shape({12, 24});
  const int64_t total = 12 * 24 * 4;
  struct Row {
    const char *from, *to;
    BoxingKind kind;
    int64_t numerator, denominator;
  };
  // On 2x3 the tensor of a group of dimension 0 is T / 3 where dimension 1 splits, T where it does not.
  for (const Row &row :
       {Row{"S0,S1", "B,S1", BoxingKind::kAllGather, 1, 2 * 3}, Row{"S0,S1", "S0,B", BoxingKind::kAllGather, 2, 3 * 2},
        Row{"S0,B", "B,B", BoxingKind::kAllGather, 1, 2}, Row{"P,S0", "B,S0", BoxingKind::kAllReduce, 2, 2 * 3},
        Row{"S0,P", "S0,B", BoxingKind::kAllReduce, 2 * 2, 3 * 2},
        Row{"S0,P", "S0,S0", BoxingKind::kReduceScatter, 2, 3 * 2},
        Row{"P,P", "P,S1", BoxingKind::kReduceScatter, 2, 3}, Row{"S0,S0", "S0,S1", BoxingKind::kAllToAll, 2, 9 * 2},
        Row{"S0,B", "S1,B", BoxingKind::kAllToAll, 1, 4}}) {
    CAPTURE(row.from, row.to);
    const BoxingOp op = collective(shape, {2, 3}, row.from, row.to);
    CHECK(op.step.kind == row.kind);
    for (int64_t bytes : sentBytes(op)) CHECK(bytes * row.denominator == total * row.numerator);
  }
  // An inner dimension that splits the same axis is in the way.
  CHECK_FALSE(collectiveStep(nd("S0,S0"), nd("B,S0"), {2, 3}));
  CHECK_FALSE(collectiveStep(nd("B,S0"), nd("S0,S0"), {2, 3}));
  CHECK_FALSE(collectiveStep(nd("S1,S0"), nd("S0,S0"), {2, 3}));
  CHECK(collectiveStep(nd("S0,S0"), nd("S0,B"), {2, 3}));
  CHECK(collectiveStep(nd("S0,S0"), nd("B,S0"), {2, 1})); // one device is no split
}

TEST_CASE("every pair of states on every mesh is carried out by its cheapest path") {
  struct Setting {
    std::vector<int64_t> dims;
    std::vector<Shape> shapes;
  };
  for (const Setting &s :
       {Setting{{1}, {{3, 2}}}, Setting{{2}, {{4, 6}, {3, 5}, {1, 2, 3}, {}}}, Setting{{3}, {{6, 3}, {7, 5}, {2, 4}}},
        Setting{{4}, {{4, 8}, {5, 6, 7}, {3}}}, Setting{{2, 2}, {{4, 4}, {5, 7}, {2, 9}, {}}},
        Setting{{2, 3}, {{6, 6}, {7, 11}}}, Setting{{2, 1}, {{4, 3}}}, Setting{{2, 2, 2}, {{9}, {9, 11}}}}) {
    const Placement mesh = Placement::dense(s.dims);
    const MeshLinks links = someLinks(s.dims.size());
    for (const Shape &shape : s.shapes) {
      const std::vector<NdSbp> states = statesOf(shape, s.dims);
      size_t wrong = 0;
      for (const NdSbp &from : states) {
        const Pieces whole = scatter(shape, from, mesh);
        if (!isInState(whole, shape, from, mesh)) ++wrong;
        for (const NdSbp &to : states) {
          CAPTURE(mesh.toString(), shape.ToString(), toString(from), toString(to));
          Pieces now = whole;
          for (const BoxingStep &step : boxingPath(shape, kFloat, from, to, mesh, links))
            now = carryOut({step, shape, kFloat, mesh, mesh}, now);
          if (!isInState(now, shape, to, mesh)) {
            ++wrong;
            CHECK(isInState(now, shape, to, mesh));
          }
        }
      }
      CHECK(wrong == 0);
    }
  }
}

TEST_CASE("every single collective and every exchange does what its states say, on the cheapest path or not") {
  for (const std::vector<int64_t> &dims :
       std::vector<std::vector<int64_t>>{{2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {2, 2, 2}}) {
    const Placement mesh = Placement::dense(dims, 5);
    for (const Shape &shape : {Shape({8, 9}), Shape({13, 8})}) {
      const std::vector<NdSbp> states = statesOf(shape, dims);
      size_t collectives = 0;
      for (const NdSbp &from : states) {
        const Pieces whole = scatter(shape, from, mesh);
        for (const NdSbp &to : states) {
          CAPTURE(mesh.toString(), toString(from), toString(to));
          if (const auto step = collectiveStep(from, to, dims)) {
            ++collectives;
            if (!isInState(carryOut({*step, shape, kFloat, mesh, mesh}, whole), shape, to, mesh))
              FAIL_CHECK("the collective " << boxingKindName(step->kind) << " is wrong");
          }
          if (!hasPartial(from) && !hasPartial(to) &&
              !isInState(carryOut(exchange(shape, from, mesh, to, mesh), whole), shape, to, mesh))
            FAIL_CHECK("the exchange is wrong");
        }
      }
      CHECK(collectives > 0);
    }
  }
}

TEST_CASE("every pair of states between different placements is carried out") {
  struct Setting {
    Placement source, target;
  };
  const std::vector<Setting> settings{
      {Placement::dense({1}), Placement::dense({1}, 1)},
      {Placement::dense({2}), Placement::dense({2}, 2)},
      {Placement::dense({2}), Placement::dense({4}, 2)},
      {Placement::dense({4}), Placement::dense({2}, 4)},
      {Placement::dense({3}), Placement::dense({2}, 3)},
      {Placement::dense({4}), Placement::dense({2, 2})},
      {Placement::dense({2, 2}), Placement::dense({2, 2}, 4)},
      {Placement::dense({2, 2}), Placement::dense({3}, 2)},
      {{{2}, {3, 1}}, {{3}, {1, 2, 0}}},
  };
  const Shape shape({6, 5});
  for (const Setting &s : settings) {
    const MeshLinks a = someLinks(s.source.dims.size()), b = someLinks(s.target.dims.size());
    for (const NdSbp &from : statesOf(shape, s.source.dims)) {
      for (const NdSbp &to : statesOf(shape, s.target.dims)) {
        CAPTURE(s.source.toString(), s.target.toString(), toString(from), toString(to));
        Pieces now = scatter(shape, from, s.source);
        int64_t exchanges = 0;
        for (const BoxingOp &op : boxingPath(shape, kFloat, from, s.source, to, s.target, a, b)) {
          exchanges += op.source != op.target;
          now = carryOut(op, now);
        }
        CHECK(exchanges == 1);
        CHECK(isInState(now, shape, to, s.target));
      }
    }
  }
}

TEST_CASE("between placements partial sums are reduced first, and a tensor crosses once") {
  // A pipeline edge of a tensor on two ranks each. P -> B: reduce-scatter, each half crosses once, all-gather.
  MeshLinks links;
  links.dims = {{1e-6, 1e11}};
  links.between = {1e-6, 1e9};
  const Shape shape({64, 64});
  const Placement a = Placement::dense({2}), b = Placement::dense({2}, 2);
  const auto ops = boxingPath(shape, kFloat, nd("P"), a, nd("B"), b, links, links);
  REQUIRE(ops.size() == 3);
  CHECK(ops[0].step.kind == BoxingKind::kReduceScatter);
  CHECK(ops[1].step.kind == BoxingKind::kExchange);
  CHECK(ops[2].step.kind == BoxingKind::kAllGather);
  for (int64_t r : {0, 1}) CHECK(bytesSent(ops[1], r) == 64 * 64 * 4 / 2);
  // B -> B: each of the replicas sends a half, and the target gathers.
  const auto copies = boxingPath(shape, kFloat, nd("B"), a, nd("B"), b, links, links);
  REQUIRE(copies.size() >= 2);
  int64_t crossing = 0;
  for (const BoxingOp &op : copies)
    if (op.source != op.target)
      for (int64_t r : {0, 1}) crossing += bytesSent(op, r);
  CHECK(crossing == 64 * 64 * 4);
}

TEST_CASE("an exchange takes each piece from the nearest holder and spreads the work over replicas") {
  const Shape shape({8, 4});
  // Replicas on four ranks feed four others: one each, in order.
  const BoxingOp copies = exchange(shape, nd("B"), Placement::dense({4}), nd("B"), Placement::dense({4}, 4));
  for (int64_t r = 0; r < 4; ++r) {
    const BoxingTraffic t = boxingTraffic(copies, r);
    REQUIRE(t.sends.size() == 1);
    CHECK(t.sends[0].rank == r + 4);
  }
  // A rank that is on both sides keeps what it has.
  const BoxingOp moved = exchange(shape, nd("S0"), Placement::dense({2}), nd("S0"), Placement::dense({2}, 1));
  CHECK(boxingTraffic(moved, 0).sends.size() == 1); // the upper half, to rank 1
  CHECK(boxingTraffic(moved, 1).sends.size() == 1); // the lower half, to rank 2
  CHECK(boxingTraffic(moved, 1).receives[0].rank == 0);
  // On 2x2 the holders that share the outer coordinate are near: nothing crosses it.
  const BoxingOp near = exchange(shape, nd("B,S0"), Placement::dense({2, 2}), nd("B,S1"), Placement::dense({2, 2}));
  for (int64_t r = 0; r < 4; ++r)
    for (const BoxingTransfer &s : boxingTraffic(near, r).sends) CHECK(s.rank / 2 == r / 2);
  // 4x2: quarter i is held by two and wanted by three others; nobody sends more than two of the three.
  const BoxingOp shared = exchange(shape, nd("S0,B"), Placement::dense({4, 2}), nd("B,S0"), Placement::dense({4, 2}));
  for (int64_t r = 0; r < 8; ++r) CHECK(boxingTraffic(shared, r).sends.size() <= 2);
}

TEST_CASE("paths are shortest: equal to Floyd and Warshall over all collectives and exchanges") {
  for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{{4}, {2, 3}, {4, 2}, {2, 2, 2}}) {
    const Placement mesh = Placement::dense(dims);
    const MeshLinks links = someLinks(dims.size());
    for (const Shape &shape : {Shape({64, 48}), Shape({1000, 8}), Shape({17})}) {
      if (dims.size() == 3 && shape != Shape({17})) continue;
      const std::vector<NdSbp> states = legalStates(shape, kFloat, dims);
      const size_t n = states.size();
      std::vector<double> best(n * n, std::numeric_limits<double>::infinity());
      for (size_t a = 0; a < n; ++a) {
        best[a * n + a] = 0;
        for (size_t b = 0; b < n; ++b) {
          if (a == b) continue;
          if (const auto step = collectiveStep(states[a], states[b], dims))
            best[a * n + b] = boxingSeconds({*step, shape, kFloat, mesh, mesh}, links);
          if (!hasPartial(states[a]) && !hasPartial(states[b]) && !collectiveStep(states[a], states[b], dims))
            best[a * n + b] = boxingSeconds(exchange(shape, states[a], mesh, states[b], mesh), links);
        }
      }
      for (size_t k = 0; k < n; ++k)
        for (size_t a = 0; a < n; ++a)
          for (size_t b = 0; b < n; ++b) best[a * n + b] = std::min(best[a * n + b], best[a * n + k] + best[k * n + b]);
      const std::vector<double> matrix = boxingMatrix(shape, kFloat, states, mesh, links);
      for (size_t a = 0; a < n; ++a) {
        for (size_t b = 0; b < n; ++b) {
          CAPTURE(mesh.toString(), shape.ToString(), toString(states[a]), toString(states[b]));
          REQUIRE(matrix[a * n + b] == Approx(best[a * n + b]).epsilon(1e-6).margin(0));
          double sum = 0;
          for (const BoxingStep &s : boxingPath(shape, kFloat, states[a], states[b], mesh, links))
            sum += boxingSeconds({s, shape, kFloat, mesh, mesh}, links);
          REQUIRE(sum == Approx(best[a * n + b]).epsilon(1e-6).margin(0));
        }
      }
    }
  }
}

TEST_CASE("seconds of a collective are those of the rank that sends most") {
  // Latency aside: bytes over bandwidth, to the byte, also where splits are uneven.
  MeshLinks links;
  links.dims = {{0, 1e9}, {0, 1e9}};
  for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{{2, 3}, {4, 2}}) {
    for (const Shape &shape : {Shape({24, 24}), Shape({13, 9})}) {
      const std::vector<NdSbp> states = legalStates(shape, kFloat, dims);
      for (const NdSbp &from : states) {
        for (const NdSbp &to : states) {
          const auto step = collectiveStep(from, to, dims);
          if (!step) continue;
          const BoxingOp op{*step, shape, kFloat, Placement::dense(dims), Placement::dense(dims)};
          const std::vector<int64_t> sent = sentBytes(op);
          const int64_t most = *std::max_element(sent.begin(), sent.end());
          CAPTURE(toString(from), toString(to), shape.ToString());
          if (most > 0) CHECK(boxingSeconds(op, links) * 1e9 == Approx(static_cast<double>(most)));
        }
      }
    }
  }
}

TEST_CASE("seconds of an exchange are those of the busiest device") {
  for (const std::vector<int64_t> &dims : std::vector<std::vector<int64_t>>{{2, 3}, {4, 4}, {4, 2}, {2, 2, 2}}) {
    MeshLinks links;
    links.dims.assign(dims.size(), {0, 1e9});
    links.between = {0, 1e9};
    const Placement mesh = Placement::dense(dims), others = Placement::dense(dims, mesh.size());
    for (const Shape &shape : {Shape({48, 96}), Shape({31, 17})}) {
      const std::vector<NdSbp> states = legalStates(shape, kFloat, dims);
      for (const NdSbp &from : states) {
        for (const NdSbp &to : states) {
          if (hasPartial(from) || hasPartial(to)) continue;
          for (const Placement &target : {mesh, others}) {
            if (target == mesh && (from == to || collectiveStep(from, to, dims))) continue;
            const BoxingOp op = exchange(shape, from, mesh, to, target);
            int64_t busiest = 0;
            for (int64_t r = 0; r < 2 * mesh.size(); ++r) {
              int64_t received = 0;
              for (const BoxingTransfer &t : boxingTraffic(op, r).receives) received += t.box.elements() * 4;
              busiest = std::max({busiest, received, bytesSent(op, r)});
            }
            if (busiest == 0) continue;
            CAPTURE(mesh.toString(), shape.ToString(), toString(from), toString(to), target.toString());
            const double ratio = static_cast<double>(busiest) / (boxingSeconds(op, links) * 1e9);
            // One wanted piece goes to one holder: where there are few, the busiest has up to twice the share.
            const bool exact = target == mesh && dims.size() == 2;
            if (ratio < 0.99 || ratio > (exact ? 1.12 : 2.01)) FAIL_CHECK("busiest / estimate is " << ratio);
          }
        }
      }
    }
  }
}
