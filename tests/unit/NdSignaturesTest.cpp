// Signatures on meshes: products of the 1-D ones, compound axes of views against brute force.
// SPDX-License-Identifier: Apache-2.0
#include "NdSignatures.h"
#include "Placement.h"
#include "SignatureCheck.h"
#include "Signatures.h"
#include "TestRegistry.h"
#include "TestTensor.h"

#include <catch2/catch.hpp>

#include <algorithm>

using namespace opc;

namespace {

using Dims = std::vector<int64_t>;

OpInstance instance(const std::string &type, const std::vector<std::pair<std::string, Shape>> &inputs,
                    const std::map<std::string, AttrValue> &attrs = {}, DataType numbers = kFloat) {
  SingleOp single{type, {}, attrs};
  for (const auto &[arg, shape] : inputs)
    single.inputs.emplace_back(arg, user_op::TensorDesc(shape, arg == "indices" ? kInt64 : numbers));
  auto op = instanceOf(test::registry(), single);
  REQUIRE(op);
  return *op;
}

std::vector<std::string> texts(const OpInstance &op, const Dims &dims) {
  auto signatures = ndSignaturesOf(op, dims);
  REQUIRE(signatures);
  std::vector<std::string> list;
  for (const NdSignature &s : *signatures) list.push_back(signatureText(op, s));
  return list;
}

bool has(const std::vector<std::string> &list, const std::string &text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

/// The elements of a box by their place in the row-major whole, in the row-major order of the box.
std::vector<int64_t> places(const Shape &shape, const Box &box) {
  std::vector<int64_t> list;
  for (int64_t i = 0; i < box.elements(); ++i) {
    int64_t rest = i, place = 0, stride = 1;
    for (int64_t a = shape.NumAxes(); a-- > 0;) {
      const auto s = static_cast<size_t>(a);
      place += (box.begin[s] + rest % box.size[s]) * stride;
      rest /= box.size[s];
      stride *= shape.At(a);
    }
    list.push_back(place);
  }
  return list;
}

} // namespace

TEST_CASE("on one dimension the signatures are those of signaturesOf, in their order", "[sbp]") {
  const OpInstance op = instance("matmul", {{"a", {8, 6}}, {"b", {6, 4}}});
  CHECK(texts(op, {2}) == std::vector<std::string>{"(S(0), B) -> (S(0))", "(B, S(1)) -> (S(1))", "(S(1), S(0)) -> (P)",
                                                   "(P, B) -> (P)", "(B, P) -> (P)", "(B, B) -> (B)"});
  for (int64_t parts : {1, 2, 3, 4, 5}) {
    auto flat = signaturesOf(op, parts);
    REQUIRE(flat);
    std::vector<std::string> list;
    for (const SbpSignature &s : *flat) list.push_back(signatureText(op, s));
    if (parts == 1) list = {"(B, B) -> (B)"}; // one device is B
    CHECK(texts(op, {parts}) == list);
  }
}

TEST_CASE("on two dimensions they are the product, as long as no part is empty", "[sbp]") {
  const OpInstance wide = instance("matmul", {{"a", {8, 8}}, {"b", {8, 8}}});
  const auto list = texts(wide, {2, 2});
  CHECK(list.size() == 36);
  CHECK(list.front() == "([S(0), S(0)], [B, B]) -> ([S(0), S(0)])");
  CHECK(list.back() == "([B, B], [B, B]) -> ([B, B])");
  CHECK(has(list, "([S(0), S(1)], [B, S(0)]) -> ([S(0), P])")); // data and row-parallel
  CHECK(has(list, "([S(0), B], [B, S(1)]) -> ([S(0), S(1)])")); // data and column-parallel
  CHECK(has(list, "([P, B], [B, P]) -> ([P, P])"));
  // 3 rows: on 2 and again on 2 devices one would be left without.
  const OpInstance narrow = instance("matmul", {{"a", {3, 8}}, {"b", {8, 8}}});
  const auto few = texts(narrow, {2, 2});
  CHECK_FALSE(has(few, "([S(0), S(0)], [B, B]) -> ([S(0), S(0)])"));
  CHECK(has(few, "([S(0), S(1)], [B, S(0)]) -> ([S(0), P])"));
  CHECK(few.size() == 35);
  // A dimension of one device adds nothing.
  CHECK(texts(wide, {2, 1}).size() == 6);
  CHECK(has(texts(wide, {1, 2}), "([B, S(0)], [B, B]) -> ([B, S(0)])"));
}

TEST_CASE("reshape splits compound axes: the leading factor, and the next once that is used up", "[sbp]") {
  const OpInstance split = instance("reshape", {{"in", {6}}}, {{"shape", AttrValue(Shape({2, 3}))}});
  CHECK(texts(split, {2, 3}) == std::vector<std::string>{"([S(0), S(0)]) -> ([S(0), S(1)])",
                                                         "([S(0), P]) -> ([S(0), P])", "([S(0), B]) -> ([S(0), B])",
                                                         "([P, P]) -> ([P, P])", "([P, B]) -> ([P, B])",
                                                         "([B, P]) -> ([B, P])", "([B, B]) -> ([B, B])"});
  // b s (h d) -> b s h d: S(2) stays S(2) where the heads divide.
  const auto heads = [](int64_t n) {
    return instance("reshape", {{"in", {2, 3, n * 5}}}, {{"shape", AttrValue(Shape({2, 3, n, 5}))}});
  };
  CHECK(has(texts(heads(4), {2}), "(S(2)) -> (S(2))"));
  CHECK(has(texts(heads(4), {4}), "(S(2)) -> (S(2))"));
  CHECK_FALSE(has(texts(heads(3), {2}), "(S(2)) -> (S(2))"));
  CHECK(has(texts(heads(4), {2, 2}), "([S(2), S(2)]) -> ([S(2), S(2)])"));
  CHECK_FALSE(has(texts(heads(2), {2, 2}), "([S(2), S(2)]) -> ([S(2), S(2)])"));
  CHECK(has(texts(heads(2), {2, 5}), "([S(2), S(2)]) -> ([S(2), S(3)])"));
  // The unsound ones of other systems: (3, 4) -> (4, 3) and (49, 49, 24) -> (2401, 24) on 2.
  CHECK_FALSE(has(texts(instance("reshape", {{"in", {3, 4}}}, {{"shape", AttrValue(Shape({4, 3}))}}), {2}),
                  "(S(0)) -> (S(0))"));
  CHECK_FALSE(has(texts(instance("reshape", {{"in", {49, 49, 24}}}, {{"shape", AttrValue(Shape({2401, 24}))}}), {2}),
                  "(S(0)) -> (S(0))"));
}

TEST_CASE("views against brute force: the pieces hold the same elements in the same order, exactly then", "[sbp]") {
  size_t found = 0;
  for (const auto &[in, out] : std::vector<std::pair<Shape, Shape>>{{{6}, {2, 3}},
                                                                    {{2, 3}, {6}},
                                                                    {{12}, {4, 3}},
                                                                    {{4, 6}, {6, 4}},
                                                                    {{4, 6}, {2, 2, 6}},
                                                                    {{4, 9}, {4, 3, 3}},
                                                                    {{8, 4}, {2, 4, 4}},
                                                                    {{2, 1, 6}, {12}},
                                                                    {{5, 4}, {5, 2, 2}},
                                                                    {{3, 4}, {4, 3}}}) {
    for (const Dims &dims : std::vector<Dims>{{2}, {3}, {4}, {2, 2}, {2, 3}, {3, 2}, {2, 2, 2}}) {
      const OpInstance op = instance("reshape", {{"in", in}}, {{"shape", AttrValue(out)}});
      auto listed = ndSignaturesOf(op, dims);
      REQUIRE(listed);
      const int64_t devices = Placement::dense(dims).size();
      for (const NdSbp &a : legalStates(in, kFloat, dims)) {
        for (const NdSbp &b : legalStates(out, kFloat, dims)) {
          bool sound = true, even = true;
          for (size_t m = 0; m < dims.size(); ++m) // P and B go to themselves
            sound &= a[m].has_split_parallel() ? b[m].has_split_parallel() : a[m] == b[m];
          for (int64_t p = 0; p < devices && sound; ++p) {
            const Box x = localBox(in, a, dims, p), y = localBox(out, b, dims, p);
            sound = places(in, x) == places(out, y);
            even &= x.size == localBox(in, a, dims, 0).size;
          }
          const bool is = std::find(listed->begin(), listed->end(), NdSignature{{a, b}}) != listed->end();
          CAPTURE(in.ToString(), out.ToString(), dims, toString(a), toString(b));
          if (is) CHECK(sound);
          // What is left out happens to fit although a compound axis is not divided exactly.
          if (sound && even) CHECK(is);
          found += is;
        }
      }
    }
  }
  CHECK(found > 500);
}

TEST_CASE("reshape_like follows the state of its input; the values of like do not matter", "[sbp]") {
  const auto list = texts(instance("reshape_like", {{"in", {4, 6}}, {"like", {24}}}), {2});
  CHECK(list == std::vector<std::string>{"(S(0), S(0)) -> (S(0))", "(S(0), B) -> (S(0))", "(P, P) -> (P)",
                                         "(P, B) -> (P)", "(B, P) -> (B)", "(B, B) -> (B)"});
}

TEST_CASE("attributes that name whole sizes do not hinder a split: filters of a convolution, and its groups", "[sbp]") {
  user_op::OpDef conv = *test::registry().findOp("conv2d");
  conv.cases = {user_op::Case("named")
                    .In("in", {2, 4, 5, 5})
                    .In("weight", {8, 4, 3, 3})
                    .Attr("filters", int32_t{8})
                    .Attr("padding_before", std::vector<int32_t>{1, 1}),
                user_op::Case("groups").In("in", {2, 8, 5, 5}).In("weight", {16, 1, 3, 3}).Attr("groups", int32_t{8})};
  std::vector<std::string> sound;
  for (const SignatureCheck &c : checkSignatures(test::registry(), conv)) {
    INFO(c.detail);
    CHECK(c.verdict == SignatureVerdict::kSound);
    sound.push_back(c.signature);
  }
  CHECK(has(sound, "(B, S(0)) -> (S(1))"));
  CHECK(has(sound, "(S(1), S(0)) -> (S(1))"));
  CHECK(has(sound, "([S(1), S(1)], [S(0), S(0)]) -> ([S(1), S(1)])")); // 8 groups on 2x2
}

TEST_CASE("partial sums are of types that are added", "[sbp]") {
  // A table in bytes that are only moved is looked up where it lies whole, or in columns.
  const std::vector<std::pair<std::string, Shape>> table{{"in", {8, 6}}, {"indices", {5}}};
  CHECK(has(texts(instance("gather", table, {}, kFloat16), {2}), "(S(0), B) -> (P)"));
  for (const DataType type : {kFloat8E4M3FN, kBool}) {
    const auto list = texts(instance("gather", table, {}, type), {2});
    CHECK(has(list, "(S(1), B) -> (S(1))"));
    for (const std::string &text : list) CHECK(text.find('P') == std::string::npos);
    CHECK_FALSE(isLegal(Shape({8, 6}), type, {SbpParallel::partialSum()}, {2}, true));
  }
  CHECK(isLegal(Shape({8, 6}), kInt64, {SbpParallel::partialSum()}, {2}, true));
}

TEST_CASE("functions of integers that round keep no sums", "[sbp]") {
  // 3 / 2 + 3 / 2 is 2, and 6 / 2 is 3; products and sums of integers wrap around, however they are put together.
  const std::vector<std::pair<std::string, Shape>> pair{{"x", {8, 6}}, {"y", {8, 6}}};
  CHECK(has(texts(instance("broadcast_div", pair), {2}), "(P, B) -> (P)"));
  CHECK_FALSE(has(texts(instance("broadcast_div", pair, {}, kInt32), {2}), "(P, B) -> (P)"));
  CHECK(has(texts(instance("broadcast_div", pair, {}, kInt32), {2}), "(S(0), S(0)) -> (S(0))"));
  CHECK(has(texts(instance("broadcast_mul", pair, {}, kInt32), {2}), "(P, B) -> (P)"));
  CHECK(has(texts(instance("broadcast_sub", pair, {}, kUInt8), {2}), "(P, P) -> (P)"));
}

TEST_CASE("a split vocabulary: indices of other devices give 0, indices of nobody are an error", "[sbp]") {
  // Rows 4 to 6 of 7, on the second of two devices.
  OpInstance op = instance("gather", {{"in", {7, 2}}, {"indices", {3}}});
  const auto run = [&](const std::vector<int64_t> &indices, std::vector<float> *out) -> Status {
    OpInstance shard = op;
    shard.inputDescs()[0] = user_op::TensorDesc(Shape({3, 2}), kFloat);
    shard.inputDescs()[1] = user_op::TensorDesc(Shape({3}), kInt64);
    shard.outputDescs()[0] = user_op::TensorDesc(Shape({3, 2}), kFloat);
    const user_op::TensorDesc rows(Shape({7, 2}), kFloat);
    shard.setShards({{rows, {4, 0}, {SbpParallel::split(0)}},
                     {shard.inputDescs()[1], {0}, {SbpParallel::broadcast()}},
                     {shard.outputDescs()[0], {0, 0}, {SbpParallel::partialSum()}}},
                    ParallelContext(1, 2));
    std::vector<OpTensor> inputs{test::tensorOf<float>({3, 2}, {40, 41, 50, 51, 60, 61}),
                                 test::tensorOf<int64_t>({3}, indices)};
    std::vector<OpTensor> outputs;
    OPC_RETURN_IF_ERROR(runOp(test::registry(), shard, &inputs, &outputs));
    *out = test::TestTensor(outputs[0]).as<float>();
    return Status::ok();
  };
  std::vector<float> out;
  CHECK(run({5, 0, 6}, &out).isOk());
  CHECK(out == std::vector<float>{50, 51, 0, 0, 60, 61});
  const Status outside = run({5, 7, 6}, &out);
  REQUIRE_FALSE(outside.isOk());
  CHECK(outside.message().find("indices[1] = 7 is outside [0, 7)") != std::string::npos);
}

TEST_CASE("dropout drops the same elements, however it is split", "[sbp]") {
  user_op::OpDef dropout = *test::registry().findOp("dropout");
  dropout.pure = true; // each check runs a kernel of its own: its first run, whose numbers are the same
  dropout.cases = {user_op::Case("cube").In("in", {6, 5, 7}).Attr("rate", 0.5f),
                   user_op::Case("long").In("in", {5, 400}).Attr("rate", 0.25f),
                   user_op::Case("added").In("in", {4, 9}).In("_add_to_output", {4, 9}).Attr("rate", 0.5f)};
  std::vector<std::string> sound;
  for (const SignatureCheck &c : checkSignatures(test::registry(), dropout)) {
    INFO(c.signature << ": " << c.detail);
    CHECK(c.verdict == SignatureVerdict::kSound);
    sound.push_back(c.signature);
  }
  for (const char *s : {"(S(0)) -> (S(0), S(0))", "(S(1)) -> (S(1), S(1))", "(S(2)) -> (S(2), S(2))", "(P) -> (P, B)",
                        "([S(2), S(0)]) -> ([S(2), S(0)], [S(2), S(0)])", "(P, P) -> (P, B)"})
    CHECK(has(sound, s));
}

namespace {

/// The signatures of an op with one rule, whose tensors are f32 with these shapes.
Result<std::vector<std::string>> ofRule(const user_op::ShardingRule &rule, const std::vector<Shape> &inputs,
                                        const std::vector<Shape> &outputs, int64_t parts) {
  user_op::OpDef def;
  def.name = "ruled";
  def.sharding = rule;
  user_op::OpConf conf{"op", "ruled", {}, {}, {}};
  for (size_t i = 0; i < inputs.size(); ++i) {
    def.inputs.emplace_back().name = "in" + std::to_string(i);
    conf.inputs.push_back({def.inputs.back().name, {"x" + std::to_string(i) + "/out"}});
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    def.outputs.emplace_back().name = "out" + std::to_string(i);
    conf.outputs.push_back({def.outputs.back().name, {"op/out" + std::to_string(i) + "_0"}});
  }
  OpInstance op(def, conf);
  for (size_t i = 0; i < inputs.size(); ++i) op.inputDescs()[i] = user_op::TensorDesc(inputs[i], kFloat);
  for (size_t i = 0; i < outputs.size(); ++i) op.outputDescs()[i] = user_op::TensorDesc(outputs[i], kFloat);
  OPC_ASSIGN_OR_RETURN(auto signatures, signaturesOf(op, parts));
  std::vector<std::string> list;
  for (const SbpSignature &s : signatures) list.push_back(signatureText(op, s));
  return list;
}
void checkRule(const user_op::ShardingRule &rule, const std::vector<Shape> &inputs, const std::vector<Shape> &outputs,
               int64_t parts, const std::vector<std::string> &expected) {
  INFO(rule.einsum << " on " << parts);
  const auto found = ofRule(rule, inputs, outputs, parts);
  REQUIRE(found);
  CHECK(*found == expected);
}

using user_op::Linear;
using user_op::ShardingRule;
using user_op::Sum;

} // namespace

TEST_CASE("what is added to the outputs is a partial sum where they are", "[sbp]") {
  // a b + c: each device that made a part of the sums would add all of c.
  checkRule(ShardingRule("m k, k n, + m n -> m n", Sum("k"), Linear({0})), {{4, 6}, {6, 8}, {4, 8}}, {{4, 8}}, 2,
            {"(S(0), B, S(0)) -> (S(0))", "(S(1), S(0), P) -> (P)", "(B, S(1), S(1)) -> (S(1))", "(P, B, P) -> (P)",
             "(B, B, B) -> (B)"});
  checkRule(ShardingRule("m k, + n -> m n", Sum("k")), {{4, 6}, {8}}, {{4, 8}}, 2,
            {"(S(0), B) -> (S(0))", "(S(1), P) -> (P)", "(B, S(0)) -> (S(1))", "(B, B) -> (B)"});
}

TEST_CASE("of an input that gives its shape alone addends do as well", "[sbp]") {
  checkRule(ShardingRule("a b, ? b -> b", Sum("a"), Linear({0})), {{4, 6}, {6}}, {{6}}, 2,
            {"(S(0), B) -> (P)", "(S(1), S(0)) -> (S(0))", "(P, B) -> (P)", "(S(0), P) -> (P)", "(P, P) -> (P)",
             "(B, P) -> (B)", "(B, B) -> (B)"});
  checkRule(ShardingRule("? ... -> ..."), {{4, 6}}, {{4, 6}}, 2,
            {"(S(0)) -> (S(0))", "(S(1)) -> (S(1))", "(P) -> (B)", "(B) -> (B)"});
}

TEST_CASE("an output that does not depend on the inputs' values is whole where they are addends", "[sbp]") {
  checkRule(ShardingRule("n -> n, ? n", Linear({0})), {{4}}, {{4}, {4}}, 2,
            {"(S(0)) -> (S(0), S(0))", "(P) -> (P, B)", "(B) -> (B, B)"});
}

TEST_CASE("an axis of several parts for each of a factor is cut where the devices divide both", "[sbp]") {
  const ShardingRule patches("n c . -> n c*");
  const std::vector<Shape> in{{8, 6, 5}}, out{{8, 12}};
  checkRule(patches, in, out, 2, {"(S(0)) -> (S(0))", "(S(1)) -> (S(1))", "(B) -> (B)"});
  checkRule(patches, in, out, 4, {"(S(0)) -> (S(0))", "(B) -> (B)"}); // 12 rows divide by 4, 6 channels do not
  // Without the mark an axis of another length is one along which the tensor is repeated.
  checkRule(ShardingRule("n c . -> n c"), {{8, 1, 5}}, {{8, 12}}, 2,
            {"(S(0)) -> (S(0))", "(B) -> (S(1))", "(B) -> (B)"});
}

TEST_CASE("a rule may leave axes whole and put factors first", "[sbp]") {
  checkRule(ShardingRule("n .. -> .., n ..", Sum("n")), {{4, 6, 8}}, {{6}, {4, 8}}, 2,
            {"(S(0)) -> (P, S(0))", "(B) -> (B, B)"});
  checkRule(
      ShardingRule("n ...: m ..., n -> m ... n"), {{2, 4, 6}, {8}}, {{2, 4, 6, 8}}, 2,
      {"(B, S(0)) -> (S(3))", "(S(1), B) -> (S(1))", "(S(2), B) -> (S(2))", "(S(0), B) -> (S(0))", "(B, B) -> (B)"});
}

TEST_CASE("marks and dots that say nothing are refused", "[sbp]") {
  for (const char *rule : {"n -> + n", ".. ... -> n", "n .. .. -> n", "q: n -> n"}) {
    INFO(rule);
    const auto found = ofRule(ShardingRule(rule), {{4}}, {{4}}, 2);
    REQUIRE_FALSE(found);
    CHECK(found.status().id() == "OPC0301");
  }
}

TEST_CASE("an optional input that is not there makes no partial sum", "[sbp]") {
  user_op::OpDef def;
  def.name = "biased";
  def.inputs = {{"x"}, {"bias", true}};
  def.outputs = {{"y"}};
  def.sharding = user_op::ShardingRule("m n, n -> m n", user_op::Linear({1}));
  for (const bool withBias : {false, true}) {
    user_op::OpConf conf{"op", "biased", {{"x", {"x/out"}}}, {{"y", {"op/y_0"}}}, {}};
    if (withBias) conf.inputs.push_back({"bias", {"b/out"}});
    OpInstance op(def, conf);
    op.inputDescs()[0] = op.outputDescs()[0] = user_op::TensorDesc(Shape{4, 6}, kFloat);
    if (withBias) op.inputDescs()[1] = user_op::TensorDesc(Shape{6}, kFloat);
    auto signatures = signaturesOf(op, 2);
    REQUIRE(signatures);
    std::vector<std::string> list;
    for (const SbpSignature &s : *signatures) list.push_back(signatureText(op, s));
    if (withBias)
      CHECK(list == std::vector<std::string>{"(S(0), B) -> (S(0))", "(S(1), S(0)) -> (S(1))", "(B, P) -> (P)",
                                             "(B, B) -> (B)"});
    else
      CHECK(list == std::vector<std::string>{"(S(0)) -> (S(0))", "(S(1)) -> (S(1))", "(B) -> (B)"});
  }
}
