// --reference cpu: a second, plain run of the same graph, and where the two differ first.
// SPDX-License-Identifier: Apache-2.0
#include "RunReference.h"

#include "NumberText.h"

#include <cstring>
#include <map>
#include <mutex>

namespace opc::cli {

namespace {

constexpr uint64_t kKeptBytes = uint64_t{2} << 30; // of the reference's tensors; what comes after is not compared

Result<HostTensor> copyOf(const ObservedTensor &tensor, TaskData &data, size_t output) {
  Result<HostTensor> copy = HostTensor::createUninitialized(tensor.desc.data_type(), tensor.desc.shape());
  if (!copy || !copy->bytes()) return copy;
  OPC_ASSIGN_OR_RETURN(const void *bytes, data.output(output));
  std::memcpy(copy->data(), bytes, copy->bytes());
  return copy;
}

/// Keeps what the reference makes, by name.
class Keeper final : public RunObserver {
public:
  Status after(const ObservedTask &task, int64_t, TaskData &data) override {
    for (size_t i = 0; i < task.outputs.size(); ++i) {
      OPC_ASSIGN_OR_RETURN(HostTensor value, copyOf(task.outputs[i], data, i));
      std::lock_guard<std::mutex> guard(lock_);
      kept_ += value.bytes();
      if (kept_ <= kKeptBytes) tensors[task.outputs[i].name] = std::move(value);
    }
    return Status::ok();
  }
  std::map<std::string, HostTensor> tensors;

private:
  std::mutex lock_;
  uint64_t kept_ = 0;
};

/// Compares what the run makes with what was kept, until something differs.
class Comparer final : public RunObserver {
public:
  Comparer(const std::map<std::string, HostTensor> &wanted, const ExpectFlags &expect)
      : wanted_(wanted), expect_(expect) {}

  Status after(const ObservedTask &task, int64_t, TaskData &data) override {
    std::lock_guard<std::mutex> guard(lock_);
    for (size_t i = 0; found.empty() && i < task.outputs.size(); ++i) {
      const ObservedTensor &out = task.outputs[i];
      auto it = wanted_.find(out.name);
      // A fused op may keep the name and not the layout.
      if (it == wanted_.end() || it->second.desc() != out.desc) continue;
      OPC_ASSIGN_OR_RETURN(HostTensor value, copyOf(out, data, i));
      const Comparison c = compareTensors(value, it->second, expect_.toleranceOf(out.name, value.dtype()), true);
      ++compared;
      if (c.passed()) continue;
      found = out.name + ", made by " + task.type + task.where.at() + ": " +
              countText(static_cast<uint64_t>(c.mismatches)) + " of " + countText(static_cast<uint64_t>(c.count)) +
              " values, by up to " + roundedText(c.maxAbs, 3);
    }
    return Status::ok();
  }
  std::string found;
  uint64_t compared = 0;

private:
  const std::map<std::string, HostTensor> &wanted_;
  const ExpectFlags &expect_;
  std::mutex lock_;
};

bool updatesVariables(Session &session) {
  for (const ObservedTask &t : session.tasks())
    for (const ObservedTensor &in : t.inputs)
      if (in.isMutable) return true;
  return false;
}

} // namespace

Status ReferenceRun::run(Invocation &invocation, const std::string &plan, const Registry &registry,
                         const SessionOptions &options, const NamedValues &inputs, const ValueFlags &values,
                         int64_t steps, std::vector<Expectation> *expectations) {
  auto failed = [](Status s) { return std::move(s).withContext("running the reference"); };
  Result<Session> session = Session::load(plan, registry, options);
  if (!session) return failed(session.status());
  if (Result<ValueReport> given = giveValues(*session, inputs, values, invocation.commandLine()); !given)
    return failed(given.status());
  invocation.progress().begin("running the reference");
  Status done = session->run(steps);
  invocation.progress().clear();
  if (!done) return failed(done);
  for (const PortInfo &p : session->interface().outputs) {
    Result<HostTensor> t = session->fetch(p.name);
    if (!t) return failed(t.status());
    expectations->push_back({p.name, "the reference on the CPU", std::move(*t)});
  }
  session_ = std::move(*session);
  return Status::ok();
}

Result<std::string> ReferenceRun::firstDifference(Session &session, const ExpectFlags &expect) {
  if (!session_ || updatesVariables(session) || updatesVariables(*session_)) return std::string();
  Keeper keeper;
  session_->observe(&keeper);
  Status kept = session_->run();
  session_->observe(nullptr);
  if (!kept) return kept;
  Comparer comparer(keeper.tensors, expect);
  session.observe(&comparer);
  Status compared = session.run();
  session.observe(nullptr);
  if (!compared) return compared;
  if (comparer.found.empty()) return std::string();
  return "the first of " + countText(comparer.compared) + " tensors that differs from the reference is " +
         comparer.found;
}

} // namespace opc::cli
