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

IntegerGemm::IntegerGemm(IntegerProduct product, int threads) : p_(std::move(product)) {
  byLibrary_ = libraryIsExact() && p_.m > 0 && p_.n > 0 && p_.k > 0;
  more_ = Scratch<int32_t>(bMatrices() * p_.n);
  zeros_ = Scratch<float>(p_.n);
  if (byLibrary_) {
    prepareLibrary(threads);
    return;
  }
  centred_ = Scratch<int16_t>(bMatrices() * p_.n * p_.k);
  if (p_.constantB) packB(nullptr);
}

int64_t IntegerGemm::bMatrices() const {
  return p_.bMatrix.empty() ? 0 : *std::max_element(p_.bMatrix.begin(), p_.bMatrix.end()) + 1;
}

bool IntegerGemm::hasEqualRows() const { return p_.aZero.count <= 1 && p_.b.isSigned && p_.bZero.allZero(); }

dnnl::matmul::primitive_desc IntegerGemm::describe(int64_t rows, int64_t columns, const memory::desc &weight) const {
  const auto type = p_.a.isSigned ? memory::data_type::s8 : memory::data_type::u8;
  const memory::dims steps{isPlain() ? p_.n : columns, 1};
  return dnnl::matmul::primitive_desc(
      {{{rows, p_.k}, type, memory::dims{p_.k, 1}}, weight, {{rows, columns}, memory::data_type::s32, steps}},
      dnnlAttributes(), dnnlEngine());
}

/// A constant b is packed in parts of columns that stay in the cache with the sums of their block. One layout for all
/// blocks of a part: the one that the tall ones want.
void IntegerGemm::prepareParts(int64_t tall) {
  const int64_t n = p_.n, k = p_.k, matrices = bMatrices();
  const memory::dims steps = p_.transB ? memory::dims{1, k} : memory::dims{n, 1};
  if (!p_.constantB) {
    parts_.push_back({0, n, memory::desc({k, n}, memory::data_type::s8, steps), {}});
    return;
  }
  packB(nullptr);
  const int64_t count = n < 256 ? 1 : std::max<int64_t>(2, (n + 511) / 512),
                width = ((n + count - 1) / count + 63) / 64 * 64;
  const int8_t *from = p_.b.isSigned ? static_cast<const int8_t *>(p_.b.data) : shifted_.get();
  for (int64_t column = 0; column < n; column += width) {
    const int64_t columns = std::min(width, n - column);
    const memory::desc plain({k, columns}, memory::data_type::s8,
                             p_.transB ? memory::dims{1, k} : memory::dims{columns, 1});
    Part part{column,
              columns,
              describe(tall, columns, {{k, columns}, memory::data_type::s8, memory::format_tag::any}).weights_desc(),
              {}};
    Scratch<int8_t> dense(p_.transB ? 0 : k * columns); // the library reorders no columns that lie apart
    for (int64_t i = 0; i < matrices; ++i) {
      const int8_t *first = from + p_.bAt(i, 0, column);
      for (int64_t r = 0; !p_.transB && r < k; ++r) std::copy_n(first + r * n, columns, dense.get() + r * columns);
      part.packed.push_back(dnnlReordered(plain, p_.transB ? first : dense.get(), part.layout));
    }
    parts_.push_back(std::move(part));
  }
  shifted_ = Scratch<int8_t>();
}

void IntegerGemm::prepareLibrary(int threads) {
  const int64_t m = p_.m, count = (m + 127) / 128, tall = (m + count - 1) / count; // blocks of about the same height
  setLibraryThreads(1);
  if (!p_.b.isSigned) shifted_ = Scratch<int8_t>(bMatrices() * p_.k * p_.n);
  columnSums_ = Scratch<int32_t>(bMatrices() * p_.n);
  prepareParts(tall);
  for (size_t i = 0; i < p_.aMatrix.size(); ++i)
    for (size_t part = 0; part < parts_.size(); ++part)
      for (int64_t row = 0; row < m; row += tall) {
        const int64_t rows = std::min(tall, m - row);
        blocks_.push_back(
            {static_cast<int64_t>(i), row, rows, parts_[part].column, parts_[part].columns, part * 2 + (rows < tall)});
      }
  workers_.resize(static_cast<size_t>(std::min<int64_t>(threads, static_cast<int64_t>(blocks_.size()))));
  for (Worker &worker : workers_) {
    if (!isPlain()) worker.sums = Scratch<int32_t>(tall * parts_[0].columns);
    worker.executions.resize(parts_.size() * 2);
    for (const Block &block : blocks_) {
      std::optional<DnnlExecution> &execution = worker.executions[block.kind];
      if (execution) continue;
      const auto pd = describe(block.rows, block.columns, parts_[block.kind / 2].layout);
      execution.emplace(pd, dnnl::matmul(pd));
      execution->bind(DNNL_ARG_SRC, pd.src_desc(), nullptr);
      execution->bind(DNNL_ARG_WEIGHTS, pd.weights_desc(), nullptr);
      execution->bind(DNNL_ARG_DST, pd.dst_desc(), nullptr);
    }
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

/// The biases, and with them what zero points that are the same in all rows take off.
void IntegerGemm::addZeroPoints() {
  const bool byColumns = byLibrary_ && hasEqualRows();
  const uint32_t aZero = byColumns ? wide(p_.aZero.at(0)) : 0;
  const int64_t matrices = bMatrices();
  writeZeroPoints(p_.finish, p_.n, zeros_.get());
  for (int64_t i = 0; i < matrices; ++i)
    for (int64_t j = 0; j < p_.n; ++j) {
      uint32_t more = wide(p_.bias && (byColumns || !byLibrary_) ? p_.bias[j] : 0);
      if (byColumns) more -= aZero * wide(columnSums_.get()[i * p_.n + j]);
      more_.get()[i * p_.n + j] = static_cast<int32_t>(more);
    }
}

/// The zero points' part and the bias, which the library's products are without.
void IntegerGemm::finishRows(const Block &block, int32_t *sumsOfBlock, int64_t step) const {
  const int64_t k = p_.k, product = block.product;
  const int32_t shift = p_.b.isSigned ? 0 : 128;
  const bool centresA = !p_.aZero.allZero(), centresB = shift != 0 || !p_.bZero.allZero();
  if (!centresA && !centresB && !p_.bias) return;
  const auto matrix = static_cast<size_t>(product);
  const int32_t *sums = columnSums_.get() + p_.bMatrix[matrix] * p_.n;
  for (int64_t r = 0; r < block.rows; ++r) {
    const int64_t row = block.row + r, at = (p_.aMatrix[matrix] * p_.m + row) * k;
    const uint32_t aZero = wide(p_.aZero.at(row));
    uint32_t rowSum = 0;
    for (int64_t p = 0; centresB && p < k; ++p) rowSum += wide(p_.a.at(at + p));
    int32_t *to = sumsOfBlock + r * step - block.column;
    const uint32_t rest = rowSum - aZero * static_cast<uint32_t>(k);
    for (int64_t j = block.column; j < block.column + block.columns; ++j) {
      uint32_t sum = wide(to[j]) - aZero * wide(sums[j]);
      if (centresB) sum -= wide(p_.bZero.at(j) - shift) * rest;
      if (p_.bias) sum += wide(p_.bias[j]);
      to[j] = static_cast<int32_t>(sum);
    }
  }
}

void IntegerGemm::runBlock(Worker &worker, const Block &block, void *c) {
  const auto product = static_cast<size_t>(block.product);
  const int64_t matrix = p_.bMatrix[product], row = block.product * p_.m + block.row, first = row * p_.n + block.column;
  const Part &part = parts_[block.kind / 2];
  const int8_t *b = p_.b.isSigned ? static_cast<const int8_t *>(p_.b.data) : shifted_.get();
  int32_t *sums = isPlain() ? static_cast<int32_t *>(c) + first : worker.sums.get();
  DnnlExecution &execution = *worker.executions[block.kind];
  execution.rebind(DNNL_ARG_SRC,
                   static_cast<const char *>(p_.a.data) + (p_.aMatrix[product] * p_.m + block.row) * p_.k);
  execution.rebind(DNNL_ARG_WEIGHTS, p_.constantB
                                         ? static_cast<const void *>(part.packed[static_cast<size_t>(matrix)].get())
                                         : b + matrix * p_.k * p_.n);
  execution.rebind(DNNL_ARG_DST, sums);
  execution.execute();
  if (isPlain()) return finishRows(block, sums, p_.n);
  if (!hasEqualRows()) finishRows(block, sums, block.columns);
  finishSums(p_.finish, {sums, block.rows, block.columns, block.columns, block.column, more_.get() + matrix * p_.n,
                         zeros_.get(), static_cast<char *>(c) + first * p_.finish.elementBytes(), p_.n, 1});
}

void IntegerGemm::runLibrary(DeviceCtx *ctx, void *c) {
  if (!p_.constantB) packB(ctx);
  if (!isPlain()) addZeroPoints();
  forEachTask(ctx, static_cast<int64_t>(blocks_.size()), workers_.size(),
              [&](size_t worker, int64_t task) { runBlock(workers_[worker], blocks_[static_cast<size_t>(task)], c); });
}

void IntegerGemm::runDots(DeviceCtx *ctx, void *c) {
  packB(ctx);
  addZeroPoints();
  const int64_t m = p_.m, n = p_.n, k = p_.k, tall = 16, blocks = (m + tall - 1) / tall;
  ctx->parallelFor(static_cast<int64_t>(p_.aMatrix.size()) * blocks, 1, [&](int64_t begin, int64_t end) {
    std::vector<int16_t> rows(static_cast<size_t>(tall * k));
    std::vector<int32_t> sums(static_cast<size_t>(tall * n));
    for (int64_t t = begin; t < end; ++t) {
      const int64_t product = t / blocks, row = t % blocks * tall, count = std::min(tall, m - row);
      const auto at = static_cast<size_t>(product);
      for (int64_t r = 0; r < count; ++r) {
        const int32_t zero = p_.aZero.at(row + r);
        const int64_t from = (p_.aMatrix[at] * m + row + r) * k;
        for (int64_t p = 0; p < k; ++p)
          rows[static_cast<size_t>(r * k + p)] = static_cast<int16_t>(p_.a.at(from + p) - zero);
      }
      integerDots(rows.data(), count, centred_.get() + p_.bMatrix[at] * n * k, n, k, sums.data(), n, 1);
      finishSums(p_.finish, {sums.data(), count, n, n, 0, more_.get() + p_.bMatrix[at] * n, zeros_.get(),
                             static_cast<char *>(c) + (product * m + row) * n * p_.finish.elementBytes(), n, 1});
    }
  });
}

void IntegerGemm::run(DeviceCtx *ctx, void *c) {
  if (byLibrary_)
    runLibrary(ctx, c);
  else
    runDots(ctx, c);
}

} // namespace opc::cpu
