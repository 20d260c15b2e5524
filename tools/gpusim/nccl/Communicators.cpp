// NCCL's functions that opc calls, for ranks that are threads of one process, each with a simulated device: what they
// send goes from stream to stream as the device's own work, and sums are in the order of the ranks.
// SPDX-License-Identifier: Apache-2.0
#include "DriverDeclarations.h"
#include "SmallFloats.h"
#include "Transfers.h"

#include <algorithm>
#include <condition_variable>
#include <cstdio>
#include <cstring>
#include <map>
#include <mutex>
#include <unistd.h>

namespace opc::gpusim::nccl {
namespace {

using namespace opc::gpusim::driver;

enum NcclResult : int {
  kOk = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};
enum NcclType : int { kI8, kU8, kI32, kU32, kI64, kU64, kF16, kF32, kF64, kBf16, kTypes };
enum NcclReduction : int { kSum, kProduct, kMax, kMin, kAverage };
constexpr size_t kTypeBytes[kTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

struct UniqueId {
  char bytes[128];
};

/// The ranks of one unique id.
struct Clique {
  int size = 0, joined = 0;
  std::vector<int> devices; // -1: has not come
  bool aborted = false;
  struct Messages { // from one rank to another
    uint64_t sent = 0, received = 0;
    std::map<uint64_t, std::shared_ptr<Transfer>> half; // posted by one of them
  };
  std::map<std::pair<int, int>, Messages> messages;
  std::map<uint64_t, std::shared_ptr<Transfer>> collectives; // not yet posted by all
  std::vector<std::shared_ptr<Transfer>> lost;               // that a rank announced in a group that failed
};

struct Communicator {
  std::shared_ptr<Clique> clique;
  int rank = 0;
  bool blocking = true; // calls return when they are done
  Context *context = nullptr;
  uint64_t collectives = 0;
};

struct Library {
  std::mutex mutex;
  std::condition_variable joined;
  std::map<std::string, std::shared_ptr<Clique>> cliques; // by unique id
  uint64_t ids = 0;
};

Library &library() {
  static auto *all = new Library;
  return *all;
}

/// ncclConfig_t, as far as the stand-in knows it.
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};
constexpr unsigned kConfigMagic = 0xcafebeef;
constexpr int kUndefined = INT32_MIN;

/// What the calling thread's group has so far.
struct Group {
  int depth = 0, error = kOk;
  std::vector<std::pair<std::pair<Communicator *, Stream *>, TransferPart>> parts;
  std::vector<Communicator *> joining;
};

Group &group() {
  thread_local Group g;
  return g;
}

int refuse(int code, const std::string &why) {
  std::fprintf(stderr, "gpusim: NCCL error %d: %s\n", code, why.c_str());
  if (group().depth > 0) group().error = code;
  return code;
}

/// The code that fail= of CUDA_SIM has for this call, or 0.
int injected(const char *function) {
  const int code = opcGpusimInjected(function);
  return code ? refuse(code, std::string(function) + ": injected by fail= of CUDA_SIM") : kOk;
}

// --- reductions -----------------------------------------------------------------------------------------------------

template <class T> T reduced(T a, T b, int reduction) {
  switch (reduction) {
  case kProduct: return static_cast<T>(a * b);
  case kMax: return std::max(a, b);
  case kMin: return std::min(a, b);
  default: return static_cast<T>(a + b);
  }
}

/// Element by element in the order of the ranks; `From` and `To` between what is stored and what is computed with.
template <class Stored, class Number, class From, class To>
std::vector<std::byte> combineAs(const Transfer &t, From from, To to) {
  std::vector<std::byte> result(t.contributions[0].size());
  for (size_t at = 0; at < result.size(); at += sizeof(Stored)) {
    Number sum = {};
    for (size_t r = 0; r < t.contributions.size(); ++r) {
      Stored stored;
      std::memcpy(&stored, &t.contributions[r][at], sizeof stored);
      sum = r ? reduced<Number>(sum, from(stored), t.reduction) : from(stored);
    }
    if (t.reduction == kAverage) sum = static_cast<Number>(sum / static_cast<Number>(t.contributions.size()));
    const Stored stored = to(sum);
    std::memcpy(&result[at], &stored, sizeof stored);
  }
  return result;
}

template <class T> std::vector<std::byte> combinePlain(const Transfer &t) {
  const auto same = [](T v) { return v; };
  return combineAs<T, T>(t, same, same);
}

std::vector<std::byte> combine(const Transfer &t) {
  switch (t.type) {
  case kI8: return combinePlain<int8_t>(t);
  case kU8: return combinePlain<uint8_t>(t);
  case kI32: return combinePlain<int32_t>(t);
  case kU32: return combinePlain<uint32_t>(t);
  case kI64: return combinePlain<int64_t>(t);
  case kU64: return combinePlain<uint64_t>(t);
  case kF32: return combinePlain<float>(t);
  case kF64: return combinePlain<double>(t);
  case kF16: return combineAs<uint16_t, float>(t, halfToFloat, floatToHalf); // rounded once
  default: return combineAs<uint16_t, float>(t, bfloatToFloat, floatToBfloat);
  }
}

/// One behind the other, as all-gather wants them.
std::vector<std::byte> joined(const Transfer &t) {
  std::vector<std::byte> all;
  for (const auto &c : t.contributions) all.insert(all.end(), c.begin(), c.end());
  return all;
}

// --- groups ---------------------------------------------------------------------------------------------------------

/// Whether the ranks of a communicator fit together, when all have come.
int checkRanks(const Communicator &c) {
  std::vector<int> devices = c.clique->devices;
  std::sort(devices.begin(), devices.end());
  if (std::adjacent_find(devices.begin(), devices.end()) != devices.end())
    return refuse(kInvalidUsage, "two ranks have the same device");
  return kOk;
}

int waitForRanks(const Communicator &c) {
  std::unique_lock<std::mutex> lock(library().mutex);
  library().joined.wait(lock, [&] { return c.clique->joined == c.clique->size || c.clique->aborted; });
  return c.clique->aborted ? kRemoteError : checkRanks(c);
}

void lose(Clique &clique, const std::vector<TransferPart> &parts) {
  std::unique_lock<std::mutex> lock(library().mutex);
  const bool isOver = clique.aborted;
  for (const TransferPart &p : parts)
    if (!isOver) clique.lost.push_back(p.transfer);
  lock.unlock();
  for (const TransferPart &p : parts)
    if (isOver) opcGpusimAbort(p.transfer.get());
}

/// Posts what the group has, stream by stream.
int flush() {
  Group g;
  std::swap(g, group());
  bool pending = false;
  for (const Communicator *c : g.joining) {
    pending |= !c->blocking;
    if (const int r = c->blocking ? waitForRanks(*c) : kOk; r && !g.error) g.error = r;
  }
  while (!g.parts.empty()) {
    const auto key = g.parts.front().first;
    std::vector<TransferPart> own;
    for (const auto &[k, part] : g.parts)
      if (k == key) own.push_back(part);
    std::erase_if(g.parts, [&](const auto &p) { return p.first == key; });
    if (g.error) { // others wait for it until somebody aborts
      lose(*key.first->clique, own);
      continue;
    }
    cuCtxPushCurrent_v2(key.first->context);
    if (opcGpusimPost(key.second, own.data(), own.size())) g.error = kUnhandledCudaError;
    cuCtxPopCurrent_v2(nullptr);
  }
  return g.error ? g.error : pending ? kInProgress : kOk;
}

int add(Communicator *c, Stream *stream, TransferPart part) {
  group().parts.push_back({{c, stream}, std::move(part)});
  return group().depth ? kOk : flush();
}

int message(Communicator *c, int peer, bool sending, DevicePtr at, size_t count, int type, Stream *stream) {
  const char *call = sending ? "ncclSend" : "ncclRecv";
  if (const int r = injected(call)) return r;
  if (!c || type < 0 || type >= kTypes || peer < 0 || peer >= c->clique->size)
    return refuse(kInvalidArgument, std::string(call) + ": no communicator, no such type, or no such rank");
  TransferPart part;
  part.contributes = sending, part.receives = !sending;
  part.bytes = part.received = count * kTypeBytes[type];
  (sending ? part.from : part.to) = at;
  const int from = sending ? c->rank : peer, to = sending ? peer : c->rank;
  {
    const std::lock_guard<std::mutex> lock(library().mutex);
    Clique::Messages &m = c->clique->messages[{from, to}];
    const uint64_t number = sending ? m.sent++ : m.received++;
    std::shared_ptr<Transfer> &t = m.half[number];
    part.transfer = t;
    if (t) {
      if (t->bytes != part.bytes)
        return refuse(kInvalidArgument, std::string(call) + ": message " + std::to_string(number) + " from rank " +
                                            std::to_string(from) + " to " + std::to_string(to) + " has " +
                                            std::to_string(t->bytes) + " bytes on the other side and " +
                                            std::to_string(part.bytes) + " here");
      m.half.erase(number);
    } else {
      part.transfer = t = std::make_shared<Transfer>();
      t->what = "NCCL send " + std::to_string(from) + " to " + std::to_string(to);
      t->parts = 2;
      t->contributions.resize(1), t->bytes = part.bytes;
      t->aborted = c->clique->aborted;
    }
  }
  return add(c, stream, std::move(part));
}

/// A call that all ranks of a communicator make.
struct Collective {
  const char *call, *name; // "ncclAllReduce", "all-reduce"
  int type = 0, reduction = 0, root = -1;
  /// From the contributions to the result; null: the one contribution.
  std::vector<std::byte> (*combine)(const Transfer &) = nullptr;
  bool oneContributes = false;
};

int collective(const Collective &what, TransferPart part, Communicator *c, Stream *stream) {
  if (const int r = injected(what.call)) return r;
  if (!c || what.type < 0 || what.type >= kTypes || what.reduction < kSum || what.reduction > kAverage ||
      what.root < -1 || what.root >= c->clique->size)
    return refuse(kInvalidArgument,
                  std::string(what.call) + ": no communicator, no such type, reduction or rank at the root");
  const size_t element = kTypeBytes[what.type]; // sizes so far are in elements
  part.bytes *= element, part.received *= element, part.offset *= element;
  {
    const std::lock_guard<std::mutex> lock(library().mutex);
    const uint64_t number = c->collectives++;
    const std::string name = std::string("NCCL ") + what.name + " " + std::to_string(number);
    auto &t = c->clique->collectives[number];
    if (!t) {
      t = std::make_shared<Transfer>();
      t->what = name;
      t->parts = static_cast<size_t>(c->clique->size);
      t->contributions.resize(what.oneContributes ? 1 : t->parts), t->bytes = part.bytes;
      t->combine = what.combine;
      t->type = what.type, t->reduction = what.reduction, t->root = what.root;
      t->aborted = c->clique->aborted;
    } else if (t->what != name || t->bytes != part.bytes || t->type != what.type || t->reduction != what.reduction ||
               t->root != what.root) {
      return refuse(kInvalidArgument, std::string(what.call) + " " + std::to_string(number) +
                                          ": call, count, type, root or reduction of rank " + std::to_string(c->rank) +
                                          " are not those of the others, which are in " + t->what);
    }
    part.transfer = t;
    // The map keeps it until the last rank has come: use_count would depend on what has run.
    if (++t->announced == t->parts) c->clique->collectives.erase(number);
  }
  return add(c, stream, std::move(part));
}

TransferPart partOf(const void *from, size_t count, void *to, size_t received) {
  TransferPart part;
  part.contributes = part.receives = true;
  part.from = reinterpret_cast<DevicePtr>(from), part.to = reinterpret_cast<DevicePtr>(to);
  part.bytes = count, part.received = received;
  return part;
}

int join(Communicator **communicator, int size, UniqueId id, int rank, bool blocking) {
  if (!communicator || size < 1 || rank < 0 || rank >= size)
    return refuse(kInvalidArgument, "ncclCommInitRank: rank " + std::to_string(rank) + " of " + std::to_string(size));
  id.bytes[sizeof id.bytes - 1] = 0;
  const std::string own = "gpusim " + std::to_string(getpid()) + " ";
  if (std::strncmp(id.bytes, own.c_str(), own.size()) != 0)
    return refuse(kInvalidUsage,
                  "ncclCommInitRank: the unique id is of another process; the stand-in's ranks are threads of one");
  Context *context = nullptr;
  Device device = 0;
  if (cuCtxGetCurrent(&context) || !context || cuCtxGetDevice(&device))
    return refuse(kUnhandledCudaError, "ncclCommInitRank: no device is current (cudaSetDevice, cuCtxSetCurrent)");
  auto *c = new Communicator;
  {
    const std::lock_guard<std::mutex> lock(library().mutex);
    auto &clique = library().cliques[id.bytes];
    if (!clique) {
      clique = std::make_shared<Clique>();
      clique->size = size;
      clique->devices.assign(static_cast<size_t>(size), -1);
    }
    if (clique->size != size || clique->devices[static_cast<size_t>(rank)] >= 0) {
      delete c;
      return refuse(kInvalidUsage, "ncclCommInitRank: rank " + std::to_string(rank) + " of " + std::to_string(size) +
                                       " is there already, or the others have another size");
    }
    clique->devices[static_cast<size_t>(rank)] = device;
    c->clique = clique, c->rank = rank, c->context = context, c->blocking = blocking;
    if (++clique->joined == size) library().cliques.erase(id.bytes);
  }
  library().joined.notify_all();
  *communicator = c;
  group().joining.push_back(c);
  return group().depth ? kOk : flush();
}

} // namespace

#define GPUSIM_NCCL extern "C" __attribute__((visibility("default")))

GPUSIM_NCCL int ncclGetVersion(int *version) {
  if (!version) return kInvalidArgument;
  *version = 22809;
  return kOk;
}

GPUSIM_NCCL const char *ncclGetErrorString(int result) {
  static const char *const texts[] = {"no error",
                                      "unhandled cuda error",
                                      "unhandled system error",
                                      "internal error",
                                      "invalid argument",
                                      "invalid usage",
                                      "remote process exited or there was a network error",
                                      "NCCL operation in progress"};
  return result >= 0 && result < 8 ? texts[result] : "unknown result code";
}

GPUSIM_NCCL int ncclGetUniqueId(UniqueId *id) {
  if (const int r = injected("ncclGetUniqueId")) return r;
  if (!id) return kInvalidArgument;
  const std::lock_guard<std::mutex> lock(library().mutex);
  *id = {};
  std::snprintf(id->bytes, sizeof id->bytes, "gpusim %d %llu", static_cast<int>(getpid()),
                static_cast<unsigned long long>(++library().ids));
  return kOk;
}

GPUSIM_NCCL int ncclCommInitRank(Communicator **communicator, int size, UniqueId id, int rank) {
  const int r = injected("ncclCommInitRank");
  return r ? r : join(communicator, size, id, rank, true);
}

GPUSIM_NCCL int ncclCommInitRankConfig(Communicator **communicator, int size, UniqueId id, int rank, Config *config) {
  if (const int r = injected("ncclCommInitRankConfig")) return r;
  if (config && config->magic != kConfigMagic)
    return refuse(kInvalidArgument, "ncclCommInitRankConfig: the configuration was not initialized");
  return join(communicator, size, id, rank, !config || config->blocking == kUndefined || config->blocking != 0);
}

GPUSIM_NCCL int ncclCommDestroy(Communicator *c) {
  delete c;
  return kOk;
}

GPUSIM_NCCL int ncclCommAbort(Communicator *c) {
  if (!c) return kInvalidArgument;
  std::vector<std::shared_ptr<Transfer>> open;
  {
    const std::lock_guard<std::mutex> lock(library().mutex);
    c->clique->aborted = true;
    for (auto &[pair, m] : c->clique->messages)
      for (auto &[number, t] : m.half) open.push_back(t);
    for (auto &[number, t] : c->clique->collectives) open.push_back(t);
    open.insert(open.end(), c->clique->lost.begin(), c->clique->lost.end());
  }
  library().joined.notify_all();
  for (const auto &t : open) opcGpusimAbort(t.get());
  delete c;
  return kOk;
}

GPUSIM_NCCL int ncclCommGetAsyncError(Communicator *c, int *error) {
  if (!c || !error) return kInvalidArgument;
  const std::lock_guard<std::mutex> lock(library().mutex);
  if (c->clique->aborted)
    *error = kRemoteError;
  else if (c->clique->joined < c->clique->size)
    *error = kInProgress;
  else
    *error = c->blocking ? kOk : checkRanks(*c);
  return kOk;
}

GPUSIM_NCCL int ncclGroupStart() {
  if (const int r = injected("ncclGroupStart")) return r;
  ++group().depth;
  return kOk;
}

GPUSIM_NCCL int ncclGroupEnd() {
  if (group().depth == 0) return refuse(kInvalidUsage, "ncclGroupEnd without ncclGroupStart");
  if (--group().depth) return kOk;
  if (const int r = injected("ncclGroupEnd")) group().error = r;
  return flush();
}

GPUSIM_NCCL int ncclSend(const void *from, size_t count, int type, int peer, Communicator *c, Stream *stream) {
  return message(c, peer, true, reinterpret_cast<DevicePtr>(from), count, type, stream);
}

GPUSIM_NCCL int ncclRecv(void *to, size_t count, int type, int peer, Communicator *c, Stream *stream) {
  return message(c, peer, false, reinterpret_cast<DevicePtr>(to), count, type, stream);
}

GPUSIM_NCCL int ncclAllReduce(const void *from, void *to, size_t count, int type, int reduction, Communicator *c,
                              Stream *stream) {
  TransferPart part = partOf(from, count, to, count);
  part.slot = c ? static_cast<size_t>(c->rank) : 0;
  return collective({"ncclAllReduce", "all-reduce", type, reduction, -1, combine}, part, c, stream);
}

GPUSIM_NCCL int ncclReduce(const void *from, void *to, size_t count, int type, int reduction, int root, Communicator *c,
                           Stream *stream) {
  TransferPart part = partOf(from, count, to, count);
  part.slot = c ? static_cast<size_t>(c->rank) : 0;
  part.receives = c && c->rank == root;
  return collective({"ncclReduce", "reduce", type, reduction, root, combine}, part, c, stream);
}

GPUSIM_NCCL int ncclReduceScatter(const void *from, void *to, size_t count, int type, int reduction, Communicator *c,
                                  Stream *stream) {
  const size_t ranks = c ? static_cast<size_t>(c->clique->size) : 0, rank = c ? static_cast<size_t>(c->rank) : 0;
  TransferPart part = partOf(from, count * ranks, to, count);
  part.slot = rank, part.offset = rank * count;
  return collective({"ncclReduceScatter", "reduce-scatter", type, reduction, -1, combine}, part, c, stream);
}

GPUSIM_NCCL int ncclAllGather(const void *from, void *to, size_t count, int type, Communicator *c, Stream *stream) {
  TransferPart part = partOf(from, count, to, c ? count * static_cast<size_t>(c->clique->size) : 0);
  part.slot = c ? static_cast<size_t>(c->rank) : 0;
  return collective({"ncclAllGather", "all-gather", type, kSum, -1, joined}, part, c, stream);
}

GPUSIM_NCCL int ncclBroadcast(const void *from, void *to, size_t count, int type, int root, Communicator *c,
                              Stream *stream) {
  TransferPart part = partOf(from, count, to, count);
  part.contributes = c && c->rank == root;
  return collective({"ncclBroadcast", "broadcast", type, kSum, root, nullptr, true}, part, c, stream);
}

} // namespace opc::gpusim::nccl
