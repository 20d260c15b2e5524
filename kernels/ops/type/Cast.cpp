// cast and cast_like: element type conversion.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"
#include "support/CudaTask.h"
#include "support/Operator.h"
#include "support/StoredTypes.h"
#include "support/StridedCopy.h"

#include "opc/Dispatch.h"
#include "opc/JoinableKernel.h"

#include <cstring>

namespace opc::ops {
namespace {

std::string graphNames() {
  std::string names;
  for (DataType t : dataTypes<types::All>()) names += (names.empty() ? "" : ", ") + std::string(DataType_Name(t));
  return names;
}

Maybe<void> inferCast(InferContext *ctx) {
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type))
    return (Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have")
        .help("use one of " + graphNames());
  return setOut(ctx, "out", TensorDesc(ctx->In("in").shape(), type));
}
Maybe<void> inferCastLike(InferContext *ctx) {
  return setOut(ctx, "out", TensorDesc(ctx->In("in").shape(), ctx->In("dtype_like").data_type()));
}

/// Plans of version 0.1.0 have casts without the attribute.
bool saturates(const UserOpConfWrapper &conf) { return !conf.has_attr("saturate") || conf.attr<bool>("saturate"); }

/// The conversion as a loop; of one element a copy for each.
class ConvertLoop final : public RowLoop {
public:
  ConvertLoop(ConvertFn convert, size_t size) : convert_(convert), size_(size) {}
  void Run(const void *const *in, uint32_t contiguous, void *out, int64_t n) const override {
    if (contiguous & 1u) return convert_(in[0], out, n);
    if (n > 0) convert_(in[0], out, 1);
    for (int64_t i = 1; i < n; ++i) std::memcpy(static_cast<char *>(out) + i * size_, out, size_);
  }

private:
  ConvertFn convert_;
  size_t size_;
};

class CastKernel : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Tensor &in = ctx->In("in");
    Tensor &out = ctx->Out("out");
    const ConvertFn convert = converter(in.data_type(), out.data_type(), saturates(ctx->user_op_conf()));
    if (!convert)
      throw ContractError(std::string("no conversion from ") + dataTypeName(in.data_type()) + " to " +
                          dataTypeName(out.data_type()));
    const char *from = static_cast<const char *>(in.raw_dptr());
    char *to = static_cast<char *>(out.mut_raw_dptr());
    const int64_t n = in.shape().elem_cnt(), fromSize = static_cast<int64_t>(GetSizeOfDataType(in.data_type())),
                  toSize = static_cast<int64_t>(GetSizeOfDataType(out.data_type()));
    if (isOnGpu(ctx)) return bindOnGpu(ctx, from, to, n, n * fromSize);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(n, 32768, [&](int64_t b, int64_t e) { convert(from + b * fromSize, to + b * toSize, e - b); });
    });
  }

private:
  static std::unique_ptr<BoundKernel> bindOnGpu(KernelBindContext *ctx, const char *from, char *to, int64_t n,
                                                int64_t bytes) {
    const DataType source = ctx->In("in").data_type(), target = ctx->Out("out").data_type();
    if (source == target) return bindTask([=](DeviceCtx *dev) { copyBytes(dev, from, to, bytes); });
    const void *in = from;
    void *out = to;
    const auto formatOf = [&](DataType type) { return storedFormat(type, saturates(ctx->user_op_conf())); };
    if (isStored(source) && isStored(target))
      return bindLaunch(ctx, "cast_stored_stored", n, in, out, n, formatOf(source), formatOf(target));
    if (isStored(source)) return bindLaunch(ctx, kernelOf("cast_stored", target), n, in, out, n, formatOf(source));
    if (isStored(target)) return bindLaunch(ctx, kernelOf("cast", source) + "_stored", n, in, out, n, formatOf(target));
    const int32_t isAligned = (reinterpret_cast<uintptr_t>(from) | reinterpret_cast<uintptr_t>(to)) % 16 == 0;
    return bindLaunch(ctx, kernelOf(kernelOf("cast", source), target), n, in, out, n, isAligned);
  }
};

/// Of cast alone: the other input of cast_like has no elements to go by.
class JoinableCastKernel final : public CastKernel, public JoinableKernel {
public:
  Status MakeLoop(const KernelContext &ctx, std::unique_ptr<RowLoop> *loop) const override {
    const DataType from = ctx.Desc("in").data_type(), to = ctx.Desc("out").data_type();
    if (const ConvertFn convert = converter(from, to, saturates(ctx.user_op_conf())))
      *loop = std::make_unique<ConvertLoop>(convert, GetSizeOfDataType(to));
    return Status();
  }
};

/// Sums pass through a cast that loses nothing: rounding, to an integer or to a narrower float, is not linear. The
/// values of dtype_like, for which the rule has no term, are not read.
ShardingRule sharding(DataType from, DataType to) {
  ShardingRule rule("... -> ...");
  const bool widens = to == from || GetSizeOfDataType(to) > GetSizeOfDataType(from);
  if (IsFloatingDataType(from) && IsFloatingDataType(to) && widens) rule.add(Linear({0}));
  return rule;
}

const char *const kRules =
    "To a narrower float: round to nearest, ties to even. Float to integer: truncate toward zero, saturate at the "
    "integer's range, NaN gives 0. Integer to narrower integer: keep the low bits. To bool: x != 0, so that NaN is "
    "true. What is too large for a float of a byte or less, infinity included, becomes its largest number; without "
    "saturate infinity, or NaN where it has none (f4e2m1 has neither: NaN becomes 6). f8e8m0 has the least power of two "
    "that is not smaller than the magnitude, and NaN for infinity. ";
const std::vector<DataType> kSampleTypes = {kFloat, kDouble, kFloat16, kBFloat16, kInt8, kInt32, kInt64, kUInt8, kBool};
Case to(const char *name, DataType type) {
  return Case(name).In("in", {3, 5}, 0, 100).Attr("dtype", type).Types(kSampleTypes);
}

REGISTER_USER_OP("cast")
    .With(TensorArgs{{"in"}, {"out"}})
    .RequiredAttr<DataType>("dtype")
    .Attr<bool>("pin_memory", false)
    .Attr<bool>("saturate", true)
    .SetTensorDescInferFn(inferCast)
    .Sharding([](const SbpContext &ctx) -> Maybe<ShardingRule> {
      return sharding(ctx.In("in").data_type(), ctx.Attr<DataType>("dtype"));
    })
    .Doc(std::string("out has the elements of in converted to dtype. ") + kRules)
    .Cases({to("to_f32", kFloat), to("to_f64", kDouble), to("to_f16", kFloat16), to("to_i32", kInt32),
            to("to_bool", kBool)})
    .Kernel<JoinableCastKernel>()
    .Kernel<CastKernel>(onGpu());

REGISTER_USER_OP("cast_like")
    .With(TensorArgs{{"in", "dtype_like"}, {"out"}})
    .Attr<bool>("saturate", true)
    .SetTensorDescInferFn(inferCastLike)
    .Sharding([](const SbpContext &ctx) -> Maybe<ShardingRule> {
      return sharding(ctx.In("in").data_type(), ctx.In("dtype_like").data_type());
    })
    .Doc(std::string("out has the elements of in converted to the dtype of dtype_like, whose values are not read. ") +
         kRules)
    .Cases({Case("to_f64").In("in", {3, 5}, 0, 100).In("dtype_like", kDouble, {1}, 0, 1).Types(kSampleTypes)})
    .With(onCpuAndGpu<CastKernel>());

} // namespace
} // namespace opc::ops
