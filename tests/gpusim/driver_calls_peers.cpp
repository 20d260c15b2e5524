// Several devices: copies between them, access to each other's memory, streams that wait for each other.
// SPDX-License-Identifier: Apache-2.0
#include "DriverCalls.h"

namespace opc::gpusim::driver {

void peers() {
  Context *first = useDevice(0);
  const DevicePtr here = newMemory(64);
  Context *second = useDevice(1);
  const DevicePtr there = newMemory(64);
  OK(cuMemsetD32_v2, there, 40, 16);
  OK(cuCtxSynchronize);
  CODE(kInvalidValue, cuMemcpyPeer, here, second, there, first, 64); // contexts exchanged
  OK(cuMemcpyPeer, here, first, there, second, 64);
  OK(cuCtxSynchronize);
  OK(cuCtxSetCurrent, first);
  EXPECT(firstOf(here) == 40);
  CODE(kPeerAccessNotEnabled, cuCtxDisablePeerAccess, second);
  OK(cuCtxEnablePeerAccess, second, 0);
  CODE(kPeerAccessAlreadyEnabled, cuCtxEnablePeerAccess, second, 0);
  CODE(kInvalidDevice, cuCtxEnablePeerAccess, first, 0);
  CuFunction *f = newFunction("addTo");
  addTo(f, there, 2, nullptr);
  OK(cuCtxSynchronize);
  EXPECT(firstOf(there) == 42);
  Stream *s = newStream();
  OK(cuCtxSetCurrent, second);
  CODE(kInvalidHandle, cuLaunchKernel, newFunction("wide"), 1, 1, 1, 1, 1, 1, 0, s, nullptr, nullptr);
  OK(cuCtxSetCurrent, first);
  OK(cuCtxDisablePeerAccess, second);
  addTo(f, there, 2, nullptr);
  CODE(kIllegalAddress, cuCtxSynchronize);
  OK(cuCtxSetCurrent, second); // the other device works on
  OK(cuCtxSynchronize);
}

/// Devices 0 and 1, 2 and 3 reach each other's memory: others copy through the host, as the driver does it.
void peersDenied() {
  Context *contexts[] = {useDevice(0), useDevice(1), useDevice(2)};
  int can = 9;
  OK(cuDeviceCanAccessPeer, &can, 0, 1);
  EXPECT(can == 1);
  OK(cuDeviceCanAccessPeer, &can, 1, 2);
  EXPECT(can == 0);
  const DevicePtr there = newMemory(64); // of device 2
  OK(cuMemsetD32_v2, there, 40, 16);
  OK(cuCtxSynchronize);
  OK(cuCtxSetCurrent, contexts[1]);
  CODE(kPeerAccessUnsupported, cuCtxEnablePeerAccess, contexts[2], 0);
  OK(cuCtxEnablePeerAccess, contexts[0], 0);
  const DevicePtr here = newMemory(64);
  Stream *s = newStream();
  OK(cuMemcpyPeerAsync, here, contexts[1], there, contexts[2], 64, s);
  addTo(newFunction("addTo"), here, 2, s);
  OK(cuStreamSynchronize, s);
  EXPECT(firstOf(here) == 42);
  addTo(newFunction("addTo"), there, 2, s);
  CODE(kIllegalAddress, cuStreamSynchronize, s);
}

/// Copies from device to device in streams: behind events of the other device, in a graph, and without an order.
void peerStreams() {
  Context *first = useDevice(0);
  CuFunction *f = newFunction("addTo");
  const DevicePtr here = newMemory(64);
  Stream *s = newStream();
  Event *written = nullptr, *read = nullptr;
  OK(cuEventCreate, &written, kEventDisableTiming);
  Context *second = useDevice(1);
  const DevicePtr there = newMemory(64);
  Stream *t = newStream();
  OK(cuEventCreate, &read, kEventDisableTiming);
  for (unsigned i = 1; i <= 3; ++i) {
    OK(cuCtxSetCurrent, first);
    OK(cuMemsetD32Async, here, 10 * i, 16, s);
    OK(cuEventRecord, written, s);
    OK(cuCtxSetCurrent, second);
    CODE(kInvalidHandle, cuEventRecord, written, t);
    OK(cuStreamWaitEvent, t, written, 0);
    OK(cuMemcpyPeerAsync, there, second, here, first, 64, t);
    OK(cuEventRecord, read, t);
    OK(cuCtxSetCurrent, first);
    OK(cuStreamWaitEvent, s, read, 0);
    addTo(f, here, 1, s);
    OK(cuCtxSetCurrent, second);
    OK(cuStreamSynchronize, t);
    EXPECT(firstOf(there) == 10 * i);
  }
  OK(cuCtxSetCurrent, first);
  OK(cuStreamSynchronize, s);
  CuGraph *graph = nullptr;
  CuGraphExec *exec = nullptr;
  OK(cuStreamBeginCapture_v2, s, kCaptureThreadLocal);
  CODE(kStreamCaptureUnsupported, cuMemcpyPeer, there, second, here, first, 64); // waits
  CODE(kStreamCaptureInvalidated, cuStreamEndCapture, s, &graph);
  OK(cuStreamBeginCapture_v2, s, kCaptureThreadLocal);
  OK(cuMemcpyPeerAsync, there, second, here, first, 64, s);
  OK(cuStreamEndCapture, s, &graph);
  EXPECT(firstOf(here) == 31);
  OK(cuGraphInstantiateWithFlags, &exec, graph, 0);
  OK(cuGraphLaunch, exec, s);
  OK(cuStreamSynchronize, s);
  OK(cuCtxSetCurrent, second);
  EXPECT(firstOf(there) == 31);
  // The other device's stream goes on without waiting.
  OK(cuMemcpyPeerAsync, there, second, here, first, 64, t);
  OK(cuCtxSetCurrent, first);
  addTo(f, here, 1, s);
  const CuResult one = cuda().cuStreamSynchronize(s);
  OK(cuCtxSetCurrent, second);
  const CuResult other = cuda().cuStreamSynchronize(t);
  EXPECT((one == kLaunchFailed) != (other == kLaunchFailed)); // of the one that was done later
}

} // namespace opc::gpusim::driver
