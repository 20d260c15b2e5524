// Regions: where the elements of broadcast inputs are; plans with regions, and plans whose regions are wrong.
// SPDX-License-Identifier: Apache-2.0
#include "PlanBuilder.h"
#include "PlanFile.h"
#include "RegionCode.h"
#include "Session.h"
#include "TilePlan.h"

#include <catch2/catch.hpp>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

using namespace opc;
using namespace opc::test;

namespace {

/// y = -relu(x * b), z = relu(x * b): x is {3, 4}, b is {4}. The product is inside of the region alone.
struct RegionPlan {
  PlanBuilder b;
  uint32_t x, bias, product, y, z;
  plan::Task *region;

  RegionPlan() {
    x = b.input("x", Shape{3, 4}), bias = b.input("b", Shape{4}), product = b.tensor("product", Shape{3, 4}),
    y = b.tensor("y", Shape{3, 4}), z = b.tensor("z", Shape{3, 4});
    inner(product)->clear_register_();
    region = b.task("all", "opc.fused", {{"in", {x, bias}}}, {{"out", {z, y}}});
    region->set_region(true);
    PlanBuilder parts;
    parts.task("mul", "broadcast_mul", {{"x", {x}}, {"y", {bias}}}, {{"z", {product}}});
    parts.task("relu", "relu", {{"x", {product}}}, {{"y", {z}}});
    parts.task("minus", "negative", {{"x", {z}}}, {{"y", {y}}});
    for (const plan::Task &t : parts.plan.task()) {
      *region->add_body() = t;
      region->mutable_body(region->body_size() - 1)->clear_stream();
    }
    b.output("y", y);
    b.output("z", z);
  }
  plan::Tensor *inner(uint32_t tensor) { return b.plan.mutable_tensor(static_cast<int>(tensor)); }
};

Result<Session> load(const PlanBuilder &b) { return Session::load(encodePlan(b.plan), registry()); }

HostTensor floats(const Shape &shape, const std::vector<float> &values) {
  Result<HostTensor> t = HostTensor::create(kFloat, shape);
  std::copy(values.begin(), values.end(), t->as<float>());
  return std::move(*t);
}

} // namespace

TEST_CASE("a broadcast input's elements are found for every range of the loop", "[region]") {
  struct Example {
    Shape input, loop;
  };
  const std::vector<Example> examples = {
      {{4}, {3, 4}},          {{3, 1}, {3, 4}},    {{1, 3, 1}, {2, 3, 4}},       {{2, 1, 4}, {2, 3, 4}},
      {{2, 1, 1}, {2, 3, 4}}, {{3, 4}, {2, 3, 4}}, {{2, 1, 3, 1}, {2, 5, 3, 2}}, {{5, 1, 2}, {2, 5, 3, 2}}};
  for (const Example &e : examples) {
    INFO(e.input.ToString() + " to " + e.loop.ToString());
    const int64_t total = e.loop.elem_cnt(), rank = e.loop.NumAxes();
    std::vector<uint16_t> data(static_cast<size_t>(e.input.elem_cnt()));
    std::iota(data.begin(), data.end(), uint16_t{0});
    std::vector<uint16_t> want; // by the definition: an index of the loop at a time
    for (int64_t i = 0; i < total; ++i) {
      int64_t rest = i, at = 0, step = 1;
      for (int64_t axis = rank; axis-- > 0;) {
        const int64_t index = rest % e.loop.At(axis), own = axis - (rank - e.input.NumAxes());
        rest /= e.loop.At(axis);
        if (own < 0) continue;
        if (e.input.At(own) != 1) at += index * step;
        step *= e.input.At(own);
      }
      want.push_back(data[static_cast<size_t>(at)]);
    }
    const TileAccess access(e.input, e.loop, sizeof(uint16_t));
    REQUIRE(access.kind() == TileAccess::Kind::kBroadcast);
    for (int64_t begin = 0; begin < total; ++begin)
      for (int64_t n = 1; begin + n <= total; ++n) {
        std::vector<uint16_t> buffer(static_cast<size_t>(n), 9999);
        bool single = false;
        const auto *found = static_cast<const uint16_t *>(access.elements(
            reinterpret_cast<const char *>(data.data()), begin, n, reinterpret_cast<char *>(buffer.data()), &single));
        bool same = true;
        for (int64_t i = 0; i < n; ++i) same &= found[single ? 0 : i] == want[static_cast<size_t>(begin + i)];
        REQUIRE(same);
      }
  }
  CHECK(TileAccess(Shape{1, 1}, Shape{3, 4}, 4).kind() == TileAccess::Kind::kSingle);
  CHECK(TileAccess(Shape{3, 4}, Shape{1, 3, 4}, 4).kind() == TileAccess::Kind::kWhole);
}

namespace {
struct CountingCompiler final : RegionCompiler {
  std::shared_ptr<const RegionCode> compile(const Region &, std::string *) override {
    ++asked;
    return made;
  }
  std::shared_ptr<const RegionCode> ready(const Region &, const std::string &) override {
    return isReady ? made : nullptr;
  }
  int asked = 0;
  bool isReady = false;
  std::shared_ptr<const RegionCode> made = std::make_shared<RegionCode>();
};

/// Moves `mib` in a run. `type`: regions of another type have other code.
Region copying(int64_t mib, DataType type) {
  Region r;
  r.shape = Shape{(mib << 20) / 2 / static_cast<int64_t>(GetSizeOfDataType(type))};
  r.inputs.emplace_back(r.shape, type);
  r.outputs = {0};
  return r;
}
} // namespace

TEST_CASE("regions of one code are compiled by what they move together", "[region]") {
  const auto compiler = std::make_shared<CountingCompiler>();
  const Region large = copying(32, kFloat), half = copying(16, kFloat), other = copying(32, kDouble);
  {
    const RegionCodeChoice a(large, compiler), b(half, compiler), apart(other, compiler);
    CHECK(compiler->asked == 0);
    for (int run = 0; run < 7; ++run) CHECK(a.next() == nullptr); // 224 MiB
    CHECK(b.next() == nullptr);
    CHECK(b.next() == nullptr); // 256 MiB
    CHECK(apart.next() == nullptr);
    CHECK(b.next() == compiler->made.get());
    CHECK(a.next() == compiler->made.get());
    CHECK(apart.next() == nullptr);
    CHECK(compiler->asked == 2);
    const RegionCodeChoice late(half, compiler); // a plan that is loaded after
    CHECK(late.next() == compiler->made.get());
  }
  compiler->asked = 0;
  const RegionCodeChoice a(large, compiler), b(large, compiler), c(large, compiler), apart(other, compiler);
  CHECK(compiler->asked == 0); // what the plans before have moved is gone with them
  const RegionCodeChoice waiting(large, compiler, true);
  CHECK(compiler->asked == 0);
  const RegionCodeChoice e(large, compiler); // more than 128 MiB in a run
  CHECK(compiler->asked == 1);
  CHECK(e.next() == compiler->made.get());
  CHECK(a.next() == compiler->made.get());
  CHECK(apart.next() == nullptr);
  compiler->isReady = true;
  const RegionCodeChoice ready(other, compiler);
  CHECK(ready.next() == compiler->made.get());
}

TEST_CASE("a plan's region is one task, and makes what its ops make", "[region]") {
  RegionPlan p;
  CHECK(encodePlan(p.b.plan)[8] == 2); // a reader of version 1 refuses it
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->tasks().size() == 1);
  std::vector<float> x(12);
  std::iota(x.begin(), x.end(), -5.0f);
  const std::vector<float> b = {1, -2, 3, 0.5};
  REQUIRE(s->feed("x", floats(Shape{3, 4}, x)).isOk());
  REQUIRE(s->feed("b", floats(Shape{4}, b)).isOk());
  REQUIRE(s->run(1).isOk());
  const auto y = s->fetch("y"), z = s->fetch("z");
  REQUIRE((y.isOk() && z.isOk()));
  for (size_t i = 0; i < x.size(); ++i) {
    const float want = std::max(0.0f, x[i] * b[i % 4]);
    CHECK(z->as<float>()[i] == want);
    CHECK(y->as<float>()[i] == -want);
  }
}

TEST_CASE("a region that contradicts itself or its plan is refused", "[region]") {
  const auto error = [](const std::function<void(RegionPlan *)> &damage) {
    RegionPlan p;
    damage(&p);
    const Status s = load(p.b).status();
    return s.id() + " " + s.message();
  };
  using Catch::Contains;
  CHECK_THAT(error([](RegionPlan *p) { p->b.output("product", p->product); }),
             Contains("OPC0811") && Contains("lies in no register"));
  CHECK_THAT(error([](RegionPlan *p) {
               const uint32_t w = p->b.tensor("w", Shape{3, 4});
               p->b.add("after", p->product, w, 1);
             }),
             Contains("OPC0811") && Contains("'product' lies in no register"));
  CHECK_THAT(error([](RegionPlan *p) { p->inner(p->product)->set_register_(p->inner(p->y)->register_()); }),
             Contains("OPC0816") && Contains("which is no output"));
  CHECK_THAT(error([](RegionPlan *p) { p->inner(p->product)->set_data_type(graph::kDouble); }), Contains("OPC0815"));
  CHECK_THAT(error([](RegionPlan *p) { p->inner(p->product)->set_dim(0, 1); }), Contains("OPC0815"));
  CHECK_THAT(error([](RegionPlan *p) { p->region->mutable_body(0)->set_op_type("matmul"); }), Contains("OPC02"));
  CHECK_THAT(error([](RegionPlan *p) { p->region->mutable_body()->SwapElements(0, 1); }), Contains("OPC0816"));
  CHECK_THAT(error([](RegionPlan *p) { p->region->mutable_input(0)->add_tensor(p->x); }),
             Contains("OPC0816") && Contains("twice"));
  CHECK_THAT(error([](RegionPlan *p) { p->region->set_workspace(1); }),
             Contains("OPC0816") && Contains("it has a workspace"));
  CHECK_THAT(error([](RegionPlan *p) { p->region->mutable_input(0)->set_tensor(0, 1000); }), Contains("OPC08"));
  CHECK_THAT(error([](RegionPlan *p) {
               for (int i = 0; i < 300; ++i) {
                 plan::Tensor *t = p->b.plan.add_tensor();
                 *t = *p->inner(p->product);
                 plan::Task *more = p->region->add_body();
                 *more = p->region->body(1);
                 more->mutable_output(0)->set_tensor(0, static_cast<uint32_t>(p->b.plan.tensor_size() - 1));
               }
             }),
             Contains("OPC0816") && Contains("more than 256"));
  // Without the mark a body is tasks like any other, which need memory.
  CHECK_THAT(error([](RegionPlan *p) { p->region->clear_region(); }), Contains("lies in no register"));
}

namespace {

/// loss = mean row of softmax(x * b) - x, y = the softmax: x is {3, 4}, b is {4}. Of rows of 4 elements.
struct RowPlan {
  PlanBuilder b;
  uint32_t x, bias, scaled, y, rest, mean;
  plan::Task *region;

  RowPlan() {
    x = b.input("x", Shape{3, 4}), bias = b.input("b", Shape{4}), scaled = b.tensor("scaled", Shape{3, 4}),
    y = b.tensor("y", Shape{3, 4}), rest = b.tensor("rest", Shape{3, 4}), mean = b.tensor("mean", Shape{3});
    for (uint32_t t : {scaled, rest}) inner(t)->clear_register_();
    region = b.task("all", "opc.fused", {{"in", {x, bias}}}, {{"out", {y, mean}}});
    region->set_region(true);
    PlanBuilder parts;
    parts.task("mul", "broadcast_mul", {{"x", {x}}, {"y", {bias}}}, {{"z", {scaled}}});
    parts.task("softmax", "softmax", {{"in", {scaled}}}, {{"out", {y}}});
    parts.task("minus", "broadcast_sub", {{"x", {y}}, {"y", {x}}}, {{"z", {rest}}});
    plan::Task *reduce = parts.task("mean", "reduce_mean", {{"input_tensor", {rest}}}, {{"output_tensor", {mean}}});
    auto *axis = reduce->add_attr();
    axis->set_name("axis");
    axis->mutable_value()->mutable_at_list_int32()->add_val(1);
    for (const plan::Task &t : parts.plan.task()) {
      *region->add_body() = t;
      region->mutable_body(region->body_size() - 1)->clear_stream();
    }
    b.output("y", y);
    b.output("mean", mean);
  }
  plan::Tensor *inner(uint32_t tensor) { return b.plan.mutable_tensor(static_cast<int>(tensor)); }
};

} // namespace

TEST_CASE("a region over rows is one task, and makes what its ops make", "[region]") {
  RowPlan p;
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->tasks().size() == 1);
  const std::vector<float> x = {0, 1, 2, 3, -1, 0, 0, 1, 5, 5, 5, 5}, b = {1, 1, -1, 2};
  REQUIRE(s->feed("x", floats(Shape{3, 4}, x)).isOk());
  REQUIRE(s->feed("b", floats(Shape{4}, b)).isOk());
  REQUIRE(s->run(1).isOk());
  const auto y = s->fetch("y"), mean = s->fetch("mean");
  REQUIRE((y.isOk() && mean.isOk()));
  for (size_t r = 0; r < 3; ++r) { // by the definition, in f64
    double sum = 0, rest = 0;
    for (size_t i = 0; i < 4; ++i) sum += std::exp(static_cast<double>(x[r * 4 + i] * b[i]));
    for (size_t i = 0; i < 4; ++i) {
      const double want = std::exp(static_cast<double>(x[r * 4 + i] * b[i])) / sum;
      CHECK(static_cast<double>(y->as<float>()[r * 4 + i]) == Approx(want).epsilon(1e-6));
      rest += want - static_cast<double>(x[r * 4 + i]);
    }
    CHECK(static_cast<double>(mean->as<float>()[r]) == Approx(rest / 4).epsilon(1e-6));
  }
}

TEST_CASE("a region over rows that contradicts itself is refused", "[region]") {
  const auto error = [](const std::function<void(RowPlan *)> &damage) {
    RowPlan p;
    damage(&p);
    const Status s = load(p.b).status();
    return s.id() + " " + s.message();
  };
  using Catch::Contains;
  const auto axisOf = [](RowPlan *p) {
    return p->region->mutable_body(3)->mutable_attr(0)->mutable_value()->mutable_at_list_int32();
  };
  CHECK_THAT(error([&](RowPlan *p) { // of columns there are 4
               axisOf(p)->set_val(0, 0);
             }),
             Contains("OPC0815"));
  CHECK_THAT(error([&](RowPlan *p) { // all of it: a row of 12
               axisOf(p)->add_val(0);
               p->inner(p->mean)->clear_dim();
             }),
             Contains("OPC0816") && Contains("does not go by the rows"));
  CHECK_THAT(error([](RowPlan *p) { p->inner(p->bias)->set_dim(0, 3); }), Contains("OPC0"));
  CHECK_THAT(error([](RowPlan *p) { p->inner(p->mean)->set_dim(0, 2); }), Contains("OPC0815"));
  CHECK_THAT(error([](RowPlan *p) { // over an input that the softmax still reads
               p->inner(p->y)->set_register_(p->inner(p->x)->register_());
             }),
             Contains("OPC08"));
  CHECK_THAT(error([](RowPlan *p) { p->region->mutable_body()->SwapElements(1, 2); }), Contains("OPC0816"));
  CHECK_THAT(error([](RowPlan *p) { // one row of many elements that are in no tensor
               for (uint32_t t : {p->x, p->scaled, p->y, p->rest}) p->inner(t)->set_dim(0, 1);
               for (uint32_t t : {p->scaled, p->y, p->rest}) p->inner(t)->set_dim(1, int64_t{1} << 40);
             }),
             Contains("OPC08"));
}

namespace {

/// y = relu(x), sums = those of its columns, largest = their largest: x is {3000, 64}, which is three pieces of rows.
struct ColumnPlan {
  static constexpr int64_t kRows = 3000, kColumns = 64, kPieces = 3;
  PlanBuilder b;
  uint32_t x, y, sums, largest, parts;
  plan::Task *region;

  ColumnPlan() {
    x = b.input("x", Shape{kRows, kColumns}), y = b.tensor("y", Shape{kRows, kColumns}),
    sums = b.tensor("sums", Shape{kColumns}), largest = b.tensor("largest", Shape{1, kColumns});
    // Sums in f64, maxima in f32.
    parts = b.tensor("parts", Shape{kPieces * kColumns * 12}, kChar, plan::Register::WORKSPACE);
    region = b.task("all", "opc.fused", {{"in", {x}}}, {{"out", {y, sums, largest}}});
    region->set_region(true);
    region->set_workspace(parts + 1);
    PlanBuilder body;
    body.task("relu", "relu", {{"x", {x}}}, {{"y", {y}}});
    body.task("sum", "reduce_sum", {{"input_tensor", {y}}}, {{"output_tensor", {sums}}});
    body.task("max", "reduce_max", {{"input_tensor", {y}}}, {{"output_tensor", {largest}}});
    for (int op : {1, 2}) {
      plan::Attribute *axis = body.plan.mutable_task(op)->add_attr();
      axis->set_name("axis");
      axis->mutable_value()->mutable_at_list_int32()->add_val(0);
    }
    plan::Attribute *keep = body.plan.mutable_task(2)->add_attr();
    keep->set_name("keepdims");
    keep->mutable_value()->set_at_bool(true);
    for (const plan::Task &t : body.plan.task()) {
      *region->add_body() = t;
      region->mutable_body(region->body_size() - 1)->clear_stream();
    }
    for (const auto &[name, tensor] : {std::pair("y", y), std::pair("sums", sums), std::pair("largest", largest)})
      b.output(name, tensor);
  }
  plan::Tensor *inner(uint32_t tensor) { return b.plan.mutable_tensor(static_cast<int>(tensor)); }
};

} // namespace

TEST_CASE("a region that puts rows together makes what its ops make", "[region]") {
  ColumnPlan p;
  Result<Session> s = load(p.b);
  INFO(s.status().toString());
  REQUIRE(s.isOk());
  CHECK(s->tasks().size() == 1);
  for (int64_t run : {0, 1}) { // the second one begins anew
    std::vector<float> x(static_cast<size_t>(ColumnPlan::kRows * ColumnPlan::kColumns));
    std::vector<double> sums(ColumnPlan::kColumns, 0), largest(ColumnPlan::kColumns, 0);
    for (int64_t r = 0; r < ColumnPlan::kRows; ++r)
      for (int64_t c = 0; c < ColumnPlan::kColumns; ++c) {
        const auto at = static_cast<size_t>(c);
        const int64_t value = (r * 7 + c * (13 + run)) % 101 - 50; // sums are whole, and exact
        x[static_cast<size_t>(r * ColumnPlan::kColumns) + at] = static_cast<float>(value);
        sums[at] += static_cast<double>(std::max<int64_t>(value, 0));
        largest[at] = std::max(largest[at], static_cast<double>(value));
      }
    REQUIRE(s->feed("x", floats(Shape{ColumnPlan::kRows, ColumnPlan::kColumns}, x)).isOk());
    REQUIRE(s->run(1).isOk());
    const auto madeSums = s->fetch("sums"), madeLargest = s->fetch("largest");
    REQUIRE((madeSums.isOk() && madeLargest.isOk()));
    for (size_t c = 0; c < sums.size(); ++c) {
      CHECK(static_cast<double>(madeSums->as<float>()[c]) == sums[c]);
      CHECK(static_cast<double>(madeLargest->as<float>()[c]) == largest[c]);
    }
  }
}

TEST_CASE("a region that puts rows together and contradicts itself is refused", "[region]") {
  const auto error = [](const std::function<void(ColumnPlan *)> &damage) {
    ColumnPlan p;
    damage(&p);
    const Status s = load(p.b).status();
    return s.id() + " " + s.message();
  };
  using Catch::Contains;
  CHECK_THAT(error([](ColumnPlan *p) { p->region->clear_workspace(); }), Contains("OPC0818"));
  CHECK_THAT(error([](ColumnPlan *p) { p->inner(p->parts)->set_dim(0, 2300); }), Contains("OPC0818"));
  CHECK_THAT(error([](ColumnPlan *p) { p->region->set_workspace(1000); }), Contains("OPC0811"));
  CHECK_THAT(error([](ColumnPlan *p) { p->region->set_workspace(p->y + 1); }), Contains("OPC0811"));
  CHECK_THAT(error([](ColumnPlan *p) { p->inner(p->parts)->set_register_(p->inner(p->y)->register_()); }),
             Contains("OPC08"));
  CHECK_THAT(error([](ColumnPlan *p) { p->region->mutable_body(1)->set_workspace(p->parts + 1); }),
             Contains("OPC0816"));
  CHECK_THAT(error([](ColumnPlan *p) { p->inner(p->sums)->set_dim(0, 63); }), Contains("OPC0815"));
  CHECK_THAT(error([](ColumnPlan *p) { // the sums are not there while the loop runs
               plan::Task *sub = p->region->add_body();
               const uint32_t rest = p->b.tensor("rest", Shape{ColumnPlan::kRows, ColumnPlan::kColumns});
               PlanBuilder more;
               more.task("rest", "broadcast_sub", {{"x", {p->y}}, {"y", {p->sums}}}, {{"z", {rest}}});
               *sub = more.plan.task(0);
               sub->clear_stream();
               p->region->mutable_output(0)->add_tensor(rest);
             }),
             Contains("OPC0816") && Contains("does not go by the rows"));
}
