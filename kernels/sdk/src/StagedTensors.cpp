// Conversion of a bound kernel's arguments to its computing type and back.
// SPDX-License-Identifier: Apache-2.0
#include "StagedRanges.h"

#include "opc/StagedKernel.h"

#include <algorithm>
#include <cstdlib>
#include <new>
#include <sys/mman.h>
#include <type_traits>

namespace opc::user_op {
namespace {

constexpr int64_t kConversionGrain = 16384;

// Integers are never staged.
void widenRange(const void *, DataType, int32_t *, int64_t, int64_t) {}
void narrowRange(const int32_t *, void *, DataType, int64_t, int64_t) {}

void checkConvertible(const Tensor &t) {
  if (!IsFloatingDataType(t.data_type()))
    throw ContractError("argument " + t.name() + " is " + dataTypeName(t.data_type()) + ", expected a floating type");
}

} // namespace

void *allocateScratch(size_t bytes) {
  // Packed weights are read from end to end: on small pages a product with one of 64 MB takes a quarter longer.
  constexpr size_t kHugePage = size_t{2} << 20;
  const bool huge = bytes >= 2 * kHugePage;
  const size_t alignment = huge ? kHugePage : 64;
  void *p = bytes <= SIZE_MAX - alignment ? std::aligned_alloc(alignment, (bytes + alignment - 1) & ~(alignment - 1))
                                          : nullptr;
  if (!p) throw std::bad_alloc();
  if (huge) ::madvise(p, bytes, MADV_HUGEPAGE);
  return p;
}
void freeScratch(void *data) { std::free(data); }

template <class T> T *StagedTensors<T>::stage(int64_t count) {
  buffers_.emplace_back(std::max<int64_t>(count, 1));
  return buffers_.back().get();
}

template <class T> const T *StagedTensors<T>::in(const std::string &arg, int32_t index) {
  const Tensor *t = ctx_->Tensor4ArgNameAndIndex(arg, index);
  if (!t) return nullptr;
  if (t->data_type() == GetDataType<T>::value || std::is_integral_v<T>) return t->dptr<T>();
  checkConvertible(*t);
  const int64_t count = t->shape().elem_cnt();
  T *staged = stage(count);
  if (ctx_->isConstant(arg, index))
    widenRange(t->raw_dptr(), t->data_type(), staged, 0, count);
  else
    loads_.push_back({const_cast<void *>(t->raw_dptr()), staged, count, t->data_type()});
  return staged;
}

template <class T> T *StagedTensors<T>::out(const std::string &arg, int32_t index) {
  Tensor *t = ctx_->Tensor4ArgNameAndIndex(arg, index);
  if (!t) return nullptr;
  if (t->data_type() == GetDataType<T>::value || std::is_integral_v<T>) return t->mut_dptr<T>();
  checkConvertible(*t);
  const int64_t count = t->shape().elem_cnt();
  T *staged = stage(count);
  stores_.push_back({t->mut_raw_dptr(), staged, count, t->data_type()});
  return staged;
}

template <class T> void StagedTensors<T>::load(DeviceCtx *ctx) const {
  for (const Copy &c : loads_)
    ctx->parallelFor(c.count, kConversionGrain,
                     [&](int64_t b, int64_t e) { widenRange(c.tensor, c.type, c.staged, b, e); });
}

template <class T> void StagedTensors<T>::store(DeviceCtx *ctx) const {
  for (const Copy &c : stores_)
    ctx->parallelFor(c.count, kConversionGrain,
                     [&](int64_t b, int64_t e) { narrowRange(c.staged, c.tensor, c.type, b, e); });
}

template class StagedTensors<float>;
template class StagedTensors<double>;
template class StagedTensors<int32_t>;

} // namespace opc::user_op
