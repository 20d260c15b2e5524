// Plans: the input is the message inside the container, because no mutation keeps a checksum.
// SPDX-License-Identifier: Apache-2.0
#include "FuzzTargets.h"

#include "PlanFile.h"
#include "PlanNative.h"
#include "Session.h"

namespace opc::fuzz {
namespace {

/// Whether two steps with these inputs succeed.
bool runs(Session &session) {
  fillInputs("plan", session);
  expectProperError("plan", session.prepare());
  for (int step = 0; step < 2; ++step)
    if (Status s = session.run(1); !s) return expectProperError("plan", s), false;
  for (const PortInfo &port : session.interface().outputs) expectProperError("plan", session.fetch(port.name).status());
  return true;
}

} // namespace

void fuzzPlan(std::string_view bytes) {
  plan::Plan plan;
  std::string file;
  if (plan.ParsePartialFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    // No mutation keeps these checksums either. The code itself never runs here: nobody allows it.
    for (plan::NativeCode &code : *plan.mutable_native())
      for (plan::NativeCode::Image &image : *code.mutable_image()) image.set_checksum(nativeChecksum(code, image));
    file = encodePlan(plan);
  } else {
    file = bytes; // the container's own checks
  }
  SessionOptions options;
  options.threads = 1;
  options.maxMemory = 2 << 20;
  // A few ranks as threads. What they do is as broken as the plan: who waits for nobody must give up soon.
  if (plan.part_of_rank_size() <= 4) options.ranks = 0;
  options.timeout = 0.2;
  Result<Session> session = Session::load(file, test::registry(), options);
  if (!session) {
    expectProperError("plan", session.status());
    if (session.status().code() == StatusCode::kExecution)
      violated("plan", "a bad plan counts as a failed run: " + session.status().toString());
    return;
  }
  // A plan that loads runs or says why not, at the largest sizes, at the smallest, and again.
  if (!runs(*session) || session->interface().sizes.empty()) return;
  const std::vector<PortInfo> ports = session->interface().inputs;
  for (const bool isSmallest : {true, false}) {
    for (const PortInfo &port : ports) {
      const bool isOpen = isSmallest && !port.sizes.empty();
      if (Status s = session->setInputShape(port.name, isOpen ? port.smallest : port.desc.shape()); !s)
        violated("plan", "an end of its range is refused: " + s.toString());
    }
    if (!runs(*session)) return;
  }
}

size_t mutatePlan(uint8_t *data, size_t size, size_t max, uint64_t seed) {
  return mutateAs<plan::Plan>(data, size, max, seed);
}

} // namespace opc::fuzz
