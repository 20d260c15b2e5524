// Several registries in one process share what the program itself defines, and nothing of what each has concluded.
// SPDX-License-Identifier: Apache-2.0
#include "Registry.h"
#include "BuiltIn.h"
#include "DerivedGradient.h"
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
    CHECK(isBuiltIn(op->origin));
    CHECK_FALSE(op->pureReason.empty());
    for (const user_op::KernelDef *k : own) {
      CHECK(k->opType == op->name);
      CHECK(isBuiltIn(k->origin));
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
  CHECK(isBuiltIn(plain.kernels("relu").front()->origin));
  Registry later;
  REQUIRE(later.addLinked().isOk());
  CHECK(later.findOp("relu")->pure);
  for (const user_op::OpDef *op : extended.ops()) CHECK(extended.findOp(op->name) == op);
}

TEST_CASE("What is built in is what no plugin has brought, whatever its library is called") {
  setPluginOpener({"in-process", [](const std::string &path) { return path == "built-in"; },
                   [](const std::string &path) -> Result<LoadedPlugin> {
                     LoadedPlugin plugin;
                     plugin.info.path = path;
                     Registry linked;
                     OPC_RETURN_IF_ERROR(linked.addLinked());
                     user_op::OpDef op = *linked.findOp("tanh"); // with a function, of which gradients are derived
                     op.name = "other_tanh", op.aliases.clear();
                     plugin.registrations.ops.push_back(op);
                     return plugin;
                   }});
  Registry registry;
  REQUIRE(registry.addLinked().isOk());
  REQUIRE(registry.loadPlugin("built-in").isOk());
  const user_op::OpDef *own = registry.findOp("tanh"), *other = registry.findOp("other_tanh");
  CHECK(isBuiltIn(own->origin));
  CHECK_FALSE(isBuiltIn(other->origin));
  CHECK(libraryText(own->origin) == libraryText(other->origin));
  for (const user_op::OpDef *op : {own, other}) {
    auto derived = registry.derivedGradient(*op, 0);
    REQUIRE(derived.isOk());
    const std::string name = (*derived)->def.name;
    REQUIRE_FALSE(registry.kernels(name).empty());
    CHECK(isBuiltIn(registry.findOp(name)->origin) == (op == own));
    for (const user_op::KernelDef *k : registry.kernels(name)) CHECK(isBuiltIn(k->origin) == (op == own));
  }
}

TEST_CASE("A frozen registry takes neither the program's ops nor a plugin's") {
  Registry registry;
  registry.freeze();
  CHECK(registry.addLinked().id() == "OPC0901");
  CHECK(registry.ops().empty());
}
