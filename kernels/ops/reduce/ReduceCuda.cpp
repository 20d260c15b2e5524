// reduce_* on GPUs.
// SPDX-License-Identifier: Apache-2.0
#include "CudaLaunch.h"
#include "reduce/ReduceArguments.h"
#include "reduce/ReduceOp.h"

namespace opc::ops::reduce {
namespace {

/// Neighbouring axes of one kind become one.
void addAxis(int64_t size, int64_t stride, int32_t *rank, int64_t *dims, int64_t *strides) {
  if (size == 1) return;
  if (*rank > 0 && strides[*rank - 1] == stride * size) {
    dims[*rank - 1] *= size;
    strides[*rank - 1] = stride;
    return;
  }
  dims[*rank] = size;
  strides[*rank] = stride;
  ++*rank;
}

class ReduceCuda final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("input_tensor");
    Tensor &out = ctx->Out("output_tensor");
    const Shape &shape = in.shape();
    const auto axes = valueOf(resolveAxes(ctx->Attr<std::vector<int32_t>>("axis"), shape.NumAxes()));
    const DimVector strides = rowMajorStrides(shape);
    ReduceArguments a{};
    a.in = in.raw_dptr();
    a.out = out.mut_raw_dptr();
    a.outputs = out.shape().elem_cnt();
    a.count = 1;
    bool innermostIsReduced = true;
    for (int64_t i = 0; i < shape.NumAxes(); ++i) {
      const bool isReduced = std::binary_search(axes.begin(), axes.end(), i);
      if (shape.At(i) != 1) innermostIsReduced = isReduced;
      if (isReduced) a.count *= shape.At(i);
      const int64_t stride = strides[static_cast<size_t>(i)];
      isReduced ? addAxis(shape.At(i), stride, &a.reducedRank, a.reducedDims, a.reducedStrides)
                : addAxis(shape.At(i), stride, &a.keptRank, a.keptDims, a.keptStrides);
    }
    a.divisor = static_cast<double>(planOf(ctx, shape).reduceCount);
    const bool rows = innermostIsReduced && a.count > 8;
    const auto kernel =
        cuda::CudaLaunch::of(ctx->device_ctx())
            .function(ctx->op_type_name() + (rows ? "_rows_" : "_columns_") + dataTypeName(in.data_type()));
    const cuda::Dim3 grid = rows ? cuda::Dim3{static_cast<uint32_t>(std::clamp<int64_t>(a.outputs, 1, 65535)), 1, 1}
                                 : cuda::blocksFor(a.outputs);
    return bindTask([=](DeviceCtx *dev) {
      if (a.outputs > 0) cuda::CudaLaunch::of(dev).run(kernel, grid, {cuda::kBlock, 1, 1}, 0, a);
    });
  }
};

template <class> using Kernel = ReduceCuda;
const KernelOptions kOnGpu = KernelOptions().Device(DeviceType::kGPU);

REGISTER_KERNELS("reduce_sum").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_mean").Kernel<Kernel, types::Floating>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_nansum").Kernel<Kernel, types::Floating>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_max").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_min").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_prod").Kernel<Kernel, types::Numbers>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_any")
    .Kernel<Kernel, Join<types::Of<bool, float, double>, types::Integers>>("input_tensor", kOnGpu);
REGISTER_KERNELS("reduce_all")
    .Kernel<Kernel, Join<types::Of<bool, float, double>, types::Integers>>("input_tensor", kOnGpu);

} // namespace
} // namespace opc::ops::reduce
