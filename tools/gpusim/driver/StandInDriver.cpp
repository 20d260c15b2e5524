// Contexts, memory and streams of the stand-in, and how an operation finds its place behind others.
// SPDX-License-Identifier: Apache-2.0
#include "StandInDriver.h"

#include "Executor.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace opc::gpusim::driver {
namespace {

constexpr size_t kMostPrinted = 50;
constexpr unsigned char kPoison = 0xb5;

const char *nameOf(int code) {
#define GPUSIM_NAME(name, cudaName, value, text)                                                                       \
  if (code == value) return #cudaName;
  GPUSIM_RESULTS(GPUSIM_NAME)
#undef GPUSIM_NAME
  return "an unknown code";
}

void writeReport() {
  StandInDriver &driver = StandInDriver::instance();
  const std::lock_guard<std::mutex> lock(driver.mutex);
  if (!driver.report.write(driver.options))
    std::fprintf(stderr, "gpusim: the report cannot be written to %s\n", driver.options.report.c_str());
}

/// A test that wants a failure, and has not got it, is none.
void sayMissedFailures() {
  StandInDriver &driver = StandInDriver::instance();
  const std::lock_guard<std::mutex> lock(driver.mutex);
  for (const InjectedFailure &f : driver.options.failures)
    if (const uint64_t calls = driver.report.calls[f.function]; calls < f.call)
      std::fprintf(stderr, "gpusim: warning: fail=%s:%llu:%d of CUDA_SIM has not happened: there were %llu calls\n",
                   f.function.c_str(), static_cast<unsigned long long>(f.call), f.code,
                   static_cast<unsigned long long>(calls));
}

} // namespace

CaptureMode &threadCaptureMode() {
  thread_local CaptureMode mode = kCaptureGlobal;
  return mode;
}

StandInDriver &StandInDriver::instance() {
  static auto *driver = new StandInDriver; // for ever: threads of the client may end behind main
  return *driver;
}

CuResult StandInDriver::configure() {
  if (configured_) return configuration_;
  configured_ = true;
  const char *text = std::getenv("CUDA_SIM");
  std::string error;
  if (!SimOptions::parse(text ? text : "", &options, &error)) return configuration_ = refuse(kInvalidValue, error);
  if (!options.failures.empty()) std::atexit(sayMissedFailures);
  if (options.report.empty()) return configuration_ = kSuccess;
  // What cannot be written in the end is an error now: at exit nobody hears it.
  if (options.report != "-" && !DriverReport().write(options))
    return configuration_ = refuse(kInvalidValue, "CUDA_SIM: report=" + options.report +
                                                      " cannot be written: " + std::strerror(errno));
  std::atexit(writeReport);
  return configuration_ = kSuccess;
}

CuResult StandInDriver::init() {
  if (const CuResult r = configure()) return r;
  if (initialized) return kSuccess;
  if (options.devices == 0) return kNoDevice;
  const auto devices = static_cast<size_t>(options.devices);
  memory = std::make_unique<Memory>(options.memory * devices);
  report.used.resize(devices), report.peak.resize(devices);
  for (int i = 0; i < options.devices; ++i) {
    contexts.push_back(std::make_unique<Context>());
    contexts.back()->device = i;
  }
  scheduler.start(options.policy, options.seed,
                  [this](DriverLock &lock, Operation &operation) { Executor(*this).run(lock, operation); });
  initialized = true;
  return kSuccess;
}

CuResult StandInDriver::refuse(CuResult code, const std::string &why) {
  if (prints && printed_++ < kMostPrinted)
    std::fprintf(stderr, "gpusim: error %d (%s): %s\n", code, nameOf(code), why.c_str());
  return code;
}

void StandInDriver::fault(Context &context, CuResult code, const std::string &kind, const std::string &text,
                          bool hardware) {
  report.findings.push_back({code, kind, text});
  const bool error = hardware || options.findingsAreErrors;
  if (prints && printed_++ < kMostPrinted)
    std::fprintf(stderr, "gpusim: %s %d (%s): %s\n", error ? "error" : "warning", code, nameOf(code), text.c_str());
  errors += error;
  if (error && context.sticky == kSuccess) context.sticky = code;
}

std::string StandInDriver::place(uint64_t begin, uint64_t end) const {
  char text[160];
  const bool onHost = !memory->find(begin);
  const auto &all = onHost ? pinned : device;
  const auto owner = holding(all, begin, 1);
  if (owner == all.end()) {
    std::snprintf(text, sizeof text, "%llu bytes at 0x%llx", static_cast<unsigned long long>(end - begin),
                  static_cast<unsigned long long>(begin));
    return text;
  }
  std::snprintf(text, sizeof text, "bytes %llu to %llu of the %llu bytes of %s memory at 0x%llx",
                static_cast<unsigned long long>(begin - owner->first),
                static_cast<unsigned long long>(end - owner->first),
                static_cast<unsigned long long>(owner->second.bytes), onHost ? "pinned" : "device",
                static_cast<unsigned long long>(owner->first));
  return text;
}

// --- memory -------------------------------------------------------------------------------------------------------

StandInDriver::Allocations::const_iterator StandInDriver::holding(const Allocations &all, uint64_t address,
                                                                  uint64_t bytes) {
  auto it = all.upper_bound(address);
  if (it == all.begin()) return all.end();
  --it;
  const uint64_t offset = address - it->first;
  return offset <= it->second.bytes && bytes <= it->second.bytes - offset && (bytes || offset < it->second.bytes)
             ? it
             : all.end();
}

void StandInDriver::adopt(uint64_t base, uint64_t bytes, int index) {
  Allocation a;
  a.bytes = bytes, a.device = index;
  device[base] = a;
  uint64_t &used = report.used[static_cast<size_t>(index)], &peak = report.peak[static_cast<size_t>(index)];
  used += bytes;
  peak = std::max(peak, used);
}

void StandInDriver::disown(uint64_t base) {
  const auto it = device.find(base);
  if (it == device.end()) return;
  report.used[static_cast<size_t>(it->second.device)] -= it->second.bytes;
  order.forget(base, base + it->second.bytes);
  device.erase(it);
}

CuResult StandInDriver::allocate(Context &context, uint64_t bytes, DevicePtr *pointer) {
  const uint64_t used = report.used[static_cast<size_t>(context.device)];
  const uint64_t at = bytes <= options.memory - std::min(used, options.memory) ? memory->allocate(bytes) : 0;
  if (!at)
    return refuse(kOutOfMemory, std::to_string(bytes) + " bytes were asked of device " +
                                    std::to_string(context.device) + ", which has " +
                                    std::to_string(options.memory - used) + " of " + std::to_string(options.memory) +
                                    " left (memory= of CUDA_SIM)");
  adopt(at, bytes, context.device);
  *pointer = at;
  return kSuccess;
}

CuResult StandInDriver::release(DevicePtr pointer) {
  const auto it = device.find(pointer);
  if (it == device.end() || it->second.module)
    return refuse(kInvalidValue, "cuMemFree: no allocation begins there: " + memory->nearest(pointer));
  disown(pointer);
  memory->release(pointer);
  return kSuccess;
}

// --- streams ------------------------------------------------------------------------------------------------------

Stream *StandInDriver::makeStream(Context &context, unsigned flags, int priority) {
  auto stream = std::make_unique<Stream>();
  stream->context = &context;
  stream->number = ++streamNumbers_;
  stream->lane = newLane();
  stream->flags = flags, stream->priority = priority;
  return streams.make(std::move(stream));
}

Stream *StandInDriver::streamOf(Context &current, Stream *handle) {
  const auto value = reinterpret_cast<uintptr_t>(handle);
  if (value == 0 || value == kStreamLegacy) {
    if (!current.legacy) {
      current.legacy = std::make_unique<Stream>();
      current.legacy->context = &current;
      current.legacy->legacy = true;
      current.legacy->lane = newLane();
    }
    return current.legacy.get();
  }
  if (value != kStreamPerThread) return streams.find(handle);
  Stream *&own = current.ofThreads[std::this_thread::get_id()];
  if (!own) own = makeStream(current, 0, 0);
  return own;
}

void StandInDriver::destroyStream(Stream *stream) {
  if (stream->capture) {
    stream->capture->invalid = true;
    stream->capture->streams.erase(stream);
    if (stream->capture->origin == stream) stream->capture->ended = true;
  }
  stream->context->retired.join(stream->clock);
  streams.destroy(stream);
}

OperationPtr StandInDriver::makeOperation(Context &context, uint32_t lane, Work work, std::string where,
                                          VectorClock clock, std::vector<OperationPtr> needs, size_t gates) {
  auto operation = std::make_shared<Operation>();
  operation->name = std::make_shared<OperationName>();
  operation->name->number = ++operations_;
  operation->name->lane = lane;
  operation->name->place = ++lanes_[lane];
  operation->name->what = whatIs(work);
  operation->name->where = std::move(where);
  clock.set(lane, lanes_[lane]);
  operation->clock = std::move(clock);
  operation->context = &context;
  operation->work = std::move(work);
  operation->needs = std::move(needs);
  scheduler.add(operation, gates);
  return operation;
}

/// A copy to the host gives its target a value that nobody can mistake for the result, unless those bytes are still
/// needed by what is pending.
void StandInDriver::poisonTarget(const Work &work) {
  const auto *copy = std::get_if<CopyWork>(&work);
  if (!copy || !copy->toHost || scheduler.usesHost(copy->to, copy->to + copy->toBytes())) return;
  if (copy->fromHost && copy->from < copy->to + copy->toBytes() && copy->to < copy->from + copy->fromBytes()) return;
  for (size_t row = 0; row < copy->height; ++row)
    std::memset(reinterpret_cast<void *>(copy->to + row * copy->toPitch), kPoison, copy->width);
}

CuResult StandInDriver::issue(DriverLock &lock, Stream &stream, Work work, std::vector<OperationPtr> alsoNeeds,
                              const VectorClock *alsoBehind) {
  if (stream.capture) return capture(stream, std::move(work));
  Context &context = *stream.context;
  std::vector<OperationPtr> needs = std::move(alsoNeeds);
  needs.push_back(stream.last);
  VectorClock clock = stream.clock;
  clock.join(hostClock);
  if (alsoBehind) clock.join(*alsoBehind);
  CuResult refused = kSuccess;
  if (stream.legacy)
    streams.each([&](Stream &s) {
      if (s.context != &context || !s.blocking()) return;
      if (s.capture) s.capture->invalid = true, refused = kStreamCaptureImplicit;
      needs.push_back(s.last);
      clock.join(s.clock);
    });
  if (refused)
    return refuse(refused, whatIs(work) + " on the legacy stream while a blocking stream of its context captures: use "
                                          "streams with CU_STREAM_NON_BLOCKING");
  if (stream.blocking() && context.legacy) {
    needs.push_back(context.legacy->last);
    clock.join(context.legacy->clock);
  }
  poisonTarget(work);
  std::string where = stream.legacy ? "the legacy stream" : "stream " + std::to_string(stream.number);
  if (options.devices > 1) where += " of device " + std::to_string(context.device);
  stream.last =
      makeOperation(context, stream.lane, std::move(work), std::move(where), std::move(clock), std::move(needs));
  stream.clock = stream.last->clock;
  const OperationPtr issued = stream.last;
  scheduler.issued(lock);
  return kSuccess;
}

CuResult StandInDriver::synchronize(DriverLock &lock, Context &context) {
  ++report.synchronisations;
  scheduler.runAll(lock, &context);
  if (context.legacy) hostClock.join(context.legacy->clock);
  streams.each([&](Stream &s) {
    if (s.context == &context) hostClock.join(s.clock);
  });
  hostClock.join(context.retired);
  return context.sticky;
}

void StandInDriver::reset(DriverLock &lock, Context &context) {
  scheduler.runAll(lock, nullptr);
  scheduler.drop(&context); // what still waits for other devices
  const auto ofContext = [&](const auto &object) { return object.context == &context; };
  events.destroyIf(ofContext);
  graphExecs.destroyIf(ofContext);
  graphs.destroyIf(ofContext);
  streams.destroyIf(ofContext);
  functions.destroyIf([&](const CuFunction &f) { return f.module->context == &context; });
  libraries.each([&](CuLibrary &l) {
    l.modules.erase(context.device);
    l.image.loaded.erase(context.device);
  });
  modules.destroyIf(ofContext);
  for (auto it = device.begin(); it != device.end();) {
    const uint64_t base = it->first;
    const bool gone = it->second.device == context.device;
    const bool free = gone && !it->second.module;
    ++it;
    if (gone) disown(base);
    if (free) memory->release(base);
  }
  const unsigned flags = context.flags;
  const int index = context.device, retained = context.retained;
  context = Context();
  context.device = index, context.flags = flags, context.retained = retained;
}

} // namespace opc::gpusim::driver
