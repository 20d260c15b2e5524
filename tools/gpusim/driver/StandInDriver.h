// The state of the stand-in driver: devices and their memory, streams, what is pending, what was found.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "DriverObjects.h"
#include "DriverReport.h"
#include "StreamScheduler.h"

#include <string>

namespace opc::gpusim::driver {

/// An allocation of a device, or pinned memory.
struct Allocation {
  uint64_t bytes = 0;
  int device = 0;      // of device memory
  unsigned flags = 0;  // of pinned memory
  bool owned = true;   // pinned: allocated here and not registered
  bool module = false; // a variable of a module: not for cuMemFree
};

/// One per process, never destroyed. Everything is done with `mutex` held.
class StandInDriver {
public:
  static StandInDriver &instance();

  std::mutex mutex;
  SimOptions options;
  bool initialized = false;
  bool prints = true;                             // what is refused or found, on stderr
  size_t errors = 0;                              // findings that are errors of the program
  std::unique_ptr<Memory> memory;                 // of all devices: pointers are unique among them
  std::vector<std::unique_ptr<Context>> contexts; // the primary one of each device
  Handles<Stream> streams;
  Handles<Event> events;
  Handles<CuModule> modules;
  Handles<CuFunction> functions;
  Handles<CuKernel> kernels;
  Handles<CuLibrary> libraries;
  Handles<CuGraph> graphs;
  Handles<CuGraphExec> graphExecs;
  std::map<uint64_t, Allocation> device, pinned; // by base
  AccessOrder order;
  VectorClock hostClock; // what the host has waited for
  Scheduler scheduler;
  DriverReport report;

  /// Reads CUDA_SIM; each call returns what the first one did.
  CuResult configure();
  CuResult init();

  // --- text -----------------------------------------------------------------------------------------------------
  /// Says on stderr why a call is refused; returns the code.
  CuResult refuse(CuResult code, const std::string &why);
  /// Something an operation did. Errors of the hardware, and findings unless findings=warn, stay with the context.
  void fault(Context &context, CuResult code, const std::string &kind, const std::string &text, bool hardware);
  /// "bytes 16 to 32 of the 64 bytes at 0x7f.."
  std::string place(uint64_t begin, uint64_t end) const;

  // --- memory ---------------------------------------------------------------------------------------------------
  CuResult allocate(Context &context, uint64_t bytes, DevicePtr *pointer);
  CuResult release(DevicePtr pointer);
  /// The allocation that holds all of the bytes, or end().
  using Allocations = std::map<uint64_t, Allocation>;
  static Allocations::const_iterator holding(const Allocations &all, uint64_t address, uint64_t bytes);
  void adopt(uint64_t base, uint64_t bytes, int device);
  void disown(uint64_t base);

  // --- streams --------------------------------------------------------------------------------------------------
  /// Null handles and the special ones, of the current context. Null: no stream of that address.
  Stream *streamOf(Context &current, Stream *handle);
  Stream *makeStream(Context &context, unsigned flags, int priority);
  void destroyStream(Stream *stream);
  /// Into the stream's queue, or the graph that it captures.
  CuResult issue(DriverLock &lock, Stream &stream, Work work, std::vector<OperationPtr> alsoNeeds = {},
                 const VectorClock *alsoBehind = nullptr);
  /// The host waits for it, or has learnt that it is done.
  void joinHost(const OperationPtr &operation) {
    if (operation) hostClock.join(operation->clock);
  }
  CuResult synchronize(DriverLock &lock, Context &context);
  /// Everything of a device is gone.
  void reset(DriverLock &lock, Context &context);

  // --- capture and graphs (StreamCapture.cpp) ---------------------------------------------------------------------
  CuResult capture(Stream &stream, Work work);
  /// Refuses a call that may wait for devices while somebody captures, and spoils that capture.
  CuResult refuseInCapture(const char *function);
  /// Refuses a call on a stream that captures, and spoils its capture.
  CuResult refuseCapturing(const Stream &stream, const char *function);
  CuResult endCapture(Stream &stream, CuGraph **graph);
  CuResult instantiate(const CuGraph &graph, CuGraphExec **exec);
  CuResult launch(DriverLock &lock, CuGraphExec &exec, Stream &stream);
  static GraphUpdate update(CuGraphExec &exec, const CuGraph &graph, size_t *node);
  /// Parts of transfers, and what happens when the last part was posted (Transfers.cpp).
  CuResult post(DriverLock &lock, Stream &stream, const std::vector<TransferPart> &parts);
  void open(Transfer &transfer);
  uint32_t newLane() {
    lanes_.push_back(0);
    return static_cast<uint32_t>(lanes_.size() - 1);
  }

private:
  friend class Executor;
  OperationPtr makeOperation(Context &context, uint32_t lane, Work work, std::string where, VectorClock clock,
                             std::vector<OperationPtr> needs, size_t gates = 0);
  void poisonTarget(const Work &work);

  CuResult configuration_ = kSuccess;
  bool configured_ = false;
  std::vector<uint64_t> lanes_; // the number of the last operation of each
  uint64_t operations_ = 0, ticks_ = 0, execs_ = 0;
  uint32_t streamNumbers_ = 0;
  size_t printed_ = 0;
};

/// The mode that cuThreadExchangeStreamCaptureMode sets for the calling thread.
CaptureMode &threadCaptureMode();

} // namespace opc::gpusim::driver
