// Steps that are recorded once and then replayed: of one stream, and of several of one device.
// SPDX-License-Identifier: Apache-2.0
#include "TaskGraph.h"

#include <algorithm>
#include <unordered_map>

namespace opc::runtime {

/// A step is recorded once and then replayed: one call for the host, however many kernels it has. The first one runs as
/// it is, since it may load code and take memory, which no recording allows.
Status TaskGraph::runRepeating(Lane &lane, int64_t steps) {
  int64_t done = 0;
  if (lane.stepsBefore == 0) {
    OPC_RETURN_IF_ERROR(runPlainAs<false>(lane, 0, 1));
    ++lane.stepsBefore, ++done;
  }
  if (done < steps && !lane.recording) {
    Result<std::unique_ptr<StreamRecording>> recording = lane.stream->record([&]() -> Status {
      for (size_t i = 0; i < lane.plain.size(); ++i)
        if (Status s = lane.plain[i]->run(lane.stream->context()); !s.isOk())
          return failed(std::move(s), lane.operations[i].task);
      return Status::ok();
    });
    if (recording)
      lane.recording = std::move(*recording);
    else
      lane.repeats = false; // a kernel that waits for the device, or takes memory
  }
  if (!lane.repeats) return runPlainAs<false>(lane, done, steps);
  for (; done < steps; ++done) OPC_RETURN_IF_ERROR(lane.stream->replay(*lane.recording));
  return lane.stream->synchronize();
}

/// Whether a step is the same work in the streams each time, and all of it is one device's: without the CPU, other
/// ranks and slots that turn.
bool TaskGraph::mayRecordAll() const {
  if (lanes_.size() < 2 || model_.arenas.size() != 1) return false;
  return std::all_of(lanes_.begin(), lanes_.end(), [&](const Lane &lane) {
    const auto isMarked = [](const Wait &w) { return w.mark != nullptr; };
    return lane.stream->records() && std::all_of(lane.waits.begin(), lane.waits.end(), isMarked) &&
           std::all_of(lane.operations.begin(), lane.operations.end(), [&](const Operation &op) {
             return op.variantCount == 1 && op.stride == 1 && op.lag == 0 && !op.boxing && mayRepeat(op.task);
           });
  });
}

/// One step of all lanes, put into their streams by one thread: the first stream's graph has the others as branches,
/// which begin behind its beginning and end before its end. What a task waits for is recorded before it, or is an
/// earlier step's, behind which each launch of a graph comes.
Status TaskGraph::recordLanes() {
  Stream &first = *lanes_[0].stream;
  OPC_RETURN_IF_ERROR(first.mark(*ends_[0]));
  const auto isBehind = [](const Lane &lane) { // what it does first waits for another lane's task
    const Operation &op = lane.operations[0];
    return std::any_of(lane.waits.begin() + op.waitBegin, lane.waits.begin() + op.waitEnd,
                       [](const Wait &w) { return w.offset > 0; });
  };
  for (size_t s = 1; s < lanes_.size(); ++s)
    if (!lanes_[s].operations.empty() && !isBehind(lanes_[s]))
      OPC_RETURN_IF_ERROR(lanes_[s].stream->waitFor(*ends_[0]));
  std::unordered_map<const Counter *, int64_t> counts;
  const auto put = [&](Lane &lane, const Operation &op) -> Status {
    for (uint32_t w = op.waitBegin; w < op.waitEnd; ++w)
      if (lane.waits[w].offset > 0) OPC_RETURN_IF_ERROR(lane.stream->waitFor(*lane.waits[w].mark));
    if (Status s = op.variants[0]->run(lane.stream->context()); !s.isOk()) return failed(std::move(s), op.task);
    if (op.mark) OPC_RETURN_IF_ERROR(lane.stream->mark(*op.mark));
    for (uint32_t i = op.signalBegin; i < op.signalEnd; ++i) ++counts[lane.signals[i]];
    return Status::ok();
  };
  std::vector<size_t> next(lanes_.size());
  for (bool goesOn = true; goesOn;) {
    goesOn = false;
    for (size_t s = 0; s < lanes_.size(); ++s) {
      Lane &lane = lanes_[s];
      const auto isReady = [&](const Operation &op) {
        return std::all_of(lane.waits.begin() + op.waitBegin, lane.waits.begin() + op.waitEnd,
                           [&](const Wait &w) { return counts[w.counter] >= w.offset; });
      };
      for (; next[s] < lane.operations.size() && isReady(lane.operations[next[s]]); ++next[s], goesOn = true)
        OPC_RETURN_IF_ERROR(put(lane, lane.operations[next[s]]));
    }
  }
  for (size_t s = 0; s < lanes_.size(); ++s)
    if (next[s] < lanes_[s].operations.size())
      return Status(StatusCode::kInternal, "OPC0901", "tasks that wait for each other");
  for (size_t s = 1; s < lanes_.size(); ++s) {
    if (lanes_[s].operations.empty()) continue;
    OPC_RETURN_IF_ERROR(lanes_[s].stream->mark(*ends_[s]));
    OPC_RETURN_IF_ERROR(first.waitFor(*ends_[s]));
  }
  return Status::ok();
}

/// As runRepeating, of several streams: then a step is one launch into the first of them.
Status TaskGraph::runRecorded(int64_t steps) {
  Lane &own = lanes_[0];
  int64_t done = 0;
  if (own.stepsBefore == 0) {
    OPC_RETURN_IF_ERROR(runTogether(1));
    ++own.stepsBefore, ++done;
  }
  if (done < steps && !own.recording) {
    for (size_t s = ends_.size(); s < lanes_.size(); ++s) ends_.push_back(lanes_[s].stream->createMark());
    const bool areThere = std::all_of(ends_.begin(), ends_.end(), [](const auto &mark) { return mark != nullptr; });
    Result<std::unique_ptr<StreamRecording>> recording =
        areThere ? own.stream->record([&] { return recordLanes(); })
                 : Status(StatusCode::kExecution, "OPC0631", "a device has no more events");
    if (recording)
      own.recording = std::move(*recording);
    else
      recordsAll_ = false; // a kernel that waits for the device, or takes memory
  }
  if (!recordsAll_) return done < steps ? runTogether(steps - done) : Status::ok();
  for (Lane &lane : lanes_) lane.status = Status::ok();
  for (int64_t k = done; k < steps; ++k) OPC_RETURN_IF_ERROR(own.stream->replay(*own.recording));
  OPC_RETURN_IF_ERROR(waitForAll());
  step_ += steps - done;
  return Status::ok();
}

} // namespace opc::runtime
