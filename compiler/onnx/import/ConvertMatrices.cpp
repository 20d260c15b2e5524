// ONNX's products of matrices.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <algorithm>
#include <map>

namespace opc::onnx {

namespace {

bool is64Bits(DataType type) { return type == kInt64 || type == kUInt64; }

/// Products of matrices of 64-bit integers, which no kernel multiplies, by sums of products that wrap around; where
/// these would be many by f64, exact below 2^53.
Term summedProducts(Conversion &c, const Term &a, const Term &b) {
  constexpr int64_t kMostTerms = int64_t{1} << 24;
  DimVector left = a->shape().dim_vec(), right = b->shape().dim_vec();
  left.push_back(1), right.insert(right.end() - 2, 1);
  const Shape all = broadcastShape(c, {Shape(left), Shape(right)});
  if (all.elem_cnt() > kMostTerms) return c.cast(product(c, c.cast(a, kDouble), c.cast(b, kDouble)), a->type());
  const Term terms = c.op("broadcast_mul", {c.reshape(a, left), c.reshape(b, right)});
  return reduced(c, "reduce_sum", terms, {all.NumAxes() - 2}, false);
}

} // namespace

Term product(Conversion &c, Term a, Term b) {
  if (a->rank() == 0 || b->rank() == 0) c.invalid("a scalar is no matrix");
  const bool isRow = a->rank() == 1, isColumn = b->rank() == 1;
  if (isRow) a = c.reshape(a, {1, a->dim(0)});
  if (isColumn) b = c.reshape(b, {b->dim(0), 1});
  if (a->dim(-1) != b->dim(-2))
    c.invalid("a matrix of " + std::to_string(a->dim(-1)) + " columns times one of " + std::to_string(b->dim(-2)) +
              " rows");
  Term y;
  if (is64Bits(a->type())) {
    y = summedProducts(c, a, b);
  } else if (a->rank() == 2 && b->rank() == 2) {
    y = c.op("matmul", {a, b});
  } else if (b->rank() == 2) {
    y = c.op("broadcast_matmul", {a, b});
  } else {
    const auto batch = [](const Term &t) {
      return Shape(DimVector(t->shape().dim_vec().begin(), t->shape().dim_vec().end() - 2));
    };
    const Shape all = broadcastShape(c, {batch(a), batch(b)});
    const auto over = [&](const Term &t) {
      DimVector dims = all.dim_vec();
      dims.push_back(t->dim(-2)), dims.push_back(t->dim(-1));
      return c.expand(t, Shape(dims));
    };
    y = c.op("batch_matmul", {over(a), over(b)});
  }
  if (!isRow && !isColumn) return y;
  DimVector dims = y->shape().dim_vec();
  if (isColumn) dims.pop_back();
  if (isRow) dims.erase(dims.end() - (isColumn ? 1 : 2));
  return c.reshape(y, dims);
}

namespace {

/// Products of integers wrap around: those of 32 bits and less as they do in i32.
Term anyProduct(Conversion &c, const Term &a, const Term &b) {
  if (a->isFloating() || a->type() == kInt32 || is64Bits(a->type())) return product(c, a, b);
  return c.cast(product(c, c.cast(a, kInt32), c.cast(b, kInt32)), a->type());
}

void convertGemm(Conversion &c) {
  const Term a = c.in(0), b = c.in(1);
  if (a->rank() != 2 || b->rank() != 2)
    c.invalid("matrices are wanted, not " + a->shape().ToString() + " and " + b->shape().ToString());
  const double alpha = c.f("alpha", 1), beta = c.f("beta", 1);
  const bool transA = c.flag("transA", false), transB = c.flag("transB", false);
  if (!transA && alpha == 1 && (!c.has(2) || beta == 0 || beta == 1))
    if (const Term sums = multipliedIntegers(c, a, b, transB, c.has(2) && beta == 1 ? c.in(2) : nullptr))
      return c.out(sums);
  Term y;
  if (a->isFloating()) {
    y = c.op("matmul", {a, b}, {{"transpose_a", transA}, {"transpose_b", transB}, {"alpha", alpha}});
  } else {
    y = anyProduct(c, transA ? c.transpose(a, {1, 0}) : a, transB ? c.transpose(b, {1, 0}) : b);
    if (alpha != 1) y = c.cast(c.scaled(c.cast(y, kDouble), alpha), a->type());
  }
  if (!c.has(2) || beta == 0) return c.out(y);
  c.checkStretches(2, y->shape());
  Term added = c.in(2);
  if (beta != 1)
    added = added->isFloating() ? c.scaled(added, beta) : c.cast(c.scaled(c.cast(added, kDouble), beta), added->type());
  c.out(c.op("broadcast_add", {y, added}));
}

// Einsum ----------------------------------------------------------------------------------------------------------

/// An operand with a letter for each axis.
struct Lettered {
  Term value;
  std::string axes;
};

/// Sums over axes of letters that are not in `keep`, and takes the diagonal of repeated ones.
Lettered reducedTo(Conversion &c, Lettered x, const std::string &keep) {
  for (size_t k = 0; k < x.axes.size();) {
    const size_t again = x.axes.find(x.axes[k], k + 1);
    if (again == std::string::npos) {
      ++k;
      continue;
    }
    // The two axes last, their diagonal behind the others.
    std::vector<int64_t> perm;
    std::string rest;
    for (size_t j = 0; j < x.axes.size(); ++j)
      if (j != k && j != again) perm.push_back(static_cast<int64_t>(j)), rest += x.axes[j];
    perm.push_back(static_cast<int64_t>(k)), perm.push_back(static_cast<int64_t>(again));
    const Term y = c.transpose(x.value, perm);
    const int64_t n = y->dim(-1), outer = y->shape().Count(0, y->rank() - 2);
    if (y->dim(-2) != n) c.invalid(std::string("letter ") + x.axes[k] + " stands for two sizes");
    DimVector dims(y->shape().dim_vec().begin(), y->shape().dim_vec().end() - 2);
    std::vector<int64_t> places;
    for (int64_t j = 0; j < n; ++j) places.push_back(j * (n + 1));
    dims.push_back(n);
    x = {c.reshape(
             c.op("gather", {c.reshape(y, {outer, n * n}), c.constant(places, Shape({n}))}, {{"axis", int64_t{1}}}),
             dims),
         rest + x.axes[k]};
    k = 0;
  }
  std::vector<int64_t> summed;
  std::string left;
  for (size_t k = 0; k < x.axes.size(); ++k)
    if (keep.find(x.axes[k]) == std::string::npos)
      summed.push_back(static_cast<int64_t>(k));
    else
      left += x.axes[k];
  if (summed.empty()) return x;
  return {reduced(c, "reduce_sum", x.value, summed, false), left};
}

Term ordered(Conversion &c, const Lettered &x, const std::string &axes) {
  std::vector<int64_t> perm;
  for (char letter : axes) perm.push_back(static_cast<int64_t>(x.axes.find(letter)));
  return c.transpose(x.value, perm);
}

/// The sum over letters of both that are not in `keep`, as a batched product of matrices.
Lettered contracted(Conversion &c, Lettered a, Lettered b, const std::string &keep) {
  a = reducedTo(c, a, keep + b.axes), b = reducedTo(c, b, keep + a.axes);
  std::string batch, left, right, both;
  std::map<char, int64_t> size;
  for (size_t k = 0; k < a.axes.size(); ++k) size[a.axes[k]] = a.value->dim(static_cast<int64_t>(k));
  for (size_t k = 0; k < b.axes.size(); ++k) {
    int64_t &n = size.emplace(b.axes[k], 1).first->second;
    if (n == 1) n = b.value->dim(static_cast<int64_t>(k));
  }
  for (char l : a.axes)
    (b.axes.find(l) == std::string::npos ? left : keep.find(l) != std::string::npos ? batch : both) += l;
  for (char l : b.axes)
    if (a.axes.find(l) == std::string::npos) right += l;
  const auto count = [&](const std::string &letters) {
    int64_t n = 1;
    for (char l : letters) n *= size[l];
    return n;
  };
  const auto dims = [&](const std::string &letters) {
    DimVector list;
    for (char l : letters) list.push_back(size[l]);
    return list;
  };
  const auto side = [&](const Lettered &x, const std::string &axes, int64_t rows, int64_t columns) {
    return c.reshape(c.expand(ordered(c, x, axes), Shape(dims(axes))), {count(batch), rows, columns});
  };
  const Term y = anyProduct(c, side(a, batch + left + both, count(left), count(both)),
                            side(b, batch + both + right, count(both), count(right)));
  return {c.reshape(y, dims(batch + left + right)), batch + left + right};
}

/// Letters for the axes of "..." that no equation has: from '0' on, the last axis first.
std::string expandDots(Conversion &c, const std::string &term, int64_t rank, size_t *most) {
  const size_t dots = term.find("...");
  if (dots == std::string::npos) {
    if (rank >= 0 && static_cast<int64_t>(term.size()) != rank)
      c.invalid("'" + term + "' names " + std::to_string(term.size()) + " axes of a tensor of rank " +
                std::to_string(rank));
    return term;
  }
  const int64_t hidden = rank >= 0 ? rank - static_cast<int64_t>(term.size()) + 3 : static_cast<int64_t>(*most);
  if (hidden < 0 || hidden > 9) c.invalid("'" + term + "' does not fit a tensor of rank " + std::to_string(rank));
  *most = std::max(*most, static_cast<size_t>(hidden));
  std::string letters;
  for (int64_t k = hidden; k-- > 0;) letters += static_cast<char>('0' + k);
  return term.substr(0, dots) + letters + term.substr(dots + 3);
}

void convertEinsum(Conversion &c) {
  std::string equation = c.s("equation", "");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  const size_t arrow = equation.find("->");
  std::vector<std::string> terms(1);
  for (char l : equation.substr(0, arrow)) {
    if (l == ',')
      terms.emplace_back();
    else
      terms.back() += l;
  }
  const auto all = c.all();
  if (terms.size() != all.size())
    c.invalid("'" + equation + "' is about " + std::to_string(terms.size()) + " operands, and there are " +
              std::to_string(all.size()));
  std::vector<Lettered> operands;
  size_t most = 0;
  std::map<char, int> times;
  for (size_t k = 0; k < all.size(); ++k) {
    operands.push_back({all[k], expandDots(c, terms[k], all[k]->rank(), &most)});
    for (char l : operands.back().axes) ++times[l];
  }
  std::string result;
  if (arrow != std::string::npos) {
    result = expandDots(c, equation.substr(arrow + 2), -1, &most);
  } else {
    for (size_t k = most; k-- > 0;) result += static_cast<char>('0' + k);
    for (const auto &[letter, n] : times)
      if (n == 1 && !(letter >= '0' && letter <= '9')) result += letter;
  }
  for (char l : result)
    if (!times.count(l)) c.invalid(std::string("letter ") + l + " of the result is in no operand");
  // Several sums of half precision's numbers, one of another: those in between are of f32.
  const DataType type = all[0]->type();
  bool areSeveral = operands.size() > 2;
  for (const auto &[letter, n] : times)
    areSeveral |= operands.size() == 2 && n == 1 && result.find(letter) == std::string::npos;
  for (Lettered &operand : operands)
    if (areSeveral && (type == kFloat16 || type == kBFloat16)) operand.value = c.cast(operand.value, kFloat);
  Lettered x = operands[0];
  for (size_t k = 1; k < operands.size(); ++k) {
    std::string keep = result;
    for (size_t j = k + 1; j < operands.size(); ++j) keep += operands[j].axes;
    x = contracted(c, x, operands[k], keep);
  }
  x = reducedTo(c, x, result);
  c.out(c.cast(ordered(c, x, result), type));
}

} // namespace

void addMatrices(ConverterTable *t) {
  t->add(
      "MatMul",
      [](Conversion &c) {
        const Term sums = multipliedIntegers(c, c.in(0), c.in(1), false, nullptr);
        c.out(sums ? sums : anyProduct(c, c.in(0), c.in(1)));
      },
      "matmul, broadcast_matmul, batch_matmul", "64-bit integers beyond 2^53 in more than 2^24 products");
  t->add("Gemm", convertGemm, "matmul, broadcast_add");
  t->add("Einsum", convertEinsum, "transpose, reshape, batch_matmul, reduce_sum");
}

} // namespace opc::onnx
