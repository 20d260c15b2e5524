// Names of devices and element types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "oneflow/core/common/data_type.h"

namespace oneflow {

inline Maybe<const char *> DeviceTag4DeviceType(DeviceType device) { return DeviceTag(device); }
inline Maybe<DeviceType> DeviceType4DeviceTag(const std::string &tag) {
  if (tag == "cpu") return DeviceType::kCPU;
  if (tag == "gpu" || tag == "cuda") return DeviceType::kGPU;
  return Error::InvalidValueError("no device is called '" + tag + "'");
}
inline std::string ToString(DeviceType device) { return DeviceTag(device); }
inline std::string ToString(DataType type) { return DataType_Name(type); }
inline std::string ToString(const std::string &text) { return text; }

} // namespace oneflow
