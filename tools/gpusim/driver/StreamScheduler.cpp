// Executes operations behind everything that they need, as late, as early or as mixed as the policy says.
// SPDX-License-Identifier: Apache-2.0
#include "StreamScheduler.h"

#include "StandInDriver.h"

#include <algorithm>
#include <thread>

namespace opc::gpusim::driver {
namespace {

using namespace std::chrono_literals;
constexpr auto kIdle = 20ms; // after so long without an issue, host functions run by themselves

bool isHostFunction(const Operation &o) { return std::holds_alternative<HostWork>(o.work); }

} // namespace

void Scheduler::start(Policy policy, uint64_t seed, std::function<void(DriverLock &, Operation &)> execute) {
  policy_ = policy;
  random_.seed(seed);
  execute_ = std::move(execute);
}

void Scheduler::add(const OperationPtr &operation, size_t gates) {
  std::erase_if(operation->needs, [](const OperationPtr &n) { return !n || n->done; });
  operation->unmet = operation->needs.size() + gates;
  for (const OperationPtr &n : operation->needs) n->successors.push_back(operation.get());
  pending_.emplace(operation->name->number, operation);
  if (operation->unmet == 0) ready_.push_back(operation.get());
  lastIssue_ = std::chrono::steady_clock::now();
  if (!isHostFunction(*operation)) return;
  ++hostFunctions_;
  if (!progressing_) {
    progressing_ = true;
    std::thread([this] { progress(); }).detach();
  }
  changed_.notify_all();
}

void Scheduler::open(const OperationPtr &operation, const std::vector<OperationPtr> &needs) {
  if (operation->done) return;
  for (const OperationPtr &n : needs) {
    if (n->done) continue;
    operation->needs.push_back(n);
    n->successors.push_back(operation.get());
    ++operation->unmet;
  }
  if (--operation->unmet == 0) ready_.push_back(operation.get());
  changed_.notify_all();
}

void Scheduler::finish(Operation &operation) {
  operation.done = true;
  hostFunctions_ -= isHostFunction(operation);
  std::erase(ready_, &operation);
  for (Operation *s : operation.successors)
    if (--s->unmet == 0) ready_.push_back(s);
  operation.successors.clear();
  operation.needs.clear();
  pending_.erase(operation.name->number); // may be the last reference
}

/// The caller has taken executing_.
void Scheduler::run(DriverLock &lock, Operation *operation) {
  const OperationPtr alive = pending_.at(operation->name->number);
  std::erase(ready_, operation);
  execute_(lock, *operation);
  finish(*operation);
}

/// The operation and all that it waits for, by number.
void Scheduler::gather(const OperationPtr &target, std::map<uint64_t, Operation *> *needed) const {
  std::vector<Operation *> todo{target.get()};
  while (!todo.empty()) {
    Operation *o = todo.back();
    todo.pop_back();
    if (!needed->emplace(o->name->number, o).second) continue;
    for (const OperationPtr &n : o->needs)
      if (!n->done) todo.push_back(n.get());
  }
}

/// Null: all of them wait for other calls.
Operation *Scheduler::firstNeeded(const OperationPtr &target) const {
  std::map<uint64_t, Operation *> needed;
  gather(target, &needed);
  for (const auto &[number, o] : needed)
    if (o->unmet == 0) return o;
  return nullptr;
}

Operation *Scheduler::pickReady() {
  const size_t n = ready_.size();
  const size_t begin = n && policy_ == Policy::kRandom ? random_() % n : 0;
  for (size_t i = 0; i < n; ++i) {
    Operation *o = ready_[(begin + i) % n];
    if (!isHostFunction(*o)) return o;
  }
  return nullptr;
}

void Scheduler::runReady(DriverLock &lock, size_t most) {
  if (executing_) return;
  executing_ = true;
  for (; most > 0; --most) {
    Operation *o = pickReady();
    if (!o) break;
    run(lock, o);
  }
  executing_ = false;
  changed_.notify_all();
}

void Scheduler::issued(DriverLock &lock) {
  if (policy_ == Policy::kEager) runReady(lock, SIZE_MAX);
  if (policy_ == Policy::kRandom) runReady(lock, random_() % 3);
}

void Scheduler::runUntil(DriverLock &lock, const OperationPtr &operation) {
  while (operation && !operation->done) {
    if (executing_) {
      changed_.wait(lock, [&] { return !executing_; });
      continue;
    }
    executing_ = true;
    bool ran = false;
    if (policy_ == Policy::kLate) {
      std::map<uint64_t, Operation *> needed;
      gather(operation, &needed);
      for (const auto &[number, o] : needed)
        if (pending_.count(number) && o->unmet == 0) run(lock, o), ran = true;
    } else {
      // A host function only when it is needed: another one may wait for what this caller holds.
      Operation *o = pickReady();
      if (!o) o = firstNeeded(operation);
      if (o) run(lock, o), ran = true;
    }
    executing_ = false;
    changed_.notify_all();
    if (!ran) changed_.wait(lock); // for another thread's part of a transfer
  }
}

void Scheduler::step(const OperationPtr &operation, DriverLock &lock) {
  if (!operation || operation->done || executing_) return;
  Operation *o = policy_ == Policy::kLate ? firstNeeded(operation) : pickReady();
  if (!o || isHostFunction(*o)) return; // the progress thread runs those
  executing_ = true;
  run(lock, o);
  executing_ = false;
  changed_.notify_all();
}

void Scheduler::runAll(DriverLock &lock, const Context *context) {
  if (context) {
    std::vector<OperationPtr> all;
    for (const auto &[number, o] : pending_)
      if (o->context == context) all.push_back(o);
    for (const OperationPtr &o : all) runUntil(lock, o);
    return;
  }
  while (executing_ || !ready_.empty()) {
    if (executing_) {
      changed_.wait(lock, [&] { return !executing_; });
      continue;
    }
    executing_ = true;
    run(lock, ready_.front());
    executing_ = false;
    changed_.notify_all();
  }
}

void Scheduler::drop(const Context *context) {
  std::vector<OperationPtr> all;
  for (const auto &[number, o] : pending_)
    if (o->context == context) all.push_back(o);
  for (const OperationPtr &o : all) finish(*o);
}

bool Scheduler::usesHost(uint64_t begin, uint64_t end) const {
  if (hostFunctions_ > 0) return true; // what they read is not known
  for (const auto &[number, o] : pending_)
    if (const auto *c = std::get_if<CopyWork>(&o->work)) {
      if (c->toHost && c->to < end && begin < c->to + c->toBytes()) return true;
      if (c->fromHost && c->from < end && begin < c->from + c->fromBytes()) return true;
    }
  return false;
}

void Scheduler::progress() {
  DriverLock lock(StandInDriver::instance().mutex);
  for (;;) {
    changed_.wait(lock, [&] { return hostFunctions_ > 0 && !executing_; });
    if (policy_ != Policy::kEager && std::chrono::steady_clock::now() - lastIssue_ < kIdle) {
      changed_.wait_for(lock, kIdle);
      continue;
    }
    OperationPtr first; // that does not wait for other calls
    for (const auto &[number, o] : pending_)
      if (isHostFunction(*o) && firstNeeded(o)) {
        first = o;
        break;
      }
    if (!first) {
      changed_.wait_for(lock, kIdle);
      continue;
    }
    runUntil(lock, first);
    if (policy_ == Policy::kEager) runReady(lock, SIZE_MAX);
  }
}

} // namespace opc::gpusim::driver
