// One CUDA device: context, memory, modules.
// SPDX-License-Identifier: Apache-2.0
#include "cuda/CudaDevice.h"

#include "KernelImages.h"
#include "Tf32.h"
#include "cpu/CpuDevice.h"
#include "cuda/CudaStream.h"

#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

namespace opc::runtime {

using cuda::CudaDriver;
using cuda::CuPointer;
using cuda::CuResult;

namespace {

// CUdevice_attribute of cuda.h.
constexpr int kCapabilityMajor = 75, kCapabilityMinor = 76;
constexpr int kLeastCapability = 75;

/// A stream of a device that could not make one: says so when it is waited for.
class FailedStream final : public Stream {
public:
  explicit FailedStream(Status status) : status_(std::move(status)) {}
  DeviceCtx *context() override { return &context_; }
  void enter() override {}
  void beginStep(uint64_t, int64_t) override {}
  void endSteps() override {}
  Status synchronize() override { return status_; }

private:
  Status status_;
  DeviceCtx context_{DeviceType::kInvalidDevice, 1, nullptr};
};

int capabilityOf(const CudaDriver &driver, cuda::CuDevice device) {
  int major = 0, minor = 0;
  if (driver.deviceGetAttribute(&major, kCapabilityMajor, device) != cuda::kSuccess) return 0;
  if (driver.deviceGetAttribute(&minor, kCapabilityMinor, device) != cuda::kSuccess) return 0;
  return major * 10 + minor;
}

/// OPC_CUDA_CUBINS=0 has the driver compile the PTX. A simulator takes nothing else, and is not asked but with 1.
bool takesCode(bool isSimulator) {
  const char *value = std::getenv("OPC_CUDA_CUBINS");
  const std::string_view asked = value ? value : "";
  return asked == "1" || (asked != "0" && !isSimulator);
}

std::string capabilityText(int value) { return std::to_string(value / 10) + "." + std::to_string(value % 10); }

} // namespace

Result<std::unique_ptr<Device>> CudaDevice::open(const std::string &name, bool isSimulator, int ordinal) {
  OPC_ASSIGN_OR_RETURN(const CudaDriver *driver, CudaDriver::open(isSimulator));
  if (ordinal >= driver->deviceCount())
    return Status(StatusCode::kUnsupported, "OPC0630",
                  "there is no device " + name + ": the driver has " + std::to_string(driver->deviceCount()))
        .withHelp(isSimulator ? "devices are counted from 0; CUDA_SIM=devices=" + std::to_string(ordinal + 1) +
                                    " simulates more"
                              : "devices are counted from 0; CUDA_VISIBLE_DEVICES hides some");
  std::unique_ptr<CudaDevice> device(new CudaDevice(*driver, name));
  OPC_RETURN_IF_ERROR(driver->check(driver->deviceGet(&device->device_, ordinal), "opening " + name));
  const int has = device->capability_ = capabilityOf(*driver, device->device_);
  if (has < kLeastCapability)
    return Status(StatusCode::kUnsupported, "OPC0630",
                  "the GPU of " + name + " has compute capability " + capabilityText(has) +
                      ", and the kernels of opc need " + capabilityText(kLeastCapability))
        .withHelp("name another GPU, as --device gpu:1, or give the graph to the CPU: --device cpu");
  device->allowsTf32_ = isTf32Allowed();
  device->takesCode_ = takesCode(isSimulator);
  if (device->allowsTf32_ && !device->hasMatrixUnits())
    return Status(StatusCode::kUnsupported, "OPC0630",
                  "TF32 is allowed (AllowTf32, --allow-tf32), and the GPU of " + name + " has compute capability " +
                      capabilityText(has) + ": TF32 needs " + capabilityText(kMatrixUnits))
        .withHelp("leave it out: products of f32 are then exact; or name another GPU, as --device gpu:1");
  OPC_RETURN_IF_ERROR(
      driver->check(driver->primaryCtxRetain(&device->context_, device->device_), "making a context on " + name));
  OPC_RETURN_IF_ERROR(device->enter());
  return std::unique_ptr<Device>(std::move(device));
}

CudaDevice::~CudaDevice() {
  if (!context_) return;
  (void)enter();
  for (const auto &m : modules_) driver_.moduleUnload(m.second);
  for (const auto &m : generated_) driver_.moduleUnload(m.second);
  driver_.primaryCtxRelease(device_);
}

Status CudaDevice::enter() const { return driver_.check(driver_.ctxSetCurrent(context_), "entering " + name_); }

bool CudaDevice::reach(cuda::CuDevice other, CUctx_st *context) const {
  if (other == device_) return true;
  int can = 0;
  if (!enter().isOk() || driver_.deviceCanAccessPeer(&can, device_, other) != cuda::kSuccess || !can) return false;
  const CuResult r = driver_.ctxEnablePeerAccess(context, 0);
  return r == cuda::kSuccess || r == cuda::kPeerAlreadyEnabled;
}

Status CudaDevice::outOfMemory(size_t bytes) const {
  size_t free = 0, total = 0;
  std::string has;
  if (driver_.memGetInfo(&free, &total) == cuda::kSuccess)
    has = "; " + std::to_string(free) + " of its " + std::to_string(total) + " bytes are free";
  return Status(StatusCode::kUnsupported, "OPC0614",
                "cannot get " + std::to_string(bytes) + " bytes of memory on " + name_ + has);
}

Result<DeviceMemory> CudaDevice::allocateUnwritten(size_t bytes) {
  if (bytes == 0) return DeviceMemory();
  OPC_RETURN_IF_ERROR(enter());
  CuPointer address = 0;
  const CuResult r = driver_.memAlloc(&address, bytes);
  if (r == cuda::kOutOfMemory) return outOfMemory(bytes);
  OPC_RETURN_IF_ERROR(driver_.check(r, "taking " + std::to_string(bytes) + " bytes on " + name_));
  return DeviceMemory(this, reinterpret_cast<void *>(address), bytes);
}

Result<DeviceMemory> CudaDevice::allocate(size_t bytes) {
  OPC_ASSIGN_OR_RETURN(DeviceMemory memory, allocateUnwritten(bytes));
  if (bytes == 0) return memory;
  OPC_ASSIGN_OR_RETURN(const std::unique_ptr<CudaStream> stream, CudaStream::create(*this));
  OPC_RETURN_IF_ERROR(driver_.check(
      driver_.setBytes(reinterpret_cast<CuPointer>(memory.data()), 0, bytes, stream->context()->cuda_stream()),
      "clearing memory"));
  OPC_RETURN_IF_ERROR(stream->synchronize());
  return memory;
}

void CudaDevice::release(void *data, size_t) {
  if (enter().isOk()) driver_.memFree(reinterpret_cast<CuPointer>(data));
}

class CudaDevice::PinnedCpu final : public CpuDevice {
public:
  explicit PinnedCpu(CudaDevice &device) : device_(device) {}

  Result<DeviceMemory> allocate(size_t bytes) override {
    if (bytes == 0) return DeviceMemory();
    OPC_RETURN_IF_ERROR(device_.enter());
    void *memory = nullptr;
    const CuResult r = device_.driver_.memHostAlloc(&memory, bytes, kPortable);
    if (r == cuda::kOutOfMemory)
      return Status(StatusCode::kUnsupported, "OPC0614",
                    "cannot get " + std::to_string(bytes) + " bytes of memory that " + device_.name_ + " copies from");
    OPC_RETURN_IF_ERROR(device_.driver_.check(r, "taking " + std::to_string(bytes) + " bytes of memory for copies"));
    std::memset(memory, 0, bytes);
    device_.pinned_.emplace(static_cast<const std::byte *>(memory), bytes);
    return DeviceMemory(this, memory, bytes);
  }
  void discard(void *, size_t) override {} // it stays where it is

protected:
  void release(void *data, size_t) override {
    device_.pinned_.erase(static_cast<const std::byte *>(data));
    if (device_.enter().isOk()) device_.driver_.memFreeHost(data);
  }

private:
  static constexpr unsigned kPortable = 1; // CU_MEMHOSTALLOC_PORTABLE of cuda.h
  CudaDevice &device_;
};

std::unique_ptr<Device> CudaDevice::besideCpu() { return std::make_unique<PinnedCpu>(*this); }

bool CudaDevice::isPinned(const void *address) const {
  const auto *at = static_cast<const std::byte *>(address);
  const auto behind = pinned_.upper_bound(at);
  if (behind == pinned_.begin()) return false;
  const auto &[begin, bytes] = *std::prev(behind);
  return at < begin + bytes;
}

std::unique_ptr<Stream> CudaDevice::createStream(int) {
  Result<std::unique_ptr<CudaStream>> stream = CudaStream::create(*this);
  if (!stream) return std::make_unique<FailedStream>(stream.status());
  return std::move(*stream);
}

Status CudaDevice::copyFromHost(Stream &stream, void *to, const void *from, size_t bytes) {
  return static_cast<CudaStream &>(stream).copyFromHost(to, from, bytes);
}
Status CudaDevice::copyToHost(Stream &stream, void *to, const void *from, size_t bytes) {
  return static_cast<CudaStream &>(stream).copyToHost(to, from, bytes);
}

Result<CUfunc_st *> CudaDevice::function(const std::string &kernel) {
  const int image = opc::cuda::imageOf(kernel);
  if (image < 0)
    return Status(StatusCode::kUnsupported, "OPC0632", "this build has no device code of kernel '" + kernel + "'")
        .withHelp(opc::cuda::hasImages() ? "this is a bug in opc" : "build opc where nvcc is found");
  OPC_RETURN_IF_ERROR(enter());
  const std::lock_guard<std::mutex> lock(modulesMutex_);
  CUmod_st *&module = modules_[image];
  if (!module) OPC_RETURN_IF_ERROR(loadImage(image, kernel, &module));
  return kernelOf(module, kernel);
}

/// What was assembled for the GPU, where there is such code and the driver takes it, else the PTX that it was made of.
Status CudaDevice::loadImage(int image, const std::string &kernel, CUmod_st **module) {
  if (takesCode_) {
    OPC_ASSIGN_OR_RETURN(const std::string code, opc::cuda::imageCode(image, capability_));
    if (!code.empty() && driver_.moduleLoadData(module, code.data()) == cuda::kSuccess) return Status::ok();
    if (!code.empty()) takesCode_ = false; // nor that of other modules
    *module = nullptr;
  }
  OPC_ASSIGN_OR_RETURN(const std::string ptx, opc::cuda::imageText(image));
  return driver_.check(driver_.moduleLoadData(module, ptx.c_str()), "loading the device code of " + kernel);
}

Result<CUfunc_st *> CudaDevice::functionIn(const std::string &ptx, const std::string &kernel) {
  OPC_RETURN_IF_ERROR(enter());
  const std::lock_guard<std::mutex> lock(modulesMutex_);
  CUmod_st *&module = generated_[ptx];
  if (!module)
    OPC_RETURN_IF_ERROR(
        driver_.check(driver_.moduleLoadData(&module, ptx.c_str()), "loading the generated code of " + kernel));
  return kernelOf(module, kernel);
}

Result<CUfunc_st *> CudaDevice::kernelOf(CUmod_st *module, const std::string &kernel) const {
  CUfunc_st *function = nullptr;
  OPC_RETURN_IF_ERROR(
      driver_.check(driver_.moduleGetFunction(&function, module, kernel.c_str()), "finding kernel " + kernel));
  return function;
}

const CudaDriver *simulatorOf(const Device &device) {
  if (device.type() != DeviceType::kGPU) return nullptr;
  const CudaDriver &driver = static_cast<const CudaDevice &>(device).driver();
  return driver.isSimulator() ? &driver : nullptr;
}

Result<std::vector<CudaDeviceFacts>> cudaDevices(bool isSimulator) {
  OPC_ASSIGN_OR_RETURN(const CudaDriver *driver, CudaDriver::open(isSimulator));
  std::vector<CudaDeviceFacts> found;
  for (int i = 0; i < driver->deviceCount(); ++i) {
    cuda::CuDevice device = 0;
    OPC_RETURN_IF_ERROR(driver->check(driver->deviceGet(&device, i), "looking at GPU " + std::to_string(i)));
    char name[256] = "";
    CudaDeviceFacts facts;
    if (driver->deviceGetName(name, sizeof name, device) == cuda::kSuccess) facts.name = name;
    if (driver->deviceTotalMem(&facts.memory, device) != cuda::kSuccess) facts.memory = 0;
    facts.capability = capabilityText(capabilityOf(*driver, device));
    found.push_back(std::move(facts));
  }
  return found;
}

} // namespace opc::runtime
