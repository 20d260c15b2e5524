// Observers of a run: every task in order, with the bytes that it had, in place or not, views and updates included.
// SPDX-License-Identifier: Apache-2.0
#include "SessionCalls.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <mutex>

namespace {

using namespace opc;
using namespace opc::test;

std::vector<float> read(const ObservedTensor &t, Result<const void *> bytes) {
  REQUIRE(bytes);
  std::vector<float> v(static_cast<size_t>(t.desc.shape().elem_cnt()));
  std::memcpy(v.data(), *bytes, v.size() * sizeof(float));
  return v;
}

/// Writes down what it sees.
class Recorder final : public RunObserver {
public:
  std::vector<std::string> events;
  std::string stopAt;
  Status before(const ObservedTask &task, int64_t step, TaskData &data) override {
    std::lock_guard<std::mutex> guard(lock_);
    events.push_back("before " + task.name + " " + text(read(task.inputs[0], data.input(0))));
    return Status::ok();
  }
  Status after(const ObservedTask &task, int64_t step, TaskData &data) override {
    std::lock_guard<std::mutex> guard(lock_);
    events.push_back("after " + task.name + " " + std::to_string(step) + " " +
                     text(read(task.outputs[0], data.output(0))));
    if (task.name == stopAt) return Status(StatusCode::kExecution, "OPC0620", "stopped");
    return Status::ok();
  }
  static std::string text(const std::vector<float> &v) {
    std::string s;
    for (float x : v) s += (s.empty() ? "" : ",") + std::to_string(static_cast<int>(x));
    return s;
  }

private:
  std::mutex lock_;
};

/// A session with one input x of two elements, after steps that were recorded.
Session recorded(const PlanBuilder &b, int64_t steps, Recorder *recorder) {
  Session session = loaded(b);
  ok(session.feed("x", floats({1, 2})));
  session.observe(recorder);
  ok(session.run(steps));
  return session;
}

} // namespace

TEST_CASE("an observer sees each tensor before its memory is used again", "[observer]") {
  // x + 1 -> a; a + 10 -> b in place; flat(b) -> v, a view; v + 100 -> c in place: one register holds a, b, v and c.
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2});
  const uint32_t a = b.tensor("a/out_0", Shape{2});
  const uint32_t reg = b.plan.tensor(static_cast<int>(a)).register_();
  const uint32_t second = b.tensorIn(reg, "b/out_0", Shape{2});
  const uint32_t view = b.tensorIn(reg, "v/out_0", Shape{2});
  const uint32_t c = b.tensorIn(reg, "c/out_0", Shape{2});
  b.add("a", x, a, 1);
  b.add("b", a, second, 10);
  b.task("v", "runtime_test_flat", {{"in", {second}}}, {{"out", {view}}});
  b.add("c", view, c, 100);
  b.output("y", c);
  Recorder recorder;
  Session session = recorded(b, 2, &recorder);
  std::vector<std::string> wanted;
  for (const char *step : {"0", "1"})
    for (const std::string &e : {"before a 1,2", "after a S 2,3", "before b 2,3", "after b S 12,13", "after v S 12,13",
                                 "before c 12,13", "after c S 112,113"}) {
      wanted.push_back(e);
      if (const size_t at = wanted.back().find(" S "); at != std::string::npos) wanted.back().replace(at + 1, 1, step);
    }
  CHECK(recorder.events == wanted);

  // What is overwritten is known: b's input in place, not a's.
  const std::vector<ObservedTask> &tasks = session.tasks();
  REQUIRE(tasks.size() == 4);
  CHECK_FALSE(tasks[0].inputs[0].isOverwritten);
  CHECK(tasks[0].inputs[0].source == ObservedTensor::Source::kInput);
  CHECK(tasks[1].inputs[0].isOverwritten);
  CHECK(tasks[2].isView);
  CHECK_FALSE(tasks[2].inputs[0].isOverwritten);

  // Without an observer nothing is called, and the result is the same.
  recorder.events.clear();
  session.observe(nullptr);
  REQUIRE(session.run());
  CHECK(recorder.events.empty());
  CHECK((*session.fetch("y")).as<float>()[1] == 113);

  // An error of the observer ends the run there; the session stays usable.
  recorder.stopAt = "b";
  session.observe(&recorder);
  const Status stopped = session.run();
  CHECK(stopped.id() == "OPC0620");
  CHECK(recorder.events.back() == "after b 3 12,13");
  session.observe(nullptr);
  REQUIRE(session.run());
  CHECK((*session.fetch("y")).as<float>()[0] == 112);
}

TEST_CASE("an observer gives a task other inputs than those that were made", "[observer]") {
  // x + 1 -> a; a + 10 -> b in place; b + 100 -> c. Before b runs, its input becomes 5, 6.
  struct Replacer final : RunObserver {
    Status before(const ObservedTask &task, int64_t, TaskData &data) override {
      const float other[] = {5, 6};
      return task.name == "b" ? data.replaceInput(0, other) : Status::ok();
    }
    Status after(const ObservedTask &, int64_t, TaskData &) override { return Status::ok(); }
  } replacer;
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2});
  const uint32_t a = b.tensor("a/out_0", Shape{2});
  const uint32_t second = b.tensorIn(b.plan.tensor(static_cast<int>(a)).register_(), "b/out_0", Shape{2});
  const uint32_t c = b.tensor("c/out_0", Shape{2});
  b.add("a", x, a, 1);
  b.add("b", a, second, 10);
  b.add("c", second, c, 100);
  b.output("y", c);
  Session session = loaded(b);
  ok(session.feed("x", floats({1, 2})));
  for (const bool replaces : {true, false}) {
    session.observe(replaces ? &replacer : nullptr);
    ok(session.run());
    const auto y = session.fetch("y");
    REQUIRE(y);
    CHECK(y->as<float>()[0] == (replaces ? 115 : 112));
    CHECK(y->as<float>()[1] == (replaces ? 116 : 113));
  }
}

TEST_CASE("an observer of several streams sees every task of each in order", "[observer]") {
  PlanBuilder b;
  const uint32_t other = b.stream();
  const uint32_t x = b.input("x", Shape{2});
  const uint32_t a = b.tensor("a/out_0", Shape{2}, kFloat, plan::Register::ACTIVATION, 2);
  const uint32_t c = b.tensor("c/out_0", Shape{2});
  b.add("a", x, a, 1);
  b.add("c", a, c, 10, other);
  b.output("y", c);
  Recorder recorder;
  const Session session = recorded(b, 20, &recorder);
  std::vector<std::string> first, second;
  for (const std::string &e : recorder.events) {
    if (e.rfind("after a", 0) == 0) first.push_back(e);
    if (e.rfind("after c", 0) == 0) second.push_back(e);
  }
  REQUIRE(first.size() == 20);
  REQUIRE(second.size() == 20);
  for (size_t i = 0; i < 20; ++i) {
    CHECK(first[i] == "after a " + std::to_string(i) + " 2,3");
    CHECK(second[i] == "after c " + std::to_string(i) + " 12,13");
  }
}

TEST_CASE("a task alone as a graph", "[observer]") {
  PlanBuilder b;
  const uint32_t x = b.input("x", Shape{2, 3});
  const uint32_t y = b.tensor("dir/a:b/out_0", Shape{2, 3});
  b.add("dir/a:b", x, y, 2.5f);
  b.output("y", y);
  Session session = loaded(b);
  Recorder recorder;
  session.observe(&recorder);
  std::vector<std::string> names;
  Result<std::string> text = session.taskGraphText(0, &names);
  REQUIRE(text);
  CHECK(names == std::vector<std::string>{"x_out"});
  CHECK(text->find("op_type_name: \"runtime_test_add\"") != std::string::npos);
  CHECK(text->find("dim: [2, 3]") != std::string::npos);
  CHECK(text->find("at_float: 2.5") != std::string::npos);
  CHECK(text->find("name: \"dir_a_b\"") != std::string::npos); // no name leads anywhere
  CHECK(session.taskGraphText(99, &names).status().message() == "there is no task 99: the plan has 1");
}
