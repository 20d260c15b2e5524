// Shape, dtype and sharding rules of the matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "MatrixProduct.h"

namespace opc::ops {

Error dtypeMismatch(const std::string &argA, const TensorDesc &a, const std::string &argB, const TensorDesc &b) {
  return Error::TypeError().id("OPC0204") << argA << " is " << a.toString() << " and " << argB << " is " << b.toString()
                                          << ": their element types must be the same";
}

namespace {

struct Matrix {
  int64_t rows, columns;
};
Matrix matrixOf(const TensorDesc &d, bool transpose) {
  const int64_t r = d.shape().NumAxes();
  Matrix m{d.shape().At(r - 2), d.shape().At(r - 1)};
  if (transpose) std::swap(m.rows, m.columns);
  return m;
}

/// Leading dimensions of the result, or an error.
Maybe<DimVector> batchDims(const TensorDesc &a, const TensorDesc &b, BatchRule rule) {
  const DimVector da(a.shape().begin(), a.shape().end() - 2), db(b.shape().begin(), b.shape().end() - 2);
  if (rule == BatchRule::kEqual) {
    if (da == db) return da;
    return Error::ShapeMismatch().help("broadcast_matmul repeats a matrix over the batch")
           << "batch dimensions differ: a is " << a.toString() << ", b is " << b.toString();
  }
  const size_t rank = std::max(da.size(), db.size());
  DimVector out(rank);
  for (size_t i = 0; i < rank; ++i) {
    const int64_t x = i < rank - da.size() ? 1 : da[i - (rank - da.size())];
    const int64_t y = i < rank - db.size() ? 1 : db[i - (rank - db.size())];
    if (x != y && x != 1 && y != 1)
      return Error::ShapeMismatch() << "batch dimensions do not broadcast (" << x << " vs " << y << "): a is "
                                    << a.toString() << ", b is " << b.toString();
    out[i] = x == 1 ? y : x;
  }
  return out;
}

/// What to change so that the inner dimensions meet; empty when nothing simple does.
std::string transposeHelp(const TensorDesc &a, const TensorDesc &b, bool ta, bool tb, const DimVector &batch) {
  const auto attempt = [&](bool flipA, bool flipB) -> std::string {
    const Matrix x = matrixOf(a, ta != flipA), y = matrixOf(b, tb != flipB);
    if (x.columns != y.rows) return "";
    DimVector dims = batch;
    dims.push_back(x.rows);
    dims.push_back(y.columns);
    const auto set = [](const char *name, bool value) { return std::string(name) + ": " + (value ? "true" : "false"); };
    std::string change;
    if (flipA) change = set("transpose_a", !ta);
    if (flipB) change += (change.empty() ? "" : " and ") + set("transpose_b", !tb);
    return change + " would give " + TensorDesc(Shape(dims), a.data_type()).toString();
  };
  for (auto [fa, fb] : {std::pair{false, true}, {true, false}, {true, true}})
    if (std::string help = attempt(fa, fb); !help.empty()) return help;
  return "";
}

} // namespace

Maybe<void> inferMatrixProduct(InferContext *ctx, BatchRule rule) {
  const TensorDesc givenA = ctx->In("a"), givenB = ctx->In("b");
  const int64_t ra = givenA.shape().NumAxes(), rb = givenB.shape().NumAxes();
  if (rule == BatchRule::kAny && (ra < 1 || rb < 1))
    return Error::ShapeMismatch().help("scalar_mul_by_tensor multiplies by a number")
           << "a and b must have rank 1 or more: a is " << givenA.toString() << ", b is " << givenB.toString();
  const bool isAny = rule == BatchRule::kAny;
  const TensorDesc a(isAny ? matricesOf(givenA.shape(), true) : givenA.shape(), givenA.data_type());
  const TensorDesc b(isAny ? matricesOf(givenB.shape(), false) : givenB.shape(), givenB.data_type());
  const bool ta = isTransposed(givenA.shape(), ctx->Attr<bool>("transpose_a"));
  const bool tb = isTransposed(givenB.shape(), ctx->Attr<bool>("transpose_b"));
  if (rule == BatchRule::kEqual && (ra < 3 || ra != rb))
    return Error::ShapeMismatch().help(ra == 2 && rb == 2 ? "matmul multiplies two matrices"
                                                          : "broadcast_matmul takes different ranks")
           << "a and b must have the same rank, 3 or more: a is " << a.toString() << ", b is " << b.toString();
  if (rule == BatchRule::kBroadcast && (ra < 2 || rb < 2))
    return Error::ShapeMismatch().help("matrix_vector_product, vector_matrix_product and dot take vectors")
           << "a and b must have rank 2 or more: a is " << a.toString() << ", b is " << b.toString();
  if (a.data_type() != b.data_type()) return dtypeMismatch("a", givenA, "b", givenB).help("cast one of them");
  const DimVector batch = JUST(batchDims(a, b, rule));
  const Matrix ma = matrixOf(a, ta), mb = matrixOf(b, tb);
  if (ma.columns != mb.rows) {
    const auto shown = [](const char *name, const TensorDesc &d, bool t) {
      return name + d.toString() + (t ? " transposed" : "");
    };
    return Error::ShapeMismatch().help(ra > 1 && rb > 1 ? transposeHelp(a, b, ta, tb, batch) : "")
           << "inner dimensions differ (" << ma.columns << " vs " << mb.rows << "): " << shown("a is ", givenA, ta)
           << ", " << shown("b is ", givenB, tb);
  }
  const double alpha = ctx->Attr<double>("alpha");
  if (IsIntegralDataType(a.data_type()) && alpha != static_cast<double>(static_cast<int64_t>(alpha)))
    return Error::InvalidValueError().id("OPC0205")
           << "alpha is " << alpha << ", but a product of " << dataTypeName(a.data_type()) << " needs a whole number";
  DimVector dims = batch;
  if (!isAny || ra > 1) dims.push_back(ma.rows);
  if (!isAny || rb > 1) dims.push_back(mb.columns);
  const TensorDesc out(Shape(dims), a.data_type());
  if (ctx->Has("_add_to_output") && ctx->In("_add_to_output") != out)
    return Error::ShapeMismatch() << "_add_to_output is " << ctx->In("_add_to_output").toString() << ", the product is "
                                  << out.toString();
  return setOut(ctx, "out", out);
}

Maybe<ShardingRule> matrixProductSharding(const SbpContext &ctx) {
  const Shape &sa = ctx.In("a").shape(), &sb = ctx.In("b").shape();
  AxisFactors a{"k"}, b{"k"}, out{"..."}; // a vector has the summed dimension alone
  if (sa.NumAxes() > 1) {
    a = isTransposed(sa, ctx.Attr<bool>("transpose_a")) ? AxisFactors{"...", "k", "m"} : AxisFactors{"...", "m", "k"};
    out.push_back("m");
  }
  if (sb.NumAxes() > 1) {
    b = isTransposed(sb, ctx.Attr<bool>("transpose_b")) ? AxisFactors{"...", "n", "k"} : AxisFactors{"...", "k", "n"};
    out.push_back("n");
  }
  AxisFactors first(out.begin() + 1, out.end());
  first.push_back("k");
  return inOrder(first, shardingRule({a, b, added(out)}, {out}, Sum("k"), Linear({0}), Linear({1})));
}

} // namespace opc::ops
