// Moves: what it does is decided when it is built.
// SPDX-License-Identifier: Apache-2.0
#include "shape/Moves.h"

namespace opc::ops {

Moves &Moves::fill(Tensor &out, uint64_t element) {
  begun_ = out.mut_raw_dptr();
  count_ = out.shape().elem_cnt();
  element_ = element;
  return *this;
}
Moves &Moves::begin(const Tensor &base, Tensor &out) {
  base_ = base.raw_dptr();
  return fill(out);
}
Moves &Moves::copy(const DimVector &dims, const Tensor &in, const Place &from, Tensor &out, const Place &to) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return *this;
  const int64_t size = static_cast<int64_t>(elementSize_);
  boxes_.push_back({StridedCopy(elementSize_, dims, from.strides, to.strides),
                    static_cast<const char *>(in.raw_dptr()) + from.offset * size,
                    static_cast<char *>(out.mut_raw_dptr()) + to.offset * size});
  return *this;
}
std::unique_ptr<BoundKernel> Moves::bind() const {
  return bindTask([m = *this](DeviceCtx *dev) {
    if (m.base_)
      copyBytes(dev, m.base_, m.begun_, m.count_ * static_cast<int64_t>(m.elementSize_));
    else if (m.begun_)
      fillElements(dev, m.elementSize_, &m.element_, m.begun_, m.count_);
    for (const Box &box : m.boxes_) box.copy.run(dev, box.src, box.dst);
  });
}

std::unique_ptr<BoundKernel> bindRead(const Tensor &in, const Place &from, Tensor &out) {
  return Moves(in).copy(out.shape().dim_vec(), in, from, out, wholePlace(out.shape())).bind();
}

} // namespace opc::ops
