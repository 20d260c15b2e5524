// Opening NCCL, and the groups of ranks that one rank is in.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/NcclLibrary.h"

#include <climits>
#include <dlfcn.h>
#include <thread>

namespace opc::runtime::cuda {

/// ncclConfig_t as NCCL 2.18 has it: later ones read as much as `size` says.
struct NcclConfig {
  size_t size = sizeof(NcclConfig);
  unsigned magic = 0xcafebeef, version = 21800;
  int blocking = 0; // calls return at once, and what they have come to is asked for
  int clusterSize = INT_MIN, minBlocks = INT_MIN, maxBlocks = INT_MIN; // INT_MIN: as NCCL likes
  const char *netName = nullptr;
  int splitShare = INT_MIN;
};

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kLeastVersion = 21800;
constexpr NcclResult kOk = 0, kRemoteError = 6, kInProgress = 7;
constexpr auto kPause = std::chrono::microseconds(50);
constexpr int kEagerPolls = 200;

Status notUsable(std::string message) { return Status(StatusCode::kUnsupported, "OPC0725", std::move(message)); }

void pause(int polls) {
  if (polls < kEagerPolls)
    std::this_thread::yield();
  else
    std::this_thread::sleep_for(kPause);
}

} // namespace

std::optional<int> ncclTypeOf(DataType type) {
  switch (type) {
  case kInt8: return 0;
  case kUInt8: return 1;
  case kInt32: return 2;
  case kUInt32: return 3;
  case kInt64: return 4;
  case kUInt64: return 5;
  case kFloat16: return 6;
  case kFloat: return 7;
  case kDouble: return 8;
  case kBFloat16: return 9;
  default: return std::nullopt;
  }
}

Result<const NcclLibrary *> NcclLibrary::open(bool isSimulator) {
  struct Opened {
    NcclLibrary library;
    Status status;
    explicit Opened(bool simulator) : status(library.load(simulator)) {}
  };
  // Never closed: it has threads of its own.
  if (isSimulator) {
    static Opened &simulator = *new Opened(true);
    if (!simulator.status.isOk()) return simulator.status;
    return &simulator.library;
  }
  static Opened &system = *new Opened(false);
  if (!system.status.isOk()) return system.status;
  return &system.library;
}

Status NcclLibrary::load(bool isSimulator) {
  std::string file = "libnccl.so.2";
  if (isSimulator) {
    const std::string driver = CudaDriver::path(true);
    file = driver.substr(0, driver.rfind('/') + 1) + file;
  }
  void *library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) return notUsable(file + " cannot be opened");
  const char *missing = nullptr;
#define OPC_LOAD(member, name, parameters)                                                                             \
  member = reinterpret_cast<NcclResult(*) parameters>(dlsym(library, name));                                           \
  if (!member && !missing) missing = name;
  OPC_NCCL_FUNCTIONS(OPC_LOAD)
#undef OPC_LOAD
  getErrorString_ = reinterpret_cast<const char *(*)(NcclResult)>(dlsym(library, "ncclGetErrorString"));
  if (missing || !getErrorString_)
    return notUsable(file + " is too old: it has no " + (missing ? missing : "ncclGetErrorString"));
  if (getVersion(&version_) != kOk || version_ < kLeastVersion)
    return notUsable(file + " is NCCL " + versionText() + ", and 2.18 is wanted");
  return Status::ok();
}

std::string NcclLibrary::versionText() const {
  return std::to_string(version_ / 10000) + "." + std::to_string(version_ / 100 % 100) + "." +
         std::to_string(version_ % 100);
}

Status NcclLibrary::check(NcclResult result, const char *call) const {
  if (result == kOk || result == kInProgress) return Status::ok();
  // What went wrong on another rank is that rank's to say, whichever of the two is heard first.
  return Status(StatusCode::kExecution, result == kRemoteError ? "OPC0721" : "OPC0724",
                std::string("NCCL: ") + call + ": " + getErrorString_(result) + " (" + std::to_string(result) + ")")
      .withHelp("NCCL_DEBUG=WARN makes NCCL say more; OPC_COLLECTIVES=host goes without it");
}

void NcclGroups::close() {
  const std::lock_guard<std::mutex> lock(lock_);
  if (!comms_.empty() && device_.enter().isOk())
    for (ncclComm *comm : comms_) library_.commDestroy(comm);
  comms_.clear();
  aborted_ = true; // whoever ends the job later finds nothing
}

Result<NcclId> NcclGroups::makeId() const {
  NcclId id;
  OPC_RETURN_IF_ERROR(library_.check(library_.getUniqueId(&id), "ncclGetUniqueId"));
  return id;
}

Status NcclGroups::statusLocked() const {
  if (!aborted_) return Status::ok();
  return Status(StatusCode::kExecution, "OPC0721", reason_);
}

Status NcclGroups::status() const {
  const std::lock_guard<std::mutex> lock(lock_);
  return statusLocked();
}

Status NcclGroups::late(const char *what) const {
  return Status(StatusCode::kExecution, "OPC0722",
                "waited " + std::to_string(timeout_.count() / 1000) + " s for other ranks in " + what);
}

/// A call that has returned may still be under way.
Status NcclGroups::settle(ncclComm *comm, std::unique_lock<std::mutex> &lock, const char *what) {
  const auto deadline = Clock::now() + timeout_;
  for (int polls = 0;; ++polls) {
    OPC_RETURN_IF_ERROR(statusLocked());
    NcclResult pending = kOk;
    OPC_RETURN_IF_ERROR(library_.check(library_.commGetAsyncError(comm, &pending), "ncclCommGetAsyncError"));
    if (pending != kInProgress) return library_.check(pending, what);
    if (Clock::now() > deadline) return late(what);
    lock.unlock();
    pause(polls);
    lock.lock();
  }
}

Result<size_t> NcclGroups::join(const NcclId &id, int size, int rank) {
  OPC_RETURN_IF_ERROR(device_.enter());
  std::unique_lock<std::mutex> lock(lock_);
  OPC_RETURN_IF_ERROR(statusLocked());
  NcclConfig config;
  ncclComm *comm = nullptr;
  OPC_RETURN_IF_ERROR(
      library_.check(library_.commInitRankConfig(&comm, size, id, rank, &config), "ncclCommInitRankConfig"));
  comms_.push_back(comm);
  const size_t group = comms_.size() - 1;
  OPC_RETURN_IF_ERROR(settle(comm, lock, "ncclCommInitRankConfig"));
  return group;
}

Status NcclGroups::run(size_t group, const std::function<Status(ncclComm *)> &calls) {
  std::unique_lock<std::mutex> lock(lock_);
  OPC_RETURN_IF_ERROR(statusLocked());
  ncclComm *comm = comms_[group];
  OPC_RETURN_IF_ERROR(library_.check(library_.groupStart(), "ncclGroupStart"));
  Status made = calls(comm);
  const Status ended = library_.check(library_.groupEnd(), "ncclGroupEnd"); // in any case
  OPC_RETURN_IF_ERROR(made);
  OPC_RETURN_IF_ERROR(ended);
  return settle(comm, lock, "ncclGroupEnd");
}

Status NcclGroups::finish(CUstream_st *stream) {
  OPC_RETURN_IF_ERROR(device_.enter());
  const auto deadline = Clock::now() + timeout_;
  for (int polls = 0;; ++polls) {
    // A rank that ended the job leaves what this one waited for undone.
    if (device_.driver().streamQuery(stream) != kNotReady) return status();
    {
      const std::lock_guard<std::mutex> lock(lock_);
      OPC_RETURN_IF_ERROR(statusLocked());
      for (ncclComm *comm : comms_) {
        NcclResult pending = kOk;
        OPC_RETURN_IF_ERROR(library_.check(library_.commGetAsyncError(comm, &pending), "ncclCommGetAsyncError"));
        OPC_RETURN_IF_ERROR(library_.check(pending, "an exchange"));
      }
    }
    if (Clock::now() > deadline) {
      Status s = late("an exchange");
      abort(s.message());
      return s;
    }
    pause(polls);
  }
}

void NcclGroups::abort(const std::string &reason) {
  const std::lock_guard<std::mutex> lock(lock_);
  if (aborted_) return;
  aborted_ = true;
  reason_ = reason;
  for (ncclComm *comm : comms_) library_.commAbort(comm);
  comms_.clear();
}

} // namespace opc::runtime::cuda
