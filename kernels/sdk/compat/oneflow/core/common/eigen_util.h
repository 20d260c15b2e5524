// Arrays as matrices of Eigen, which is no part of opc: install libeigen3-dev, include its folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#if !__has_include(<Eigen/Core>)
#error "Eigen/Core is not found: install Eigen (libeigen3-dev) and compile with -I/usr/include/eigen3"
#endif
#include <Eigen/Core>
#include <Eigen/Dense>

namespace oneflow {
template <class T> using EigenMatrixMap = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T> using EigenArrayMap = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T> using ConstEigenMatrixMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic>>;
template <class T> using ConstEigenArrayMap = Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, Eigen::Dynamic>>;
} // namespace oneflow
