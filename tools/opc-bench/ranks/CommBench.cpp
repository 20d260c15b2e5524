// opc-comm-bench: boxing steps between ranks beside MPI's own collectives, by turns in one job. Run under mpirun.
// SPDX-License-Identifier: Apache-2.0
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "BoxingExecutor.h"
#include "MpiModule.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mpi.h>

using namespace opc;
using namespace opc::runtime;

namespace {

/// Seconds of the slowest rank for one call that all begin together.
double timed(const std::function<void()> &f) {
  MPI_Barrier(MPI_COMM_WORLD);
  const auto begin = std::chrono::steady_clock::now();
  f();
  double mine = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(), slowest = 0;
  MPI_Allreduce(&mine, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  return slowest;
}
double median(std::vector<double> v) {
  std::sort(v.begin(), v.end());
  return v.empty() ? 0 : v[v.size() / 2];
}

struct Pair {
  double ours = 0, peer = 0, ratio = 0; // medians over the rounds of the fastest; the ratio's is of the rounds' ratios
};
Pair compare(int rounds, int repeats, const std::function<void()> &ours, const std::function<void()> &peer) {
  std::vector<double> a, b, ratio;
  for (int i = -1; i < rounds; ++i) {
    double x = 1e9, y = 1e9;
    for (int r = 0; r < repeats; ++r) {
      x = std::min(x, timed(ours));
      y = std::min(y, timed(peer));
    }
    if (i < 0) continue; // the first one touches the memory
    a.push_back(x), b.push_back(y), ratio.push_back(x / y);
  }
  return {median(a), median(b), median(ratio)};
}

void check(const Status &s, Communicator &comm) {
  if (s) return;
  std::fprintf(stderr, "%s\n", s.toString().c_str());
  comm.abort(s.message());
}

} // namespace

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 7;
  const int64_t only = argc > 2 ? std::atoll(argv[2]) : 0; // KiB
  auto opened = mpiCommunicator({});
  if (!opened) {
    std::fprintf(stderr, "%s\n", opened.status().toString().c_str());
    return 4;
  }
  Communicator &comm = **opened;
  const int64_t p = comm.size();
  const Placement mesh = Placement::dense({p});
  const SbpParallel B = SbpParallel::broadcast(), P = SbpParallel::partialSum(), S0 = SbpParallel::split(0),
                    S1 = SbpParallel::split(1);
  if (comm.rank() == 0)
    std::printf("f32, %d ranks; ms, median over %d rounds of each round's fastest; ratio: opc's time over MPI's\n\n"
                "| bytes | P->S | Reduce_scatter | ratio | P->B | Allreduce | ratio | S(0)->B | Allgather | ratio | "
                "S(0)->S(1) |\n|---|---|---|---|---|---|---|---|---|---|---|\n",
                static_cast<int>(p), rounds);
  for (const int64_t kib : {16, 64, 256, 1024, 4096, 16384, 65536}) {
    if (only && kib != only) continue;
    const int64_t elements = kib * 256, columns = kib >= 1024 ? 1024 : 64, rows = elements / columns;
    const Shape shape({rows, columns});
    std::vector<float> in(static_cast<size_t>(elements), 1.5f), out(static_cast<size_t>(elements));
    const int repeats = kib <= 1024 ? 50 : kib <= 4096 ? 20 : kib <= 16384 ? 10 : 5;
    std::vector<std::unique_ptr<BoxingExecutor>> steps;
    std::vector<std::max_align_t> scratch;
    const auto step = [&](BoxingKind kind, SbpParallel from, SbpParallel to) -> std::function<void()> {
      BoxingOptions options;
      options.libraryBelow = 0; // the ordered sum at every size
      auto made = BoxingExecutor::create({{{kind, 0, {from}, {to}, BoxingReduction::kSum}, shape, kFloat, mesh, mesh}},
                                         comm.rank(), "x", options);
      check(made.status(), comm);
      steps.push_back(std::make_unique<BoxingExecutor>(std::move(*made)));
      BoxingExecutor *e = steps.back().get();
      scratch.resize(std::max(scratch.size(), e->scratchBytes() / sizeof(std::max_align_t) + 1));
      return [&, e] {
        const void *i = in.data();
        void *o = out.data();
        check(e->run(comm, 0, &i, &o, scratch.data()), comm);
      };
    };
    const int count = static_cast<int>(elements);
    const std::vector<int> pieces(static_cast<size_t>(p), static_cast<int>(elements / p));
    const auto scatter = step(BoxingKind::kReduceScatter, P, S0), reduce = step(BoxingKind::kAllReduce, P, B),
               gather = step(BoxingKind::kAllGather, S0, B), turn = step(BoxingKind::kAllToAll, S0, S1);
    const Pair ps = compare(rounds, repeats, scatter, [&] {
      MPI_Reduce_scatter(in.data(), out.data(), pieces.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    });
    const Pair pb = compare(rounds, repeats, reduce,
                            [&] { MPI_Allreduce(in.data(), out.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    const Pair sb = compare(rounds, repeats, gather, [&] {
      MPI_Allgather(in.data(), pieces[0], MPI_FLOAT, out.data(), pieces[0], MPI_FLOAT, MPI_COMM_WORLD);
    });
    const Pair ss = compare(rounds, repeats, turn, [] {});
    if (comm.rank() == 0) {
      const auto cell = [](const Pair &x) {
        std::printf(" %.3f | %.3f | %.2f |", x.ours * 1e3, x.peer * 1e3, x.ratio);
      };
      std::printf("| %lld KiB |", static_cast<long long>(kib));
      cell(ps), cell(pb), cell(sb);
      std::printf(" %.3f |\n", ss.ours * 1e3);
      std::fflush(stdout);
    }
  }
  return 0;
}
