// Stream capture and graphs: rules, instantiation, launches in a random topological order.
// SPDX-License-Identifier: Apache-2.0
#include "StandInDriver.h"

#include <algorithm>

namespace opc::gpusim::driver {
namespace {

const char *const kInvalidated = "the capture was spoilt by an earlier call";

/// The nodes that come before or are among `from`.
std::vector<bool> reachable(const CuGraph &graph, const std::vector<size_t> &from) {
  std::vector<bool> seen(graph.nodes.size());
  std::vector<size_t> todo = from;
  while (!todo.empty()) {
    const size_t n = todo.back();
    todo.pop_back();
    if (seen[n]) continue;
    seen[n] = true;
    todo.insert(todo.end(), graph.nodes[n]->needs.begin(), graph.nodes[n]->needs.end());
  }
  return seen;
}

} // namespace

CuResult StandInDriver::capture(Stream &stream, Work work) {
  if (stream.capture->invalid) return refuse(kStreamCaptureInvalidated, whatIs(work) + ": " + kInvalidated);
  auto node = std::make_unique<CuGraphNode>();
  node->work = std::move(work);
  node->needs = stream.captureNeeds;
  std::sort(node->needs.begin(), node->needs.end());
  node->needs.erase(std::unique(node->needs.begin(), node->needs.end()), node->needs.end());
  stream.captureNeeds = {stream.capture->graph->nodes.size()};
  stream.capture->graph->nodes.push_back(std::move(node));
  return kSuccess;
}

CuResult StandInDriver::refuseInCapture(const char *function) {
  CuResult result = kSuccess;
  if (threadCaptureMode() == kCaptureRelaxed) return result;
  streams.each([&](Stream &s) {
    if (!s.capture || s.capture->ended || s.capture->mode == kCaptureRelaxed) return;
    const bool own = s.capture->thread == std::this_thread::get_id();
    if (!own && (s.capture->mode != kCaptureGlobal || threadCaptureMode() != kCaptureGlobal)) return;
    s.capture->invalid = true;
    result = kStreamCaptureUnsupported;
  });
  return result ? refuse(result, std::string(function) + " while a stream captures: it may wait for the device")
                : result;
}

CuResult StandInDriver::refuseCapturing(const Stream &stream, const char *function) {
  if (!stream.capture) return kSuccess;
  stream.capture->invalid = true;
  return refuse(kStreamCaptureUnsupported,
                std::string(function) + " on stream " + std::to_string(stream.number) + ", which captures");
}

CuResult StandInDriver::endCapture(Stream &stream, CuGraph **graph) {
  *graph = nullptr;
  const std::shared_ptr<Capture> c = stream.capture;
  if (!c) return refuse(kIllegalState, "cuStreamEndCapture: the stream does not capture");
  if (c->origin != &stream)
    return refuse(kStreamCaptureUnmatched, "cuStreamEndCapture: the capture began on another stream, number " +
                                               std::to_string(c->origin->number));
  if (c->mode != kCaptureRelaxed && c->thread != std::this_thread::get_id())
    return refuse(kStreamCaptureWrongThread, "cuStreamEndCapture: the capture began in another thread");
  CuResult result = c->invalid ? kStreamCaptureInvalidated : kSuccess;
  std::string why = kInvalidated;
  const std::vector<bool> joined = reachable(*c->graph, stream.captureNeeds);
  for (Stream *s : c->streams) {
    for (const size_t n : s->captureNeeds)
      if (!result && !joined[n]) {
        result = kStreamCaptureUnjoined;
        why = whatIs(c->graph->nodes[n]->work) + " on stream " + std::to_string(s->number) +
              " is not joined: the stream where the capture began waits for no event behind it";
      }
    s->capture = nullptr;
    s->captureNeeds.clear();
  }
  c->ended = true;
  if (result) return refuse(result, "cuStreamEndCapture: " + why);
  *graph = graphs.make(std::move(c->graph));
  return kSuccess;
}

CuResult StandInDriver::instantiate(const CuGraph &graph, CuGraphExec **exec) {
  auto e = std::make_unique<CuGraphExec>();
  e->number = ++execs_;
  e->context = graph.context;
  std::vector<bool> continued(graph.nodes.size());
  for (const auto &node : graph.nodes) {
    // The lane of a node that it comes behind, if no other one has gone on with that lane.
    uint32_t lane = UINT32_MAX;
    for (const size_t n : node->needs)
      if (lane == UINT32_MAX && !continued[n]) lane = e->lanes[n], continued[n] = true;
    e->lanes.push_back(lane == UINT32_MAX ? newLane() : lane);
    e->nodes.push_back(*node);
  }
  *exec = graphExecs.make(std::move(e));
  return kSuccess;
}

CuResult StandInDriver::launch(DriverLock &lock, CuGraphExec &exec, Stream &stream) {
  if (stream.capture) {
    stream.capture->invalid = true;
    return refuse(kStreamCaptureUnsupported,
                  "cuGraphLaunch into a stream that captures: the stand-in has no child graphs");
  }
  ++report.graphLaunches, report.graphNodes += exec.nodes.size();
  for (const CuGraphNode &n : exec.nodes) {
    const auto *c = std::get_if<CopyWork>(&n.work);
    const bool used = c && c->toHost && std::any_of(exec.nodes.begin(), exec.nodes.end(), [&](const CuGraphNode &m) {
                        if (std::holds_alternative<HostWork>(m.work)) return true;
                        const auto *other = std::get_if<CopyWork>(&m.work);
                        return other && other->fromHost && other->from < c->to + c->toBytes() &&
                               c->to < other->from + other->fromBytes();
                      });
    if (!used) poisonTarget(n.work);
  }
  std::vector<OperationPtr> begin{exec.last};
  const VectorClock behindLast = exec.last ? exec.last->clock : VectorClock();
  if (const CuResult r = issue(lock, stream, MarkerWork{}, begin, &behindLast)) return r;
  const OperationPtr start = stream.last;

  // A random topological order: seed 0 has one, too.
  std::vector<OperationPtr> made(exec.nodes.size()), ends;
  std::vector<size_t> unmet(exec.nodes.size()), ready;
  std::vector<std::vector<size_t>> next(exec.nodes.size());
  for (size_t i = 0; i < exec.nodes.size(); ++i) {
    unmet[i] = exec.nodes[i].needs.size();
    for (const size_t n : exec.nodes[i].needs) next[n].push_back(i);
    if (unmet[i] == 0) ready.push_back(i);
  }
  VectorClock all = start->clock;
  while (!ready.empty()) {
    const size_t at = scheduler.random() % ready.size(), i = ready[at];
    ready[at] = ready.back(), ready.pop_back();
    std::vector<OperationPtr> needs{start};
    VectorClock clock = start->clock;
    for (const size_t n : exec.nodes[i].needs) {
      needs.push_back(made[n]);
      clock.join(made[n]->clock);
    }
    const std::string where = "node " + std::to_string(i) + " of graph " + std::to_string(exec.number) +
                              (options.devices > 1 ? " of device " + std::to_string(exec.context->device) : "");
    made[i] = makeOperation(*exec.context, exec.lanes[i], exec.nodes[i].work, where, clock, std::move(needs));
    all.join(made[i]->clock);
    if (next[i].empty()) ends.push_back(made[i]);
    for (const size_t n : next[i])
      if (--unmet[n] == 0) ready.push_back(n);
  }
  if (const CuResult r = issue(lock, stream, MarkerWork{}, std::move(ends), &all)) return r;
  exec.last = stream.last;
  return kSuccess;
}

GraphUpdate StandInDriver::update(CuGraphExec &exec, const CuGraph &graph, size_t *node) {
  *node = 0;
  if (exec.nodes.size() != graph.nodes.size()) return kUpdateTopologyChanged;
  for (size_t i = 0; i < exec.nodes.size(); ++i) {
    *node = i;
    const CuGraphNode &before = exec.nodes[i], &after = *graph.nodes[i];
    if (before.needs != after.needs) return kUpdateTopologyChanged;
    if (before.work.index() != after.work.index()) return kUpdateNodeTypeChanged;
    if (const auto *k = std::get_if<KernelWork>(&before.work))
      if (k->image->device != std::get<KernelWork>(after.work).image->device) return kUpdateFunctionChanged;
  }
  for (size_t i = 0; i < exec.nodes.size(); ++i) exec.nodes[i].work = graph.nodes[i]->work;
  return kUpdateSuccess;
}

} // namespace opc::gpusim::driver
