// Who of a job of processes is alive: sockets between rank 0 and the others, which the system closes when a process
// dies.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RankReport.h"
#include "opc/Status.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace opc::runtime {

struct PeerMonitorOptions {
  std::chrono::milliseconds ping{1000};
  /// How long the cause is waited for after noteTermination().
  std::chrono::milliseconds grace{700};
  /// Called once, from the monitor's thread, when the job cannot go on: "rank 2 (process 4711 on node0) is gone: ...".
  std::function<void(RankReport)> onEnd;
};

/// One rank's end of a star around rank 0. A process that dies without a goodbye, or that says that it has failed, is
/// told to all. Rank 0 asks everybody for a sign of life every `ping`. TCP, by the addresses that the ranks tell each
/// other at the start; on one machine by the loopback.
class PeerMonitor {
public:
  /// Everybody's bytes in rank order, as many from each: how addresses are exchanged.
  using Gather = std::function<Status(const void *mine, size_t bytes, void *all)>;
  /// Collective. Errors: OPC0724, some rank could not be reached; then on all ranks.
  static Result<std::unique_ptr<PeerMonitor>> create(int64_t rank, int64_t size, const Gather &gather,
                                                     PeerMonitorOptions options);
  ~PeerMonitor();
  /// Tells all other ranks that this one has failed and why. Any thread.
  void announceFailure(const std::string &reason);
  /// From now on this rank's end, and the others', is nothing unusual.
  void sayGoodbye();
  /// Whether a rank has said goodbye.
  bool hasLeft(int64_t rank) const { return left_[static_cast<size_t>(rank)].load(std::memory_order_relaxed); }
  /// "rank 2 has not answered for 12 s"; empty: all do.
  std::string silentRanks() const;
  /// For a handler of SIGTERM: unless the cause is known within the grace time, onEnd gets to hear of the signal.
  void noteTermination();

private:
  struct Peer {
    int socket = -1;
    std::string received;
  };
  PeerMonitor(int64_t rank, int64_t size, PeerMonitorOptions options);
  Status connect(const Gather &gather);
  void watch();
  void end(RankReport::Kind kind, int64_t rank, const std::string &reason);
  void readFrom(size_t peer);
  void handle(size_t peer, char type, int64_t rank, const std::string &text);
  void send(size_t peer, char type, int64_t rank, const std::string &text);
  void sendToOthers(char type, int64_t rank, const std::string &text, int64_t except);
  std::string nameOf(int64_t rank) const;
  int64_t rankOf(size_t peer) const { return rank_ == 0 ? static_cast<int64_t>(peer) : 0; }

  const int64_t rank_, size_;
  const PeerMonitorOptions options_;
  std::vector<Peer> peers_; // of rank 0: by rank, the first unused; of others: rank 0 alone
  std::vector<std::string> names_;
  std::vector<std::atomic<bool>> left_;
  std::vector<std::atomic<int64_t>> heard_; // by peer: steady clock, milliseconds
  mutable std::mutex sending_;              // the sockets, but for the monitor's own reading
  std::atomic<bool> stopping_{false}, ended_{false}, goodbye_{false};
  int wake_[2] = {-1, -1};
  std::thread thread_;
};

} // namespace opc::runtime
