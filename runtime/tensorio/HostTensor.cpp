// HostTensor: allocation and checks.
// SPDX-License-Identifier: Apache-2.0
#include "HostTensor.h"

#include <cstring>

namespace opc {

Result<HostTensor> HostTensor::createUninitialized(DataType type, Shape shape) {
  if (!isTensorDataType(type))
    return Status(StatusCode::kUnsupported, "OPC0709",
                  std::string("a tensor cannot have the element type ") + dataTypeName(type));
  auto tooLarge = [&](const std::string &why) {
    return Status(StatusCode::kUnsupported, "OPC0708",
                  "a tensor of type " + user_op::TensorDesc(shape, type).toString() + " " + why);
  };
  if (shape.NumAxes() > kMaxRank)
    return Status(StatusCode::kUnsupported, "OPC0708",
                  "a tensor of rank " + std::to_string(shape.NumAxes()) + "; the limit is " + std::to_string(kMaxRank));
  int64_t count = 1, bytes = 0;
  bool empty = false, overflow = false;
  for (int64_t d : shape) {
    if (d < 0) return tooLarge("has a negative dimension");
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(count, d, &count);
  }
  if (empty) count = 0, overflow = false; // a 0 beside huge dimensions: empty all the same
  if (overflow || __builtin_mul_overflow(count, static_cast<int64_t>(GetSizeOfDataType(type)), &bytes) ||
      bytes > INT64_MAX - 64)
    return tooLarge("has more than 2^63 bytes");
  HostTensor t;
  const size_t padded = (static_cast<size_t>(bytes) + 63) / 64 * 64; // aligned_alloc wants a multiple
  t.data_.reset(std::aligned_alloc(64, padded ? padded : 64));
  if (!t.data_) return tooLarge("does not fit memory (" + std::to_string(bytes) + " bytes)");
  t.type_ = type;
  t.shape_ = std::move(shape);
  t.count_ = count;
  t.bytes_ = static_cast<size_t>(bytes);
  return t;
}

Result<HostTensor> HostTensor::create(DataType type, Shape shape) {
  Result<HostTensor> t = createUninitialized(type, std::move(shape));
  if (t && t->bytes_) std::memset(t->data(), 0, t->bytes_);
  return t;
}

Result<HostTensor> HostTensor::clone() const {
  if (!isValid()) return HostTensor();
  Result<HostTensor> t = createUninitialized(type_, shape_);
  if (t && bytes_) std::memcpy(t->data(), data(), bytes_);
  return t;
}

bool HostTensor::reshape(Shape shape) {
  int64_t count = 1;
  bool empty = false, overflow = false;
  for (int64_t d : shape) {
    if (d < 0) return false;
    empty |= d == 0;
    overflow |= __builtin_mul_overflow(count, d, &count);
  }
  if (empty) count = 0, overflow = false;
  if (overflow || count != count_ || shape.NumAxes() > kMaxRank) return false;
  shape_ = std::move(shape);
  return true;
}

Status checkTensor(const HostTensor &tensor, const user_op::TensorDesc &expected, const std::string &what) {
  return checkTensor(tensor.desc(), expected, what);
}

static std::string howToConvert(DataType type) {
  const ElementType &element = elementType(type);
  const bool hasNumpy = element.kind != ElementClass::kStorage && type != kBFloat16;
  return "nothing is converted silently; " +
         (hasNumpy ? std::string("convert it first, e.g. numpy: a.astype('") + element.numpyName + "')"
                   : "opc run --cast converts it, and so does the op cast");
}

Status checkTensor(const user_op::TensorDesc &found, const user_op::TensorDesc &expected, const std::string &what) {
  if (found.data_type() != expected.data_type())
    return Status(StatusCode::kUsage, "OPC0703",
                  what + " is " + found.toString() + ", expected " + expected.toString() + ": the element types differ")
        .withHelp(howToConvert(expected.data_type()));
  if (found.shape() != expected.shape())
    return Status(StatusCode::kUsage, "OPC0704",
                  what + " is " + found.toString() + ", expected " + expected.toString() + ": the shapes differ")
        .withHelp(found.shape().elem_cnt() == expected.shape().elem_cnt()
                      ? "the element counts are equal: reshape it first"
                      : "");
  return Status::ok();
}

} // namespace opc
