// --reference cpu: a second, plain run of the same graph, and where the two differ first.
// SPDX-License-Identifier: Apache-2.0
#include "RunReference.h"

#include "NumberText.h"
#include "RunComparison.h"

namespace opc::cli {

namespace {

bool updatesVariables(Session &session) {
  for (const ObservedTask &t : session.tasks())
    for (const ObservedTensor &in : t.inputs)
      if (in.isMutable) return true;
  return false;
}

} // namespace

Status ReferenceRun::run(Invocation &invocation, const std::string &plan, const Registry &registry,
                         const SessionOptions &options, const NamedValues &inputs, const ValueFlags &values,
                         const ModelValues &own, int64_t steps, std::vector<Expectation> *expectations) {
  auto failed = [](Status s) { return std::move(s).withContext("running the reference"); };
  Result<Session> session = Session::load(plan, registry, options);
  if (!session) return failed(session.status());
  const Result<std::set<std::string>> known = giveModelValues(*session, own, inputs, values);
  if (!known) return failed(known.status());
  if (Result<ValueReport> given = giveValues(*session, inputs, values, invocation.commandLine(), *known); !given)
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
  TensorKeeper keeper;
  session_->observe(&keeper);
  Status kept = session_->run();
  session_->observe(nullptr);
  if (!kept) return kept;
  RunComparison comparison(keeper.tensors, {[&](const std::string &name, const HostTensor &expected) {
                                              return expect.toleranceOf(name, expected.dtype());
                                            },
                                            false, true});
  session.observe(&comparison);
  Status compared = session.run();
  session.observe(nullptr);
  if (!compared) return compared;
  const std::vector<TensorDifference> found = comparison.differences();
  if (found.empty()) return std::string();
  const Comparison &c = found[0].comparison;
  return "the first of " + countText(comparison.compared()) + " tensors that differs from the reference is " +
         found[0].tensor + ", made by " + found[0].type + found[0].where.at() + ": " +
         countText(static_cast<uint64_t>(c.mismatches)) + " of " + countText(static_cast<uint64_t>(c.count)) +
         " values, by up to " + roundedText(c.maxAbs, 3);
}

} // namespace opc::cli
