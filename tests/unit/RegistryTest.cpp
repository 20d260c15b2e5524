// Several registries in one process share what the program itself defines, and nothing of what each has concluded.
// SPDX-License-Identifier: Apache-2.0
#include "Registry.h"
#include "PluginOpeners.h"

#include <catch2/catch.hpp>

using namespace opc;

namespace {

const char kStatefulRelu[] = "stateful-relu.in-process";

/// Another kernel of relu, which says that it makes a state.
Result<LoadedPlugin> openStatefulRelu(const std::string &path) {
  LoadedPlugin plugin;
  plugin.info.path = path;
  Registry linked;
  OPC_RETURN_IF_ERROR(linked.addLinked());
  user_op::KernelDef kernel = *linked.kernels("relu").front();
  kernel.hasState = true, kernel.priority = 100;
  plugin.registrations.kernels.push_back(kernel);
  return plugin;
}

} // namespace

TEST_CASE("Registries share the kernels of the program, in the same order") {
  Registry first, second;
  REQUIRE(first.addLinked().isOk());
  REQUIRE(second.addLinked().isOk());
  REQUIRE(first.ops().size() > 300);
  REQUIRE(first.ops().size() == second.ops().size());
  size_t kernels = 0, made = 0;
  for (const user_op::OpDef *op : first.ops()) {
    const auto &own = first.kernels(op->name), &others = second.kernels(op->name);
    REQUIRE(own.size() == others.size());
    // All but those that a registry makes from scalar functions, for devices.
    for (size_t i = 0; i < own.size(); ++i) {
      CHECK((own[i] == others[i] || kernelTarget(*own[i]).device == kernelTarget(*others[i]).device));
      made += own[i] != others[i];
    }
    CHECK(op->origin.library == "built-in");
    CHECK_FALSE(op->pureReason.empty());
    for (const user_op::KernelDef *k : own) {
      CHECK(k->opType == op->name);
      CHECK(k->origin.library == "built-in");
    }
    kernels += own.size();
  }
  CHECK(kernels > 1000);
  CHECK(made < kernels / 3);
}

TEST_CASE("What a plugin's kernel says of a shared op holds in its registry alone") {
  setPluginOpener({"in-process", [](const std::string &path) { return path == kStatefulRelu; }, openStatefulRelu});
  Registry plain, extended;
  REQUIRE(plain.addLinked().isOk());
  REQUIRE(extended.addLinked().isOk());
  REQUIRE(extended.loadPlugin(kStatefulRelu).isOk());
  CHECK(plain.findOp("relu")->pure);
  CHECK_FALSE(extended.findOp("relu")->pure);
  CHECK(extended.findOp("relu")->pureReason.find("makes a state") != std::string::npos);
  CHECK(extended.findOp("tanh") == plain.findOp("tanh"));
  CHECK(extended.kernels("relu").size() == plain.kernels("relu").size() + 1);
  CHECK(extended.kernels("relu").front()->origin.library == kStatefulRelu);
  CHECK(plain.kernels("relu").front()->origin.library == "built-in");
  Registry later;
  REQUIRE(later.addLinked().isOk());
  CHECK(later.findOp("relu")->pure);
  for (const user_op::OpDef *op : extended.ops()) CHECK(extended.findOp(op->name) == op);
}

TEST_CASE("A frozen registry takes neither the program's ops nor a plugin's") {
  Registry registry;
  registry.freeze();
  CHECK(registry.addLinked().id() == "OPC0901");
  CHECK(registry.ops().empty());
}
