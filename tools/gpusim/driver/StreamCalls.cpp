// Streams, events, host functions.
// SPDX-License-Identifier: Apache-2.0
#include "ApiCall.h"

#include <algorithm>
#include <string>

namespace opc::gpusim::driver {
namespace {

/// Waits for an operation; its error, if it left one.
CuResult waitFor(ApiCall &c, const OperationPtr &operation, const Context &context) {
  ++c.driver.report.synchronisations;
  c.driver.scheduler.runUntil(c.lock, operation);
  c.driver.joinHost(operation);
  return context.sticky;
}

CuResult query(ApiCall &c, const OperationPtr &operation, const Context &context) {
  ++c.driver.report.queries;
  c.driver.scheduler.step(operation, c.lock);
  if (context.sticky) return context.sticky;
  if (operation && !operation->done) return kNotReady;
  c.driver.joinHost(operation);
  return kSuccess;
}

Event *eventOf(ApiCall &c, Event *handle, const char *function) {
  Event *event = c.driver.events.find(handle);
  if (!event) c.refused = c.driver.refuse(kInvalidHandle, std::string(function) + ": no event has this handle");
  return event;
}

CuResult refuseCaptured(ApiCall &c, const Event &event, const char *function) {
  if (!event.capture) return kSuccess;
  if (!event.capture->ended) event.capture->invalid = true;
  return c.driver.refuse(kCapturedEvent, std::string(function) +
                                             ": the event was recorded in a capture, which does not "
                                             "run it");
}

CuResult createStream(const char *function, Stream **stream, unsigned flags, int priority) {
  return api(function, kCurrentContext, [&](ApiCall &c) {
    if (!stream || flags > kStreamNonBlocking) return kInvalidValue;
    *stream = c.driver.makeStream(*c.context, flags, std::clamp(priority, -5, 0));
    return kSuccess;
  });
}

CuResult recordEvent(const char *function, Event *handle, Stream *stream, unsigned flags) {
  return api(function, kCurrentContext, [&](ApiCall &c) {
    if (flags) return c.driver.refuse(kNotSupported, std::string(function) + ": the stand-in has no external events");
    Event *event = eventOf(c, handle, function);
    Stream *s = event ? c.stream(stream, function) : nullptr;
    if (!s) return c.refused;
    if (event->context != s->context)
      return c.driver.refuse(kInvalidHandle, std::string(function) + ": event and stream are of different contexts");
    if (s->capture) {
      if (s->capture->invalid) return kStreamCaptureInvalidated;
      event->capture = s->capture, event->captureNeeds = s->captureNeeds;
      return kSuccess;
    }
    if (const CuResult r = c.driver.issue(c.lock, *s, MarkerWork{})) return r;
    event->capture = nullptr;
    event->record = s->last;
    return kSuccess;
  });
}

/// A wait for an event of a capture joins that capture.
CuResult waitInCapture(ApiCall &c, Stream &stream, const Event &event) {
  const std::shared_ptr<Capture> own = stream.capture, other = event.capture;
  if (other && other->ended) return refuseCaptured(c, event, "cuStreamWaitEvent");
  if (own && own->invalid) return kStreamCaptureInvalidated;
  if (own && !other) {
    own->invalid = true;
    return c.driver.refuse(kStreamCaptureIsolation,
                           "cuStreamWaitEvent: the stream captures, and the event is of work that "
                           "is not captured");
  }
  if (own && own != other) {
    own->invalid = other->invalid = true;
    return c.driver.refuse(kStreamCaptureMerge, "cuStreamWaitEvent: stream and event are of two captures");
  }
  if (other->invalid) return kStreamCaptureInvalidated;
  if (stream.legacy) {
    other->invalid = true;
    return c.driver.refuse(kStreamCaptureImplicit,
                           "cuStreamWaitEvent: the legacy stream cannot take part in a capture");
  }
  if (!own) {
    stream.capture = other, stream.captureNeeds.clear();
    other->streams.insert(&stream);
  }
  stream.captureNeeds.insert(stream.captureNeeds.end(), event.captureNeeds.begin(), event.captureNeeds.end());
  std::sort(stream.captureNeeds.begin(), stream.captureNeeds.end());
  stream.captureNeeds.erase(std::unique(stream.captureNeeds.begin(), stream.captureNeeds.end()),
                            stream.captureNeeds.end());
  return kSuccess;
}

/// An operation's time is the number of operations done before it: an order, and no duration of a GPU.
CuResult elapsed(const char *function, float *milliseconds, Event *startHandle, Event *endHandle) {
  return api(function, kCurrentContext, [&](ApiCall &c) {
    if (!milliseconds) return kInvalidValue;
    Event *start = eventOf(c, startHandle, function), *end = start ? eventOf(c, endHandle, function) : nullptr;
    if (!end) return c.refused;
    for (Event *e : {start, end}) {
      if (const CuResult r = refuseCaptured(c, *e, function)) return r;
      if (!e->record || (e->flags & kEventDisableTiming))
        return c.driver.refuse(kInvalidHandle, std::string(function) +
                                                   ": an event was not recorded, or was made without "
                                                   "timing (CU_EVENT_DISABLE_TIMING)");
    }
    if (!start->record->done || !end->record->done) return kNotReady;
    *milliseconds = (static_cast<float>(end->record->tick) - static_cast<float>(start->record->tick)) * 1e-3f;
    return kSuccess;
  });
}

} // namespace

extern "C" {

CuResult cuStreamCreate(Stream **stream, unsigned flags) { return createStream("cuStreamCreate", stream, flags, 0); }

CuResult cuStreamCreateWithPriority(Stream **stream, unsigned flags, int priority) {
  return createStream("cuStreamCreateWithPriority", stream, flags, priority);
}

CuResult cuStreamDestroy_v2(Stream *stream) {
  return api("cuStreamDestroy", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.driver.streams.find(stream);
    if (!s) return c.driver.refuse(kInvalidHandle, "cuStreamDestroy: no stream has this handle");
    c.driver.destroyStream(s);
    return kSuccess;
  });
}

CuResult cuStreamSynchronize(Stream *stream) {
  return api("cuStreamSynchronize", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "cuStreamSynchronize");
    if (!s) return c.refused;
    if (const CuResult r = c.driver.refuseCapturing(*s, "cuStreamSynchronize")) return r;
    if (!s->legacy) return waitFor(c, s->last, *s->context);
    if (const CuResult r = c.driver.refuseInCapture("cuStreamSynchronize of the legacy stream")) return r;
    // The legacy stream stands behind all blocking ones.
    if (const CuResult r = c.driver.issue(c.lock, *s, MarkerWork{})) return r;
    return waitFor(c, s->last, *s->context);
  });
}

CuResult cuStreamQuery(Stream *stream) {
  return api("cuStreamQuery", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "cuStreamQuery");
    if (!s) return c.refused;
    if (const CuResult r = c.driver.refuseCapturing(*s, "cuStreamQuery")) return r;
    return query(c, s->last, *s->context);
  });
}

CuResult cuStreamWaitEvent(Stream *stream, Event *handle, unsigned flags) {
  return api("cuStreamWaitEvent", kCurrentContext, [&](ApiCall &c) {
    if (flags) return c.driver.refuse(kNotSupported, "cuStreamWaitEvent: the stand-in has no external events");
    Event *event = eventOf(c, handle, "cuStreamWaitEvent");
    Stream *s = event ? c.stream(stream, "cuStreamWaitEvent") : nullptr;
    if (!s) return c.refused;
    if (s->capture || event->capture) return waitInCapture(c, *s, *event);
    if (!event->record) return kSuccess; // never recorded: nothing to wait for
    return c.driver.issue(c.lock, *s, MarkerWork{}, {event->record}, &event->record->clock);
  });
}

CuResult cuStreamGetPriority(Stream *stream, int *priority) {
  return api("cuStreamGetPriority", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "cuStreamGetPriority");
    if (!s || !priority) return s ? kInvalidValue : c.refused;
    *priority = s->priority;
    return kSuccess;
  });
}

CuResult cuStreamGetFlags(Stream *stream, unsigned *flags) {
  return api("cuStreamGetFlags", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "cuStreamGetFlags");
    if (!s || !flags) return s ? kInvalidValue : c.refused;
    *flags = s->flags;
    return kSuccess;
  });
}

CuResult cuStreamGetCtx(Stream *stream, Context **context) {
  return api("cuStreamGetCtx", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "cuStreamGetCtx");
    if (!s || !context) return s ? kInvalidValue : c.refused;
    *context = s->context;
    return kSuccess;
  });
}

CuResult cuLaunchHostFunc(Stream *stream, HostFunction function, void *data) {
  return api("cuLaunchHostFunc", kCurrentContext, [&](ApiCall &c) {
    if (!function) return kInvalidValue;
    Stream *s = c.stream(stream, "cuLaunchHostFunc");
    return s ? c.driver.issue(c.lock, *s, HostWork{function, data}) : c.refused;
  });
}

CuResult cuEventCreate(Event **event, unsigned flags) {
  return api("cuEventCreate", kCurrentContext, [&](ApiCall &c) {
    if (!event || flags > (kEventBlockingSync | kEventDisableTiming)) return kInvalidValue;
    auto made = std::make_unique<Event>();
    made->context = c.context, made->flags = flags;
    *event = c.driver.events.make(std::move(made));
    return kSuccess;
  });
}

CuResult cuEventDestroy_v2(Event *event) {
  return api("cuEventDestroy", kCurrentContext, [&](ApiCall &c) {
    return c.driver.events.destroy(event) ? kSuccess
                                          : c.driver.refuse(kInvalidHandle, "cuEventDestroy: no event has this handle");
  });
}

CuResult cuEventRecord(Event *event, Stream *stream) { return recordEvent("cuEventRecord", event, stream, 0); }

CuResult cuEventRecordWithFlags(Event *event, Stream *stream, unsigned flags) {
  return recordEvent("cuEventRecordWithFlags", event, stream, flags);
}

CuResult cuEventSynchronize(Event *handle) {
  return api("cuEventSynchronize", kCurrentContext, [&](ApiCall &c) {
    Event *event = eventOf(c, handle, "cuEventSynchronize");
    if (!event) return c.refused;
    if (const CuResult r = refuseCaptured(c, *event, "cuEventSynchronize")) return r;
    return waitFor(c, event->record, *event->context);
  });
}

CuResult cuEventQuery(Event *handle) {
  return api("cuEventQuery", kCurrentContext, [&](ApiCall &c) {
    Event *event = eventOf(c, handle, "cuEventQuery");
    if (!event) return c.refused;
    if (const CuResult r = refuseCaptured(c, *event, "cuEventQuery")) return r;
    return query(c, event->record, *event->context);
  });
}

CuResult cuEventElapsedTime(float *milliseconds, Event *start, Event *end) {
  return elapsed("cuEventElapsedTime", milliseconds, start, end);
}

CuResult cuEventElapsedTime_v2(float *milliseconds, Event *start, Event *end) {
  return elapsed("cuEventElapsedTime", milliseconds, start, end);
}

} // extern "C"
} // namespace opc::gpusim::driver
