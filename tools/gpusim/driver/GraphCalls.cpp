// Stream capture and graphs.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"

#include <algorithm>
#include <utility>

namespace opc::gpusim::driver {

extern "C" {

CuResult cuStreamBeginCapture_v2(Stream *stream, CaptureMode mode) {
  return api("cuStreamBeginCapture", kCurrentContext, [&](ApiCall &c) {
    if (mode < kCaptureGlobal || mode > kCaptureRelaxed) return kInvalidValue;
    Stream *s = c.stream(stream, "cuStreamBeginCapture");
    if (!s) return c.refused;
    if (s->legacy)
      return c.driver.refuse(kStreamCaptureUnsupported, "cuStreamBeginCapture: the legacy stream cannot be captured");
    if (s->capture) return c.driver.refuse(kIllegalState, "cuStreamBeginCapture: the stream captures already");
    auto capture = std::make_shared<Capture>();
    capture->mode = mode;
    capture->thread = std::this_thread::get_id();
    capture->origin = s;
    capture->graph = std::make_unique<CuGraph>();
    capture->graph->context = s->context;
    capture->streams.insert(s);
    s->capture = std::move(capture), s->captureNeeds.clear();
    return kSuccess;
  });
}

CuResult cuStreamEndCapture(Stream *stream, CuGraph **graph) {
  return api("cuStreamEndCapture", kCurrentContext, [&](ApiCall &c) {
    if (!graph) return kInvalidValue;
    Stream *s = c.stream(stream, "cuStreamEndCapture");
    return s ? c.driver.endCapture(*s, graph) : c.refused;
  });
}

CuResult cuStreamIsCapturing(Stream *stream, CaptureStatus *status) {
  return api("cuStreamIsCapturing", kCurrentContext, [&](ApiCall &c) {
    if (!status) return kInvalidValue;
    Stream *s = c.stream(stream, "cuStreamIsCapturing");
    if (!s) return c.refused;
    *status = !s->capture ? kCaptureNone : s->capture->invalid ? kCaptureInvalidated : kCaptureActive;
    return kSuccess;
  });
}

CuResult cuThreadExchangeStreamCaptureMode(CaptureMode *mode) {
  return api("cuThreadExchangeStreamCaptureMode", kInitialized, [&](ApiCall &) {
    if (!mode || *mode < kCaptureGlobal || *mode > kCaptureRelaxed) return kInvalidValue;
    std::swap(*mode, threadCaptureMode());
    return kSuccess;
  });
}

CuResult cuGraphInstantiateWithFlags(CuGraphExec **exec, CuGraph *graph, unsigned long long) {
  return api("cuGraphInstantiateWithFlags", kCurrentContext, [&](ApiCall &c) {
    CuGraph *g = c.driver.graphs.find(graph);
    if (!g || !exec) return g ? kInvalidValue : c.driver.refuse(kInvalidHandle, "cuGraphInstantiate: this is no graph");
    return c.driver.instantiate(*g, exec);
  });
}

CuResult cuGraphLaunch(CuGraphExec *exec, Stream *stream) {
  return api("cuGraphLaunch", kCurrentContext, [&](ApiCall &c) {
    CuGraphExec *e = c.driver.graphExecs.find(exec);
    if (!e) return c.driver.refuse(kInvalidHandle, "cuGraphLaunch: this is no instantiated graph");
    Stream *s = c.stream(stream, "cuGraphLaunch");
    return s ? c.driver.launch(c.lock, *e, *s) : c.refused;
  });
}

CuResult cuGraphExecUpdate_v2(CuGraphExec *exec, CuGraph *graph, GraphUpdateInfo *info) {
  return api("cuGraphExecUpdate", kCurrentContext, [&](ApiCall &c) {
    CuGraphExec *e = c.driver.graphExecs.find(exec);
    CuGraph *g = c.driver.graphs.find(graph);
    if (!e || !g || !info) return info ? kInvalidHandle : kInvalidValue;
    size_t node = 0;
    *info = {StandInDriver::update(*e, *g, &node), nullptr, nullptr};
    if (info->result == kUpdateSuccess) return kSuccess;
    if (node < g->nodes.size()) info->node = g->nodes[node].get();
    return kGraphExecUpdateFailure;
  });
}

CuResult cuGraphExecDestroy(CuGraphExec *exec) {
  return api("cuGraphExecDestroy", kCurrentContext,
             [&](ApiCall &c) { return c.driver.graphExecs.destroy(exec) ? kSuccess : kInvalidHandle; });
}

CuResult cuGraphDestroy(CuGraph *graph) {
  return api("cuGraphDestroy", kCurrentContext,
             [&](ApiCall &c) { return c.driver.graphs.destroy(graph) ? kSuccess : kInvalidHandle; });
}

CuResult cuGraphUpload(CuGraphExec *exec, Stream *stream) {
  return api("cuGraphUpload", kCurrentContext, [&](ApiCall &c) {
    if (!c.driver.graphExecs.find(exec)) return kInvalidHandle;
    return c.stream(stream, "cuGraphUpload") ? kSuccess : c.refused;
  });
}

CuResult cuGraphGetNodes(CuGraph *graph, CuGraphNode **nodes, size_t *count) {
  return api("cuGraphGetNodes", kInitialized, [&](ApiCall &c) {
    CuGraph *g = c.driver.graphs.find(graph);
    if (!g || !count) return g ? kInvalidValue : kInvalidHandle;
    const size_t room = nodes ? *count : 0;
    *count = nodes ? std::min(room, g->nodes.size()) : g->nodes.size();
    for (size_t i = 0; i < std::min(room, g->nodes.size()); ++i) nodes[i] = g->nodes[i].get();
    return kSuccess;
  });
}

CuResult cuGraphNodeGetType(CuGraphNode *node, GraphNodeKind *kind) {
  return api("cuGraphNodeGetType", kInitialized, [&](ApiCall &c) {
    if (!kind) return kInvalidValue;
    bool known = false;
    c.driver.graphs.each([&](CuGraph &g) {
      for (const auto &n : g.nodes) known |= n.get() == node;
    });
    if (!known) return kInvalidHandle;
    *kind = std::holds_alternative<KernelWork>(node->work) ? kNodeKernel
            : std::holds_alternative<CopyWork>(node->work) ? kNodeMemcpy
            : std::holds_alternative<FillWork>(node->work) ? kNodeMemset
            : std::holds_alternative<HostWork>(node->work) ? kNodeHost
                                                           : kNodeEmpty;
    return kSuccess;
  });
}

} // extern "C"
} // namespace opc::gpusim::driver
