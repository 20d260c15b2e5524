// Ranks of one job that exchange memory. Engines: threads of this process, MPI, NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Boxing.h"
#include "opc/Status.h"

#include <memory>
#include <string>
#include <vector>

namespace opc::runtime {

/// A strided block of a local buffer: `box` in coordinates of a row-major tensor of `extent`, at `base`.
struct CommBlock {
  void *base = nullptr;
  std::vector<int64_t> extent;
  Box box;
  size_t elementSize = 1;
  int64_t bytes() const { return box.elements() * static_cast<int64_t>(elementSize); }
};
struct CommMessage {
  int64_t rank = 0; // of the job
  CommBlock block;
};

/// What was sent and received so far. Bytes between ranks only.
struct CommCounters {
  uint64_t bytesSent = 0, bytesReceived = 0, messages = 0, collectives = 0;
};

/// One rank's end. All calls are collective over the ranks that they name: these must make the same calls in the same
/// order on the same channel. A channel is an order of its own (a stream of the plan); calls on different channels may
/// come from different threads at once. Errors: OPC0721 (a rank is gone or has failed), OPC0722 (timeout), OPC0723 (the
/// ranks disagree), OPC0724 (the engine itself).
class Communicator {
public:
  virtual ~Communicator() = default;
  virtual int64_t rank() const = 0;
  virtual int64_t size() const = 0;
  virtual const char *engine() const = 0; // "in-process", "mpi", "nccl"

  /// Sends and receives blocks; a message between two ranks has the same number of bytes at both ends. Blocks are
  /// packed where the engine needs it. Messages to this rank itself are copied.
  Status exchange(int channel, const std::vector<CommMessage> &sends, const std::vector<CommMessage> &receives) {
    OPC_RETURN_IF_ERROR(startExchange(channel, sends, receives));
    return finishExchange(channel);
  }
  /// The two halves of an exchange. Between them the caller may work on memory that the messages do not touch; the two
  /// lists and their memory stay as they are until finishExchange. One exchange at a time on a channel.
  virtual Status startExchange(int channel, const std::vector<CommMessage> &sends,
                               const std::vector<CommMessage> &receives) = 0;
  virtual Status finishExchange(int channel) = 0;
  /// The engine's own all-reduce over `group` (ranks of the job, ascending, this one among them), in place.
  virtual Status allReduce(int channel, const std::vector<int64_t> &group, void *data, int64_t count, DataType type,
                           BoxingReduction reduction) = 0;
  /// Whether allReduce knows the element type.
  virtual bool canAllReduce(DataType type) const { return true; }
  /// Everybody's bytes (as many from each), in rank order. All ranks of the job.
  virtual Status allGatherBytes(const void *mine, size_t bytes, void *all) = 0;
  virtual Status barrier() = 0;

  /// Ends all ranks of the job, this process included where the engine has processes; threads of other ranks get
  /// OPC0721 with `reason`.
  virtual void abort(const std::string &reason) = 0;
  virtual CommCounters counters() const = 0;

  /// What this rank is doing on a channel, for the watchdog and for errors of others: "all_reduce of fc1.w.grad, 4096
  /// bytes, with ranks 0-3". Cheap: stores a pointer. `what` must stay valid; nullptr: nothing.
  virtual void setActivity(int channel, const std::string *what) = 0;
  /// How many activities this rank has begun so far: a sign of life.
  virtual uint64_t progress() const { return 0; }
  /// What this rank is in, on all channels: "all_reduce of fc1.w.grad, 4096 bytes, with ranks 0-3"; empty: nothing.
  /// From any thread.
  virtual std::string activityText() const { return {}; }
  /// What the engine knows of ranks that do not answer: "rank 2 has not answered for 12 s"; empty: nothing. From any
  /// thread.
  virtual std::string silentRanks() const { return {}; }
};

} // namespace opc::runtime
