// Events of the Trace Event Format (chrome://tracing, Perfetto) as text, one a line.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "JsonOutput.h"
#include "opc/Status.h"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// Where something is shown: a process with its threads.
struct TraceTrack {
  int64_t process = 0, thread = 0;
};

/// Gives lines, each with a comma before it, to a sink in pieces of some size. Times are microseconds.
class TraceEvents {
public:
  using Sink = std::function<Status(std::string_view)>;
  explicit TraceEvents(Sink sink) : sink_(std::move(sink)) {}

  void nameProcess(int64_t process, const std::string &name);
  void nameThread(TraceTrack track, const std::string &name);
  /// `args`: the members of an object, as text.
  void span(const std::string &name, const char *category, TraceTrack track, double start, double duration,
            std::string_view args);
  void counter(const char *name, int64_t process, double time, const char *series, int64_t value);
  /// One arrow: two events.
  void arrow(const std::string &name, uint64_t id, TraceTrack from, double begin, TraceTrack to, double end);
  /// Gives what is left. Errors: the sink's first.
  Status finish();

private:
  void add(std::string_view line);
  Sink sink_;
  Status status_;
  std::string text_;
};

/// A text in quotation marks.
std::string jsonQuoted(const std::string &text);
/// "\"a\":1,\"b\":[]" of {"a":1,"b":[]}.
std::string jsonMembers(const Json &object);

/// Writes a document of such lines; "-" is the standard output. Errors: OPC0707.
Status writeTraceFile(const std::string &path, const std::function<Status(const TraceEvents::Sink &)> &events);

} // namespace opc::cli
