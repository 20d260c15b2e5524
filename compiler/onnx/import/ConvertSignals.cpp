// ONNX's texts of numbers, as products with constant matrices; determinants.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <numeric>

namespace opc::onnx {
namespace {

constexpr int64_t kMostCells = 1 << 23; // of a constant matrix

// TfIdfVectorizer -----------------------------------------------------------------------------------------------------

struct NGrams {
  std::vector<std::vector<int64_t>> items;
  std::vector<int64_t> columns; // of each its column
  std::vector<double> weights;
  int64_t width = 0;
};

/// The pool's sequences of `size` numbers; ngram_counts says where those of each size begin.
NGrams gramsOf(const Conversion &c, int64_t size) {
  const auto pool = c.ints("pool_int64s", {}), begins = c.ints("ngram_counts", {}),
             columns = c.ints("ngram_indexes", {});
  const auto weights = c.floats("weights");
  NGrams grams;
  int64_t before = 0; // sequences of smaller sizes
  for (size_t k = 0; k < begins.size(); ++k) {
    const int64_t length = static_cast<int64_t>(k) + 1, begin = begins[k];
    const int64_t end = k + 1 < begins.size() ? begins[k + 1] : static_cast<int64_t>(pool.size());
    if (begin < 0 || end < begin || end > static_cast<int64_t>(pool.size()) || (end - begin) % length)
      c.invalid("ngram_counts does not fit its pool");
    const int64_t count = (end - begin) / length;
    for (int64_t g = 0; g < count && length == size; ++g) {
      grams.items.emplace_back(pool.begin() + begin + g * length, pool.begin() + begin + (g + 1) * length);
      const auto at = static_cast<size_t>(before + g);
      if (at >= columns.size() || (!weights.empty() && at >= weights.size()))
        c.invalid("ngram_indexes or weights is too short");
      grams.columns.push_back(columns[at]);
      grams.weights.push_back(weights.empty() ? 1 : weights[at]);
    }
    before += count;
  }
  for (int64_t column : columns) {
    if (column < 0 || column >= kMostCells) c.invalid("ngram_indexes has " + std::to_string(column));
    grams.width = std::max(grams.width, column + 1);
  }
  return grams;
}

/// How often each sequence occurs in the rows of x, [rows, sequences].
Term occurrences(Conversion &c, const Term &x, const NGrams &grams, int64_t size, int64_t mostSkipped) {
  const auto count = static_cast<int64_t>(grams.items.size());
  Term sum = c.expand(c.scalar(kFloat, 0), Shape({x->dim(0), count}));
  for (int64_t step = 1; step <= (size == 1 ? 1 : mostSkipped + 1); ++step) {
    const int64_t places = x->dim(1) - (size - 1) * step;
    if (places < 1) break;
    Term fits;
    for (int64_t k = 0; k < size; ++k) {
      std::vector<int64_t> wanted;
      for (const auto &item : grams.items) wanted.push_back(item[static_cast<size_t>(k)]);
      const Term part = c.reshape(c.slice(x, 1, k * step, k * step + places), {x->dim(0), places, 1});
      const Term equal = c.op("broadcast_equal", {part, c.constant(wanted, Shape({1, 1, count}))});
      fits = fits ? c.op("broadcast_logical_and", {fits, equal}) : equal;
    }
    sum = c.op("broadcast_add", {sum, reduced(c, "reduce_sum", c.cast(fits, kFloat), {1}, false)});
  }
  return sum;
}

void convertTfIdf(Conversion &c) {
  if (c.hasAttr("pool_strings")) c.unsupported("a pool of strings");
  const Term given = c.cast(c.in(0), kInt64);
  if (given->rank() != 1 && given->rank() != 2)
    c.invalid("a row or rows of numbers are wanted, not " + given->shape().ToString());
  const Term x = given->rank() == 1 ? c.reshape(given, {1, given->dim(0)}) : given;
  const std::string mode = c.s("mode", "");
  if (mode.empty()) c.invalid("attribute 'mode' is missing");
  const int64_t skipped = c.required("max_skip_count"), least = c.required("min_gram_length"),
                most = c.required("max_gram_length");
  if (skipped < 0 || skipped > 1024 || least < 1 || most < least || most > 64)
    c.invalid("max_skip_count, min_gram_length or max_gram_length is out of range");
  const int64_t width = gramsOf(c, 0).width;
  Term y = c.expand(c.scalar(kFloat, 0), Shape({x->dim(0), width}));
  for (int64_t size = least; size <= most; ++size) {
    const NGrams grams = gramsOf(c, size);
    const auto count = static_cast<int64_t>(grams.items.size());
    if (count == 0) continue;
    if (count > kMostCells / width)
      c.unsupported("a pool of " + std::to_string(count) + " sequences into " + std::to_string(width) + " columns");
    Term found = occurrences(c, x, grams, size, skipped);
    if (mode == "IDF") found = c.cast(c.op("broadcast_greater", {found, like(c, found, 0)}), kFloat);
    std::vector<double> cells(static_cast<size_t>(count * width), 0);
    for (int64_t g = 0; g < count; ++g)
      cells[static_cast<size_t>(g * width + grams.columns[static_cast<size_t>(g)])] =
          mode == "TF" ? 1 : grams.weights[static_cast<size_t>(g)];
    y = c.op("broadcast_add", {y, c.op("matmul", {found, c.constant(kFloat, Shape({count, width}), cells)})});
  }
  c.out(given->rank() == 1 ? c.reshape(y, {width}) : y);
}

// Det -----------------------------------------------------------------------------------------------------------------

/// Of the rows from `row` on and the columns `columns` of x [.., n, n], by the first of these rows.
Term determinant(Conversion &c, const Term &x, int64_t row, const std::vector<int64_t> &columns,
                 std::map<std::vector<int64_t>, Term> *known) {
  if (const auto found = known->find(columns); found != known->end()) return found->second;
  const auto cell = [&](int64_t column) {
    return c.slice(c.slice(x, x->rank() - 2, row, row + 1), x->rank() - 1, column, column + 1);
  };
  Term sum;
  for (size_t k = 0; k < columns.size(); ++k) {
    std::vector<int64_t> rest = columns;
    rest.erase(rest.begin() + static_cast<int64_t>(k));
    Term part = cell(columns[k]);
    if (!rest.empty()) part = c.op("broadcast_mul", {part, determinant(c, x, row + 1, rest, known)});
    sum = !sum ? part : c.op(k % 2 ? "broadcast_sub" : "broadcast_add", {sum, part});
  }
  return (*known)[columns] = sum;
}

void convertDet(Conversion &c) {
  const Term x = c.in(0);
  if (x->rank() < 2 || x->dim(-1) != x->dim(-2) || x->dim(-1) < 1)
    c.invalid("square matrices are wanted, not " + x->shape().ToString());
  if (x->dim(-1) > 5) c.unsupported("matrices of more than 5 rows");
  std::vector<int64_t> columns(static_cast<size_t>(x->dim(-1)));
  std::iota(columns.begin(), columns.end(), 0);
  std::map<std::vector<int64_t>, Term> known;
  c.out(c.reshape(determinant(c, x, 0, columns, &known),
                  DimVector(x->shape().dim_vec().begin(), x->shape().dim_vec().end() - 2)));
}

} // namespace

void addSignals(ConverterTable *t) {
  t->add("TfIdfVectorizer", convertTfIdf, "broadcast_equal, reduce_sum, matmul with a constant", "strings");
  t->add("Det", convertDet, "broadcast_mul, broadcast_add, broadcast_sub", "more than 5 rows");
}

} // namespace opc::onnx
