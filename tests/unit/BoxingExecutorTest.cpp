// Boxing steps over the in-process engine, against values computed from the definition of the states.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingExecutor.h"
#include "InProcessCommunicator.h"
#include "StateSpace.h"
#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <thread>

namespace {

using namespace opc;
using namespace opc::runtime;
using Bytes = std::vector<char>;

SbpParallel S(int64_t axis) { return SbpParallel::split(axis); }
const SbpParallel B = SbpParallel::broadcast(), P = SbpParallel::partialSum();

/// One element, read as the type that it is accumulated in: integers exactly, floats in f32 or f64.
struct Number {
  double real = 0;
  uint64_t bits = 0; // of integers, sign extended
};
Number load(const char *at, DataType type) {
  return visit<types::Numbers>(type, [&](auto tag) -> Number {
    typename decltype(tag)::type v;
    std::memcpy(&v, at, sizeof v);
    if constexpr (std::is_integral_v<decltype(v)>)
      return {0, static_cast<uint64_t>(v)};
    else
      return {static_cast<double>(numberOf(v)), 0};
  });
}
void store(char *at, DataType type, Number v) {
  if (!IsFloatingDataType(type)) return void(std::memcpy(at, &v.bits, GetSizeOfDataType(type))); // little endian
  visit<types::Floating>(type, [&](auto tag) {
    const auto x = convertElement<typename decltype(tag)::type>(v.real);
    std::memcpy(at, &x, sizeof x);
  });
}
Number addUp(Number a, Number b, DataType type, BoxingReduction reduction) {
  const bool isSigned = type == kInt8 || type == kInt16 || type == kInt32 || type == kInt64;
  if (reduction == BoxingReduction::kMax) {
    const bool less = IsFloatingDataType(type) ? a.real < b.real
                      : isSigned               ? static_cast<int64_t>(a.bits) < static_cast<int64_t>(b.bits)
                                               : a.bits < b.bits;
    return less ? b : a;
  }
  if (type == kDouble) return {a.real + b.real};
  return {static_cast<float>(static_cast<float>(a.real) + static_cast<float>(b.real)), a.bits + b.bits};
}

/// Addends of a logical tensor, by the coordinates on the mesh dimensions that are P.
struct Logical {
  Shape shape;
  DataType type;
  std::map<std::vector<int64_t>, Bytes> addends;
};
std::vector<int64_t> partialCoordinates(const NdSbp &states, const std::vector<int64_t> &coordinates) {
  std::vector<int64_t> key;
  for (size_t d = 0; d < states.size(); ++d)
    if (states[d] == P) key.push_back(coordinates[d]);
  return key;
}
Bytes cut(const Bytes &whole, const Shape &shape, const Box &box, size_t elementSize) {
  Bytes out;
  std::vector<int64_t> index = box.begin;
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t at = 0;
    for (size_t a = 0; a < index.size(); ++a) at = at * shape.At(static_cast<int64_t>(a)) + index[a];
    const char *p = whole.data() + static_cast<size_t>(at) * elementSize;
    out.insert(out.end(), p, p + elementSize);
    for (size_t a = index.size(); a-- > 0;) {
      if (++index[a] < box.begin[a] + box.size[a]) break;
      index[a] = box.begin[a];
    }
  }
  return out;
}
/// Copies the elements of a box from one whole tensor to another.
void paste(Bytes &to, const Bytes &from, const Shape &shape, const Box &box, size_t elementSize) {
  for (int64_t i = 0; i < shape.elem_cnt(); ++i) {
    bool inside = true;
    int64_t rest = i;
    for (size_t a = box.size.size(); a-- > 0;) {
      const int64_t index = rest % shape.At(static_cast<int64_t>(a));
      rest /= shape.At(static_cast<int64_t>(a));
      inside = inside && index >= box.begin[a] && index < box.begin[a] + box.size[a];
    }
    if (inside)
      std::memcpy(&to[static_cast<size_t>(i) * elementSize], &from[static_cast<size_t>(i) * elementSize], elementSize);
  }
}
Bytes randomTensor(const Shape &shape, DataType type, std::mt19937 &random) {
  const size_t size = GetSizeOfDataType(type);
  Bytes b(static_cast<size_t>(shape.elem_cnt()) * size);
  std::uniform_real_distribution<double> real(-8, 8);
  for (size_t i = 0; i < b.size(); i += size) {
    if (type == kBool)
      b[i] = static_cast<char>(random() & 1);
    else if (IsFloatingDataType(type))
      store(&b[i], type, {real(random)});
    else
      store(&b[i], type, {0, (static_cast<uint64_t>(random()) << 32) | random()});
  }
  return b;
}
/// Every addend that a state has, at random.
Logical randomLogical(const BoxingOp &op, std::mt19937 &random) {
  Logical x{op.shape, op.type, {}};
  for (int64_t p = 0; p < op.source.size(); ++p) {
    Bytes &b = x.addends[partialCoordinates(op.step.from, op.source.coordinates(p))];
    if (b.empty()) b = randomTensor(op.shape, op.type, random);
  }
  return x;
}
Bytes localValue(const Logical &x, const NdSbp &states, const Placement &mesh, int64_t position) {
  return cut(x.addends.at(partialCoordinates(states, mesh.coordinates(position))), x.shape,
             localBox(x.shape, states, mesh.dims, position), GetSizeOfDataType(x.type));
}
/// What the tensor is after a step, by the definition: addends along the mesh dimension are put together in the order
/// of the ranks, or a first one holds the value and the others nothing.
Logical after(const Logical &x, const BoxingOp &op) {
  const size_t size = GetSizeOfDataType(op.type);
  const size_t d = static_cast<size_t>(op.step.meshDim);
  Logical y{x.shape, x.type, {}};
  if (op.step.kind == BoxingKind::kExchange || (op.step.from[d] == P) == (op.step.to[d] == P)) return x;
  if (op.step.to[d] == P) {
    for (int64_t p = 0; p < op.source.size(); ++p) {
      // From B the first one has everything; from a split each has its own piece; zeros elsewhere.
      const std::vector<int64_t> c = op.source.coordinates(p);
      const Bytes &v = x.addends.at(partialCoordinates(op.step.from, c));
      Bytes &out = y.addends[partialCoordinates(op.step.to, c)];
      out.resize(v.size());
      if (op.step.from[d] != B || c[d] == 0)
        paste(out, v, x.shape, localBox(op.shape, op.step.from, op.source.dims, p), size);
    }
    return y;
  }
  std::vector<int64_t> positions(static_cast<size_t>(op.source.size()));
  std::iota(positions.begin(), positions.end(), 0);
  std::sort(positions.begin(), positions.end(), [&](int64_t a, int64_t b) {
    return op.source.ranks[static_cast<size_t>(a)] < op.source.ranks[static_cast<size_t>(b)];
  });
  // The order of the addends is that of the ranks of one group, which may differ from group to group.
  for (int64_t p = 0; p < op.source.size(); ++p) {
    std::vector<Number> sums(static_cast<size_t>(op.shape.elem_cnt()));
    const std::vector<int64_t> mine = op.source.coordinates(p);
    bool first = true;
    for (int64_t other : positions) {
      std::vector<int64_t> c = op.source.coordinates(other);
      const int64_t coordinate = c[d];
      c[d] = mine[d];
      if (c != mine) continue;
      c[d] = coordinate;
      const Bytes &b = x.addends.at(partialCoordinates(op.step.from, c));
      for (size_t i = 0; i < sums.size(); ++i) {
        const Number v = load(&b[i * size], op.type);
        sums[i] = first ? v : addUp(sums[i], v, op.type, op.step.reduction);
      }
      first = false;
    }
    Bytes out(sums.size() * size);
    for (size_t i = 0; i < sums.size(); ++i) store(&out[i * size], op.type, sums[i]);
    y.addends[partialCoordinates(op.step.to, mine)] = out;
  }
  return y;
}

/// Runs f for every rank, each in a thread. The statuses in rank order.
std::vector<Status> onRanks(std::vector<std::unique_ptr<Communicator>> &ends,
                            const std::function<Status(Communicator &)> &f) {
  std::vector<Status> result(ends.size());
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ends.size(); ++r) threads.emplace_back([&, r] { result[r] = f(*ends[r]); });
  for (std::thread &t : threads) t.join();
  return result;
}

struct Run {
  std::vector<Status> status;
  std::vector<std::vector<Bytes>> outputs; // by rank, by tensor
  std::vector<uint64_t> sent;
  std::vector<int64_t> announced;
};
/// Runs a bucket on all ranks of the job. inputs: by rank, by tensor.
Run runBucket(std::vector<std::unique_ptr<Communicator>> &ends, const std::vector<BoxingOp> &ops,
              const std::vector<std::vector<Bytes>> &inputs, const BoxingOptions &options, bool inPlace = false) {
  Run run;
  run.outputs.resize(ends.size()), run.sent.resize(ends.size()), run.announced.resize(ends.size());
  run.status = onRanks(ends, [&](Communicator &comm) -> Status {
    const size_t r = static_cast<size_t>(comm.rank());
    Result<BoxingExecutor> executor = BoxingExecutor::create(ops, comm.rank(), "t", options);
    if (!executor) return executor.status();
    std::vector<const void *> in;
    std::vector<void *> out;
    auto &outputs = run.outputs[r];
    for (size_t t = 0; t < ops.size(); ++t) {
      const size_t want = static_cast<size_t>(executor->inputBytes(t));
      if (inputs[r][t].size() != want) return Status(StatusCode::kInternal, "test", "input size");
      outputs.push_back(Bytes(static_cast<size_t>(executor->outputBytes(t)), char(0x5a)));
      if (inPlace) outputs[t] = inputs[r][t];
    }
    const auto placed = [&](const Placement &p) { return p.positionOf(comm.rank()).has_value(); };
    for (size_t t = 0; t < ops.size(); ++t) {
      out.push_back(placed(ops[t].target) ? outputs[t].data() : nullptr);
      in.push_back(inPlace ? outputs[t].data() : placed(ops[t].source) ? inputs[r][t].data() : nullptr);
    }
    std::vector<std::max_align_t> scratch(executor->scratchBytes() / sizeof(std::max_align_t) + 1);
    const uint64_t before = comm.counters().bytesSent;
    const Status s = executor->run(comm, 0, in.data(), out.data(), scratch.data());
    run.sent[r] = comm.counters().bytesSent - before;
    run.announced[r] = executor->bytesSent();
    return s;
  });
  return run;
}

/// Runs one step and compares everything with the definition. False: the state is not one that the step can make.
void check(std::vector<std::unique_ptr<Communicator>> &ends, const BoxingOp &op, const BoxingOptions &options,
           std::mt19937 &random, bool inPlace = false) {
  const Logical x = randomLogical(op, random);
  const Logical y = after(x, op);
  std::vector<std::vector<Bytes>> inputs(ends.size(), std::vector<Bytes>(1));
  for (int64_t p = 0; p < op.source.size(); ++p)
    inputs[static_cast<size_t>(op.source.ranks[static_cast<size_t>(p)])][0] = localValue(x, op.step.from, op.source, p);
  const Run run = runBucket(ends, {op}, inputs, options, inPlace);
  INFO(boxingKindName(op.step.kind) << " " << toString(op.step.from) << " to " << toString(op.step.to) << " of "
                                    << dataTypeName(op.type) << op.shape.ToString() << " on " << op.source.toString()
                                    << " to " << op.target.toString());
  for (size_t r = 0; r < ends.size(); ++r) {
    INFO("rank " << r << ": " << run.status[r].toString());
    REQUIRE(run.status[r]);
    CHECK(run.sent[r] == static_cast<uint64_t>(bytesSent(op, static_cast<int64_t>(r))));
    CHECK(run.announced[r] == bytesSent(op, static_cast<int64_t>(r)));
    const auto position = op.target.positionOf(static_cast<int64_t>(r));
    if (position)
      CHECK(run.outputs[r][0] == localValue(y, op.step.to, op.target, *position));
    else
      CHECK(run.outputs[r][0].empty());
  }
}

std::optional<BoxingKind> kindOf(const SbpParallel &from, const SbpParallel &to) {
  if (from == to) return std::nullopt;
  if (from == B) return to == P ? BoxingKind::kPartialOf : BoxingKind::kSlice;
  if (from == P) return to == B ? BoxingKind::kAllReduce : BoxingKind::kReduceScatter;
  return to == B ? BoxingKind::kAllGather : to == P ? BoxingKind::kPad : BoxingKind::kAllToAll;
}
std::vector<NdSbp> allStates(int64_t axes, size_t meshRank) {
  std::vector<SbpParallel> one{B, P};
  for (int64_t a = 0; a < axes; ++a) one.push_back(S(a));
  return test::allStates(one, meshRank);
}
/// The step between two states that differ on one mesh dimension, unless an inner dimension cuts the same axis.
std::optional<BoxingStep> stepBetween(const NdSbp &from, const NdSbp &to) {
  std::optional<size_t> changed;
  for (size_t d = 0; d < from.size(); ++d)
    if (from[d] != to[d]) {
      if (changed) return std::nullopt;
      changed = d;
    }
  if (!changed) return std::nullopt;
  for (size_t d = *changed + 1; d < from.size(); ++d)
    if (from[d].has_split_parallel() && (from[d] == from[*changed] || from[d] == to[*changed])) return std::nullopt;
  return BoxingStep{*kindOf(from[*changed], to[*changed]), static_cast<int32_t>(*changed), from, to,
                    BoxingReduction::kSum};
}

BoxingOptions smallPieces() {
  BoxingOptions o;
  o.scratchTarget = 64, o.leastPiece = 64;
  return o;
}

} // namespace

TEST_CASE("Every boxing step gives what the states mean and sends what the formulas say", "[comm]") {
  std::mt19937 random(5);
  const std::vector<Placement> meshes = {
      Placement::dense({1}),     Placement::dense({2}),           Placement::dense({3}),
      Placement::dense({4}),     Placement::dense({2, 2}),        Placement::dense({2, 3}),
      Placement{{3}, {2, 0, 1}}, Placement{{2, 2}, {3, 1, 0, 2}}, Placement{{2}, {1, 3}}};
  for (const Placement &mesh : meshes) {
    auto ends = inProcessCommunicators(std::max<int64_t>(4, mesh.size()));
    for (const Shape &shape : {Shape({7, 5}), Shape({2, 3, 4}), Shape({1, 6}), Shape({0, 4})}) {
      const auto states = allStates(shape.NumAxes(), mesh.dims.size());
      for (const NdSbp &from : states)
        for (const NdSbp &to : states) {
          const auto step = stepBetween(from, to);
          if (!step) continue;
          const BoxingOp op{*step, shape, kFloat, mesh, mesh};
          check(ends, op, random() % 2 ? BoxingOptions() : smallPieces(), random);
          if (step->kind == BoxingKind::kAllReduce) check(ends, op, smallPieces(), random, true);
        }
    }
  }
}

TEST_CASE("Exchanges between any states without partial sums, on the same and on other devices", "[comm]") {
  std::mt19937 random(6);
  const std::vector<Placement> meshes = {
      Placement::dense({1}, 2), Placement::dense({2}),    Placement::dense({3}, 1), Placement::dense({4}),
      Placement::dense({2, 2}), Placement::dense({2}, 2), Placement::dense({2, 3}), Placement{{2, 2}, {5, 1, 0, 2}}};
  auto ends = inProcessCommunicators(6);
  for (const Placement &source : meshes)
    for (const Placement &target : meshes)
      for (const Shape &shape : {Shape({7, 5}), Shape({3, 2})})
        for (const NdSbp &from : allStates(shape.NumAxes(), source.dims.size()))
          for (const NdSbp &to : allStates(shape.NumAxes(), target.dims.size())) {
            if (hasPartial(from) || hasPartial(to) || random() % 3) continue;
            check(ends, {{BoxingKind::kExchange, -1, from, to, BoxingReduction::kSum}, shape, kInt16, source, target},
                  {}, random);
          }
}

TEST_CASE("Boxing of every element type, and maxima", "[comm]") {
  std::mt19937 random(7);
  auto ends = inProcessCommunicators(4);
  for (DataType type : dataTypes<types::Computed>())
    for (int64_t n : {2, 3, 4}) {
      const Placement mesh = Placement::dense({n});
      for (const NdSbp &from : allStates(2, 1))
        for (const NdSbp &to : allStates(2, 1)) {
          auto step = stepBetween(from, to);
          if (!step || (type == kBool && (hasPartial(from) || hasPartial(to)))) continue;
          check(ends, {*step, Shape({6, 11}), type, mesh, mesh}, smallPieces(), random);
          if (!hasPartial(from)) continue;
          step->reduction = BoxingReduction::kMax;
          check(ends, {*step, Shape({6, 11}), type, mesh, mesh}, smallPieces(), random);
          BoxingOptions ordered;
          ordered.libraryBelow = 0;
          check(ends, {*step, Shape({6, 11}), type, mesh, mesh}, ordered, random);
        }
    }
}

TEST_CASE("Scalars are reduced", "[comm]") {
  std::mt19937 random(8);
  auto ends = inProcessCommunicators(3);
  const Placement mesh = Placement::dense({3});
  check(ends, {{BoxingKind::kAllReduce, 0, {P}, {B}, BoxingReduction::kSum}, Shape(), kFloat, mesh, mesh}, {}, random);
  check(ends, {{BoxingKind::kPartialOf, 0, {B}, {P}, BoxingReduction::kSum}, Shape(), kFloat, mesh, mesh}, {}, random);
}

TEST_CASE("A tensor has the same bits alone, in a bucket and in pieces", "[comm]") {
  std::mt19937 random(9);
  auto ends = inProcessCommunicators(3);
  const Placement mesh = Placement::dense({3});
  for (const bool scatter : {false, true}) {
    const BoxingStep step{scatter ? BoxingKind::kReduceScatter : BoxingKind::kAllReduce,
                          0,
                          {P},
                          {scatter ? S(1) : B},
                          BoxingReduction::kSum};
    std::vector<BoxingOp> ops;
    const std::pair<Shape, DataType> tensors[] = {{{40, 7}, kFloat},  {{3, 1000}, kBFloat16}, {{1}, kFloat},
                                                  {{5, 5}, kFloat16}, {{64, 64}, kFloat},     {{9, 2}, kInt32}};
    for (const auto &[shape, type] : tensors)
      if (!scatter || shape.NumAxes() > 1) ops.push_back({step, shape, type, mesh, mesh});
    std::vector<std::vector<Bytes>> inputs(3);
    std::vector<std::vector<Bytes>> expected(3);
    for (const BoxingOp &op : ops) {
      const Logical x = randomLogical(op, random), y = after(x, op);
      for (size_t r = 0; r < 3; ++r) {
        inputs[r].push_back(localValue(x, op.step.from, mesh, static_cast<int64_t>(r)));
        expected[r].push_back(localValue(y, op.step.to, mesh, static_cast<int64_t>(r)));
      }
    }
    for (const int64_t target : {64, 600, 4 << 20}) {
      BoxingOptions options;
      options.scratchTarget = target, options.leastPiece = 64;
      const Run bucket = runBucket(ends, ops, inputs, options);
      int64_t sent = 0;
      for (size_t r = 0; r < 3; ++r) {
        REQUIRE(bucket.status[r]);
        CHECK(bucket.outputs[r] == expected[r]);
        CHECK(bucket.sent[r] == static_cast<uint64_t>(bucket.announced[r]));
      }
      for (const BoxingOp &op : ops) sent += bytesSent(op, 0);
      CHECK(bucket.announced[0] == sent);
    }
  }
}

TEST_CASE("Scratch stays within its bound", "[comm]") {
  const Placement mesh = Placement::dense({4});
  BoxingOptions options;
  options.scratchTarget = 1 << 20;
  for (const BoxingKind kind : {BoxingKind::kAllReduce, BoxingKind::kReduceScatter}) {
    const BoxingStep step{kind, 0, {P}, {kind == BoxingKind::kAllReduce ? B : S(1)}, BoxingReduction::kSum};
    auto e = BoxingExecutor::create({{step, Shape({4096, 4096}), kFloat, mesh, mesh}}, 2, "w", options);
    REQUIRE(e);
    CHECK(e->scratchBytes() <= (1u << 20) + (1u << 20) / 6);
    CHECK(e->activity() == std::string(boxingKindName(kind)) + " of w, 67108864 bytes, with ranks 0-3");
  }
}

TEST_CASE("Steps that cannot be carried out are refused", "[comm]") {
  const Placement mesh = Placement::dense({2, 2}), other = Placement::dense({4});
  const auto refused = [&](const BoxingOp &op) {
    auto e = BoxingExecutor::create({op}, 0);
    REQUIRE(!e);
    CHECK(e.status().id() == "OPC0726");
  };
  // The inner dimension cuts the same axis: gathering over the outer one leaves gaps.
  refused(
      {{BoxingKind::kAllGather, 0, {S(0), S(0)}, {B, S(0)}, BoxingReduction::kSum}, Shape({8, 2}), kFloat, mesh, mesh});
  refused({{BoxingKind::kAllReduce, 0, {P, B}, {B, B}, BoxingReduction::kSum}, Shape({8}), kBool, mesh, mesh});
  refused({{BoxingKind::kAllReduce, 2, {P, B}, {B, B}, BoxingReduction::kSum}, Shape({8}), kFloat, mesh, mesh});
  refused({{BoxingKind::kAllReduce, 0, {P, B}, {B}, BoxingReduction::kSum}, Shape({8}), kFloat, mesh, mesh});
  refused({{BoxingKind::kAllReduce, 0, {P, B}, {B, B}, BoxingReduction::kSum}, Shape({8}), kFloat, mesh, other});
}

TEST_CASE("A rank that fails ends the others with its reason", "[comm]") {
  auto ends = inProcessCommunicators(4);
  const Placement mesh = Placement::dense({4});
  const BoxingOp op{{BoxingKind::kAllReduce, 0, {P}, {B}, BoxingReduction::kSum}, Shape({1000}), kFloat, mesh, mesh};
  const auto status = onRanks(ends, [&](Communicator &comm) -> Status {
    if (comm.rank() == 2) {
      comm.abort("kernel fc1 met a NaN");
      return Status::ok();
    }
    auto e = BoxingExecutor::create({op}, comm.rank(), "fc1.w.grad");
    std::vector<float> data(1000);
    const void *in = data.data();
    void *out = data.data();
    std::vector<std::max_align_t> scratch(e->scratchBytes());
    return e->run(comm, 0, &in, &out, scratch.data());
  });
  for (const size_t r : {0, 1, 3}) {
    CHECK(status[r].id() == "OPC0721");
    CHECK_THAT(status[r].message(), Catch::Contains("rank 2 has failed: kernel fc1 met a NaN"));
    CHECK_THAT(status[r].message(), Catch::Contains("all_reduce of fc1.w.grad, 4000 bytes, with ranks 0-3"));
  }
}

TEST_CASE("A rank that ends early is named", "[comm]") {
  auto ends = inProcessCommunicators(2);
  ends.pop_back();
  char mine = 1, all[2];
  const Status s = ends[0]->allGatherBytes(&mine, 1, all);
  CHECK(s.id() == "OPC0721");
  CHECK_THAT(s.message(), Catch::Contains("rank 1 has ended"));
}

TEST_CASE("Waiting ends at the timeout, with who was waited for", "[comm]") {
  InProcessOptions options;
  options.timeout = std::chrono::milliseconds(50);
  auto ends = inProcessCommunicators(2, options);
  const std::string computing = "slice of y, 8 bytes, on rank 1", waiting = "all_gather of x, 1 bytes, with ranks 0-1";
  ends[1]->setActivity(0, &computing);
  ends[0]->setActivity(0, &waiting);
  char mine = 1, theirs = 0;
  const std::vector<CommMessage> sends{{1, {&mine, {1}, Box{{0}, {1}}, 1}}},
      receives{{1, {&theirs, {1}, Box{{0}, {1}}, 1}}};
  const Status s = ends[0]->exchange(0, sends, receives);
  CHECK(s.id() == "OPC0722");
  CHECK(s.message() ==
        "rank 0 has waited 0.05 s for rank 1 (in slice of y, 8 bytes, on rank 1) in all_gather of x, 1 bytes, "
        "with ranks 0-1");
}

TEST_CASE("Ends that disagree about a message's size are told", "[comm]") {
  auto ends = inProcessCommunicators(2);
  const auto status = onRanks(ends, [&](Communicator &comm) {
    char data[4] = {};
    const int64_t n = comm.rank() == 0 ? 2 : 4;
    if (comm.rank() == 0) return comm.exchange(0, {{1, {data, {n}, Box{{0}, {n}}, 1}}}, {});
    return comm.exchange(0, {}, {{0, {data, {n}, Box{{0}, {n}}, 1}}});
  });
  CHECK(status[1].id() == "OPC0723");
  CHECK_THAT(status[1].message(), Catch::Contains("rank 0 sends 2 bytes where rank 1 wants 4"));
}

TEST_CASE("Channels are orders of their own", "[comm]") {
  auto ends = inProcessCommunicators(2);
  // Each rank uses two channels from two threads, in opposite orders of arrival.
  const auto status = onRanks(ends, [&](Communicator &comm) {
    std::vector<Status> each(2);
    std::vector<std::thread> threads;
    for (int channel = 0; channel < 2; ++channel)
      threads.emplace_back([&, channel] {
        for (int i = 0; i < 200 && each[static_cast<size_t>(channel)]; ++i) {
          int32_t v = static_cast<int32_t>(comm.rank()) + 10 * i + 1000 * channel;
          Status s = comm.allReduce(channel, {0, 1}, &v, 1, kInt32, BoxingReduction::kSum);
          if (s && v != 1 + 20 * i + 2000 * channel) s = Status(StatusCode::kInternal, "test", "wrong sum");
          each[static_cast<size_t>(channel)] = s;
        }
      });
    for (std::thread &t : threads) t.join();
    return each[0] ? each[1] : each[0];
  });
  CHECK(status[0].toString() == "ok");
  CHECK(status[1].toString() == "ok");
}
