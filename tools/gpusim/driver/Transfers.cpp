// Transfers as operations that wait for each other across streams: a receiver for all contributions, everybody for all.
// SPDX-License-Identifier: Apache-2.0
#include "Transfers.h"

#include "ApiCall.h"

namespace opc::gpusim::driver {

CuResult StandInDriver::post(DriverLock &lock, Stream &stream, const std::vector<TransferPart> &parts) {
  if (const CuResult r = refuseCapturing(stream, "an exchange of NCCL")) return r;
  if (const CuResult r = issue(lock, stream, MarkerWork{})) return r;
  const OperationPtr start = stream.last;
  std::string where =
      "stream " + std::to_string(stream.number) + " of device " + std::to_string(stream.context->device);
  std::vector<OperationPtr> all;
  for (const TransferPart &p : parts) {
    Transfer &t = *p.transfer;
    std::vector<OperationPtr> needs{start};
    const auto make = [&](Work work) {
      all.push_back(makeOperation(*stream.context, stream.lane, std::move(work), where, stream.clock, needs, 1));
      t.waiting.push_back(all.back());
      return all.back();
    };
    if (p.contributes) {
      t.contributing.push_back(make(ContributeWork{p.transfer, p.slot, p.from, p.bytes}));
      needs.push_back(all.back());
    }
    if (p.receives) make(ReceiveWork{p.transfer, p.to, p.received, p.offset});
    ++t.posted;
  }
  const CuResult r = issue(lock, stream, MarkerWork{}, all);
  for (const TransferPart &p : parts)
    if (p.transfer->posted >= p.transfer->parts || p.transfer->aborted) open(*p.transfer);
  scheduler.issued(lock);
  return r;
}

void StandInDriver::open(Transfer &transfer) {
  for (const OperationPtr &o : transfer.waiting)
    scheduler.open(o,
                   std::holds_alternative<ReceiveWork>(o->work) ? transfer.contributing : std::vector<OperationPtr>());
  transfer.waiting.clear();
}

extern "C" {

CuResult opcGpusimPost(Stream *stream, const TransferPart *parts, size_t count) {
  return api("opcGpusimPost", kCurrentContext, [&](ApiCall &c) {
    Stream *s = c.stream(stream, "an exchange of NCCL");
    if (!s) return c.refused;
    for (size_t i = 0; i < count; ++i)
      for (const bool target : {true, false}) {
        const DevicePtr at = target ? parts[i].to : parts[i].from;
        const size_t bytes = target ? parts[i].received : parts[i].bytes;
        const bool used = bytes && (target ? parts[i].receives : parts[i].contributes);
        if (used && !c.driver.memory->contains(at, bytes))
          return c.driver.refuse(kInvalidValue, parts[i].transfer->what + ": " + std::to_string(bytes) +
                                                    " bytes are no device memory: " + c.driver.memory->nearest(at));
      }
    return c.driver.post(c.lock, *s, {parts, parts + count});
  });
}

int opcGpusimInjected(const char *function) {
  StandInDriver &driver = StandInDriver::instance();
  const DriverLock lock(driver.mutex);
  driver.configure();
  const uint64_t number = ++driver.report.calls[function];
  for (const InjectedFailure &f : driver.options.failures)
    if (f.call == number && f.function == function) return f.code;
  return 0;
}

CuResult opcGpusimAbort(Transfer *transfer) {
  return api("opcGpusimAbort", kInitialized, [&](ApiCall &c) {
    transfer->aborted = true;
    c.driver.open(*transfer);
    return kSuccess;
  });
}

} // extern "C"
} // namespace opc::gpusim::driver
