// Values of variables that lie outside a plan's message: the bytes are those of the whole message, as protobuf writes
// it, and what is read is what protobuf reads.
// SPDX-License-Identifier: Apache-2.0
#include "FileBytes.h"
#include "PlanBuilder.h"
#include "PlanSplice.h"
#include "Session.h"

#include <catch2/catch.hpp>

#include <cstring>
#include <filesystem>
#include <numeric>
#include <unistd.h>

namespace {

using namespace opc;
using namespace opc::test;

/// Variables whose lengths take one to four bytes, in a plan and its parts; every third has no data.
plan::Plan many(size_t scale) {
  plan::Plan plan;
  plan.set_producer("test");
  plan.add_task()->set_name("before");
  const auto fill = [&](plan::Plan *to) {
    to->mutable_interface()->add_input()->set_name("x");
    for (size_t k = 0; k < 6; ++k) {
      auto *v = to->mutable_interface()->add_variable();
      v->set_name("v" + std::to_string(k));
      v->set_tensor(static_cast<uint32_t>(k));
      if (k % 3 != 2) v->set_data(std::string(scale * (k + 1), static_cast<char>('a' + k)));
    }
    to->mutable_interface()->add_constant()->set_data("constant");
  };
  fill(&plan);
  plan.add_part()->set_graph("without");
  fill(plan.add_part());
  plan.add_part_of_rank(1);
  return plan;
}

std::vector<plan::Interface::Variable *> variablesOf(plan::Plan *plan) {
  std::vector<plan::Interface::Variable *> list;
  for (auto &v : *plan->mutable_interface()->mutable_variable()) list.push_back(&v);
  for (plan::Plan &part : *plan->mutable_part())
    for (auto &v : *part.mutable_interface()->mutable_variable()) list.push_back(&v);
  return list;
}

/// A file of the message, as encodePlan() would make it.
std::string fileOf(const std::string &message) {
  std::string file = encodePlan(plan::Plan()).substr(0, 32) + message;
  const uint64_t length = message.size(), sum = planChecksum(message);
  file[8] = 3;
  std::memcpy(&file[16], &length, 8);
  std::memcpy(&file[24], &sum, 8);
  return file;
}

TEST_CASE("a plan with values outside has the bytes of the whole plan", "[plan]") {
  for (size_t scale : {1, 20, 700, 3000, 400000}) {
    INFO(scale);
    plan::Plan whole = many(scale), rest = whole;
    OutsideValues outside;
    const auto all = variablesOf(&whole), left = variablesOf(&rest);
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i]->has_data() && i % 2 == 0) {
        outside.emplace(left[i], OutsideValue{all[i]->data(), std::make_shared<ValuePages>()});
        left[i]->set_data("");
      }
    const FilePieces pieces = encodePlan(rest, outside);
    const std::string expected = encodePlan(whole);
    CHECK(pieces.size() == expected.size());
    CHECK(pieces.text() == expected);
    CHECK(expected.substr(32) == whole.SerializePartialAsString());
    CHECK(planChecksum(pieces) == planChecksum(expected));
  }
}

TEST_CASE("large values stay in the bytes that a plan is read from", "[plan]") {
  for (size_t scale : {1, 700, 400000}) {
    INFO(scale);
    plan::Plan whole = many(scale), read;
    const std::string bytes = encodePlan(whole);
    OutsideValues outside;
    REQUIRE(decodePlan(bytes, nullptr, &read, &outside).isOk());
    const auto expected = variablesOf(&whole), found = variablesOf(&read);
    REQUIRE(found.size() == expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i]->has_data() == expected[i]->has_data());
      CHECK(dataOf(*found[i], outside) == expected[i]->data());
      CHECK(outside.count(found[i]) == (expected[i]->data().size() >= kLeastOutside));
      CHECK(found[i]->data().empty() == (!expected[i]->has_data() || outside.count(found[i]) > 0));
    }
  }
}

TEST_CASE("what another program writes means what protobuf says", "[plan]") {
  const std::string large(5000, 'x'), other(6000, 'y');
  const auto field = [](char tag, const std::string &content, bool isLong = false) {
    std::string text(1, tag);
    text += static_cast<char>(0x80 | (content.size() & 0x7f));
    text += static_cast<char>((isLong ? 0x80 : 0) | (content.size() >> 7));
    return (isLong ? text + '\0' : text) + content;
  };
  constexpr char kInterface = 0x42, kVariable = 0x1a, kData = 0x4a, kUnknownGroup = 0x7b, kGroupEnd = 0x7c;
  struct Case {
    const char *what;
    std::string message;
  };
  const Case cases[] = {
      {"data twice", field(kInterface, field(kVariable, field(kData, large) + field(kData, other)))},
      {"a long length", field(kInterface, field(kVariable, field(kData, large, true)))},
      {"a long length around", field(kInterface, field(kVariable, field(kData, large)), true)},
      {"an unknown group", field(kInterface, field(kVariable, field(kData, large) + kUnknownGroup + kGroupEnd))},
      {"an interface in two", field(kInterface, field(kVariable, field(kData, large))) +
                                  field(kInterface, field(kVariable, field(kData, other)))},
      {"a part within a part", field(0x52, field(0x52, field(kInterface, field(kVariable, field(kData, large)))))},
  };
  for (const Case &c : cases) {
    INFO(c.what);
    plan::Plan expected, read;
    REQUIRE(expected.ParsePartialFromString(c.message));
    OutsideValues outside;
    REQUIRE(decodePlan(fileOf(c.message), nullptr, &read, &outside).isOk());
    const auto all = variablesOf(&expected), found = variablesOf(&read);
    REQUIRE(found.size() == all.size());
    for (size_t i = 0; i < found.size(); ++i) CHECK(dataOf(*found[i], outside).size() == all[i]->data().size());
  }
  const std::string good = cases[4].message;
  for (size_t size = 0; size < good.size(); size += 97) { // refused, or read alike
    plan::Plan expected, read;
    OutsideValues outside;
    INFO(size);
    CHECK(decodePlan(fileOf(good.substr(0, size)), nullptr, &read, &outside).isOk() ==
          expected.ParsePartialFromString(good.substr(0, size)));
  }
}

/// y = w of 5000 numbers.
PlanBuilder withValue(const std::vector<float> &numbers, size_t bytes) {
  PlanBuilder b;
  const Shape shape{static_cast<int64_t>(numbers.size())};
  const uint32_t w = b.tensor("w/out", shape, kFloat, plan::Register::VARIABLE), y = b.tensor("y", shape);
  auto *v = b.plan.mutable_interface()->add_variable();
  v->set_name("w");
  v->set_tensor(w);
  v->set_data(std::string(reinterpret_cast<const char *>(numbers.data()), bytes));
  b.add("copy", w, y, 1);
  b.output("out", y);
  return b;
}

TEST_CASE("a session takes large values from memory and from a mapped file", "[plan]") {
  std::vector<float> numbers(5000);
  std::iota(numbers.begin(), numbers.end(), 0.5f);
  const std::string bytes = withValue(numbers, numbers.size() * 4).encode();
  namespace fs = std::filesystem;
  const std::string path =
      (fs::temp_directory_path() / ("opc_outside_" + std::to_string(::getpid()) + ".plan")).string();
  REQUIRE(writeFileAtomically(path, bytes).isOk());
  Result<FileBytes> mapped = FileBytes::open(path);
  REQUIRE((mapped.isOk() && mapped->isMapped()));
  REQUIRE(writeFileAtomically(path, "another file has its name").isOk());
  fs::remove(path);
  for (std::string_view from : {std::string_view(bytes), mapped->view()}) {
    Result<Session> s = Session::load(from, registry());
    REQUIRE(s.isOk());
    CHECK(s->interface().variables[0].hasValue);
    Result<HostTensor> w = s->variable("w");
    REQUIRE(w.isOk());
    CHECK(std::memcmp(w->data(), numbers.data(), numbers.size() * 4) == 0);
  }
  const Status s = Session::load(withValue(numbers, 4096).encode(), registry()).status();
  CHECK(s.id() == "OPC0812");
  CHECK(s.message().find("4096 bytes") != std::string::npos);
}

} // namespace
