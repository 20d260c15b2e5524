// Tensors of tests: from numbers, from a generator, and compared.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "RunOp.h"

#include <cstring>
#include <string>
#include <vector>

namespace opc::test {

/// A tensor and its elements as doubles.
class TestTensor : public OpTensor {
public:
  TestTensor() = default;
  TestTensor(OpTensor tensor);
  std::vector<double> values;
  /// The elements; T must be the tensor's type.
  template <class T> std::vector<T> as() const {
    requireType(GetDataType<T>::value);
    std::vector<T> v;
    v.reserve(values.size());
    for (int64_t i = 0; i < elements(); ++i) v.push_back(dptr<T>()[i]);
    return v;
  }

private:
  void requireType(DataType wanted) const;
};

/// The number as an element type takes it: towards minus infinity, but not below the least, for an integer type.
double valueFor(DataType type, double value);
/// Calls value(i) for each element.
template <class F> TestTensor tensorFrom(DataType type, Shape shape, F &&value) {
  OpTensor t(user_op::TensorDesc(std::move(shape), type));
  for (int64_t i = 0; i < t.elements(); ++i) setElement(&t, i, valueFor(type, value(i)));
  return t;
}
TestTensor tensorOf(DataType type, Shape shape, const std::vector<double> &values);
/// Bit for bit.
template <class T> TestTensor tensorOf(Shape shape, const std::vector<T> &values) {
  OpTensor t(user_op::TensorDesc(std::move(shape), GetDataType<T>::value));
  for (int64_t i = 0; i < t.elements(); ++i) t.mut_dptr<T>()[i] = values.at(static_cast<size_t>(i));
  return t;
}
/// 0, 1, 2, ... of a type.
template <class T> TestTensor iota(Shape shape) {
  return tensorFrom(GetDataType<T>::value, std::move(shape), [](int64_t i) { return static_cast<double>(i); });
}
/// Pseudo-random values in [lo, hi), rounded to the type; the same everywhere.
TestTensor randomTensor(DataType type, Shape shape, unsigned seed, double lo = -1, double hi = 1);
/// Pseudo-random f32 in [-1, 1), the same everywhere.
std::vector<float> noise(int64_t n, uint32_t seed = 1);

/// Tolerances that fit a type: products of f32 and their sums, or the rounding of half types.
double toleranceOf(DataType type);
/// Empty when |found - expected| <= atol + rtol * |expected| for all elements (NaN equals NaN); else the first that is
/// farther away.
std::string compare(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol);
/// Requires that compare() finds nothing.
void requireClose(const TestTensor &found, const std::vector<double> &expected, double rtol, double atol);

} // namespace opc::test
