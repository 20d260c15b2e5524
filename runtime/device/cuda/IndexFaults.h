// The places in a device's memory where kernels report wrong indices.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Device.h"
#include "IndexFault.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace opc::runtime {

class CudaDevice;
class CudaStream;

/// Those of the kernels of one stream.
class IndexFaults {
public:
  using Text = std::function<std::string(int64_t position, int64_t value)>;
  /// The place of an argument of an op; that which it had when it is asked for again.
  Result<opc::cuda::IndexFault *> watch(CudaDevice &device, CudaStream &stream, const std::string &opType,
                                        const std::string &opName, const std::string &argument, Text text);
  /// After all work of the stream: an error of the first op that found something. What was found is forgotten.
  Status check(CudaStream &stream);

private:
  static constexpr size_t kChunk = 256;
  struct Watch {
    std::string opType, opName;
    Text text;
  };
  opc::cuda::IndexFault *place(size_t i) const;
  std::vector<DeviceMemory> chunks_; // of kChunk places
  std::vector<Watch> watches_;
  std::map<std::pair<std::string, std::string>, size_t> known_; // by op and argument
};

} // namespace opc::runtime
