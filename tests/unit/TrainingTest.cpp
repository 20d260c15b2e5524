// What training needs of the runtime: batches, steps, random numbers by step, checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include "BatchLoader.h"
#include "Checkpoint.h"
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <limits>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <unistd.h>

using namespace opc;
using opc::test::ok;
using opc::test::PlanBuilder;
using opc::test::registry;

namespace {

class Folder {
public:
  Folder() {
    static int serial = 0;
    const std::string name = "opc-training-" + std::to_string(::getpid()) + "-" + std::to_string(serial++);
    path_ = (std::filesystem::temp_directory_path() / name).string();
    std::filesystem::create_directory(path_);
  }
  ~Folder() {
    for (const std::string &f : files_) ::unlink(f.c_str());
    ::rmdir(path_.c_str());
  }
  std::string operator/(const std::string &name) {
    files_.push_back(path_ + "/" + name);
    return files_.back();
  }

private:
  std::string path_;
  std::vector<std::string> files_;
};

template <class T> HostTensor tensor(DataType type, Shape shape, std::vector<T> values) {
  HostTensor t = std::move(*HostTensor::create(type, shape));
  std::copy(values.begin(), values.end(), t.as<T>());
  return t;
}
std::vector<float> floats(const HostTensor &t) { return {t.as<float>(), t.as<float>() + t.elemCount()}; }

/// w += d in each step; the output is what w was before.
PlanBuilder counter() {
  PlanBuilder b;
  const uint32_t w = b.variable("w", Shape{2}), d = b.input("d", Shape{2});
  const uint32_t y = b.tensor("y/out_0", Shape{2});
  b.add("copy", w, y, 0);
  b.task("update", "runtime_test_update", {{"model", {w}}, {"delta", {d}}}, {});
  b.output("y", y);
  return b;
}

Session counting(const std::vector<float> &start) {
  Result<Session> s = Session::load(counter().encode(), registry());
  REQUIRE(s.isOk());
  ok(s->setVariable("w", tensor<float>(kFloat, {2}, start)));
  ok(s->feed("d", tensor<float>(kFloat, {2}, {1, 10})));
  return std::move(*s);
}

uint32_t constantOf(PlanBuilder &b, const Shape &shape, DataType type, const std::string &bytes) {
  const uint32_t t = b.tensor("constant", shape, type, plan::Register::CONSTANT);
  auto *constant = b.plan.mutable_interface()->add_constant();
  constant->set_tensor(t);
  constant->set_data(bytes);
  return t;
}

/// `to` is what the op `uniform` draws, 6 numbers, in as many loops of one turn in one another.
void draw(PlanBuilder &b, uint32_t to, int loops) {
  plan::Task *t = nullptr;
  auto attr = [&](const char *name) {
    t->add_attr()->set_name(name);
    return t->mutable_attr(t->attr_size() - 1)->mutable_value();
  };
  if (loops == 0) {
    t = b.task("u", "uniform", {}, {{"out", {to}}});
    attr("dtype")->set_at_data_type(graph::kFloat);
    attr("shape")->mutable_at_shape()->add_dim(6);
    return;
  }
  PlanBuilder turn;
  turn.input("turn", Shape{}, kInt64);
  turn.input("before", Shape{6});
  const uint32_t after = turn.tensor("after", Shape{6});
  draw(turn, after, loops - 1);
  turn.output("go", constantOf(turn, Shape{}, kBool, std::string(1, 1)));
  turn.output("after", after);
  const uint32_t turns = constantOf(b, Shape{1}, kInt64, {1, 0, 0, 0, 0, 0, 0, 0}),
                 go = constantOf(b, Shape{1}, kBool, std::string(1, 1)),
                 from = constantOf(b, Shape{6}, kFloat, std::string(24, 0));
  t = b.task("loop", "loop", {{"turns", {turns}}, {"cond", {go}}, {"in", {from}}}, {{"out", {to}}});
  attr("graph")->set_at_string("");
  attr("states")->set_at_int64(1);
  *t->add_graph() = turn.plan;
}

std::string uniformPlan(int loops = 0) {
  PlanBuilder b;
  const uint32_t y = b.tensor("u/out_0", Shape{6});
  draw(b, y, loops);
  b.output("y", y);
  return b.encode();
}

std::vector<float> drawn(uint64_t seed, int64_t from, int64_t steps) {
  SessionOptions options;
  options.seed = seed;
  Result<Session> s = Session::load(uniformPlan(), registry(), options);
  REQUIRE(s.isOk());
  ok(s->setStep(from));
  ok(s->run(steps));
  CHECK(s->step() == from + steps);
  return floats(*s->fetch("y"));
}

} // namespace

TEST_CASE("batches without shuffling run through the examples in order", "[training]") {
  BatchOrder order(10, 3, false, 0);
  CHECK(order.stepsPerEpoch() == 3);
  CHECK(order.leftOver() == 1);
  std::vector<int64_t> seen;
  for (int64_t step = 0; step < 4; ++step) {
    const int64_t *b = order.batchOf(step);
    seen.insert(seen.end(), b, b + 3);
  }
  CHECK(seen == std::vector<int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 1, 2});
}

TEST_CASE("shuffled batches depend on the seed and the step alone", "[training]") {
  BatchOrder order(100, 10, true, 7);
  std::vector<std::vector<int64_t>> steps;
  for (int64_t step = 0; step < 20; ++step) {
    const int64_t *b = order.batchOf(step);
    steps.push_back({b, b + 10});
  }
  for (int64_t epoch = 0; epoch < 2; ++epoch) { // each example once
    std::vector<int64_t> all;
    for (int64_t step = 10 * epoch; step < 10 * epoch + 10; ++step)
      all.insert(all.end(), steps[static_cast<size_t>(step)].begin(), steps[static_cast<size_t>(step)].end());
    std::vector<int64_t> sorted = all, wanted(100);
    std::iota(wanted.begin(), wanted.end(), 0);
    CHECK(all != wanted);
    std::sort(sorted.begin(), sorted.end());
    CHECK(sorted == wanted);
  }
  CHECK(std::vector<int64_t>(steps[0]) != steps[10]);
  for (int64_t step : {15, 3, 15, 0, 19}) { // any order of asking, and a fresh object
    const int64_t *b = order.batchOf(step);
    CHECK(std::vector<int64_t>(b, b + 10) == steps[static_cast<size_t>(step)]);
    BatchOrder fresh(100, 10, true, 7);
    b = fresh.batchOf(step);
    CHECK(std::vector<int64_t>(b, b + 10) == steps[static_cast<size_t>(step)]);
  }
  BatchOrder other(100, 10, true, 8);
  const int64_t *b = other.batchOf(0);
  CHECK(std::vector<int64_t>(b, b + 10) != steps[0]);
}

TEST_CASE("a loader feeds rows, from files in place", "[training]") {
  Folder folder;
  const std::string path = folder / "d.npy";
  ok(writeNpy(path, tensor<float>(kFloat, {5, 2}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9})));
  PlanBuilder b;
  const uint32_t d = b.input("d", Shape{2, 2});
  const uint32_t y = b.tensor("y/out_0", Shape{2, 2});
  b.add("copy", d, y, 0);
  b.output("y", y);
  Result<Session> s = Session::load(b.encode(), registry());
  REQUIRE(s.isOk());
  auto sources = [&](const std::string &input, const std::string &file) {
    std::vector<BatchLoader::Source> list;
    Result<MappedTensor> data = MappedTensor::open(file);
    REQUIRE(data.isOk());
    CHECK(data->isMapped());
    list.push_back({input, std::move(*data)});
    return list;
  };
  Result<BatchLoader> loader = BatchLoader::create(*s, sources("d", path), false, 0);
  REQUIRE(loader.isOk());
  CHECK(loader->order().leftOver() == 1);
  ok(loader->feed(*s, 1));
  ok(s->run());
  CHECK(floats(*s->fetch("y")) == std::vector<float>{4, 5, 6, 7});
  ok(loader->feed(*s, 2)); // the next epoch
  ok(s->run());
  CHECK(floats(*s->fetch("y")) == std::vector<float>{0, 1, 2, 3});

  CHECK(BatchLoader::create(*s, sources("x", path), false, 0).status().id() == "OPC0611");
  auto refused = [&](const HostTensor &t, const char *code) {
    const std::string other = folder / "other.npy";
    ok(writeNpy(other, t));
    CHECK(BatchLoader::create(*s, sources("d", other), false, 0).status().id() == code);
  };
  refused(tensor<double>(kDouble, {2, 2}, {0, 1, 2, 3}), "OPC0703");
  refused(tensor<float>(kFloat, {2, 1}, {0, 1}), "OPC0704");
  refused(tensor<float>(kFloat, {4}, {0, 1, 2, 3}), "OPC0704");
  refused(tensor<float>(kFloat, {1, 2}, {0, 1}), "OPC0704"); // fewer examples than a batch

  const uintmax_t whole = std::filesystem::file_size(path);
  for (const uintmax_t bytes : {whole - 4, uintmax_t{0}}) { // zeros would be read, and a page that is gone
    std::filesystem::resize_file(path, bytes);
    const Status shorter = loader->feed(*s, 0);
    CHECK(shorter.id() == "OPC0702");
    CHECK(shorter.message() == path + ": the file became shorter while it was read");
  }
}

TEST_CASE("random operators draw by step and seed", "[training][random]") {
  const std::vector<float> third = drawn(0, 0, 3);
  CHECK(drawn(0, 2, 1) == third); // a session that goes on from step 2
  CHECK(drawn(0, 0, 1) != third);
  CHECK(drawn(1, 2, 1) != third);
  CHECK(drawn(1, 2, 1) == drawn(1, 1, 2));
  Result<Session> s = Session::load(uniformPlan(), registry());
  REQUIRE(s.isOk());
  CHECK(s->setStep(-1).id() == "OPC0616");
  CHECK(s->run(-1).id() == "OPC0616");
  // Steps are counted to 2^60.
  constexpr int64_t kLast = int64_t{1} << 60, kLargest = std::numeric_limits<int64_t>::max();
  for (const int64_t step : {kLargest, kLast + 1}) CHECK(s->setStep(step).id() == "OPC0616");
  CHECK(s->step() == 0);
  ok(s->setStep(kLast - 1));
  for (const int64_t steps : {kLargest, kLargest - kLast + 2, int64_t{2}}) CHECK(s->run(steps).id() == "OPC0616");
  ok(s->run(1));
  CHECK(s->step() == kLast);
  CHECK(s->run(1).id() == "OPC0616");
  ok(s->run(0));
}

TEST_CASE("what loops in one another draw depends on the step, too", "[training][random]") {
  for (int loops = 1; loops <= 5; ++loops) {
    CAPTURE(loops);
    Result<Session> s = Session::load(uniformPlan(loops), registry());
    ok(s.status());
    std::vector<std::vector<float>> draws;
    for (const int64_t step : {int64_t{0}, int64_t{1}, int64_t{70000}, int64_t{1} << 40}) {
      ok(s->setStep(step));
      ok(s->run());
      draws.push_back(floats(*s->fetch("y")));
      for (size_t i = 0; i + 1 < draws.size(); ++i) CHECK(draws[i] != draws.back());
    }
    ok(s->setStep(70000));
    ok(s->run());
    CHECK(floats(*s->fetch("y")) == draws[2]);
  }
}

TEST_CASE("a session that is loaded from a checkpoint goes on as the saved one", "[training]") {
  Folder folder;
  const std::string path = folder / "ckpt.safetensors";
  Session a = counting({0, 0});
  ok(a.run(3));
  ok(saveCheckpoint(path, a, {a.step(), 1, 42, {{"batch", "64"}}}));
  ok(a.run(2));

  Session b = counting({7, 7});
  Result<TrainingState> state = loadCheckpoint(path, b);
  REQUIRE(state.isOk());
  CHECK(state->step == 3);
  CHECK(state->epoch == 1);
  CHECK(state->seed == 42);
  CHECK(state->notes == std::map<std::string, std::string>{{"batch", "64"}});
  CHECK(b.step() == 3);
  CHECK(floats(*b.variable("w")) == std::vector<float>{3, 30});
  ok(b.run(2));
  CHECK(floats(*b.variable("w")) == floats(*a.variable("w")));
  CHECK(b.step() == 5);
}

TEST_CASE("what is no checkpoint changes nothing", "[training]") {
  Folder folder;
  Session s = counting({1, 2});
  const HostTensor two = tensor<float>(kFloat, {2}, {5, 6}), three = tensor<float>(kFloat, {3}, {5, 6, 7});
  const std::map<std::string, std::string> complete = {
      {"format", "opc-checkpoint-1"}, {"step", "4"}, {"epoch", "0"}, {"seed", "0"}};
  auto refused = [&](const NamedTensors &tensors, const std::map<std::string, std::string> &metadata,
                     const char *code) {
    const std::string path = folder / "file";
    ok(writeCheckpointFile(path, tensors, metadata));
    Result<TrainingState> state = loadCheckpoint(path, s);
    REQUIRE_FALSE(state.isOk());
    INFO(state.status().toString());
    CHECK(state.status().id() == code);
    CHECK(floats(*s.variable("w")) == std::vector<float>{1, 2});
    CHECK(s.step() == 0);
  };
  refused({{"w", &two}}, {}, "OPC0711");
  refused({{"w", &two}}, {{"format", "opc-checkpoint-1"}, {"step", "x"}, {"epoch", "0"}, {"seed", "0"}}, "OPC0711");
  refused({{"v", &two}}, complete, "OPC0712");
  refused({{"w", &three}}, complete, "OPC0704");
  refused({{"w", &two}, {"m", &two}}, complete, "OPC0712");
  CHECK(loadCheckpoint(folder / "missing", s).status().id() == "OPC0706");
  // A checkpoint that cannot be written leaves no file behind.
  CHECK(saveCheckpoint("/nowhere/ckpt", s, {}).id() == "OPC0707");
}

TEST_CASE("a checkpoint says which variables are not finite", "[training]") {
  Session fine = counting({1, -3}), inf = counting({1, -HUGE_VALF}), nan = counting({NAN, 1});
  CHECK(Checkpoint::take(fine, {})->notFinite().empty());
  CHECK(Checkpoint::take(inf, {})->notFinite() == std::vector<std::string>{"w"});
  CHECK(Checkpoint::take(nan, {})->notFinite() == std::vector<std::string>{"w"});
}

TEST_CASE("only variables may be written, and those that are count as changing", "[training]") {
  auto loadStatus = [](PlanBuilder &b) {
    Result<Session> s = Session::load(b.encode(), registry());
    return s ? s->prepare() : s.status();
  };
  auto update = [](PlanBuilder &b, uint32_t model, uint32_t delta) {
    b.task("update", "runtime_test_update", {{"model", {model}}, {"delta", {delta}}}, {});
  };
  {
    PlanBuilder b;
    const uint32_t c = b.constant("c", {1, 2}), d = b.input("d", Shape{2});
    update(b, c, d);
    CHECK(loadStatus(b).id() == "OPC0816");
  }
  {
    PlanBuilder b;
    const uint32_t x = b.input("x", Shape{2}), d = b.input("d", Shape{2});
    update(b, x, d);
    CHECK(loadStatus(b).id() == "OPC0816");
  }
  // runtime_test_packed takes only a weight that stays as it is. Another variable may change beside it.
  auto packed = [&](bool weightChanges) {
    PlanBuilder b;
    const uint32_t w = b.variable("w", Shape{2}), other = b.variable("other", Shape{2});
    const uint32_t x = b.input("x", Shape{2}), y = b.tensor("y/out_0", Shape{2});
    b.task("product", "runtime_test_packed", {{"in", {x}}, {"weight", {w}}}, {{"out", {y}}});
    update(b, weightChanges ? w : other, x);
    b.output("y", y);
    Result<Session> s = Session::load(b.encode(), registry());
    REQUIRE(s.isOk());
    for (const char *name : {"w", "other"}) ok(s->setVariable(name, tensor<float>(kFloat, {2}, {3, 4})));
    return s->prepare();
  };
  CHECK(packed(false).isOk());
  CHECK_FALSE(packed(true).isOk());
}
