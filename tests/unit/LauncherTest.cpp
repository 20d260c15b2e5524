// How several processes are started, and how a process finds out that it is one of several; agreement; the watchdog;
// the monitor.
// SPDX-License-Identifier: Apache-2.0
#include "InProcessCommunicator.h"
#include "LaunchedJob.h"
#include "MpiModule.h"
#include "PeerMonitor.h"
#include "PlanAgreement.h"
#include "Watchdog.h"

#include <catch2/catch.hpp>

#include <cstdlib>
#include <thread>

using namespace opc;
using namespace opc::runtime;

namespace {

LaunchRequest request() {
  LaunchRequest r;
  r.ranks = 4, r.executable = "/usr/bin/opc", r.arguments = {"run", "a plan.opc"}, r.mpirun = "/usr/bin/mpirun",
  r.cores = 4;
  return r;
}

/// Sets or removes a variable for a while.
struct Variable {
  Variable(const char *name, const char *value) : name(name) {
    if (const char *before = std::getenv(name)) old = before;
    value ? setenv(name, value, 1) : unsetenv(name);
  }
  ~Variable() { old ? setenv(name, old->c_str(), 1) : unsetenv(name); }
  const char *name;
  std::optional<std::string> old;
};

/// Runs f for every rank, each in a thread.
template <class F> void onThreads(int64_t n, F &&f) {
  std::vector<std::thread> threads;
  for (int64_t r = 0; r < n; ++r) threads.emplace_back([&f, r] { f(r); });
  for (std::thread &t : threads) t.join();
}

} // namespace

TEST_CASE("The command that starts the ranks", "[comm]") {
  auto c = launchCommand(request());
  REQUIRE(c);
  CHECK(c->text() == "/usr/bin/mpirun --bind-to none -n 4 /usr/bin/opc run 'a plan.opc'");
  LaunchRequest r = request();
  r.cores = 2, r.root = true;
  CHECK(launchCommand(r)->text() == "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 /usr/bin/mpirun "
                                    "--oversubscribe --bind-to none -n 4 /usr/bin/opc run 'a plan.opc'");
  r.root = false, r.launcher = "srun --mpi=pmix";
  CHECK(launchCommand(r)->text() == "srun --mpi=pmix -n 4 /usr/bin/opc run 'a plan.opc'");
  r.launcher.clear(), r.mpirun.clear();
  c = launchCommand(r);
  REQUIRE(!c);
  CHECK(c.status().id() == "OPC0725");
  CHECK_THAT(c.status().toString(), Catch::Contains("openmpi-bin"));
}

TEST_CASE("A launcher that is not there is named", "[comm]") {
  LaunchRequest r = request();
  r.launcher = "no-such-launcher";
  const Status s = launch(*launchCommand(r), {}).status();
  CHECK(s.id() == "OPC0725");
  CHECK_THAT(s.message(), Catch::Contains("no-such-launcher"));
}

TEST_CASE("What launchers leave in the environment", "[comm]") {
  const Variable a("OMPI_COMM_WORLD_RANK", nullptr), b("PMI_RANK", nullptr), c("PMIX_RANK", nullptr);
  const Variable sa("OMPI_COMM_WORLD_SIZE", nullptr), sb("PMI_SIZE", nullptr);
  const Variable fd("PMI_FD", nullptr), port("PMI_PORT", nullptr), uri2("PMIX_SERVER_URI2", nullptr),
      uri21("PMIX_SERVER_URI21", nullptr);
  CHECK(!launchedRank());
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "3"), size("OMPI_COMM_WORLD_SIZE", "8");
    CHECK(!launchedRank()); // names alone: nobody waits for this process
  }
  const Variable server("PMIX_SERVER_URI2", "1.0;tcp4://127.0.0.1:1");
  CHECK(!launchedRank());
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "8"), size("OMPI_COMM_WORLD_SIZE", "8");
    CHECK(!launchedRank()); // no rank of eight
  }
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "99999999999999999999"), size("OMPI_COMM_WORLD_SIZE", "8");
    CHECK(!launchedRank());
  }
  {
    const Variable rank("OMPI_COMM_WORLD_RANK", "3"), size("OMPI_COMM_WORLD_SIZE", "8");
    REQUIRE(launchedRank());
    CHECK(launchedRank()->rank == 3);
    CHECK(launchedRank()->size == 8);
  }
  const Variable rank("PMIX_RANK", "0");
  REQUIRE(launchedRank());
  CHECK(launchedRank()->size == -1);
  const Variable nonsense("PMIX_RANK", "x");
  CHECK(!launchedRank());
}

TEST_CASE("Without the module the engine says what it looked for", "[comm]") {
  const Variable module("OPC_MPI_MODULE", "/nowhere/libopc_mpi.so");
  const auto comm = mpiCommunicator({});
  REQUIRE(!comm);
  CHECK(comm.status().id() == "OPC0725");
  CHECK_THAT(comm.status().message(), Catch::Contains("/nowhere/libopc_mpi.so"));
}

TEST_CASE("Ranks with different plans are told who has which", "[comm]") {
  auto ends = inProcessCommunicators(4);
  std::vector<Status> same(4), different(4);
  onThreads(4, [&](int64_t r) {
    const size_t i = static_cast<size_t>(r);
    same[i] = checkAllHaveTheSame(*ends[i], "plans", "the plan");
    different[i] = checkAllHaveTheSame(*ends[i], "plans", r == 1 ? "another" : "the plan");
  });
  for (size_t r = 0; r < 4; ++r) {
    CHECK(same[r]);
    CHECK(different[r].id() == "OPC0723");
    CHECK_THAT(different[r].message(), Catch::Contains("rank 1 has ") && Catch::Contains("ranks 0,2-3 have "));
  }
}

TEST_CASE("The watchdog ends a rank that makes no step, and no other", "[comm]") {
  auto ends = inProcessCommunicators(2);
  std::string said;
  WatchdogOptions options;
  options.timeout = std::chrono::milliseconds(40), options.patience = std::chrono::milliseconds(0);
  options.report = [&](const RankReport &r) { said = r.id + " " + r.message; };
  const std::string activity = "all_gather of x, 1 bytes, with ranks 0-1";
  {
    // Disarmed, nothing happens however long it takes.
    Watchdog idle(*ends[1], options);
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  CHECK(said.empty());
  char mine = 0, all[2];
  Status s;
  {
    Watchdog watchdog(*ends[0], options);
    ends[0]->setActivity(0, &activity);
    watchdog.arm();
    s = ends[0]->allGatherBytes(&mine, 1, all); // the other rank never comes
    ends[0]->setActivity(0, nullptr);
  }
  CHECK(s.id() == "OPC0721");
  CHECK(said == "OPC0722 rank 0 has made no step for 0.04 s; it is in " + activity);
  CHECK_THAT(s.message(), Catch::Contains("rank 0 has made no step"));
}

TEST_CASE("A failure is announced to all ranks; a goodbye is none", "[comm]") {
  auto ends = inProcessCommunicators(3);
  std::vector<std::unique_ptr<PeerMonitor>> monitors(3);
  std::mutex lock;
  std::vector<std::string> heard(3);
  onThreads(3, [&](int64_t r) {
    const size_t i = static_cast<size_t>(r);
    PeerMonitorOptions options;
    options.onEnd = [&, i](const RankReport &report) {
      std::lock_guard<std::mutex> guard(lock);
      heard[i] = report.message;
      CHECK(report.kind == RankReport::Kind::kFailed);
      CHECK(report.rank == 2);
    };
    auto m = PeerMonitor::create(
        r, 3, [&, i](const void *mine, size_t n, void *all) { return ends[i]->allGatherBytes(mine, n, all); }, options);
    if (m) monitors[i] = std::move(*m);
  });
  for (const auto &m : monitors) REQUIRE(m);
  monitors[1]->sayGoodbye();
  for (int i = 0; i < 2000 && !(monitors[0]->hasLeft(1) && monitors[2]->hasLeft(1)); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  CHECK(monitors[0]->hasLeft(1));
  CHECK(monitors[2]->hasLeft(1)); // by way of rank 0
  monitors[1].reset();
  monitors[2]->announceFailure("kernel fc1 met a NaN");
  for (int i = 0; i < 2000; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::lock_guard<std::mutex> guard(lock);
    if (!heard[0].empty()) break;
  }
  std::lock_guard<std::mutex> guard(lock);
  CHECK_THAT(heard[0], Catch::StartsWith("rank 2 (process ") && Catch::EndsWith(" has failed: kernel fc1 met a NaN"));
  CHECK(heard[1].empty());
  CHECK(heard[2].empty());
}
