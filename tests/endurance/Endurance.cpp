// Does memory stay flat? 1,000 runs in one session, 100 sessions in one process; and two sessions on two threads give
// what one gives alone (built with -DOPC_SANITIZE=thread this is the test for races).
//
//   opc_endurance runs|sessions|threads PLAN
// SPDX-License-Identifier: Apache-2.0
#include "Session.h"
#include "TestRegistry.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <malloc.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace {

using namespace opc;

constexpr uint64_t kAllowedGrowth = 1 << 20; // pages that an allocator takes late, not a leak in a hundred repetitions

// A sanitizer keeps what is freed, and has an allocator of its own: it looks for leaks itself.
#ifdef OPC_SANITIZED
constexpr bool kMeasures = false;
#else
constexpr bool kMeasures = true;
#endif

uint64_t residentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

[[noreturn]] void stop(const std::string &what) {
  std::fprintf(stderr, "endurance: %s\n", what.c_str());
  std::exit(1);
}
void ok(const Status &s) {
  if (!s.isOk()) stop(s.toString());
}

Session load(const std::string &plan, const Registry &registry, int threads) {
  SessionOptions options;
  options.threads = threads;
  Result<Session> session = Session::load(plan, registry, options);
  ok(session.status());
  return std::move(*session);
}

/// Feeds numbers that depend on `seed` and gives the first output.
HostTensor once(Session &session, uint64_t seed) {
  for (const PortInfo &p : session.interface().inputs) {
    Result<HostTensor> t = HostTensor::create(p.desc.data_type(), p.desc.shape());
    ok(t.status());
    fillUniform(&*t, 0, 1, {seed, stableHash(p.name)});
    ok(session.feed(p.name, *t));
  }
  ok(session.run());
  Result<HostTensor> out = session.fetch(session.interface().outputs.at(0).name);
  ok(out.status());
  return std::move(*out);
}

/// `body(i)` for i in [0, count); memory after a tenth of them and at the end.
template <class F> void flat(const char *what, int count, F &&body) {
  uint64_t resident = 0, used = 0;
  for (int i = 0; i < count; ++i) {
    body(i);
    if (i + 1 == count / 10) resident = residentBytes(), used = mallinfo2().uordblks;
  }
  const uint64_t resident2 = residentBytes(), used2 = mallinfo2().uordblks;
  std::printf("%d %s: resident %lu -> %lu KiB, heap in use %lu -> %lu KiB\n", count, what, resident >> 10,
              resident2 >> 10, used >> 10, used2 >> 10);
  if (!kMeasures) return;
  if (resident2 > resident + kAllowedGrowth) stop("the resident size grows");
  if (used2 > used + (64 << 10)) stop("the heap grows");
}

bool equal(const HostTensor &a, const HostTensor &b) {
  return a.desc() == b.desc() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

} // namespace

int main(int argc, char **argv) {
  if (argc != 3) stop("usage: opc_endurance runs|sessions|threads PLAN");
  const std::string mode = argv[1];
  const Registry &registry = test::registry();
  Result<FileBytes> file = FileBytes::open(argv[2]);
  ok(file.status());
  const std::string plan(file->view());

  if (mode == "runs") {
    Session session = load(plan, registry, 1);
    flat("runs in one session", 1000, [&](int i) { (void)once(session, static_cast<uint64_t>(i)); });
  } else if (mode == "sessions") {
    flat("sessions in one process", 100, [&](int i) {
      Session session = load(plan, registry, 1);
      (void)once(session, static_cast<uint64_t>(i));
    });
  } else if (mode == "threads") {
    // Each thread has its session; the registry and the operators' own state are shared.
    constexpr int kRuns = 20;
    std::vector<HostTensor> alone[2], together[2];
    auto work = [&](int which, std::vector<HostTensor> *out) {
      Session session = load(plan, registry, 1);
      for (int i = 0; i < kRuns; ++i) out->push_back(once(session, static_cast<uint64_t>(which * 1000 + i)));
    };
    for (int t : {0, 1}) work(t, &alone[t]);
    std::thread first(work, 0, &together[0]), second(work, 1, &together[1]);
    first.join();
    second.join();
    for (int t : {0, 1})
      for (int i = 0; i < kRuns; ++i)
        if (!equal(alone[t][static_cast<size_t>(i)], together[t][static_cast<size_t>(i)]))
          stop("session " + std::to_string(t) + " gives something else when another one runs beside it");
    std::printf("two sessions on two threads: %d runs each, the same values as alone\n", kRuns);
  } else {
    stop("no mode '" + mode + "'");
  }
  return 0;
}
