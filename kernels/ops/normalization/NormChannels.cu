// Batch normalisation, its gradient, and the gradients of all normalisations by their parameters: `width` neighbouring
// parameters a block, whose threads share what belongs to each.
// SPDX-License-Identifier: Apache-2.0
#include "normalization/Norm.cuh"

namespace opc::cuda {
namespace {

/// The elements of parameter p that this thread takes.
struct Column {
  __device__ explicit Column(const NormArguments &a, int64_t first)
      : parameter(first + threadIdx.x % a.width), lane(threadIdx.x / a.width), lanes(kNormThreads / a.width),
        many(parameter < a.places.parameters ? a.elements / a.places.parameters : 0) {}
  /// f(e) for each.
  template <class F> __device__ void each(const NormArguments &a, F f) const {
    const int64_t inner = a.places.parameterInner;
    for (int64_t k = lane; k < many; k += lanes) f((k / inner * a.places.parameters + parameter) * inner + k % inner);
  }
  int64_t parameter, lane, lanes, many;
};

/// moving = momentum * moving + (1 - momentum) * batch.
template <class T>
__device__ void moveTowards(const NormArguments &a, const NormVector &v, int64_t c, Compute<T> batch) {
  using C = Compute<T>;
  const C momentum = static_cast<C>(a.momentum);
  write<T>(v, c, momentum * read<T>(v, c) + (C(1) - momentum) * batch);
}

/// Mean and inverse deviation of each channel, and the moving statistics.
template <class T> __device__ void channelStatistics(const NormArguments &a) {
  using C = Compute<T>;
  const T *x = static_cast<const T *>(a.x);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.width; first < a.places.parameters;
       first += static_cast<int64_t>(gridDim.x) * a.width) {
    const Column column(a, first);
    C sum = 0, squares = 0;
    column.each(a, [&](int64_t e) { sum += load(x[e]); });
    const C mean = static_cast<C>(blockSum(static_cast<double>(sum), a.width) / a.count);
    column.each(a, [&](int64_t e) {
      const C d = load(x[e]) - mean;
      squares += d * d;
    });
    const C variance = static_cast<C>(blockSum(static_cast<double>(squares), a.width) / a.count);
    const int64_t c = column.parameter;
    if (column.lane != 0 || c >= a.places.parameters) continue;
    static_cast<C *>(a.mean)[c] = mean;
    static_cast<C *>(a.inverse)[c] = C(1) / sqrt(variance + static_cast<C>(a.epsilon));
    if (!a.movingMean.data || column.many == 0) continue;
    moveTowards<T>(a, a.movingMean, c, mean);
    const C unbiased = a.count > 1 ? static_cast<C>(a.count) / static_cast<C>(a.count - 1) : C(1);
    moveTowards<T>(a, a.movingVariance, c, unbiased * variance);
  }
}

/// The same from given statistics.
template <class T> __device__ void givenStatistics(const NormArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t c = firstItem(); c < a.places.parameters; c += itemStep()) {
    static_cast<C *>(a.mean)[c] = read<T>(a.movingMean, c);
    static_cast<C *>(a.inverse)[c] = C(1) / sqrt(read<T>(a.movingVariance, c) + static_cast<C>(a.epsilon));
  }
}

template <class T> __device__ void applyChannels(const NormArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t e = firstItem(); e < a.elements; e += itemStep()) {
    const int64_t c = parameterOf(a, e);
    const C scale = static_cast<const C *>(a.inverse)[c] * read<T>(a.gamma, c);
    C y = (load(static_cast<const T *>(a.x)[e]) - static_cast<const C *>(a.mean)[c]) * scale + read<T>(a.beta, c);
    if (a.add) y += load(static_cast<const T *>(a.add)[e]);
    static_cast<T *>(a.out)[e] = stored<T>(y);
  }
}

/// gammaDiff = sum(dy xhat), betaDiff = sum(dy) of each parameter; either may be null.
template <class T> __device__ void parameterGrad(const NormArguments &a) {
  using C = Compute<T>;
  const T *x = static_cast<const T *>(a.x), *dy = static_cast<const T *>(a.dy);
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * a.width; first < a.places.parameters;
       first += static_cast<int64_t>(gridDim.x) * a.width) {
    const Column column(a, first);
    C total = 0, product = 0;
    column.each(a, [&](int64_t e) {
      const int64_t s = statisticOf(a, e);
      const C d = load(dy[e]), mean = a.centered ? static_cast<const C *>(a.mean)[s] : C(0);
      total += d;
      product += d * ((load(x[e]) - mean) * static_cast<const C *>(a.inverse)[s]);
    });
    const C beta = static_cast<C>(blockSum(static_cast<double>(total), a.width));
    const C gamma = static_cast<C>(blockSum(static_cast<double>(product), a.width));
    if (column.lane != 0 || column.parameter >= a.places.parameters) continue;
    if (a.betaDiff) static_cast<C *>(a.betaDiff)[column.parameter] = beta;
    if (a.gammaDiff) static_cast<C *>(a.gammaDiff)[column.parameter] = gamma;
  }
}

/// dx = gamma inverse (dy - (betaDiff + xhat gammaDiff) / count); without training the statistics are constants.
template <class T> __device__ void channelsGrad(const NormArguments &a) {
  using C = Compute<T>;
#pragma unroll 1
  for (int64_t e = firstItem(); e < a.elements; e += itemStep()) {
    const int64_t c = parameterOf(a, e);
    const C inverse = static_cast<const C *>(a.inverse)[c], scale = read<T>(a.gamma, c) * inverse;
    C d = load(static_cast<const T *>(a.dy)[e]);
    if (a.training) {
      const C hat = (load(static_cast<const T *>(a.x)[e]) - static_cast<const C *>(a.mean)[c]) * inverse;
      d -= (static_cast<const C *>(a.betaDiff)[c] + hat * static_cast<const C *>(a.gammaDiff)[c]) /
           static_cast<C>(a.count);
    }
    static_cast<T *>(a.out)[e] = stored<T>(scale * d);
  }
}

} // namespace

#define OPC_NORM(name, T)                                                                                              \
  OPC_KERNEL(norm_channel_statistics_##name, NormArguments, channelStatistics<T>)                                      \
  OPC_KERNEL(norm_given_statistics_##name, NormArguments, givenStatistics<T>)                                          \
  OPC_KERNEL(norm_apply_channels_##name, NormArguments, applyChannels<T>)                                              \
  OPC_KERNEL(norm_parameter_grad_##name, NormArguments, parameterGrad<T>)                                              \
  OPC_KERNEL(norm_channels_grad_##name, NormArguments, channelsGrad<T>)
OPC_EACH_FLOAT(OPC_NORM)

} // namespace opc::cuda
