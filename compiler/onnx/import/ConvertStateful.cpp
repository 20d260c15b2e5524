// ONNX's ops that carry a state from one call to the next: linear attention, and causal convolutions.
// SPDX-License-Identifier: Apache-2.0
#include "OnnxConverters.h"

#include <cmath>

namespace opc::onnx {
namespace {

/// The graph of one step, as a Scan has it: its inputs and outputs are called as given.
class StepGraph {
public:
  explicit StepGraph(std::initializer_list<const char *> inputs) {
    for (const char *name : inputs) graph_.add_input()->set_name(name);
  }
  StepGraph &node(const char *type, std::initializer_list<const char *> inputs, const char *output) {
    Node *made = graph_.add_node();
    made->set_op_type(type);
    for (const char *name : inputs) made->add_input(name);
    made->add_output(output);
    return *this;
  }
  Graph &outputs(std::initializer_list<const char *> names) {
    for (const char *name : names) graph_.add_output()->set_name(name);
    return graph_;
  }

private:
  Graph graph_;
};

/// [b, t, heads * d] as [t, b, heads, rows, columns], where rows * columns = d.
Term steps(Conversion &c, const Term &x, int64_t heads, int64_t rows, int64_t columns) {
  return c.transpose(c.reshape(x, {x->dim(0), x->dim(1), heads, rows, columns}), {1, 0, 2, 3, 4});
}

struct LinearSizes {
  int64_t batch, length, heads, perHead, keys, values; // perHead: of query heads; keys, values: sizes of a head's
};

LinearSizes sizesOf(const Conversion &c) {
  for (size_t k = 0; k < 3; ++k)
    if (c.in(k)->rank() != 3)
      c.invalid(c.inputText(k) + " is " + c.in(k)->desc.toString() + ", and [batch, length, heads * size] is wanted");
  const int64_t all = c.required("q_num_heads"), heads = c.required("kv_num_heads");
  if (heads < 1 || all < 1 || all % heads != 0)
    c.invalid("q_num_heads is " + std::to_string(all) + ", and must be a multiple of kv_num_heads, " +
              std::to_string(heads));
  const Term q = c.in(0), k = c.in(1), v = c.in(2);
  if (q->dim(2) % all != 0 || v->dim(2) % heads != 0)
    c.invalid("its heads do not divide " + q->desc.toString() + " and " + v->desc.toString());
  const LinearSizes s{q->dim(0), q->dim(1), heads, all / heads, q->dim(2) / all, v->dim(2) / heads};
  c.checkShape(1, Shape({s.batch, s.length, heads * s.keys}), "keys");
  c.checkShape(2, Shape({s.batch, s.length, v->dim(2)}), "values");
  return s;
}

/// Decays by key or by head, exponentials of them: [t, b, heads, keys or 1, 1].
Term decaysOf(Conversion &c, const LinearSizes &s) {
  const Term given = c.in(4);
  const bool isByHead = given->rank() == 3 && given->dim(2) == s.heads;
  c.checkShape(4, Shape({s.batch, s.length, isByHead ? s.heads : s.heads * s.keys}), "decays");
  return c.op("exp", {c.cast(steps(c, given, s.heads, isByHead ? 1 : s.keys, 1), kFloat)});
}

Term ratesOf(Conversion &c, const LinearSizes &s) {
  const Term given = c.in(5);
  const bool isShared = given->rank() == 3 && given->dim(2) == 1;
  c.checkShape(5, Shape({s.batch, s.length, isShared ? 1 : s.heads}), "update rates");
  return c.cast(steps(c, given, isShared ? 1 : s.heads, 1, 1), kFloat);
}

/// S = exp(g) S + k (beta (v - k S)), o = scale q S at each step, where S is [keys, values] of each head; without
/// decay g is 0, and without delta rule k v is added. The state is of f32 while it is computed.
void convertLinearAttention(Conversion &c) {
  const std::string rule = c.s("update_rule", "gated_delta");
  const bool decays = rule == "gated" || rule == "gated_delta", corrects = rule == "delta" || rule == "gated_delta";
  c.i("chunk_size", 64); // a hint of how others compute it
  for (const auto &[input, wanted, name] : {std::tuple{4, decays, "decay"}, std::tuple{5, corrects, "beta"}})
    if (c.has(static_cast<size_t>(input)) != wanted)
      c.invalid("update_rule '" + rule + "' " + (wanted ? "needs" : "has no") + " input " + std::to_string(input) +
                " (" + name + ")");
  const LinearSizes s = sizesOf(c);
  const Term q = c.in(0);
  for (const size_t k : {size_t{0}, size_t{1}, size_t{2}}) c.checkType(k, {q->type()});
  const double scale = c.f("scale", 0);
  const Shape state({s.batch, s.heads, s.keys, s.values});
  if (c.has(3)) c.checkShape(3, state, "its state");
  Term before = c.has(3) ? c.cast(c.in(3), kFloat) : c.expand(c.scalar(kFloat, 0), state);
  const Term k = c.cast(c.in(1), kFloat);
  std::vector<Term> given{c.cast(steps(c, q, s.heads, s.perHead, s.keys), kFloat), steps(c, k, s.heads, s.keys, 1),
                          c.cast(steps(c, c.in(2), s.heads, 1, s.values), kFloat)};
  StepGraph step{"S", "q", "k", "v"};
  Graph names; // further inputs, in the order of `given`
  const char *kept = "S", *added = "v";
  if (decays) {
    given.push_back(decaysOf(c, s));
    names.add_input()->set_name("decay");
    step.node("Mul", {"decay", "S"}, "kept");
    kept = "kept";
  }
  if (corrects) {
    given.push_back(steps(c, k, s.heads, 1, s.keys));
    given.push_back(ratesOf(c, s));
    names.add_input()->set_name("row");
    names.add_input()->set_name("beta");
    step.node("MatMul", {"row", kept}, "known")
        .node("Sub", {"v", "known"}, "new")
        .node("Mul", {"beta", "new"}, "added");
    added = "added";
  }
  step.node("Mul", {"k", added}, "outer").node("Add", {kept, "outer"}, "after").node("MatMul", {"q", "after"}, "o");
  Graph &graph = step.outputs({"after", "o"});
  graph.mutable_input()->MergeFrom(names.input());
  const std::vector<int64_t> first(given.size(), 0);
  const std::vector<Term> made = scanned(c, graph, {before}, given, first, first, {0}, {0});
  const Term o = c.reshape(c.transpose(made[1], {1, 0, 2, 3, 4}), {s.batch, s.length, s.heads * s.perHead * s.values});
  c.out(0, c.cast(c.scaled(o, scale == 0 ? 1 / std::sqrt(static_cast<double>(s.keys)) : scale), q->type()));
  if (c.wants(1)) c.out(1, c.cast(made[0], c.has(3) ? c.in(3)->type() : q->type()));
}

/// Each channel by its own kernel, over what was before and the input; what is carried on is the last k - 1 of these.
void convertCausalConv(Conversion &c) {
  const Term x = c.in(0), weight = c.in(1);
  if (x->rank() != 3) c.invalid("an input [batch, channels, length] is wanted, not " + x->shape().ToString());
  const int64_t channels = x->dim(1), size = weight->rank() == 3 ? weight->dim(2) : 0;
  if (size < 1) c.invalid("a kernel [channels, 1, size] is wanted, not " + weight->shape().ToString());
  c.checkShape(1, Shape({channels, 1, size}), "its kernels");
  if (c.has(2)) c.checkShape(2, Shape({channels}), "its biases");
  const Shape state({x->dim(0), channels, size - 1});
  if (c.has(3)) c.checkShape(3, state, "its state");
  for (size_t k = 1; k < 4; ++k)
    if (c.has(k)) c.checkType(k, {x->type()});
  const Term before = c.has(3) ? c.in(3) : c.expand(c.scalar(x->type(), 0), state);
  const Term all = size == 1 ? x : c.op("cat", {before, x}, {{"axis", int64_t{2}}});
  std::vector<Term> inputs{all, weight};
  if (c.has(2)) inputs.push_back(c.in(2));
  const Term y = c.op("conv1d", inputs,
                      {{"data_format", std::string("channels_first")},
                       {"filters", channels},
                       {"padding_before", std::vector<int64_t>{0}},
                       {"kernel_size", std::vector<int64_t>{size}},
                       {"strides", std::vector<int64_t>{1}},
                       {"dilation_rate", std::vector<int64_t>{1}},
                       {"groups", channels}});
  c.out(0, c.s("activation", "none") == "none" ? y : c.op("silu", {y}));
  if (c.wants(1)) c.out(1, c.slice(all, 2, all->dim(2) - (size - 1), all->dim(2)));
}

} // namespace

void addStateful(ConverterTable *t) {
  t->add("LinearAttention", convertLinearAttention, "matmul, broadcast_mul, broadcast_add for each step, or loop");
  t->add("CausalConvWithState", convertCausalConv, "cat, conv1d, silu, slice");
}

} // namespace opc::onnx
