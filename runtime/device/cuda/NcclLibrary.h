// NCCL, opened when ranks with GPUs exchange something: its functions, and the groups of ranks that one rank is in.
// Declared here and not by NCCL's headers, so that every build can use it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "cuda/CudaDevice.h"
#include "opc/DataType.h"

#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

struct ncclComm;

namespace opc::runtime::cuda {

struct NcclId {
  char bytes[128];
};
struct NcclConfig;
using NcclResult = int;

// ncclRedOp_t of nccl.h.
constexpr int kNcclSum = 0, kNcclMax = 2;
/// ncclDataType_t of an element type; nothing where NCCL cannot add it up.
std::optional<int> ncclTypeOf(DataType type);
/// Bytes, whatever they are.
constexpr int kNcclBytes = 0;

// X(member, exported name, parameter types)
#define OPC_NCCL_FUNCTIONS(X)                                                                                          \
  X(getVersion, "ncclGetVersion", (int *))                                                                             \
  X(getUniqueId, "ncclGetUniqueId", (NcclId *))                                                                        \
  X(commInitRankConfig, "ncclCommInitRankConfig", (ncclComm **, int, NcclId, int, NcclConfig *))                       \
  X(commDestroy, "ncclCommDestroy", (ncclComm *))                                                                      \
  X(commAbort, "ncclCommAbort", (ncclComm *))                                                                          \
  X(commGetAsyncError, "ncclCommGetAsyncError", (ncclComm *, NcclResult *))                                            \
  X(groupStart, "ncclGroupStart", ())                                                                                  \
  X(groupEnd, "ncclGroupEnd", ())                                                                                      \
  X(send, "ncclSend", (const void *, size_t, int, int, ncclComm *, CUstream_st *))                                     \
  X(recv, "ncclRecv", (void *, size_t, int, int, ncclComm *, CUstream_st *))                                           \
  X(allReduce, "ncclAllReduce", (const void *, void *, size_t, int, int, ncclComm *, CUstream_st *))                   \
  X(reduce, "ncclReduce", (const void *, void *, size_t, int, int, int, ncclComm *, CUstream_st *))                    \
  X(reduceScatter, "ncclReduceScatter", (const void *, void *, size_t, int, int, ncclComm *, CUstream_st *))           \
  X(allGather, "ncclAllGather", (const void *, void *, size_t, int, ncclComm *, CUstream_st *))

class NcclLibrary {
public:
  /// This machine's libnccl.so.2, or the stand-in beside the simulator's driver, opened once a process. OPC0725 when
  /// there is none, or an older one than NCCL 2.18.
  static Result<const NcclLibrary *> open(bool isSimulator);

  std::string versionText() const; // "2.28.9"
  /// A result as an error of what was tried: OPC0724, or OPC0721 where NCCL says that another rank has failed.
  Status check(NcclResult result, const char *call) const;

#define OPC_DECLARE(member, name, parameters) NcclResult(*member) parameters = nullptr;
  OPC_NCCL_FUNCTIONS(OPC_DECLARE)
#undef OPC_DECLARE

private:
  Status load(bool isSimulator);
  const char *(*getErrorString_)(NcclResult) = nullptr;
  int version_ = 0;
};

/// The groups that one rank is in. None of its calls waits for a device; abort() may come from any thread.
class NcclGroups {
public:
  NcclGroups(const NcclLibrary &library, CudaDevice &device, std::chrono::milliseconds timeout)
      : library_(library), device_(device), timeout_(timeout) {}
  ~NcclGroups() = default; // after close()
  NcclGroups(const NcclGroups &) = delete;
  NcclGroups &operator=(const NcclGroups &) = delete;

  const NcclLibrary &library() const { return library_; }
  const CudaDevice &device() const { return device_; }
  Result<NcclId> makeId() const;
  /// Waits until all of a group have joined it. Its number here.
  Result<size_t> join(const NcclId &id, int size, int rank);
  /// What `calls` puts into streams, as one group of calls of NCCL. Errors: OPC0724, and status().
  Status run(size_t group, const std::function<Status(ncclComm *)> &calls);
  /// Waits until a stream is done, or has failed, which it says when it is waited for. OPC0724 where NCCL has failed,
  /// OPC0722 after the timeout, and status().
  Status finish(CUstream_st *stream);
  /// Nobody waits for this rank, nor it for others, any more; `reason` is what status() says.
  void abort(const std::string &reason);
  /// Before the device ends.
  void close();
  /// OPC0721 after abort().
  Status status() const;

private:
  Status settle(ncclComm *comm, std::unique_lock<std::mutex> &lock, const char *what);
  Status late(const char *what) const;
  Status statusLocked() const;

  const NcclLibrary &library_;
  CudaDevice &device_;
  const std::chrono::milliseconds timeout_;
  mutable std::mutex lock_;
  std::vector<ncclComm *> comms_; // by group
  bool aborted_ = false;
  std::string reason_;
};

} // namespace opc::runtime::cuda
