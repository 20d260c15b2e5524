// Matrix products by oneDNN, in blocks of one thread each.
// SPDX-License-Identifier: Apache-2.0
#include "DnnlGemm.h"
#include "Parallel.h"

#include "opc/PackedInputs.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace opc::cpu {

using dnnl::memory;

bool DnnlGemm::leads(const GemmShape &s, bool constantB) {
  static const bool avx512 = [] { // as the library sees the processor: ONEDNN_MAX_CPU_ISA may hold it back
    const dnnl::cpu_isa isa = dnnl::get_effective_cpu_isa();
    return isa != dnnl::cpu_isa::sse41 && isa != dnnl::cpu_isa::avx && isa != dnnl::cpu_isa::avx2 &&
           isa != dnnl::cpu_isa::avx2_vnni;
  }();
  constexpr int64_t kEnough = 32; // fewer rows wait for a weight from memory: Gemm asks for it early
  if (constantB && s.m < kEnough) return false;
  return avx512 && s.m >= 8 && s.n >= 8 && s.k >= 8 && s.m * s.n >= 1024 && s.m * s.n * s.k >= 32 * 32 * 32;
}

namespace {
dnnl::primitive_attr attributesOf(const GemmShape &s) {
  dnnl::primitive_attr attr = dnnlAttributes();
  if (s.alpha != 1) attr.set_output_scales(0, {static_cast<float>(s.alpha)});
  if (s.accumulate) {
    dnnl::post_ops ops;
    ops.append_sum(1.0f);
    attr.set_post_ops(ops);
  }
  return attr;
}

/// About `wanted` to a block, and a number of blocks that two and four threads share evenly: three blocks would keep
/// two threads as long as four. `unit` divides a block: the width of the library's inner loop.
int64_t evenBlock(int64_t n, int64_t wanted, int64_t unit) {
  if (n <= wanted) return n;
  int64_t blocks = (n + wanted - 1) / wanted;
  blocks = blocks <= 2 ? 2 : (blocks + 3) / 4 * 4;
  return ((n + blocks - 1) / blocks + unit - 1) / unit * unit;
}

struct Blocks {
  int64_t rows, columns;
};

/// What two threads share gladly, in multiply-adds: some ten microseconds for each.
constexpr int64_t kWorthTwoBlocks = int64_t{1} << 20;
/// Elements of b that are read again from the second-level cache.
constexpr int64_t kReadAgain = int64_t{1} << 17;

/// By the shape alone: of an unpacked b bits depend on it. Rows are cut when there are many, columns otherwise: a block
/// should reuse what it packs. One block alone is cut in two, for two threads, and two are better rows than columns
/// where both can read all of b: parts of rows would be copied.
Blocks blockOf(const GemmShape &s, size_t batch) {
  if (s.m >= 256) return {evenBlock(s.m, 128, 16), s.n};
  const int64_t columns = evenBlock(s.n, 256, 32), blocks = (s.n + columns - 1) / columns;
  const bool inRows = blocks == 1 || (blocks == 2 && s.n * s.k <= kReadAgain);
  if (inRows && batch == 1 && s.m >= 32 && s.m * s.n * s.k >= kWorthTwoBlocks)
    return {evenBlock(s.m, (s.m + 1) / 2, 16), s.n};
  return {s.m, columns};
}

int64_t countOf(const Blocks &b, const GemmShape &s) {
  return ((s.m + b.rows - 1) / b.rows) * ((s.n + b.columns - 1) / b.columns);
}

/// For more than two threads: lower blocks, each of which reads all of b, where that makes more of them.
Blocks blockFor(int threads, Blocks blocks, const GemmShape &s) {
  if (threads <= 2 || countOf(blocks, s) >= threads || s.m * s.n * s.k < kWorthTwoBlocks) return blocks;
  constexpr int64_t kLeastRows = 16;
  const Blocks low{(s.m + kLeastRows * threads - 1) / (kLeastRows * threads) * kLeastRows, s.n};
  return countOf(low, s) > countOf(blocks, s) ? low : blocks;
}

/// The primitives of a product's blocks, and b as they want it.
class Preparation {
public:
  struct Prepared {
    dnnl::matmul::primitive_desc pd;
    dnnl::matmul primitive;
  };
  Preparation(const GemmShape &shape, Blocks blocks, bool packs, bool dense)
      : s_(shape), blocks_(blocks), packs_(packs), dense_(dense), attr_(attributesOf(shape)) {}

  memory::dims aStrides() const { return s_.transA ? memory::dims{1, s_.m} : memory::dims{s_.k, 1}; }
  memory::dims bStrides() const { return s_.transB ? memory::dims{1, s_.k} : memory::dims{s_.n, 1}; }

  const Prepared &of(int64_t m, int64_t n) {
    auto found = prepared_.find({m, n});
    if (found != prepared_.end()) return found->second;
    const auto f32 = memory::data_type::f32;
    const memory::desc weights =
        packs_ ? memory::desc({s_.k, n}, f32, memory::format_tag::any) : memory::desc({s_.k, n}, f32, bStrides());
    dnnl::matmul::primitive_desc pd(
        dnnl::matmul::desc({{m, s_.k}, f32, aStrides()}, weights, {{m, n}, f32, memory::dims{dense_ ? n : s_.n, 1}}),
        attr_, dnnlEngine());
    return prepared_.emplace(std::make_pair(m, n), Prepared{pd, dnnl::matmul(pd)}).first->second;
  }

  /// Packed blocks of b, one after another: a block a column range, another one where the last, lower row block wants
  /// another layout.
  std::shared_ptr<const void> pack(const float *b, const std::string &packKey) {
    int64_t size = 0;
    std::vector<int64_t> offsets;
    std::string form = "blocks"; // the layout of each
    const auto add = [&](const auto &value) { form.append(reinterpret_cast<const char *>(&value), sizeof value); };
    add(s_.n), add(s_.k), add(s_.transB), add(blocks_.columns);
    for (int64_t n0 = 0; n0 < s_.n; n0 += blocks_.columns)
      for (const bool last : {false, true}) {
        if (last && (s_.m % blocks_.rows == 0 || layoutOf({n0, true}) == layoutOf({n0, false}))) continue;
        order_.push_back({n0, last});
        offsets.push_back(size);
        const memory::desc layout = layoutOf(order_.back());
        add(layout.data);
        size += (static_cast<int64_t>(layout.get_size()) + 63) / 64 * 64;
      }
    std::shared_ptr<const void> packed = user_op::sharedPack(packKey.empty() ? packKey : packKey + form, [&] {
      auto made = std::make_shared<Scratch<char>>(size);
      for (size_t i = 0; i < order_.size(); ++i) {
        const int64_t n0 = order_[i].first;
        dnnlReorder({{s_.k, std::min(blocks_.columns, s_.n - n0)}, memory::data_type::f32, bStrides()},
                    b + n0 * bStrides()[1], layoutOf(order_[i]), made->get() + offsets[i]);
      }
      return std::shared_ptr<const void>(made, made->get());
    });
    for (size_t i = 0; i < order_.size(); ++i)
      packedAt_[order_[i]] = static_cast<const char *>(packed.get()) + offsets[i];
    return packed;
  }
  const void *packedAt(int64_t n0, bool last) const {
    const auto own = packedAt_.find({n0, last});
    return own != packedAt_.end() ? own->second : packedAt_.at({n0, false});
  }

private:
  using PackedBlock = std::pair<int64_t, bool>; // first column, and whether it is for the last, lower rows

  memory::desc layoutOf(const PackedBlock &block) {
    const int64_t m = block.second ? s_.m % blocks_.rows : blocks_.rows;
    return of(m, std::min(blocks_.columns, s_.n - block.first)).pd.weights_desc();
  }

  const GemmShape &s_;
  const Blocks blocks_;
  const bool packs_, dense_;
  const dnnl::primitive_attr attr_;
  std::map<std::pair<int64_t, int64_t>, Prepared> prepared_; // by block size: at most four
  std::vector<PackedBlock> order_;
  std::map<PackedBlock, const char *> packedAt_;
};
} // namespace

DnnlGemm::DnnlGemm(const GemmShape &s, const GemmBatch &batch, const float *constantB, const std::string &packKey,
                   int threads) {
  setLibraryThreads(1);
  const bool oneB = std::all_of(batch.b.begin(), batch.b.end(), [&](int64_t o) { return o == batch.b[0]; });
  const bool pack = constantB && oneB;
  const Blocks byShape = blockOf(s, batch.size());
  const Blocks cut = pack && batch.size() == 1 ? blockFor(threads, byShape, s) : byShape;
  // The kernels for packed weights write dense blocks only: a part of c's columns goes through a buffer.
  dense_ = pack && cut.columns < s.n;
  stride_ = s.n;
  accumulate_ = s.accumulate;
  Preparation prepared(s, cut, pack, dense_);
  const memory::dims aStrides = prepared.aStrides(), bStrides = prepared.bStrides();
  if (pack) packed_ = prepared.pack(constantB + batch.b[0], packKey);
  for (size_t i = 0; i < batch.size(); ++i)
    for (int64_t n0 = 0; n0 < s.n; n0 += cut.columns)
      for (int64_t m0 = 0; m0 < s.m; m0 += cut.rows) {
        const int64_t m = std::min(cut.rows, s.m - m0), n = std::min(cut.columns, s.n - n0);
        const Preparation::Prepared &p = prepared.of(m, n);
        Block block{DnnlExecution(p.pd, p.primitive),
                    batch.a[i] + m0 * aStrides[0],
                    pack ? -1 : batch.b[i] + n0 * bStrides[1],
                    batch.c[i] + m0 * s.n + n0,
                    m,
                    n};
        block.execution.bind(DNNL_ARG_SRC, p.pd.src_desc(), nullptr);
        block.execution.bind(DNNL_ARG_DST, p.pd.dst_desc(), nullptr);
        block.execution.bind(DNNL_ARG_WEIGHTS, p.pd.weights_desc(),
                             pack ? prepared.packedAt(n0, m != cut.rows) : nullptr);
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
        float *to = c + block.c;
        if (!dense_) {
          block.execution.rebind(DNNL_ARG_DST, to);
          block.execution.execute();
          return;
        }
        thread_local Scratch<float> buffer;
        thread_local int64_t room = 0;
        if (room < block.m * block.n) {
          room = block.m * block.n;
          buffer = Scratch<float>(room);
        }
        const size_t row = static_cast<size_t>(block.n) * sizeof(float);
        if (accumulate_)
          for (int64_t r = 0; r < block.m; ++r) std::memcpy(buffer.get() + r * block.n, to + r * stride_, row);
        block.execution.rebind(DNNL_ARG_DST, buffer.get());
        block.execution.execute();
        for (int64_t r = 0; r < block.m; ++r) std::memcpy(to + r * stride_, buffer.get() + r * block.n, row);
      });
    }
  });
  failure.rethrow();
}

} // namespace opc::cpu
