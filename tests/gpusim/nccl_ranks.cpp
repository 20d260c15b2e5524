// Ranks as threads, each with a simulated device: what NCCL's stand-in does, by NCCL's documented signatures.
// SPDX-License-Identifier: Apache-2.0
#include "DriverTable.h"

#include <atomic>
#include <chrono>
#include <cstring>
#include <functional>
#include <string>
#include <thread>
#include <vector>

using namespace opc::gpusim::driver;

namespace {

std::atomic<int> failures{0};

void expect(bool right, const char *text, int line) {
  if (!right) std::printf("line %d: not so: %s\n", line, text), ++failures;
}
#define EXPECT(condition) expect(condition, #condition, __LINE__)
#define OK(function, ...) expect(cuda().function(__VA_ARGS__) == kSuccess, #function, __LINE__)

struct UniqueId {
  char bytes[128];
};
struct Comm;
/// The beginning of ncclConfig_t, which has its size in front.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0;
};

/// The stand-in's functions, by NCCL's documented signatures.
struct Nccl {
  int (*getUniqueId)(UniqueId *);
  int (*initRank)(Comm **, int, UniqueId, int);
  int (*destroy)(Comm *);
  int (*abort)(Comm *);
  int (*asyncError)(Comm *, int *);
  const char *(*errorString)(int);
  int (*groupStart)();
  int (*groupEnd)();
  int (*send)(const void *, size_t, int, int, Comm *, Stream *);
  int (*recv)(void *, size_t, int, int, Comm *, Stream *);
  int (*allReduce)(const void *, void *, size_t, int, int, Comm *, Stream *);
  int (*reduce)(const void *, void *, size_t, int, int, int, Comm *, Stream *);
  int (*reduceScatter)(const void *, void *, size_t, int, int, Comm *, Stream *);
  int (*allGather)(const void *, void *, size_t, int, Comm *, Stream *);
  int (*broadcast)(const void *, void *, size_t, int, int, Comm *, Stream *);
  int (*initRankConfig)(Comm **, int, UniqueId, int, struct Config *);
  Nccl() {
    void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL);
    if (!library) std::printf("%s\n", dlerror()), std::exit(2);
    const auto find = [&](auto &f, const char *name) {
      f = reinterpret_cast<std::decay_t<decltype(f)>>(dlsym(library, name));
      if (!f) std::printf("no %s\n", name), std::exit(2);
    };
    find(getUniqueId, "ncclGetUniqueId"), find(initRank, "ncclCommInitRank"), find(destroy, "ncclCommDestroy");
    find(abort, "ncclCommAbort"), find(asyncError, "ncclCommGetAsyncError"), find(errorString, "ncclGetErrorString");
    find(groupStart, "ncclGroupStart"), find(groupEnd, "ncclGroupEnd"), find(send, "ncclSend"), find(recv, "ncclRecv");
    find(allReduce, "ncclAllReduce"), find(reduce, "ncclReduce"), find(reduceScatter, "ncclReduceScatter");
    find(allGather, "ncclAllGather"), find(broadcast, "ncclBroadcast"), find(initRankConfig, "ncclCommInitRankConfig");
  }
};

Nccl &nccl() {
  static Nccl table;
  return table;
}

constexpr int kInt32 = 2, kHalf = 6, kFloat = 7, kSum = 0, kMax = 2, kAverage = 4;

void useDevice(int device) {
  Context *context = nullptr;
  OK(cuDevicePrimaryCtxRetain, &context, device);
  OK(cuCtxSetCurrent, context);
}

/// Device memory with `count` numbers.
template <class T> DevicePtr filled(size_t count, const std::function<T(size_t)> &value) {
  std::vector<T> host(count);
  for (size_t i = 0; i < count; ++i) host[i] = value(i);
  DevicePtr p = 0;
  OK(cuMemAlloc_v2, &p, count * sizeof(T));
  OK(cuMemcpyHtoD_v2, p, host.data(), count * sizeof(T));
  return p;
}

template <class T> std::vector<T> read(DevicePtr p, size_t count) {
  std::vector<T> host(count);
  OK(cuMemcpyDtoH_v2, host.data(), p, count * sizeof(T));
  return host;
}

void *pointer(DevicePtr p) { return reinterpret_cast<void *>(p); }

/// Each rank in a thread of its own, with its device current.
void ranks(int count, const std::function<void(int)> &body) {
  OK(cuInit, 0);
  std::vector<std::thread> all;
  for (int r = 0; r < count; ++r)
    all.emplace_back([&body, r] {
      useDevice(r);
      body(r);
    });
  for (std::thread &t : all) t.join();
}

Stream *newStream() {
  Stream *s = nullptr;
  OK(cuStreamCreate, &s, kStreamNonBlocking);
  return s;
}

/// body(rank, its communicator, a stream of its own) for each rank.
void communicators(int count, const std::function<void(int, Comm *, Stream *)> &body) {
  UniqueId id;
  OK(cuInit, 0);
  EXPECT(nccl().getUniqueId(&id) == 0);
  ranks(count, [&](int r) {
    Comm *comm = nullptr;
    EXPECT(nccl().initRank(&comm, count, id, r) == 0);
    body(r, comm, newStream());
  });
}

void messages() {
  communicators(3, [&](int r, Comm *comm, Stream *s) {
    const int next = (r + 1) % 3, before = (r + 2) % 3;
    const DevicePtr own = filled<int>(64, [&](size_t i) { return 1000 * r + int(i); });
    const DevicePtr other = filled<int>(64, [](size_t) { return -1; }),
                    sum = filled<int>(64, [](size_t) { return -1; });
    EXPECT(nccl().groupStart() == 0);
    EXPECT(nccl().recv(pointer(other), 64, kInt32, before, comm, s) == 0);
    EXPECT(nccl().send(pointer(own), 64, kInt32, next, comm, s) == 0);
    EXPECT(nccl().groupEnd() == 0);
    // Behind the message in the same stream, though the other side may not have called yet.
    EXPECT(nccl().allReduce(pointer(other), pointer(sum), 64, kInt32, kMax, comm, s) == 0);
    OK(cuMemsetD32Async, other, 5, 1, s);
    OK(cuStreamSynchronize, s);
    const auto found = read<int>(other, 64), most = read<int>(sum, 64);
    EXPECT(found[0] == 5 && found[1] == 1000 * before + 1 && found[63] == 1000 * before + 63);
    EXPECT(most[0] == 2000 && most[63] == 2063);
    // Halves: (1 + 2 + 3) / 3, and a sum that is rounded once.
    const DevicePtr h = filled<uint16_t>(2, [&](size_t i) {
      return uint16_t(i == 0 ? (r == 0 ? 0x3c00 : r == 1 ? 0x4000 : 0x4200) : 0x6800);
    });
    EXPECT(nccl().allReduce(pointer(h), pointer(h), 2, kHalf, kAverage, comm, s) == 0);
    OK(cuStreamSynchronize, s);
    EXPECT(read<uint16_t>(h, 2)[0] == 0x4000 && read<uint16_t>(h, 2)[1] == 0x6800);
    int error = 9;
    EXPECT(nccl().asyncError(comm, &error) == 0 && error == 0);
    EXPECT(nccl().destroy(comm) == 0);
  });
}

/// What all ranks call, in place and not, with a communicator whose calls do not wait.
void collectives() {
  UniqueId id;
  OK(cuInit, 0);
  EXPECT(nccl().getUniqueId(&id) == 0);
  ranks(3, [&](int r) {
    Comm *comm = nullptr;
    Config config;
    EXPECT(nccl().initRankConfig(&comm, 3, id, r, &config) == 7); // ncclInProgress
    int state = 7;
    while (state == 7) EXPECT(nccl().asyncError(comm, &state) == 0);
    EXPECT(state == 0);
    Stream *s = newStream();
    // Rank r has 100 r + i: 6 numbers, two of each rank's piece.
    const DevicePtr own = filled<int>(6, [&](size_t i) { return 100 * r + int(i); });
    const DevicePtr all = filled<int>(18, [](size_t) { return -1; }), piece = filled<int>(2, [](size_t) { return -1; });
    const DevicePtr sum = filled<int>(6, [](size_t) { return -1; }), sent = filled<int>(6, [](size_t) { return -1; });
    EXPECT(nccl().groupStart() == 0);
    EXPECT(nccl().allGather(pointer(own), pointer(all), 6, kInt32, comm, s) == 0);
    EXPECT(nccl().reduceScatter(pointer(own), pointer(piece), 2, kInt32, kSum, comm, s) == 0);
    EXPECT(nccl().groupEnd() == 0);
    EXPECT(nccl().reduce(pointer(own), pointer(sum), 6, kInt32, kSum, 1, comm, s) == 0);
    EXPECT(nccl().broadcast(pointer(own), pointer(sent), 6, kInt32, 2, comm, s) == 0);
    EXPECT(nccl().allReduce(pointer(own), pointer(own), 6, kInt32, kMax, comm, s) == 0);
    OK(cuStreamSynchronize, s);
    const auto gathered = read<int>(all, 18), mine = read<int>(piece, 2), root = read<int>(sum, 6);
    for (int i = 0; i < 18; ++i) EXPECT(gathered[size_t(i)] == 100 * (i / 6) + i % 6);
    for (int i = 0; i < 2; ++i) EXPECT(mine[size_t(i)] == 300 + 3 * (2 * r + i));
    for (int i = 0; i < 6; ++i) EXPECT(root[size_t(i)] == (r == 1 ? 300 + 3 * i : -1));
    EXPECT(read<int>(sent, 6)[5] == 205 && read<int>(own, 6)[5] == 205);
    EXPECT(nccl().destroy(comm) == 0);
  });
}

/// The ranks call different things, or with another root.
void disagreement() {
  std::atomic<int> refused{0};
  communicators(2, [&](int r, Comm *comm, Stream *s) {
    const DevicePtr p = filled<float>(16, [](size_t) { return 1.0f; });
    refused += (r ? nccl().allReduce(pointer(p), pointer(p), 8, kFloat, kSum, comm, s)
                  : nccl().broadcast(pointer(p), pointer(p), 8, kFloat, 0, comm, s)) == 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // both have called
    if (r == 0) nccl().abort(comm);
    OK(cuCtxSynchronize);
  });
  EXPECT(refused == 1);
}

/// fail= of CUDA_SIM: the second all-reduce of the process.
void injected() {
  UniqueId id;
  OK(cuInit, 0);
  nccl().getUniqueId(&id);
  Comm *comm = nullptr;
  useDevice(0);
  EXPECT(nccl().initRank(&comm, 1, id, 0) == 0);
  Stream *s = newStream();
  const DevicePtr p = filled<float>(4, [](size_t i) { return float(i); });
  EXPECT(nccl().allReduce(pointer(p), pointer(p), 4, kFloat, kSum, comm, s) == 0);
  EXPECT(nccl().allReduce(pointer(p), pointer(p), 4, kFloat, kSum, comm, s) == 3);
  EXPECT(nccl().allReduce(pointer(p), pointer(p), 4, kFloat, kSum, comm, s) == 0);
  OK(cuStreamSynchronize, s);
  EXPECT(read<float>(p, 4)[3] == 3);
}

/// The kernel that makes what is sent is on another stream, and nobody waits for it.
void unordered() {
  std::atomic<int> refused{0};
  communicators(2, [&](int r, Comm *comm, Stream *s) {
    Stream *t = newStream();
    const DevicePtr p = filled<float>(16, [](size_t) { return 1.0f; });
    if (r == 0) OK(cuMemsetD32Async, p, 0, 16, t);
    EXPECT(nccl().allReduce(pointer(p), pointer(p), 16, kFloat, kSum, comm, s) == 0);
    refused += cuda().cuCtxSynchronize() == kLaunchFailed;
  });
  EXPECT(refused >= 1);
}

void mistakes() {
  UniqueId id, foreign = {"gpusim 1 1"}, twice;
  OK(cuInit, 0);
  nccl().getUniqueId(&id), nccl().getUniqueId(&twice);
  EXPECT(std::string(nccl().errorString(5)) == "invalid usage");
  EXPECT(nccl().groupEnd() == 5);
  ranks(2, [&](int r) {
    Comm *comm = nullptr, *none = nullptr;
    EXPECT(nccl().initRank(&none, 2, foreign, r) == 5);
    EXPECT(nccl().initRank(&none, 2, id, 2) == 4);
    EXPECT(nccl().initRank(&comm, 2, id, r) == 0);
    Stream *s = newStream();
    const DevicePtr p = filled<float>(16, [](size_t) { return 1.0f; });
    EXPECT(nccl().send(pointer(p), 1, kFloat, 2, comm, s) == 4);
    EXPECT(nccl().send(pointer(p + 4), 16, kFloat, 1 - r, comm, s) == 1); // beyond the allocation
  });
  ranks(2, [&](int r) { // both on the first device
    useDevice(0);
    Comm *comm = nullptr;
    EXPECT(nccl().initRank(&comm, 2, twice, r) == 5);
  });
}

void sizes() {
  std::atomic<int> refused{0};
  communicators(2, [&](int r, Comm *comm, Stream *s) {
    const DevicePtr p = filled<float>(16, [](size_t) { return 1.0f; });
    const int found =
        r ? nccl().send(pointer(p), 16, kFloat, 0, comm, s) : nccl().recv(pointer(p), 15, kFloat, 1, comm, s);
    refused += found == 4;
    std::this_thread::sleep_for(std::chrono::milliseconds(50)); // both have called
    if (r == 0) nccl().abort(comm);
    OK(cuCtxSynchronize);
  });
  EXPECT(refused == 1);
}

/// A rank that fails lets nobody wait for ever.
void aborted() {
  communicators(2, [&](int r, Comm *comm, Stream *s) {
    const DevicePtr p = filled<float>(16, [](size_t) { return 1.0f; });
    if (r == 0) {
      EXPECT(nccl().recv(pointer(p), 16, kFloat, 1, comm, s) == 0);
      for (int i = 0; i < 100; ++i) EXPECT(cuda().cuStreamQuery(s) == kNotReady || i > 0);
      OK(cuStreamSynchronize, s);
      int error = 0;
      EXPECT(nccl().asyncError(comm, &error) == 0 && error == 6);
    } else {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      EXPECT(nccl().abort(comm) == 0);
    }
  });
}

} // namespace

int main(int argc, char **argv) {
  const std::pair<const char *, void (*)()> scenarios[] = {
      {"messages", messages}, {"collectives", collectives}, {"disagreement", disagreement},
      {"injected", injected}, {"unordered", unordered},     {"mistakes", mistakes},
      {"sizes", sizes},       {"aborted", aborted}};
  for (const auto &[name, run] : scenarios)
    if (argc == 2 && !std::strcmp(argv[1], name)) {
      run();
      return failures != 0;
    }
  return 2;
}
