// One rank of a job over MPI, for processes.py: compares every boxing step with the in-process engine, or breaks in a
// way that is asked for.
// SPDX-License-Identifier: Apache-2.0
#include "BoxingExecutor.h"
#include "InProcessCommunicator.h"
#include "MpiModule.h"
#include "PlanAgreement.h"
#include "StateSpace.h"
#include "Watchdog.h"

#include <csignal>
#include <cstdio>
#include <cstring>
#include <random>
#include <thread>
#include <unistd.h>

using namespace opc;
using namespace opc::runtime;

namespace {

void say(const std::string &id, const std::string &message) {
  const std::string line = "error[" + id + "]: " + message + "\n";
  [[maybe_unused]] const ssize_t n = write(2, line.data(), line.size());
}
void sayReport(const RankReport &report) { say(report.id, report.message); }

const SbpParallel kB = SbpParallel::broadcast(), kP = SbpParallel::partialSum();
const std::vector<SbpParallel> kStates = {kB, kP, SbpParallel::split(0), SbpParallel::split(1)};

/// Runs one bucket on one rank; the outputs one after the other.
Status runOne(Communicator &comm, const std::vector<BoxingOp> &ops, const BoxingOptions &options, unsigned seed,
              std::vector<char> &result) {
  auto executor = BoxingExecutor::create(ops, comm.rank(), "x", options);
  if (!executor) return executor.status();
  std::mt19937 random(seed * 1000 + static_cast<unsigned>(comm.rank()));
  std::vector<std::vector<char>> in(ops.size()), out(ops.size());
  std::vector<const void *> inputs;
  std::vector<void *> outputs;
  for (size_t t = 0; t < ops.size(); ++t) {
    in[t].resize(static_cast<size_t>(executor->inputBytes(t)));
    out[t].resize(static_cast<size_t>(executor->outputBytes(t)));
    if (ops[t].type == kFloat)
      for (size_t i = 0; i < in[t].size(); i += 4) {
        const float v = static_cast<float>(static_cast<int32_t>(random())) * 1e-6f;
        std::memcpy(&in[t][i], &v, 4);
      }
    else
      for (char &c : in[t]) c = static_cast<char>(random() & 0x3f); // no NaN of any type
    inputs.push_back(in[t].data()), outputs.push_back(out[t].data());
  }
  std::vector<std::max_align_t> scratch(executor->scratchBytes() / sizeof(std::max_align_t) + 1);
  const uint64_t before = comm.counters().bytesSent;
  OPC_RETURN_IF_ERROR(executor->run(comm, 1, inputs.data(), outputs.data(), scratch.data()));
  if (comm.counters().bytesSent - before != static_cast<uint64_t>(executor->bytesSent()))
    return Status(StatusCode::kInternal, "test",
                  "sent " + std::to_string(comm.counters().bytesSent - before) + " bytes, not " +
                      std::to_string(executor->bytesSent()));
  result.clear();
  for (const auto &o : out) result.insert(result.end(), o.begin(), o.end());
  return Status::ok();
}

std::vector<std::vector<BoxingOp>> steps(int64_t ranks) {
  std::vector<Placement> meshes{Placement::dense({ranks})};
  if (ranks == 4) meshes.insert(meshes.end(), {Placement::dense({2, 2}), Placement::dense({2}, 1)});
  if (ranks == 3) meshes.push_back(Placement{{2}, {2, 0}});
  std::vector<std::vector<BoxingOp>> all;
  const auto add = [&](const BoxingOp &op) {
    // Alone, and twice with other tensors.
    BoxingOp other = op;
    other.shape = Shape({37, 501});
    BoxingOp third = op;
    third.shape = Shape({2, 3}), third.type = kBFloat16;
    all.push_back({op});
    if (op.shape.elem_cnt() > 10) all.push_back({third, op, other, third});
  };
  for (const Placement &mesh : meshes)
    for (const NdSbp &from : test::allStates(kStates, mesh.dims.size()))
      for (const NdSbp &to : test::allStates(kStates, mesh.dims.size())) {
        std::vector<size_t> changed;
        for (size_t d = 0; d < from.size(); ++d)
          if (from[d] != to[d]) changed.push_back(d);
        const bool big = from.size() == 1;
        const Shape shape = big ? Shape({300, 200}) : Shape({13, 21});
        if (!hasPartial(from) && !hasPartial(to))
          for (const Placement &target : meshes)
            if (target.dims.size() == mesh.dims.size())
              add({{BoxingKind::kExchange, -1, from, to, BoxingReduction::kSum}, shape, kFloat, mesh, target});
        if (changed.size() != 1) continue;
        const size_t d = changed[0];
        bool nested = false;
        for (size_t i = d + 1; i < from.size(); ++i)
          nested |= from[i].has_split_parallel() && (from[i] == from[d] || from[i] == to[d]);
        if (nested) continue;
        const BoxingKind kind = from[d] == kB   ? (to[d] == kP ? BoxingKind::kPartialOf : BoxingKind::kSlice)
                                : from[d] == kP ? (to[d] == kB ? BoxingKind::kAllReduce : BoxingKind::kReduceScatter)
                                : to[d] == kB   ? BoxingKind::kAllGather
                                : to[d] == kP   ? BoxingKind::kPad
                                                : BoxingKind::kAllToAll;
        for (const BoxingReduction reduction : {BoxingReduction::kSum, BoxingReduction::kMax}) {
          add({{kind, static_cast<int32_t>(d), from, to, reduction}, shape, kFloat, mesh, mesh});
          if (from[d] != kP) break;
          add({{kind, static_cast<int32_t>(d), from, to, reduction}, Shape({3, 4}), kFloat, mesh, mesh});
          add({{kind, static_cast<int32_t>(d), from, to, reduction}, Shape({3, 4}), kInt32, mesh, mesh});
        }
      }
  return all;
}

int check(Communicator &comm) {
  unsigned seed = 0;
  int wrong = 0;
  for (const auto &ops : steps(comm.size())) {
    BoxingOptions options;
    if (++seed % 3 == 0) options.scratchTarget = 4096, options.leastPiece = 256;
    std::vector<char> mine;
    const Status s = runOne(comm, ops, options, seed, mine);
    if (!s) {
      say(s.id(), s.toString());
      comm.abort("check failed");
      return 1;
    }
    // The same on threads.
    auto ends = inProcessCommunicators(comm.size());
    std::vector<std::vector<char>> expected(ends.size());
    std::vector<std::thread> threads;
    for (size_t r = 0; r < ends.size(); ++r)
      threads.emplace_back([&, r] {
        if (Status t = runOne(*ends[r], ops, options, seed, expected[r]); !t) say(t.id(), t.toString());
      });
    for (auto &t : threads) t.join();
    if (mine != expected[static_cast<size_t>(comm.rank())]) {
      ++wrong;
      say("test", "rank " + std::to_string(comm.rank()) + ": " + boxingKindName(ops[0].step.kind) + " " +
                      toString(ops[0].step.from) + " to " + toString(ops[0].step.to) + " differs");
    }
  }
  if (comm.rank() == 0) std::printf("%u steps on %d ranks, %d wrong\n", seed, static_cast<int>(comm.size()), wrong);
  return wrong ? 1 : 0;
}

/// Blocks beyond 2^31 bytes, contiguous and strided, from rank 0 to rank 1.
int big(Communicator &comm) {
  const int64_t rows = 3, row = (int64_t(1) << 30) + 12345;
  std::vector<char> memory(static_cast<size_t>(rows * row));
  const auto block = [&](int64_t from, int64_t width) {
    return CommBlock{memory.data(), {rows, row}, Box{{0, from}, {rows, width}}, 1};
  };
  const auto byteAt = [&](int64_t i) { return static_cast<char>(i * 2654435761u >> 13); };
  int wrong = 0;
  for (const int64_t width : {row, row - 5}) {
    if (comm.rank() == 0)
      for (int64_t i = 0; i < rows * row; ++i) memory[static_cast<size_t>(i)] = byteAt(i);
    else
      std::fill(memory.begin(), memory.end(), 0);
    const std::vector<CommMessage> message{{1 - comm.rank(), block(0, width)}};
    const Status s = comm.rank() == 0 ? comm.exchange(0, message, {}) : comm.exchange(0, {}, message);
    if (!s) say(s.id(), s.toString());
    if (comm.rank() == 1)
      for (int64_t i = 0; i < rows * row; ++i)
        wrong += memory[static_cast<size_t>(i)] != (i % row < width ? byteAt(i) : 0);
  }
  if (comm.rank() == 1) std::printf("big: %d wrong bytes\n", wrong);
  return wrong ? 1 : 0;
}

/// All-reduces for ever; `rank` does something else in the middle.
int loop(Communicator &comm, const std::string &what, int64_t rank) {
  const Placement mesh = Placement::dense({comm.size()});
  const BoxingOp op{
      {BoxingKind::kAllReduce, 0, {kP}, {kB}, BoxingReduction::kSum}, Shape({100000}), kFloat, mesh, mesh};
  auto executor = BoxingExecutor::create({op}, comm.rank(), "fc1.w.grad");
  if (!executor) return 1;
  std::vector<float> data(100000);
  std::vector<std::max_align_t> scratch(executor->scratchBytes());
  const void *in = data.data();
  void *out = data.data();
  WatchdogOptions watching;
  // Where a rank goes away the connection says so at once: a machine under load must not be taken for a rank that
  // hangs.
  const bool hangs = what == "stop" || what == "sleep";
  watching.timeout = std::chrono::seconds(hangs ? 3 : 60);
  watching.report = sayReport;
  Watchdog watchdog(comm, watching);
  watchdog.arm();
  for (int i = 0;; ++i) {
    if (i == 50 && comm.rank() == rank) {
      if (what == "kill") kill(getpid(), SIGKILL);
      if (what == "stop") kill(getpid(), SIGSTOP);
      if (what == "sleep") sleep(3600);
      if (what == "fail") {
        say("OPC0601", "kernel fc1 met a NaN");
        comm.abort("kernel fc1 met a NaN");
      }
      if (what == "leave") return 7;
    }
    const Status s = executor->run(comm, 0, &in, &out, scratch.data());
    if (!s) {
      say(s.id(), s.message());
      comm.abort(s.message());
    }
    if (what == "exit" && i == 50) return 0;
  }
}

} // namespace

int main(int argc, char **argv) {
  const std::string mode = argc > 1 ? argv[1] : "check";
  const int64_t rank = argc > 2 ? std::atoi(argv[2]) : -1;
  MpiOptions options;
  options.report = sayReport;
  if (mode == "timeout") options.timeout = std::chrono::milliseconds(1000);
  auto comm = mpiCommunicator(options);
  if (!comm) {
    say(comm.status().id(), comm.status().toString());
    return 4;
  }
  Communicator &c = **comm;
  if (mode == "check") return check(c);
  if (mode == "big") return big(c);
  if (mode == "hosts") {
    char name[64] = {};
    gethostname(name, sizeof name - 1);
    std::printf("rank %d on %s\n", static_cast<int>(c.rank()), name);
    std::fflush(stdout);
    return check(c);
  }
  if (mode == "disagree") {
    const Status s = checkAllHaveTheSame(c, "plans", c.rank() == rank ? "another" : "the plan");
    if (!s) say(s.id(), s.message());
    return s ? 0 : 3;
  }
  if (mode == "timeout") {
    if (c.rank() == rank) sleep(60); // the other one ends the job
    char byte = 0;
    const int64_t other = rank == 0 ? 1 : 0;
    const std::vector<CommMessage> m{{c.rank() == rank ? other : rank, {&byte, {1}, Box{{0}, {1}}, 1}}};
    if (c.rank() != rank && c.rank() != other) return 0;
    const Status s = c.exchange(0, c.rank() == rank ? m : std::vector<CommMessage>(),
                                c.rank() == rank ? std::vector<CommMessage>() : m);
    if (!s) say(s.id(), s.message());
    if (!s) c.abort(s.message());
    return 0;
  }
  return loop(c, mode, rank);
}
