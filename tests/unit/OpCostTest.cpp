// The cost of ops and of their pieces against formulas written by hand.
// SPDX-License-Identifier: Apache-2.0
#include "OpCost.h"
#include "PlanBuilder.h"

#include <catch2/catch.hpp>

using namespace opc;

namespace {

using Descs = std::vector<std::pair<std::string, user_op::TensorDesc>>;

/// An op whose outputs follow from its rules, or are given where a piece contradicts the attributes.
OpInstance instance(const std::string &type, const Descs &inputs, const std::map<std::string, AttrValue> &attrs = {},
                    const std::vector<user_op::TensorDesc> &outputs = {}) {
  const user_op::OpDef *def = test::registry().findOp(type);
  REQUIRE(def);
  user_op::OpConf conf;
  conf.name = "test";
  conf.type = type;
  for (const auto &[arg, desc] : inputs) {
    if (conf.inputs.empty() || conf.inputs.back().name != arg) conf.inputs.push_back({arg, {}});
    conf.inputs.back().tensors.push_back("x/" + arg + std::to_string(conf.inputs.back().tensors.size()));
  }
  conf.attrs = attrs;
  const Status completed = completeOpConf(*def, &conf);
  INFO(completed.toString());
  REQUIRE(completed.isOk());
  OpInstance op(*def, conf);
  std::map<std::string, int32_t> seen;
  for (const auto &[arg, desc] : inputs) op.inputDescs()[static_cast<size_t>(op.findInput(arg, seen[arg]++))] = desc;
  if (outputs.empty()) {
    const Status inferred = op.infer();
    INFO(inferred.toString());
    REQUIRE(inferred.isOk());
  } else {
    op.outputDescs() = outputs;
  }
  return op;
}
user_op::TensorDesc f32(Shape s) { return {std::move(s), kFloat}; }

void check(const OpInstance &op, double flops, double bytes) {
  const OpCost cost = costOf(op);
  INFO(op.def().name);
  CHECK(cost.flops == flops);
  CHECK(cost.bytes == bytes);
}

} // namespace

TEST_CASE("the cost of matrix products is two operations a term", "[cost]") {
  check(instance("matmul", {{"a", f32({64, 128})}, {"b", f32({128, 32})}}), 2.0 * 64 * 128 * 32,
        4.0 * (64 * 128 + 128 * 32 + 64 * 32));
  check(instance("matmul", {{"a", f32({128, 64})}, {"b", f32({32, 128})}},
                 {{"transpose_a", AttrValue(true)}, {"transpose_b", AttrValue(true)}}),
        2.0 * 64 * 128 * 32, 4.0 * (64 * 128 + 128 * 32 + 64 * 32));
  check(instance("batch_matmul", {{"a", f32({3, 5, 7, 11})}, {"b", f32({3, 5, 11, 2})}}), 2.0 * 15 * 7 * 11 * 2,
        4.0 * 15 * (77 + 22 + 14));
  check(instance("broadcast_matmul", {{"a", f32({3, 5, 7, 11})}, {"b", f32({11, 2})}}), 2.0 * 15 * 7 * 11 * 2,
        4.0 * (15 * 77 + 22 + 15 * 14));
  check(instance("broadcast_matmul_grad_b", {{"a", f32({6, 5, 7})}, {"b", f32({6, 5, 3})}}), 2.0 * 30 * 7 * 3,
        4.0 * (30 * 7 + 30 * 3 + 21));
  // By their sharding rules.
  check(instance("matrix_vector_product", {{"a", f32({5, 7})}, {"b", f32({7})}}), 2.0 * 35, 4.0 * (35 + 7 + 5));
  check(instance("dot", {{"x", f32({9})}, {"y", f32({9})}}), 2.0 * 9, 4.0 * 19);
  CHECK(costOf(instance("dot", {{"x", f32({9})}, {"y", f32({9})}})).contraction);
  CHECK_FALSE(costOf(instance("relu", {{"x", f32({9})}})).contraction);
  // A row split and a column split of a half each cost half the operations.
  const double whole = costOf(instance("matmul", {{"a", f32({64, 128})}, {"b", f32({128, 32})}})).flops;
  CHECK(costOf(instance("matmul", {{"a", f32({32, 128})}, {"b", f32({128, 32})}})).flops == whole / 2);
  CHECK(costOf(instance("matmul", {{"a", f32({64, 64})}, {"b", f32({64, 32})}})).flops == whole / 2);
}

TEST_CASE("the cost of convolutions and their gradients is two operations a term", "[cost]") {
  using Ints = std::vector<int32_t>;
  const std::map<std::string, AttrValue> attrs = {{"filters", AttrValue(int32_t{16})},
                                                  {"kernel_size", AttrValue(Ints{3, 3})},
                                                  {"padding_before", AttrValue(Ints{1, 1})}};
  const double terms = 2.0 * (2 * 16 * 10 * 12) * (8 * 9);
  check(instance("conv2d", {{"in", f32({2, 8, 10, 12})}, {"weight", f32({16, 8, 3, 3})}}, attrs), terms,
        4.0 * (2 * 8 * 120 + 16 * 72 + 2 * 16 * 120));
  // Half of the filters, which the attribute `filters` contradicts; and half of the channels.
  check(instance("conv2d", {{"in", f32({2, 8, 10, 12})}, {"weight", f32({8, 8, 3, 3})}}, attrs, {f32({2, 8, 10, 12})}),
        terms / 2, 4.0 * (2 * 8 * 120 + 8 * 72 + 2 * 8 * 120));
  check(instance("conv2d", {{"in", f32({2, 4, 10, 12})}, {"weight", f32({16, 4, 3, 3})}}, attrs), terms / 2,
        4.0 * (2 * 4 * 120 + 16 * 36 + 2 * 16 * 120));
  const std::map<std::string, AttrValue> grad = {{"num_spatial_dims", AttrValue(int32_t{2})},
                                                 {"kernel_size", AttrValue(Ints{3, 3})},
                                                 {"padding_before", AttrValue(Ints{1, 1})}};
  check(instance("conv_data_grad",
                 {{"dy", f32({2, 16, 10, 12})}, {"filter", f32({16, 8, 3, 3})}, {"x_like", f32({2, 8, 10, 12})}}, grad),
        terms, 4.0 * (2 * 16 * 120 + 16 * 72 + 2 * 8 * 120));
  check(instance("conv_filter_grad", {{"dy", f32({2, 16, 10, 12})}, {"x", f32({2, 8, 10, 12})}}, grad), terms,
        4.0 * (2 * 16 * 120 + 2 * 8 * 120 + 16 * 72));
  std::map<std::string, AttrValue> grouped = attrs;
  grouped["groups"] = AttrValue(int32_t{4});
  CHECK(costOf(instance("conv2d", {{"in", f32({2, 8, 10, 12})}, {"weight", f32({16, 2, 3, 3})}}, grouped)).flops ==
        terms / 4);
  CHECK(costOf(instance("deconv2d", {{"in", f32({2, 8, 5, 5})}, {"weight", f32({8, 4, 2, 2})}})).flops ==
        2.0 * 2 * 8 * 25 * 16);
}

TEST_CASE("the cost of attention is its products", "[cost]") {
  const Descs qkv = {{"query", f32({2, 3, 5, 8})}, {"key", f32({2, 3, 7, 8})}, {"value", f32({2, 3, 7, 4})}};
  const OpInstance forward = instance("scaled_dot_product_attention", qkv);
  check(forward, 2.0 * 6 * 5 * 7 * (8 + 4), 4.0 * 6 * (5 * 8 + 7 * 8 + 7 * 4 + 5 * 4 + 5));
  const OpInstance causal = instance("scaled_dot_product_attention", qkv, {{"causal", AttrValue(true)}});
  CHECK(costOf(causal).flops == costOf(forward).flops / 2);
  // Of 7 keys a query sees the one at its place and 1 before it.
  const OpInstance window = instance("scaled_dot_product_attention", qkv,
                                     {{"causal", AttrValue(true)}, {"window_left", AttrValue(int64_t{1})}});
  CHECK(costOf(window).flops == costOf(forward).flops * 2 / 7);
  // Heads of keys that are shared are not computed less often, but read.
  const OpInstance grouped =
      instance("scaled_dot_product_attention",
               {{"query", f32({2, 3, 5, 8})}, {"key", f32({2, 1, 7, 8})}, {"value", f32({2, 1, 7, 4})}});
  check(grouped, 2.0 * 6 * 5 * 7 * (8 + 4), 4.0 * (6 * 5 * 8 + 2 * 7 * 8 + 2 * 7 * 4 + 6 * 5 * 4 + 6 * 5));
  Descs all = qkv;
  all.push_back({"out", f32({2, 3, 5, 4})});
  all.push_back({"log_sum", f32({2, 3, 5})});
  all.push_back({"dout", f32({2, 3, 5, 4})});
  CHECK(costOf(instance("scaled_dot_product_attention_grad", all)).flops == 2.0 * 6 * 5 * 7 * (3 * 8 + 2 * 4));
}

TEST_CASE("the operations of common ops are those of their formulas", "[cost]") {
  const double function = 12, division = 4; // docs/check.md
  const auto flops = [](const OpInstance &op) { return costOf(op).flops; };
  CHECK(flops(instance("bias_add", {{"a", f32({3, 5})}, {"b", f32({5})}}, {{"axis", AttrValue(int32_t{1})}})) == 15);
  CHECK(flops(instance("relu", {{"x", f32({3, 5})}})) == 2 * 15); // x > 0 ? x : 0
  CHECK(flops(instance("tanh", {{"x", f32({3, 5})}})) == 15 * function);
  CHECK(flops(instance("broadcast_div", {{"x", f32({3, 5})}, {"y", f32({5})}})) == 15 * division);
  // exp(x - max) / sum: for each element a comparison, a difference, exp, an addition, a quotient.
  CHECK(flops(instance("softmax", {{"in", f32({3, 5})}})) == 15 * (1 + 1 + function + 1 + division));
  CHECK(flops(instance("log_softmax", {{"in", f32({3, 5})}})) == 15 * (1 + 1 + function + 1 + 2));
  // Sums of 5 numbers: 4 additions.
  const std::map<std::string, AttrValue> rows = {{"axis", AttrValue(std::vector<int32_t>{1})},
                                                 {"keepdims", AttrValue(false)}};
  for (const char *type : {"reduce_sum", "reduce_max", "reduce_min"})
    CHECK(flops(instance(type, {{"input_tensor", f32({3, 5})}}, rows)) == 3 * 4);
  CHECK(flops(instance("reduce_mean", {{"input_tensor", f32({3, 5})}}, rows)) == 3 * (4 + division));
  CHECK(flops(instance("add_n", {{"in", f32({7})}, {"in", f32({7})}, {"in", f32({7})}})) == 2 * 7);
  // Mean 1, variance 3, normalized 2, and two more for gamma and beta; a row's quotients are mean, variance, 1 / sqrt.
  std::map<std::string, AttrValue> norm = {{"begin_norm_axis", AttrValue(int64_t{1})},
                                           {"begin_params_axis", AttrValue(int64_t{1})}};
  const double row = 3 * division + division + 1;
  CHECK(flops(instance("layer_norm", {{"x", f32({3, 5})}}, norm)) == 15 * 6 + 3 * row);
  norm["scale"] = norm["center"] = AttrValue(true);
  CHECK(flops(instance("layer_norm", {{"x", f32({3, 5})}, {"gamma", f32({5})}, {"beta", f32({5})}}, norm)) ==
        15 * 8 + 3 * row);
  // m = b m + c g (3), v = b v + c g g (4), model -= rate m / (sqrt(v) k + epsilon) (4, a root, a quotient).
  const Descs state = {{"model", f32({10})}, {"model_diff", f32({10})}, {"m", f32({10})}, {"v", f32({10})}};
  CHECK(flops(instance("adam_update", state)) == 10 * (3 + 4 + 4 + 2 * division));
  CHECK(flops(instance("adam_update", state, {{"weight_decay", AttrValue(0.1f)}})) ==
        10 * (3 + 4 + 4 + 2 * division + 2));
  CHECK(flops(instance("sgd_update", {{"model", f32({10})}, {"model_diff", f32({10})}})) == 20);
  // Values that are moved.
  CHECK(flops(instance("transpose", {{"input", f32({3, 5})}}, {{"perm", AttrValue(std::vector<int32_t>{1, 0})}})) == 0);
  CHECK(flops(instance("assign", {{"ref", f32({4})}, {"value", f32({4})}})) == 0);
  CHECK(flops(instance("diag", {{"in", f32({4})}}, {{"diagonal", AttrValue(int32_t{0})}})) == 0);
}

TEST_CASE("other ops cost what they touch", "[cost]") {
  check(instance("broadcast_add", {{"x", f32({5, 1})}, {"y", f32({1, 7})}}), 35, 4.0 * (5 + 7 + 35));
  check(instance("relu", {{"x", f32({100})}}), 200, 800); // a comparison and a selection
  CHECK(costOf(instance("exp", {{"x", f32({100})}})).flops > 800);
  check(instance("reduce_sum", {{"input_tensor", f32({10, 20})}},
                 {{"axis", AttrValue(std::vector<int32_t>{1})}, {"keepdims", AttrValue(false)}}),
        190, 4.0 * 210);
  const OpInstance norm = instance("layer_norm", {{"x", f32({10, 20})}, {"gamma", f32({20})}, {"beta", f32({20})}},
                                   {{"center", AttrValue(true)},
                                    {"scale", AttrValue(true)},
                                    {"begin_norm_axis", AttrValue(int64_t{1})},
                                    {"begin_params_axis", AttrValue(int64_t{1})},
                                    {"epsilon", AttrValue(1e-5)}});
  check(norm, 200 * 8 + 10 * 17, 4.0 * (200 + 40 + 200 + 20));
  // Rows that are picked, not the table; a table that gives its shape only.
  check(instance("embedding", {{"weight", f32({50000, 16})}, {"indices", {Shape{3, 4}, kInt64}}}), 0,
        4.0 * 2 * 12 * 16 + 8 * 12);
  check(instance("embedding_grad",
                 {{"dy", f32({3, 4, 16})}, {"weight", f32({100, 16})}, {"indices", {Shape{3, 4}, kInt64}}}),
        12 * 16, 4.0 * (12 * 16 + 1600) + 8 * 12);
  // Views move nothing; what is updated is read and written.
  check(instance("reshape", {{"in", f32({6, 7})}}, {{"shape", AttrValue(Shape{42})}}), 0, 0);
  const OpInstance sgd = instance("sgd_update", {{"model", f32({10})}, {"model_diff", f32({10})}});
  CHECK(costOf(sgd).bytes == 4.0 * 30);
  // Nothing to do.
  check(instance("matmul", {{"a", f32({0, 128})}, {"b", f32({128, 32})}}), 0, 4.0 * 128 * 32);
}
