// Events of the Trace Event Format as text.
// SPDX-License-Identifier: Apache-2.0
#include "TraceEvents.h"

#include "FileBytes.h"
#include "TextParts.h"

#include <cmath>

namespace opc::cli {

namespace {

constexpr size_t kPiece = 1 << 20; // bytes

/// Microseconds with whole nanoseconds: more digits would be noise.
std::string micro(double us) {
  const auto ns = std::llround(us * 1000);
  const std::string fraction = std::to_string(std::llabs(ns % 1000));
  std::string text = concat(ns < 0 ? "-" : "", std::llabs(ns / 1000));
  if (fraction == "0") return text;
  text += "." + std::string(3 - fraction.size(), '0') + fraction;
  return text.substr(0, text.find_last_not_of('0') + 1);
}

std::string where(TraceTrack t) { return concat("\"pid\":", t.process, ",\"tid\":", t.thread); }

} // namespace

std::string jsonQuoted(const std::string &text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string jsonMembers(const Json &object) {
  const std::string text = object.dump(-1, ' ', false, Json::error_handler_t::replace);
  return text.substr(1, text.size() - 2);
}

void TraceEvents::add(std::string_view line) {
  text_ += ",\n";
  text_ += line;
  if (text_.size() < kPiece) return;
  if (status_) status_ = sink_(text_);
  text_.clear();
}

Status TraceEvents::finish() {
  if (status_ && !text_.empty()) status_ = sink_(text_);
  text_.clear();
  return status_;
}

void TraceEvents::nameProcess(int64_t process, const std::string &name) {
  add(concat("{\"name\":\"process_name\",\"ph\":\"M\",", where({process, 0}), ",\"args\":{\"name\":", jsonQuoted(name),
             "}}"));
}

void TraceEvents::nameThread(TraceTrack track, const std::string &name) {
  add(concat("{\"name\":\"thread_name\",\"ph\":\"M\",", where(track), ",\"args\":{\"name\":", jsonQuoted(name), "}}"));
}

void TraceEvents::span(const std::string &name, const char *category, TraceTrack track, double start, double duration,
                       std::string_view args) {
  add(concat("{\"name\":", jsonQuoted(name), ",\"cat\":\"", category, "\",\"ph\":\"X\",\"ts\":", micro(start),
             ",\"dur\":", micro(duration), ",", where(track), ",\"args\":{", args, "}}"));
}

void TraceEvents::counter(const char *name, int64_t process, double time, const char *series, int64_t value) {
  add(concat("{\"name\":\"", name, "\",\"ph\":\"C\",\"ts\":", micro(time), ",\"pid\":", process, ",\"args\":{\"",
             series, "\":", value, "}}"));
}

void TraceEvents::arrow(const std::string &name, uint64_t id, TraceTrack from, double begin, TraceTrack to,
                        double end) {
  const std::string start = concat("{\"name\":", jsonQuoted(name), ",\"cat\":\"tensor\",\"ph\":");
  add(concat(start, "\"s\",\"id\":", id, ",\"ts\":", micro(begin), ",", where(from), "}"));
  add(concat(start, "\"f\",\"bp\":\"e\",\"id\":", id, ",\"ts\":", micro(end), ",", where(to), "}"));
}

Status writeTraceFile(const std::string &path, const std::function<Status(const TraceEvents::Sink &)> &events) {
  AtomicFile file;
  OPC_RETURN_IF_ERROR(file.open(path));
  const auto write = [&](std::string_view text) { return file.write(text.data(), text.size()); };
  OPC_RETURN_IF_ERROR(write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n"));
  bool isFirst = true; // whose comma is left out
  OPC_RETURN_IF_ERROR(events([&](std::string_view text) {
    if (std::exchange(isFirst, false)) text.remove_prefix(2);
    return write(text);
  }));
  OPC_RETURN_IF_ERROR(write("\n]}\n"));
  return file.commit();
}

} // namespace opc::cli
