// Matrix products by oneDNN, in blocks of one thread each.
#include "DnnlGemm.h"
#include "Parallel.h"

#include <algorithm>
#include <map>

namespace opc::cpu {

using dnnl::memory;

bool DnnlGemm::leads(const GemmShape &s) {
  static const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                             __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
  return avx512 && s.m >= 8 && s.n >= 8 && s.k >= 8 && s.m * s.n >= 1024 && s.m * s.n * s.k >= 32 * 32 * 32;
}

DnnlGemm::DnnlGemm(const GemmShape &s, const GemmBatch &batch, const float *constantB) {
  // Rows are cut when there are many, columns otherwise: a block should reuse what it packs.
  const int64_t rows = s.m >= 256 ? 128 : s.m;
  const int64_t columns = s.m >= 256 ? s.n : std::min<int64_t>(s.n, 256);
  const auto f32 = memory::data_type::f32;
  const memory::dims aStrides = s.transA ? memory::dims{1, s.m} : memory::dims{s.k, 1};
  const memory::dims bStrides = s.transB ? memory::dims{1, s.k} : memory::dims{s.n, 1};
  dnnl::primitive_attr attr = dnnlAttributes();
  if (s.alpha != 1) attr.set_output_scales(0, {static_cast<float>(s.alpha)});
  if (s.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  setLibraryThreads(1);
  struct Prepared {
    dnnl::matmul::primitive_desc pd;
    dnnl::matmul primitive;
  };
  std::map<std::pair<int64_t, int64_t>, Prepared> prepared; // by block size: at most four
  const bool oneB = std::all_of(batch.b.begin(), batch.b.end(), [&](int64_t o) { return o == batch.b[0]; });
  const bool pack = constantB && oneB;
  std::map<int64_t, const void *> packedAt; // by first column
  for (size_t i = 0; i < batch.size(); ++i)
    for (int64_t n0 = 0; n0 < s.n; n0 += columns)
      for (int64_t m0 = 0; m0 < s.m; m0 += rows) {
        const int64_t m = std::min(rows, s.m - m0), n = std::min(columns, s.n - n0);
        auto found = prepared.find({m, n});
        if (found == prepared.end()) {
          const memory::desc weights =
              pack ? memory::desc({s.k, n}, f32, memory::format_tag::any) : memory::desc({s.k, n}, f32, bStrides);
          dnnl::matmul::primitive_desc pd(
              dnnl::matmul::desc({{m, s.k}, f32, aStrides}, weights, {{m, n}, f32, memory::dims{s.n, 1}}), attr,
              dnnlEngine());
          found = prepared.emplace(std::make_pair(m, n), Prepared{pd, dnnl::matmul(pd)}).first;
        }
        const auto &pd = found->second.pd;
        Block block{DnnlExecution(pd, found->second.primitive), batch.a[i] + m0 * aStrides[0],
                    batch.b[i] + n0 * bStrides[1], batch.c[i] + m0 * s.n + n0};
        block.execution.bind(DNNL_ARG_SRC, pd.src_desc(), nullptr);
        block.execution.bind(DNNL_ARG_DST, pd.dst_desc(), nullptr);
        if (pack) {
          // The last row block is lower and may want another layout: it has a copy of its own.
          const void *&at = packedAt[n0 * 2 + (m == rows ? 0 : 1)];
          if (!at) {
            packed_.push_back(
                dnnlReordered({{s.k, n}, f32, bStrides}, constantB + batch.b[0] + n0 * bStrides[1], pd.weights_desc()));
            at = packed_.back().get();
          }
          block.execution.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), at);
          block.b = -1;
        } else {
          block.execution.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), nullptr);
        }
        blocks_.push_back(std::move(block));
      }
}

void DnnlGemm::run(DeviceCtx *ctx, const float *a, const float *b, float *c) {
  FirstException failure;
  ctx->parallelFor(static_cast<int64_t>(blocks_.size()), 1, [&](int64_t begin, int64_t end) {
    setLibraryThreads(1);
    for (int64_t i = begin; i < end; ++i) {
      Block &block = blocks_[static_cast<size_t>(i)];
      failure.guard([&] {
        block.execution.rebind(DNNL_ARG_SRC, a + block.a);
        if (block.b >= 0) block.execution.rebind(DNNL_ARG_WEIGHTS, b + block.b);
        block.execution.rebind(DNNL_ARG_DST, c + block.c);
        block.execution.execute();
      });
    }
  });
  failure.rethrow();
}

} // namespace opc::cpu
