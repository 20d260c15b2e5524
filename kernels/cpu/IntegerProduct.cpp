// Products of matrices of 8-bit integers: by oneDNN with VNNI, by 16-bit dot products without.
// SPDX-License-Identifier: Apache-2.0
#include "IntegerProduct.h"
#include "Parallel.h"

#include <algorithm>

namespace opc::cpu {

using dnnl::memory;

bool libraryIsExact() {
  static const bool exact =
      (static_cast<unsigned>(dnnl::get_effective_cpu_isa()) & static_cast<unsigned>(dnnl::cpu_isa::avx512_core_vnni)) ==
      static_cast<unsigned>(dnnl::cpu_isa::avx512_core_vnni);
  return exact;
}

namespace {

/// Sums that wrap around without undefined behaviour.
uint32_t wide(int32_t x) { return static_cast<uint32_t>(x); }

/// `Rows` rows of a with one of b.
template <int Rows> void dotRows(const int16_t *a, const int16_t *b, int64_t k, int32_t *c, int64_t rowStep) {
  uint32_t sums[Rows] = {};
  for (int64_t p = 0; p < k; ++p)
    for (int r = 0; r < Rows; ++r) sums[r] += wide(static_cast<int32_t>(a[r * k + p]) * b[p]);
  for (int r = 0; r < Rows; ++r) c[r * rowStep] = static_cast<int32_t>(sums[r]);
}

} // namespace

void integerDots(const int16_t *a, int64_t rows, const int16_t *b, int64_t columns, int64_t k, int32_t *c,
                 int64_t rowStep, int64_t columnStep) {
  for (int64_t j = 0; j < columns; ++j) {
    int64_t i = 0;
    for (; i + 4 <= rows; i += 4) dotRows<4>(a + i * k, b + j * k, k, c + i * rowStep + j * columnStep, rowStep);
    for (; i < rows; ++i) dotRows<1>(a + i * k, b + j * k, k, c + i * rowStep + j * columnStep, rowStep);
  }
}

IntegerGemm::IntegerGemm(IntegerProduct product) : p_(std::move(product)) {
  byLibrary_ = libraryIsExact() && p_.m > 0 && p_.n > 0 && p_.k > 0;
  if (byLibrary_) {
    prepareLibrary();
    return;
  }
  centred_ = Scratch<int16_t>(bMatrices() * p_.n * p_.k);
  if (p_.constantB) packB(nullptr);
}

int64_t IntegerGemm::bMatrices() const {
  return p_.bMatrix.empty() ? 0 : *std::max_element(p_.bMatrix.begin(), p_.bMatrix.end()) + 1;
}

void IntegerGemm::prepareLibrary() {
  const int64_t m = p_.m, n = p_.n, k = p_.k, matrices = bMatrices();
  const int64_t parts = (m + 127) / 128, tall = (m + parts - 1) / parts; // blocks of about the same height
  setLibraryThreads(1);
  const auto type = p_.a.isSigned ? memory::data_type::s8 : memory::data_type::u8;
  const memory::desc plain({k, n}, memory::data_type::s8, p_.transB ? memory::dims{1, k} : memory::dims{n, 1});
  if (!p_.b.isSigned) shifted_ = Scratch<int8_t>(matrices * k * n);
  columnSums_ = Scratch<int32_t>(matrices * n);
  const auto describe = [&](int64_t rows, const memory::desc &weight) {
    return dnnl::matmul::primitive_desc(
        {{{rows, k}, type, memory::dims{k, 1}}, weight, {{rows, n}, memory::data_type::s32, memory::dims{n, 1}}},
        dnnlAttributes(), dnnlEngine());
  };
  memory::desc weight = plain;
  if (p_.constantB) {
    packB(nullptr);
    // One layout for all blocks: the one that the tall ones want.
    weight = describe(tall, {{k, n}, memory::data_type::s8, memory::format_tag::any}).weights_desc();
    const int8_t *from = p_.b.isSigned ? static_cast<const int8_t *>(p_.b.data) : shifted_.get();
    for (int64_t i = 0; i < matrices; ++i) packed_.push_back(dnnlReordered(plain, from + i * k * n, weight));
    shifted_ = Scratch<int8_t>();
  }
  for (size_t i = 0; i < p_.aMatrix.size(); ++i)
    for (int64_t row = 0; row < m; row += tall) {
      const int64_t rows = std::min(tall, m - row);
      const auto pd = describe(rows, weight);
      Block block{DnnlExecution(pd, dnnl::matmul(pd)), static_cast<int64_t>(i), row, rows};
      block.execution.bind(DNNL_ARG_SRC, pd.src_desc(), nullptr);
      block.execution.bind(DNNL_ARG_DST, pd.dst_desc(), nullptr);
      block.execution.bind(DNNL_ARG_WEIGHTS, pd.weights_desc(),
                           p_.constantB ? packed_[static_cast<size_t>(p_.bMatrix[i])].get() : nullptr);
      blocks_.push_back(std::move(block));
    }
}

void IntegerGemm::sumColumns(int64_t matrix) {
  const int32_t shift = p_.b.isSigned ? 0 : 128;
  int32_t *sums = columnSums_.get() + matrix * p_.n;
  std::fill_n(sums, p_.n, 0);
  for (int64_t r = 0; r < p_.k; ++r)
    for (int64_t j = 0; j < p_.n; ++j)
      sums[j] = static_cast<int32_t>(wide(sums[j]) + wide(p_.b.at(p_.bAt(matrix, r, j)) - shift));
}

/// What depends on b alone. `ctx` is null while binding.
void IntegerGemm::packB(DeviceCtx *ctx) {
  if (isPacked_) return;
  const int64_t n = p_.n, k = p_.k, matrices = bMatrices();
  const auto pack = [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t matrix = t / n, j = t % n;
      const int32_t zero = p_.bZero.at(j);
      int16_t *to = centred_.get() + t * k;
      for (int64_t r = 0; r < k; ++r) to[r] = static_cast<int16_t>(p_.b.at(p_.bAt(matrix, r, j)) - zero);
    }
  };
  if (byLibrary_) {
    for (int64_t i = 0; i < matrices; ++i) sumColumns(i);
    if (!p_.b.isSigned)
      for (int64_t i = 0; i < matrices * k * n; ++i) shifted_.get()[i] = static_cast<int8_t>(p_.b.at(i) - 128);
  } else if (ctx) {
    ctx->parallelFor(matrices * n, 64, pack);
  } else {
    pack(0, matrices * n);
  }
  isPacked_ = p_.constantB;
}

/// The zero points' part and the bias, which the library's products are without.
void IntegerGemm::finishRows(const Block &block, int32_t *c) const {
  const int64_t n = p_.n, k = p_.k, product = block.product;
  const int32_t shift = p_.b.isSigned ? 0 : 128;
  const bool centresA = !p_.aZero.allZero(), centresB = shift != 0 || !p_.bZero.allZero();
  if (!centresA && !centresB && !p_.bias) return;
  const auto matrix = static_cast<size_t>(product);
  const int32_t *sums = columnSums_.get() + p_.bMatrix[matrix] * n;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t row = block.row + r, at = (p_.aMatrix[matrix] * p_.m + row) * k;
    const uint32_t aZero = wide(p_.aZero.at(row));
    uint32_t rowSum = 0;
    for (int64_t p = 0; centresB && p < k; ++p) rowSum += wide(p_.a.at(at + p));
    int32_t *to = c + r * n;
    const uint32_t rest = rowSum - aZero * static_cast<uint32_t>(k);
    for (int64_t j = 0; j < n; ++j) {
      uint32_t sum = wide(to[j]) - aZero * wide(sums[j]);
      if (centresB) sum -= wide(p_.bZero.at(j) - shift) * rest;
      if (p_.bias) sum += wide(p_.bias[j]);
      to[j] = static_cast<int32_t>(sum);
    }
  }
}

void IntegerGemm::runLibrary(DeviceCtx *ctx, int32_t *c) {
  if (!p_.constantB) packB(ctx);
  const int8_t *b = p_.b.isSigned ? static_cast<const int8_t *>(p_.b.data) : shifted_.get();
  FirstException failure;
  ctx->parallelFor(static_cast<int64_t>(blocks_.size()), 1, [&](int64_t begin, int64_t end) {
    setLibraryThreads(1);
    for (int64_t i = begin; i < end; ++i)
      failure.guard([&] {
        Block &block = blocks_[static_cast<size_t>(i)];
        const auto at = static_cast<size_t>(block.product);
        int32_t *to = c + (block.product * p_.m + block.row) * p_.n;
        block.execution.rebind(DNNL_ARG_SRC,
                               static_cast<const char *>(p_.a.data) + (p_.aMatrix[at] * p_.m + block.row) * p_.k);
        if (!p_.constantB) block.execution.rebind(DNNL_ARG_WEIGHTS, b + p_.bMatrix[at] * p_.k * p_.n);
        block.execution.rebind(DNNL_ARG_DST, to);
        block.execution.execute();
        finishRows(block, to);
      });
  });
  setLibraryThreads(ctx->threads());
  failure.rethrow();
}

void IntegerGemm::runDots(DeviceCtx *ctx, int32_t *c) {
  packB(ctx);
  const int64_t m = p_.m, n = p_.n, k = p_.k, tall = 16, blocks = (m + tall - 1) / tall;
  ctx->parallelFor(static_cast<int64_t>(p_.aMatrix.size()) * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> rows(static_cast<size_t>(tall * k));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t product = t / blocks, row = t % blocks * tall, count = std::min(tall, m - row);
      const auto at = static_cast<size_t>(product);
      for (int64_t r = 0; r < count; ++r) {
        const int32_t zero = p_.aZero.at(row + r);
        const int64_t from = (p_.aMatrix[at] * m + row + r) * k;
        for (int64_t p = 0; p < k; ++p)
          rows[static_cast<size_t>(r * k + p)] = static_cast<int16_t>(p_.a.at(from + p) - zero);
      }
      int32_t *to = c + (product * m + row) * n;
      integerDots(rows.data(), count, centred_.get() + p_.bMatrix[at] * n * k, n, k, to, n, 1);
      for (int64_t i = 0; p_.bias && i < count * n; ++i)
        to[i] = static_cast<int32_t>(wide(to[i]) + wide(p_.bias[i % n]));
    }
  });
}

void IntegerGemm::run(DeviceCtx *ctx, int32_t *c) {
  if (byLibrary_)
    runLibrary(ctx, c);
  else
    runDots(ctx, c);
}

} // namespace opc::cpu
