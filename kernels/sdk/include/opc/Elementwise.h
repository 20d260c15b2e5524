// OpRegistry::Elementwise<F>: from a scalar function to a whole operator: shape rule, CPU kernels, in-place proposal,
// sharding rule, expression and sample cases.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"
#include "opc/Scalar.h"

#include <map>
#include <string>
#include <vector>

namespace opc::user_op {

/// The output's element type: the inputs', or bool.
namespace output {
struct Same {};
struct Bool {};
} // namespace output

/// What Elementwise cannot see from the declaration.
class ElementwiseOptions {
public:
  /// Tensors of different shapes are an error instead of being broadcast.
  ElementwiseOptions &SameShape() { return sameShape = true, *this; }
  /// How attribute parameters are computed. Without it, numeric attributes are the parameters, in their order.
  ElementwiseOptions &Attributes(scalar::AttributeReader reader) { return attributes = std::move(reader), *this; }
  /// The range of all inputs, or of one, in the default cases ([-3, 3) if not given).
  ElementwiseOptions &Domain(double lo, double hi) { return domain = {lo, hi}, *this; }
  ElementwiseOptions &Domain(int32_t input, double lo, double hi) { return domains[input] = {lo, hi}, *this; }
  /// An attribute of the default cases.
  template <class T> ElementwiseOptions &CaseAttr(const std::string &name, T value) {
    caseAttrs.emplace_back(name, AttrValue(std::move(value)));
    return *this;
  }

  bool sameShape = false;
  scalar::AttributeReader attributes;
  std::pair<double, double> domain{-3, 3};
  std::map<int32_t, std::pair<double, double>> domains;
  std::vector<std::pair<std::string, AttrValue>> caseAttrs;
};

namespace elementwise {

constexpr int kMaxParameters = 6;

/// Computes n elements. Bit k of `contiguous` says that in[k] has n elements; without it in[k] is one element, or null
/// for an attribute, whose value is element k of `parameters` (an array of the compute type).
using Row = void (*)(const void *const *in, uint32_t contiguous, const void *parameters, void *out, int64_t n);

/// One kernel: the tensors' type, the type that the row computes in (f32 for f16 and bf16, u8 for bool), and the row.
/// One whose computeType is kInvalidDataType is the row of the one before it, for processors with AVX-512.
struct RowKernel {
  DataType type;
  DataType computeType;
  Row row;
};

/// An op's description for add(): everything that does not depend on F's type.
struct Spec {
  std::vector<RowKernel> kernels;
  bool boolOutput = false;
  ElementwiseOptions options;
  std::shared_ptr<scalar::ScalarProgram> program;
  int32_t arity = 0;
};
/// Completes a definition: rules, kernels, cases.
void add(OpDef &def, Spec spec);

/// For kernels with inputs of several types (`where`): the tensors, by argument name in the row's order, and their
/// sizes.
struct Operand {
  std::string arg;
  size_t elementSize;
};
/// A BoundKernel that runs `row` over the broadcast of `inputs`, then `parameters` (as many compute-type values as the
/// row wants, copied).
std::unique_ptr<BoundKernel> bind(KernelComputeContext *ctx, const std::vector<Operand> &inputs, const Operand &output,
                                  Row row, const void *parameters, size_t parameterBytes);
/// numpy broadcasting of input shapes; the error lists them.
Maybe<Shape> broadcastShapes(const std::vector<std::pair<std::string, Shape>> &inputs);

/// What a scalar function sees for a stored type.
template <class T> struct Compute {
  using type = ComputeType<T>;
};
template <> struct Compute<bool> {
  using type = uint8_t;
};

// In-place execution makes input and output the same addresses, which is no dependence between iterations. Without
// interleaving a task of one vector runs in the vector loop; longer ones are bound by memory or by the polynomial.
// Loops that call libm stay scalar, in silence.
#if defined(__clang__)
#define OPC_INDEPENDENT_ITERATIONS                                                                                     \
  _Pragma("clang diagnostic ignored \"-Wpass-failed\"")                                                                \
      _Pragma("clang loop vectorize(assume_safety) interleave_count(1)")
#elif defined(__GNUC__)
#define OPC_INDEPENDENT_ITERATIONS _Pragma("GCC ivdep")
#else
#define OPC_INDEPENDENT_ITERATIONS
#endif

// One source, two targets: opc's own ops, which are compiled for x86-64-v3, are there for x86-64-v4, too, with the same
// bits.
#if defined(OPC_ROWS_FOR_V4) && defined(__clang__) && defined(__FMA__) && !defined(__AVX512F__)
#define OPC_WIDE_ROWS __attribute__((target("avx512f,avx512bw,avx512cd,avx512dq,avx512vl"), min_vector_width(512)))
#endif

/// The loops of F for compute type C and stored output type O.
template <class F, class C, class O> struct Loops {
  static constexpr uint32_t kArity = F::arity;
  using N = scalar::Number<C>;
  using Indices = std::make_index_sequence<kArity>;

  template <uint32_t Mask, size_t K>
  static OPC_SCALAR_INLINE N element(const C *const *in, const N *scalars, int64_t i) {
    if constexpr ((Mask >> K & 1u) != 0)
      return N(in[K][i]);
    else
      return scalars[K];
  }
  template <class R> static OPC_SCALAR_INLINE O stored(R r) {
    if constexpr (std::is_same_v<O, bool>)
      return static_cast<bool>(r.value);
    else
      return static_cast<O>(r.value);
  }
  template <uint32_t Mask, size_t... K>
  static OPC_SCALAR_INLINE void loop(const void *const *in, const N *scalars, O *out, int64_t n,
                                     std::index_sequence<K...>) {
    const C *const p[] = {static_cast<const C *>(in[K])...};
    const N s[] = {scalars[K]...};
    OPC_INDEPENDENT_ITERATIONS
    for (int64_t i = 0; i < n; ++i) out[i] = stored(F::template apply<N>(element<Mask, K>(p, s, i)...));
  }
  template <size_t... K>
  static OPC_SCALAR_INLINE void strided(const void *const *in, uint32_t mask, const N *scalars, O *out, int64_t n,
                                        std::index_sequence<K...>) {
    const C *const p[] = {(mask >> K & 1u) ? static_cast<const C *>(in[K]) : &scalars[K].value...};
    const int64_t stride[] = {static_cast<int64_t>(mask >> K & 1u)...};
    for (int64_t i = 0; i < n; ++i) out[i] = stored(F::template apply<N>(N(p[K][i * stride[K]])...));
  }
  template <size_t... K> static OPC_SCALAR_INLINE void fill(const N *s, O *out, int64_t n, std::index_sequence<K...>) {
    const O value = stored(F::template apply<N>(s[K]...));
    for (int64_t i = 0; i < n; ++i) out[i] = value;
  }

  static OPC_SCALAR_INLINE void run(const void *const *in, uint32_t mask, const void *parameters, void *output,
                                    int64_t n) {
    N scalars[kArity];
    for (uint32_t k = 0; k < kArity; ++k) {
      if (mask >> k & 1u)
        scalars[k] = N(0);
      else
        scalars[k] = N(in[k] ? *static_cast<const C *>(in[k]) : static_cast<const C *>(parameters)[k]);
    }
    O *out = static_cast<O *>(output);
    constexpr uint32_t full = (1u << kArity) - 1u;
    // Unary functions with attributes, and binary functions, are the cases that matter.
    if (mask == 1) return loop<1>(in, scalars, out, n, Indices());
    if (mask == 0) return fill(scalars, out, n, Indices());
    if constexpr (kArity == 2) {
      if (mask == full) return loop<full>(in, scalars, out, n, Indices());
      return loop<2>(in, scalars, out, n, Indices());
    } else if constexpr (kArity > 2) {
      if (mask == full) return loop<full>(in, scalars, out, n, Indices());
      return strided(in, mask, scalars, out, n, Indices());
    }
  }

  static void row(const void *const *in, uint32_t mask, const void *parameters, void *output, int64_t n) {
    run(in, mask, parameters, output, n);
  }
#ifdef OPC_WIDE_ROWS
  OPC_WIDE_ROWS static void wideRow(const void *const *in, uint32_t mask, const void *parameters, void *output,
                                    int64_t n) {
    run(in, mask, parameters, output, n);
  }
#endif
};
template <class F, class Output, class... T> std::vector<RowKernel> rowKernels(TypeList<T...>) {
  std::vector<RowKernel> kernels;
  auto one = [&](auto tag) {
    using Stored = decltype(tag);
    using C = typename Compute<Stored>::type;
    using O = std::conditional_t<std::is_same_v<Output, output::Bool>, bool, C>;
    kernels.push_back({GetDataType<Stored>::value, GetDataType<C>::value, &Loops<F, C, O>::row});
#ifdef OPC_WIDE_ROWS
    if constexpr (std::is_floating_point_v<C>)
      kernels.push_back({GetDataType<Stored>::value, kInvalidDataType, &Loops<F, C, O>::wideRow});
#endif
  };
  (one(T()), ...);
  return kernels;
}

} // namespace elementwise

template <class F, class Types, class Output> OpRegistry &OpRegistry::Elementwise(const ElementwiseOptions &options) {
  elementwise::Spec spec;
  spec.kernels = elementwise::rowKernels<F, Output>(typename Types::List());
  spec.boolOutput = std::is_same_v<Output, output::Bool>;
  spec.options = options;
  spec.arity = F::arity;
  spec.program = std::make_shared<scalar::ScalarProgram>(scalar::record<F>(static_cast<int32_t>(def_.inputs.size())));
  elementwise::add(def_, std::move(spec));
  return *this;
}
template <class F, class Types, class Output> OpRegistry &OpRegistry::Elementwise() {
  return Elementwise<F, Types, Output>(ElementwiseOptions());
}

} // namespace opc::user_op
