// DLPack's tensors and opc's.
// SPDX-License-Identifier: Apache-2.0
#include "DlpackTensors.h"

#include "CapiCalls.h"

#include <cstring>
#include <vector>

namespace opc::capi {
namespace {

constexpr int32_t kDlCpu = 1; // kDLCPU
constexpr uint8_t kDlBool = 6;

// dlpack.h: kDLInt 0, kDLUInt 1, kDLFloat 2, kDLBfloat 4, kDLBool 6, kDLFloat8_e4m3fn 10,
// kDLFloat8_e4m3fnuz 11, kDLFloat8_e5m2 12, kDLFloat8_e5m2fnuz 13, kDLFloat8_e8m0fnu 14. Types under a byte are packed
// there, and a byte each here: they go as bytes
struct TypeName {
  DataType type;
  uint8_t code, bits;
};
constexpr TypeName kTypes[] = {
    {kInt8, 0, 8},
    {kInt16, 0, 16},
    {kInt32, 0, 32},
    {kInt64, 0, 64},
    {kUInt8, 1, 8},
    {kUInt16, 1, 16},
    {kUInt32, 1, 32},
    {kUInt64, 1, 64},
    {kFloat16, 2, 16},
    {kFloat, 2, 32},
    {kDouble, 2, 64},
    {kBFloat16, 4, 16},
    {kBool, kDlBool, 8},
    {kFloat8E4M3FN, 10, 8},
    {kFloat8E5M2, 12, 8},
    {kFloat8E4M3FNUZ, 11, 8},
    {kFloat8E5M2FNUZ, 13, 8},
    {kFloat8E8M0, 14, 8},
    {kInt4, 0, 8},
    {kInt2, 0, 8},
    {kUInt4, 1, 8},
    {kUInt2, 1, 8},
    {kFloat4E2M1, 1, 8},
};

std::string typeText(opc_dl_data_type type) {
  for (const TypeName &t : kTypes)
    if (t.code == type.code && t.bits == type.bits && type.lanes == 1) return dataTypeName(t.type);
  return "DLPack code " + std::to_string(type.code) + " with " + std::to_string(type.bits) + " bits and " +
         std::to_string(type.lanes) + " lanes";
}

std::string shapeText(const opc_dl_tensor &t) {
  std::string text = "[";
  for (int32_t i = 0; i < t.ndim; ++i) text += (i ? "," : "") + std::to_string(t.shape[i]);
  return text + "]";
}

/// Row-major without gaps.
bool isContiguous(const opc_dl_tensor &t) {
  if (!t.strides) return true;
  int64_t dense = 1;
  for (int32_t i = t.ndim - 1; i >= 0; --i) {
    if (t.shape[i] == 0) return true;
    if (t.shape[i] != 1 && t.strides[i] != dense) return false;
    dense *= t.shape[i];
  }
  return true;
}

/// Copies one axis after the other; the last one at once where it is dense.
void copyAxis(const opc_dl_tensor &t, int32_t axis, const char *from, size_t elem, char **to) {
  if (axis == t.ndim) {
    std::memcpy(*to, from, elem);
    *to += elem;
    return;
  }
  const int64_t count = t.shape[axis], stride = t.strides[axis];
  if (axis + 1 == t.ndim && stride == 1) {
    std::memcpy(*to, from, static_cast<size_t>(count) * elem);
    *to += static_cast<size_t>(count) * elem;
    return;
  }
  for (int64_t i = 0; i < count; ++i) copyAxis(t, axis + 1, from + i * stride * static_cast<int64_t>(elem), elem, to);
}

/// A fetched tensor with what its DLPack form points to.
struct Owned {
  opc_dl_managed_tensor managed;
  HostTensor tensor;
  std::vector<int64_t> shape;
};

} // namespace

opc_dl_data_type dlpackType(DataType type) {
  for (const TypeName &t : kTypes)
    if (t.type == type) return {t.code, t.bits, 1};
  return {0, 0, 0};
}

Status checkRank(const opc_dl_tensor &t, const std::string &what) {
  if (t.ndim < 0 || (t.ndim > 0 && !t.shape))
    return badArgument(what + " has " + std::to_string(t.ndim) + " dimensions and no shape", "set ndim and shape");
  if (t.ndim > kMaxRank)
    return badArgument(what + " has " + std::to_string(t.ndim) + " dimensions",
                       "a tensor has at most " + std::to_string(kMaxRank));
  return Status::ok();
}

Status checkDlpack(const opc_dl_tensor &t, const user_op::TensorDesc &expected, const std::string &what) {
  if (t.device.device_type != kDlCpu)
    return badArgument(what + " is on DLPack device " + std::to_string(t.device.device_type) + ", expected 1 (CPU)",
                       "copy it to the host first");
  OPC_RETURN_IF_ERROR(checkRank(t, what));
  const opc_dl_data_type wanted = dlpackType(expected.data_type());
  if (t.dtype.code != wanted.code || t.dtype.bits != wanted.bits || t.dtype.lanes != 1)
    return Status(StatusCode::kUsage, "OPC0703",
                  what + " is " + typeText(t.dtype) + ", expected " + dataTypeName(expected.data_type()))
        .withHelp("convert it first: nothing is converted silently");
  bool same = t.ndim == expected.shape().NumAxes();
  for (int32_t i = 0; same && i < t.ndim; ++i) same = t.shape[i] == expected.shape().At(i);
  if (!same)
    return Status(StatusCode::kUsage, "OPC0704",
                  what + " has shape " + shapeText(t) + ", expected " + expected.toString());
  if (!t.data && expected.shape().elem_cnt() > 0) return badArgument(what + " has no data", "set the data pointer");
  return Status::ok();
}

const char *dlpackData(const opc_dl_tensor &t) { return static_cast<const char *>(t.data) + t.byte_offset; }

bool isReadable(const opc_dl_tensor &t) { return t.dtype.code != kDlBool && isContiguous(t); }

void copyFromDlpack(const opc_dl_tensor &t, void *to) {
  const size_t elem = t.dtype.bits / 8;
  char *next = static_cast<char *>(to), *const begin = next;
  int64_t count = 1;
  for (int32_t i = 0; i < t.ndim; ++i) count *= t.shape[i];
  if (count == 0) return;
  if (isContiguous(t))
    std::memcpy(begin, dlpackData(t), static_cast<size_t>(count) * elem);
  else
    copyAxis(t, 0, dlpackData(t), elem, &next);
  if (t.dtype.code == kDlBool)
    for (int64_t i = 0; i < count; ++i) begin[i] = begin[i] != 0; // another value would be undefined in a kernel
}

opc_dl_managed_tensor *giveAway(HostTensor tensor) {
  auto owned = std::make_unique<Owned>();
  owned->tensor = std::move(tensor);
  const Shape &shape = owned->tensor.shape();
  for (int64_t i = 0; i < shape.NumAxes(); ++i) owned->shape.push_back(shape.At(i));
  opc_dl_tensor &t = owned->managed.dl_tensor;
  t.data = owned->tensor.data();
  t.device = {kDlCpu, 0};
  t.ndim = static_cast<int32_t>(owned->shape.size());
  t.dtype = dlpackType(owned->tensor.dtype());
  t.shape = owned->shape.data();
  t.strides = nullptr;
  t.byte_offset = 0;
  owned->managed.manager_ctx = owned.get();
  owned->managed.deleter = [](opc_dl_managed_tensor *self) { delete static_cast<Owned *>(self->manager_ctx); };
  return &owned.release()->managed;
}

} // namespace opc::capi
