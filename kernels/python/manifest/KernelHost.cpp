// Who runs Python in this process.
// SPDX-License-Identifier: Apache-2.0
#include "KernelHost.h"

#include <mutex>

namespace opc::python {

namespace {
struct Holder {
  std::mutex mutex;
  std::function<Result<KernelHost *>()> opener;
  KernelHost *host = nullptr;
};
Holder &holder() {
  static Holder one;
  return one;
}
} // namespace

void setKernelHostOpener(std::function<Result<KernelHost *>()> opener) {
  const std::lock_guard<std::mutex> lock(holder().mutex);
  holder().opener = std::move(opener);
  holder().host = nullptr;
}

bool hasKernelHost() {
  const std::lock_guard<std::mutex> lock(holder().mutex);
  return static_cast<bool>(holder().opener);
}

Result<KernelHost *> kernelHost(const std::string &op) {
  const std::lock_guard<std::mutex> lock(holder().mutex);
  if (holder().host) return holder().host;
  if (!holder().opener)
    return Status(StatusCode::kUnsupported, "OPC0921",
                  "op '" + op + "' is written in Python, and no folder was named whose Python code may run")
        .withHelp("name the folder of its source: --op-path DIR");
  OPC_ASSIGN_OR_RETURN(holder().host, holder().opener());
  return holder().host;
}

} // namespace opc::python
