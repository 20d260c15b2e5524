// Shape, TensorDesc and Tensor.
// SPDX-License-Identifier: Apache-2.0
#include "opc/Tensor.h"

namespace opc {

int64_t Shape::At(int64_t axis) const {
  if (axis < 0 || axis >= NumAxes())
    throw ContractError("axis " + std::to_string(axis) + " of shape " + ToString() + ", which has " +
                        std::to_string(NumAxes()) + " axes");
  return dims_[static_cast<size_t>(axis)];
}

void Shape::Set(int64_t axis, int64_t value) {
  At(axis);
  dims_[static_cast<size_t>(axis)] = value;
}

int64_t Shape::Count(int64_t begin, int64_t end) const {
  if (begin < 0 || end > NumAxes() || begin > end)
    throw ContractError("axes [" + std::to_string(begin) + "," + std::to_string(end) + ") of shape " + ToString());
  int64_t n = 1;
  bool zero = false, overflow = false;
  for (int64_t i = begin; i < end; ++i) {
    zero |= dims_[static_cast<size_t>(i)] == 0;
    overflow |= __builtin_mul_overflow(n, dims_[static_cast<size_t>(i)], &n);
  }
  // Tensors whose size does not fit are refused after the shape rule; until then a count must not wrap around.
  return zero ? 0 : overflow ? INT64_MAX : n;
}

Shape Shape::CreateReducedShape(const std::vector<int64_t> &axes) const {
  Shape s = *this;
  for (int64_t a : axes) s.Set(a, 1);
  return s;
}

Shape Shape::RemoveOnes(const std::vector<int64_t> &axes) const {
  std::vector<bool> removed(dims_.size(), false);
  for (int64_t a : axes) {
    if (a < 0) a += NumAxes();
    if (At(a) != 1) throw ContractError("axis " + std::to_string(a) + " of shape " + ToString() + " is not 1");
    removed[static_cast<size_t>(a)] = true;
  }
  Shape s;
  for (size_t i = 0; i < dims_.size(); ++i)
    if (!removed[i]) s.dims_.push_back(dims_[i]);
  if (s.dims_.empty()) s.dims_.push_back(1);
  return s;
}

std::vector<int64_t> Shape::Axes4BroadcastTo(const Shape &wider) const {
  std::vector<int64_t> axes;
  if (wider.NumAxes() != NumAxes())
    throw ContractError("shapes " + ToString() + " and " + wider.ToString() + " differ in rank");
  for (int64_t i = 0; i < NumAxes(); ++i) {
    if (At(i) == wider.At(i)) continue;
    if (At(i) != 1) throw ContractError("shape " + ToString() + " does not broadcast to " + wider.ToString());
    axes.push_back(i);
  }
  return axes;
}

std::string Shape::ToString() const {
  std::string s = "(";
  for (int64_t d : dims_) s += (s.size() > 1 ? "," : "") + std::to_string(d);
  return s + ")";
}

namespace user_op {

std::string TensorDesc::toString() const {
  std::string s = std::string(dataTypeName(dataType_)) + "[";
  for (size_t i = 0; i < shape_.dim_vec().size(); ++i) s += (i ? "," : "") + std::to_string(shape_.dim_vec()[i]);
  return s + "]";
}

const ShapeView &Tensor::shape() const { return desc_.shape(); }
MutShapeView *Tensor::mut_shape() { return desc_.mut_shape(); }
DataType Tensor::data_type() const { return desc_.data_type(); }
const TensorDesc &Tensor::desc() const { return desc_; }
const MemoryCase &Tensor::mem_case() const { return mem_; }
const std::string &Tensor::name() const { return name_; }
const void *Tensor::raw_dptr() const { return checkedData(kChar, false); }
void *Tensor::mut_raw_dptr() { return checkedData(kChar, true); }

void *Tensor::checkedData(DataType wanted, bool forWriting) const {
  const DataType have = desc_.data_type();
  if (wanted != have && wanted != kChar && have != kChar)
    throw ContractError("tensor " + name_ + " holds " + dataTypeName(have) + ", the kernel reads it as " +
                        dataTypeName(wanted));
  if (forWriting && !writable_) throw ContractError("tensor " + name_ + " is an input, the kernel asks to write it");
  return data_;
}

Tensor *TensorLookup::absent() {
  throw ContractError("an absent optional tensor is used (Tensor4ArgNameAndIndex found none)");
}

} // namespace user_op
} // namespace opc
