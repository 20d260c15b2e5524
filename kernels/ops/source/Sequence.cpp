// arange, range and eye: tensors given by a formula.
// SPDX-License-Identifier: Apache-2.0
#include "support/ConvertElements.h"
#include "support/CudaTask.h"
#include "support/FunctionKernel.h"
#include "support/Operator.h"
#include "support/PieceRange.h"
#include "support/StoredTypes.h"

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

Maybe<Progression> floats(double start, double delta, double limit) {
  const double n = std::ceil((limit - start) / delta);
  if (delta == 0 || !std::isfinite(n) || n > 9e15)
    return (Error("OPC0205") << "from " << start << " to " << limit << " in steps of " << delta
                             << " is not a finite sequence")
        .help("give a step other than 0, and finite ends");
  return Progression{true, start, delta, 0, 0, n > 0 ? static_cast<int64_t>(n) : 0};
}

Maybe<Progression> integers(int64_t start, int64_t delta, __int128 limit) {
  if (delta == 0) return (Error("OPC0205") << "the step is 0").help("give a step other than 0");
  const __int128 span = delta > 0 ? limit - start : start - limit, step = delta > 0 ? delta : -__int128{delta};
  const __int128 n = span <= 0 ? 0 : (span - 1) / step + 1;
  if (n > INT64_MAX) return Error("OPC0206") << "the sequence has more than 2^63 entries";
  return Progression{false, 0, 0, start, delta, static_cast<int64_t>(n)};
}

struct Arange {
  static Maybe<Progression> progression(const OpContext *ctx) {
    if (IsFloatingDataType(ctx->Attr<DataType>("dtype")))
      return floats(ctx->Attr<double>("float_start"), ctx->Attr<double>("float_delta"),
                    ctx->Attr<double>("float_limit"));
    return integers(ctx->Attr<int64_t>("integer_start"), ctx->Attr<int64_t>("integer_delta"),
                    ctx->Attr<int64_t>("integer_limit"));
  }
};
struct Range {
  static Maybe<Progression> progression(const OpContext *ctx) {
    return integers(ctx->Attr<int64_t>("start"), ctx->Attr<int64_t>("delta"), ctx->Attr<int64_t>("limit"));
  }
};

template <class Op> Maybe<void> inferSequence(InferContext *ctx) {
  const DataType type = ctx->Attr<DataType>("dtype");
  if (!isTensorDataType(type) || type == kBool)
    return Error::TypeError() << "dtype is " << DataType_Name(type) << ", it should be a floating or integer type";
  const Progression p = JUST(Op::progression(ctx));
  return setOut(ctx, "out", TensorDesc(Shape({p.count}), type));
}

template <class Op> class SequenceKernel final : public BindingKernel {
public:
  std::unique_ptr<BoundKernel> Bind(KernelBindContext *ctx) const override {
    const Progression p = valueOf(Op::progression(ctx));
    const DataType type = ctx->Attr<DataType>("dtype");
    const ConvertFn convert = converter(p.floating ? kDouble : kInt64, type);
    const int64_t size = static_cast<int64_t>(GetSizeOfDataType(type));
    char *to = static_cast<char *>(ctx->Out("out").mut_raw_dptr());
    const PieceRange piece = pieceRange(ctx, "out", 0);
    if (isOnGpu(ctx) && isStored(type))
      return bindLaunch(ctx, "sequence_stored", piece.size, static_cast<void *>(to), piece.size, piece.begin,
                        static_cast<int32_t>(p.floating), p.start, p.delta, p.intStart, p.intDelta, storedFormat(type));
    if (isOnGpu(ctx))
      return bindLaunch(ctx, kernelOf("sequence", type), piece.size, static_cast<void *>(to), piece.size, piece.begin,
                        static_cast<int32_t>(p.floating), p.start, p.delta, p.intStart, p.intDelta);
    return bindTask([=](DeviceCtx *dev) {
      dev->parallelFor(piece.size, 8192, [&](int64_t b, int64_t e) {
        constexpr int64_t kBlock = 512;
        double floats[kBlock];
        int64_t ints[kBlock];
        for (int64_t i = b; i < e; i += kBlock) {
          const int64_t n = std::min(kBlock, e - i);
          for (int64_t k = 0, at = piece.begin + i; k < n; ++k, ++at) {
            if (p.floating)
              floats[k] = p.start + static_cast<double>(at) * p.delta;
            else
              ints[k] = p.intStart + at * p.intDelta;
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
  return setOut(ctx, "out", TensorDesc(Shape({rows, cols}), type));
}

std::unique_ptr<BoundKernel> bindEye(KernelBindContext *ctx) {
  const PieceRange rows = pieceRange(ctx, "out", 0), cols = pieceRange(ctx, "out", 1);
  const int64_t first = std::max(rows.begin, cols.begin), last = std::min(rows.end(), cols.end()); // ones of the whole
  const DataType type = ctx->Attr<DataType>("dtype");
  const size_t size = GetSizeOfDataType(type);
  uint64_t one = 0;
  const int64_t oneInt = 1;
  converter(kInt64, type)(&oneInt, &one, 1);
  char *to = static_cast<char *>(ctx->Out("out").mut_raw_dptr());
  if (isOnGpu(ctx))
    return bindLaunch(ctx, kernelOf("eye", size), rows.size * cols.size, static_cast<void *>(to), one,
                      rows.size * cols.size, cols.size, rows.begin, cols.begin);
  return bindTask([=](DeviceCtx *) {
    if (rows.size * cols.size == 0) return;
    std::memset(to, 0, static_cast<size_t>(rows.size * cols.size) * size);
    for (int64_t i = first; i < last; ++i)
      std::memcpy(to + (rows.place(i) * cols.size + cols.place(i)) * static_cast<int64_t>(size), &one, size);
  });
}

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
    .With(rules(inferSequence<Arange>, "-> n"))
    .Pure()
    .NoGrad("it has no input")
    .Doc("start, start + delta, ... before limit. Floating dtypes take the float_ attributes and compute start + i * "
         "delta in f64; integer dtypes take the integer_ ones.")
    .Cases({Case("int")
                .Attr("dtype", kInt64)
                .Attr<int64_t>("integer_start", 2)
                .Attr<int64_t>("integer_delta", 3)
                .Attr<int64_t>("integer_limit", 15),
            Case("down")
                .Attr("dtype", kInt32)
                .Attr<int64_t>("integer_start", 5)
                .Attr<int64_t>("integer_delta", -2)
                .Attr<int64_t>("integer_limit", -2),
            Case("float")
                .Attr("dtype", kFloat)
                .Attr("float_start", 0.5)
                .Attr("float_delta", 0.25)
                .Attr("float_limit", 2.1)})
    .With(onCpuAndGpu<SequenceKernel<Arange>>());

REGISTER_USER_OP("range")
    .Output("out")
    .RequiredAttr<int64_t>("start")
    .RequiredAttr<int64_t>("delta")
    .RequiredAttr<int64_t>("limit")
    .RequiredAttr<DataType>("dtype")
    .With(rules(inferSequence<Range>, "-> n"))
    .Pure()
    .NoGrad("it has no input")
    .Doc("start, start + delta, ... before limit, as integers converted to dtype. The older form of arange.")
    .Cases({Case("int")
                .Attr("dtype", kInt64)
                .Attr<int64_t>("start", 1)
                .Attr<int64_t>("delta", 2)
                .Attr<int64_t>("limit", 8)})
    .With(onCpuAndGpu<SequenceKernel<Range>>());

REGISTER_USER_OP("eye")
    .Output("out")
    .RequiredAttr<int64_t>("rows")
    .RequiredAttr<int64_t>("cols")
    .RequiredAttr<DataType>("dtype")
    .Attr<std::vector<std::string>>("nd_sbp", {})
    .With(rules(inferEye, "-> r c"))
    .Pure()
    .NoGrad("it has no input")
    .Doc("The rows x cols matrix with ones on the main diagonal and zeros elsewhere.")
    .Cases({Case("square").Attr("dtype", kFloat).Attr<int64_t>("rows", 3).Attr<int64_t>("cols", 3),
            Case("wide").Attr("dtype", kInt64).Attr<int64_t>("rows", 2).Attr<int64_t>("cols", 5)})
    .With(onCpuAndGpu<FunctionKernel<bindEye>>());

} // namespace
} // namespace opc::ops
