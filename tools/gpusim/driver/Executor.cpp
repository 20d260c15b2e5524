// What an operation does is done here and nowhere else, whether it came from a stream or a graph.
// SPDX-License-Identifier: Apache-2.0
#include "Executor.h"

#include <cstdio>
#include <cstring>

namespace opc::gpusim::driver {

std::string whatIs(const Work &work) {
  if (const auto *k = std::get_if<KernelWork>(&work)) return "kernel " + k->kernel->name;
  if (const auto *c = std::get_if<CopyWork>(&work))
    return std::string("copy ") + (c->fromHost ? "host" : "device") + " to " + (c->toHost ? "host" : "device");
  if (std::holds_alternative<FillWork>(work)) return "memset";
  if (const auto *c = std::get_if<ContributeWork>(&work)) return c->transfer->what;
  if (const auto *r = std::get_if<ReceiveWork>(&work)) return "receiver of " + r->transfer->what;
  return std::holds_alternative<HostWork>(work) ? "host function" : "marker";
}

bool &inHostFunction() {
  thread_local bool inside = false;
  return inside;
}

namespace {

constexpr uint8_t kPoison = 0xb5;

const char *verbOf(Access access) {
  return access == Access::kRead ? "reads" : access == Access::kWrite ? "writes" : "updates atomically";
}

} // namespace

void Executor::run(DriverLock &lock, Operation &operation) {
  operation.tick = ++driver_.ticks_;
  if (operation.context->sticky != kSuccess) return;
  if (const auto *k = std::get_if<KernelWork>(&operation.work))
    kernel(operation, *k);
  else if (const auto *c = std::get_if<CopyWork>(&operation.work))
    copy(operation, *c);
  else if (const auto *f = std::get_if<FillWork>(&operation.work))
    fill(operation, *f);
  else if (const auto *s = std::get_if<ContributeWork>(&operation.work))
    contribute(operation, *s);
  else if (const auto *r = std::get_if<ReceiveWork>(&operation.work))
    receive(operation, *r);
  else if (const auto *h = std::get_if<HostWork>(&operation.work)) {
    host(lock, *h);
    driver_.hostClock.join(operation.clock); // it may have told other threads
  }
  if (!conflicts_.empty()) reportConflicts(operation);
}

void Executor::host(DriverLock &lock, const HostWork &work) {
  ++driver_.report.hostFunctions;
  lock.unlock();
  inHostFunction() = true;
  work.function(work.data);
  inHostFunction() = false;
  lock.lock();
}

void Executor::kernel(Operation &operation, const KernelWork &work) {
  Launch launch;
  launch.module = work.image->loaded.get();
  launch.kernel = work.kernel->name;
  launch.grid = work.grid, launch.block = work.block;
  launch.dynamicShared = work.dynamicShared;
  launch.sharedLimit = work.sharedLimit;
  launch.params = work.params.data();
  launch.seed = driver_.options.seed ? driver_.scheduler.random() : 0;
  launch.instructionLimit = driver_.options.limit;
  launch.computeCapability = static_cast<uint32_t>(driver_.options.computeCapability);
  if (!driver_.options.findingsAreErrors) launch.findingLimit = 1000;
  const Outcome outcome = opc::gpusim::run(*driver_.memory, launch);
  if (!outcome.printed.empty()) std::fwrite(outcome.printed.data(), 1, outcome.printed.size(), stdout);
  driver_.report.add(work.kernel->name, outcome);
  for (const Finding &f : outcome.findings)
    driver_.fault(*operation.context, static_cast<CuResult>(f.cudaError), f.kind,
                  f.text() + ", in " + operation.name->text(), f.ends);
  if (outcome.cudaError && outcome.findings.empty())
    driver_.fault(*operation.context, static_cast<CuResult>(outcome.cudaError), "launch", operation.name->text(), true);
  const AccessSet &a = outcome.accesses;
  if (!allowed(operation, work, a.reads, "reads") || !allowed(operation, work, a.writes, "writes") ||
      !allowed(operation, work, a.atomics, "updates"))
    return;
  for (const auto &i : a.reads) touch(operation, Access::kRead, i.begin, i.end);
  for (const auto &i : a.atomics) touch(operation, Access::kAtomic, i.begin, i.end);
  for (const auto &i : a.writes) touch(operation, Access::kWrite, i.begin, i.end);
}

/// A kernel may follow pointers into another device's memory only with peer access.
bool Executor::allowed(const Operation &operation, const KernelWork &work,
                       const std::vector<AccessSet::Interval> &bytes, const char *verb) {
  if (driver_.options.devices < 2) return true;
  for (const auto &i : bytes) {
    const auto owner = StandInDriver::holding(driver_.device, i.begin, 1);
    if (owner == driver_.device.end() || owner->second.device == work.image->device ||
        operation.context->peers.count(owner->second.device))
      continue;
    driver_.fault(*operation.context, kIllegalAddress, "peer",
                  operation.name->text() + " " + verb + " " + driver_.place(i.begin, i.end) + " of device " +
                      std::to_string(owner->second.device) + " without cuCtxEnablePeerAccess",
                  true);
    return false;
  }
  return true;
}

bool Executor::inDevice(Operation &operation, uint64_t at, uint64_t bytes, const char *role) {
  if (driver_.memory->contains(at, bytes)) return true;
  driver_.fault(*operation.context, kIllegalAddress, "out of bounds",
                operation.name->text() + ": the " + role + " of " + std::to_string(bytes) +
                    " bytes is no device memory (any more): " + driver_.memory->nearest(at),
                true);
  return false;
}

/// False: the copy has ended.
bool Executor::copyRow(Operation &operation, const CopyWork &work, uint64_t to, uint64_t from) {
  Memory &memory = *driver_.memory;
  void *toHost = reinterpret_cast<void *>(to);
  const void *fromHost = reinterpret_cast<const void *>(from);
  if (work.toHost && work.fromHost) {
    std::memmove(toHost, fromHost, work.width);
  } else if (work.fromHost) {
    memory.write(to, fromHost, work.width);
  } else if (work.toHost) {
    uint64_t unwritten = 0;
    if (!memory.read(toHost, from, work.width, &unwritten)) {
      driver_.fault(*operation.context, kLaunchFailed, "unwritten",
                    operation.name->text() + " reads bytes that nobody has written: the first is byte " +
                        std::to_string(unwritten - from) + " of it, " + driver_.place(unwritten, from + work.width),
                    false);
      return driver_.options.findingsAreErrors == false;
    }
  } else {
    Memory::copy(memory, to, memory, from, work.width);
  }
  return true;
}

void Executor::copy(Operation &operation, const CopyWork &work) {
  if (work.toBytes() == 0) return;
  if (!work.toHost && !inDevice(operation, work.to, work.toBytes(), "target")) return;
  if (!work.fromHost && !inDevice(operation, work.from, work.fromBytes(), "source")) return;
  for (const bool target : {true, false}) {
    const bool host = target ? work.toHost : work.fromHost;
    const uint64_t at = target ? work.to : work.from, bytes = target ? work.toBytes() : work.fromBytes();
    if (!host || work.pageable || StandInDriver::holding(driver_.pinned, at, bytes) != driver_.pinned.end()) continue;
    driver_.fault(*operation.context, kIllegalAddress, "out of bounds",
                  operation.name->text() + ": its pinned memory was freed before the copy was done", true);
    return;
  }
  DriverReport &r = driver_.report;
  const uint64_t bytes = work.width * work.height;
  const auto deviceOf = [&](uint64_t at) {
    const auto owner = StandInDriver::holding(driver_.device, at, 1);
    return owner == driver_.device.end() ? -1 : owner->second.device;
  };
  if (work.fromHost)
    r.hostToDevice.add(bytes);
  else if (work.toHost)
    r.deviceToHost.add(bytes);
  else if (const int to = deviceOf(work.to), from = deviceOf(work.from); to == from) {
    r.deviceToDevice.add(bytes);
  } else {
    // Without access the driver takes them through the host's memory, which it says nowhere.
    r.peer.add(bytes);
    const auto reaches = [&](int device, int other) {
      return device >= 0 && driver_.contexts[static_cast<size_t>(device)]->peers.count(other);
    };
    if (!reaches(to, from) && !reaches(from, to)) r.peerStaged.add(bytes);
  }
  for (size_t row = 0; row < work.height; ++row) {
    const uint64_t to = work.to + row * work.toPitch, from = work.from + row * work.fromPitch;
    if (!work.fromHost || !work.pageable) touch(operation, Access::kRead, from, from + work.width);
    if (!work.toHost || !work.pageable) touch(operation, Access::kWrite, to, to + work.width);
    if (!copyRow(operation, work, to, from)) return;
  }
}

void Executor::fill(Operation &operation, const FillWork &work) {
  const uint64_t bytes = work.count * work.size;
  if (bytes == 0 || !inDevice(operation, work.to, bytes, "target")) return;
  driver_.report.fills.add(bytes);
  touch(operation, Access::kWrite, work.to, work.to + bytes);
  if (work.size == 1) {
    driver_.memory->fill(work.to, static_cast<uint8_t>(work.value), bytes);
    return;
  }
  std::vector<std::byte> pattern(bytes);
  for (uint64_t i = 0; i < bytes; i += work.size) std::memcpy(&pattern[i], &work.value, work.size);
  driver_.memory->write(work.to, pattern.data(), bytes);
}

void Executor::contribute(Operation &operation, const ContributeWork &work) {
  Transfer &t = *work.transfer;
  if (t.aborted || (work.bytes && !inDevice(operation, work.from, work.bytes, "source"))) return;
  std::vector<std::byte> bytes(work.bytes);
  uint64_t unwritten = 0;
  touch(operation, Access::kRead, work.from, work.from + work.bytes);
  if (work.bytes && !driver_.memory->read(bytes.data(), work.from, work.bytes, &unwritten))
    driver_.fault(*operation.context, kLaunchFailed, "unwritten",
                  operation.name->text() + " reads bytes that nobody has written: the first is byte " +
                      std::to_string(unwritten - work.from) + " of it",
                  false);
  t.contributions[work.slot] = std::move(bytes);
}

void Executor::receive(Operation &operation, const ReceiveWork &work) {
  Transfer &t = *work.transfer;
  if (work.bytes == 0 || !inDevice(operation, work.to, work.bytes, "target")) return;
  if (t.aborted) {
    driver_.memory->fill(work.to, kPoison, work.bytes); // nobody knows what, and no error
    return;
  }
  for (const auto &c : t.contributions)
    if (c.size() != t.bytes) {
      driver_.fault(*operation.context, kLaunchFailed, "transfer",
                    operation.name->text() + ": another rank's part has failed, or is of another size", true);
      return;
    }
  if (!t.combined) t.result = t.combine ? t.combine(t) : t.contributions[0], t.combined = true;
  touch(operation, Access::kWrite, work.to, work.to + work.bytes);
  driver_.memory->write(work.to, t.result.data() + work.offset, work.bytes);
  driver_.report.peer.add(work.bytes);
}

void Executor::touch(Operation &operation, Access access, uint64_t begin, uint64_t end) {
  driver_.order.touch(operation.name, operation.clock, access, begin, end, &conflicts_);
}

void Executor::reportConflicts(Operation &operation) {
  for (const Conflict &c : conflicts_)
    driver_.fault(*operation.context, kLaunchFailed, "UNORDERED",
                  "UNORDERED: " + operation.name->text() + " " + verbOf(c.access) + " " +
                      driver_.place(c.begin, c.end) + ", which " + c.earlier->text() + " " + verbOf(c.earlierAccess) +
                      ": neither comes behind the other by stream, event or synchronisation",
                  false);
  conflicts_.clear();
}

} // namespace opc::gpusim::driver
