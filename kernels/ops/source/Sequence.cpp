// arange, range and eye: tensors given by a formula.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"
#include "support/CpuKernels.h"

#include <cmath>
#include <cstring>

namespace opc::ops {
namespace {

/// start, start+delta, ... before limit, in f64 or in i64.
struct Progression {
  bool floating;
  double start, delta;
  int64_t intStart, intDelta, count;
};

Maybe<Progression> progression(const user_op::OpContext *ctx) {
  const bool old = ctx->user_op_conf().has_attr("limit");
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type) || type == kBool)
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", it should be a floating or integer type";
  Progression p{};
  p.floating = !old && IsFloatingDataType(type);
  if (p.floating) {
    p.start = ctx->Attr<double>("float_start");
    p.delta = ctx->Attr<double>("float_delta");
    const double limit = ctx->Attr<double>("float_limit"), n = std::ceil((limit - p.start) / p.delta);
    if (p.delta == 0 || !std::isfinite(n) || n > 9e15)
      return (Error("OPC0205") << "from " << p.start << " to " << limit << " in steps of " << p.delta
                               << " is not a finite sequence")
          .help("give a step other than 0, and finite ends");
    p.count = n > 0 ? static_cast<int64_t>(n) : 0;
    return p;
  }
  p.intStart = ctx->Attr<int64_t>(old ? "start" : "integer_start");
  p.intDelta = ctx->Attr<int64_t>(old ? "delta" : "integer_delta");
  const __int128 limit = ctx->Attr<int64_t>(old ? "limit" : "integer_limit");
  if (p.intDelta == 0) return (Error("OPC0205") << "the step is 0").help("give a step other than 0");
  const __int128 span = p.intDelta > 0 ? limit - p.intStart : p.intStart - limit,
                 step = p.intDelta > 0 ? p.intDelta : -__int128{p.intDelta};
  const __int128 n = span <= 0 ? 0 : (span - 1) / step + 1;
  if (n > INT64_MAX) return Error("OPC0206") << "the sequence has more than 2^63 entries";
  p.count = static_cast<int64_t>(n);
  return p;
}

Maybe<void> inferSequence(InferContext *ctx) {
  const Progression p = JUST(progression(ctx));
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape({p.count}), ctx->Attr<DataType>("dtype"));
  return Maybe<void>::Ok();
}

class SequenceKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Maybe<Progression> made = progression(ctx);
    if (!made.IsOk()) throw ContractError(made.status().message());
    const Progression p = made.value();
    const DataType type = ctx->Attr<DataType>("dtype");
    const ConvertFn convert = converter(p.floating ? kDouble : kInt64, type);
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(type));
    char *to = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr());
    return user_op::bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(p.count, 8192, [&](int64_t b, int64_t e) {
        constexpr int64_t kBlock = 512;
        double floats[kBlock];
        int64_t ints[kBlock];
        for (int64_t i = b; i < e; i += kBlock) {
          const int64_t n = std::min(kBlock, e - i);
          for (int64_t k = 0; k < n; ++k) {
            if (p.floating)
              floats[k] = p.start + static_cast<double>(i + k) * p.delta;
            else
              ints[k] = p.intStart + (i + k) * p.intDelta;
          }
          convert(p.floating ? static_cast<void *>(floats) : ints, to + i * size, n);
        }
      });
    });
  }
};

Maybe<void> inferEye(InferContext *ctx) {
  const int64_t rows = ctx->Attr<int64_t>("rows"), cols = ctx->Attr<int64_t>("cols");
  if (rows < 0 || cols < 0)
    return Error("OPC0205") << "rows is " << rows << ", cols is " << cols << "; both are 0 or more";
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type))
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", which tensors cannot have";
  *ctx->TensorDesc4ArgNameAndIndex("out", 0) = TensorDesc(Shape({rows, cols}), type);
  return Maybe<void>::Ok();
}

class EyeKernel final : public BindingKernel {
public:
  std::unique_ptr<user_op::BoundKernel> Bind(KernelBindContext *ctx) const override {
    const int64_t rows = ctx->Attr<int64_t>("rows"), cols = ctx->Attr<int64_t>("cols"), diagonal = std::min(rows, cols);
    const DataType type = ctx->Attr<DataType>("dtype");
    const size_t size = GetSizeOfDataType(type);
    uint64_t one = 0;
    const int64_t oneInt = 1;
    converter(kInt64, type)(&oneInt, &one, 1);
    char *to = static_cast<char *>(ctx->Tensor4ArgNameAndIndex("out", 0)->mut_raw_dptr());
    return user_op::bindTask([=](DeviceCtx *) {
      if (rows * cols == 0) return;
      std::memset(to, 0, static_cast<size_t>(rows * cols) * size);
      for (int64_t i = 0; i < diagonal; ++i) std::memcpy(to + i * (cols + 1) * static_cast<int64_t>(size), &one, size);
    });
  }
};

REGISTER_USER_OP("arange")
    .Output("out")
    .Attr<int64_t>("integer_start", 0)
    .Attr<int64_t>("integer_delta", 1)
    .Attr<int64_t>("integer_limit", 0)
    .Attr<double>("float_start", 0.0)
    .Attr<double>("float_delta", 1.0)
    .Attr<double>("float_limit", 0.0)
    .RequiredAttr<DataType>("dtype")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn(inferSequence)
    .NoGrad("it has no input")
    .Doc("start, start + delta, ... before limit. Floating dtypes take the float_ attributes and compute start + i * "
         "delta in f64; integer dtypes take the integer_ ones.")
    .Cases({user_op::Case("int")
                .Attr("dtype", kInt64)
                .Attr<int64_t>("integer_start", 2)
                .Attr<int64_t>("integer_delta", 3)
                .Attr<int64_t>("integer_limit", 15),
            user_op::Case("down")
                .Attr("dtype", kInt32)
                .Attr<int64_t>("integer_start", 5)
                .Attr<int64_t>("integer_delta", -2)
                .Attr<int64_t>("integer_limit", -2),
            user_op::Case("float")
                .Attr("dtype", kFloat)
                .Attr("float_start", 0.5)
                .Attr("float_delta", 0.25)
                .Attr("float_limit", 2.1)});

REGISTER_USER_OP("range")
    .Output("out")
    .RequiredAttr<int64_t>("start")
    .RequiredAttr<int64_t>("delta")
    .RequiredAttr<int64_t>("limit")
    .RequiredAttr<DataType>("dtype")
    .SetTensorDescInferFn(inferSequence)
    .NoGrad("it has no input")
    .Doc("start, start + delta, ... before limit, as integers converted to dtype. The older form of arange.")
    .Cases({user_op::Case("int")
                .Attr("dtype", kInt64)
                .Attr<int64_t>("start", 1)
                .Attr<int64_t>("delta", 2)
                .Attr<int64_t>("limit", 8)});

REGISTER_USER_OP("eye")
    .Output("out")
    .RequiredAttr<int64_t>("rows")
    .RequiredAttr<int64_t>("cols")
    .RequiredAttr<DataType>("dtype")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .SetTensorDescInferFn(inferEye)
    .NoGrad("it has no input")
    .Doc("The rows x cols matrix with ones on the main diagonal and zeros elsewhere.")
    .Cases({user_op::Case("square").Attr("dtype", kFloat).Attr<int64_t>("rows", 3).Attr<int64_t>("cols", 3),
            user_op::Case("wide").Attr("dtype", kInt64).Attr<int64_t>("rows", 2).Attr<int64_t>("cols", 5)});

OPC_ANY_TYPE_CPU_KERNEL("arange", SequenceKernel);
OPC_ANY_TYPE_CPU_KERNEL("range", SequenceKernel);
OPC_ANY_TYPE_CPU_KERNEL("eye", EyeKernel);

} // namespace
} // namespace opc::ops
