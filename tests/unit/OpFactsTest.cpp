// What compilers ask definitions instead of reading an op's name.
// SPDX-License-Identifier: Apache-2.0
#include "DerivedGradient.h"
#include "Registry.h"

#include <catch2/catch.hpp>

using namespace opc;

namespace {

const Registry &builtIn() {
  static const Registry r = [] {
    Registry made;
    REQUIRE(made.addLinked().isOk());
    made.freeze();
    return made;
  }();
  return r;
}

std::vector<std::string> gradientOf(const std::string &op) {
  const user_op::OpDef *def = builtIn().findOp(op);
  REQUIRE(def);
  return def->gradientOf;
}

} // namespace

TEST_CASE("Every gradient op names the ops that it serves") {
  using Names = std::vector<std::string>;
  CHECK(gradientOf("relu_grad") == Names{"relu"});
  CHECK(gradientOf("conv_filter_grad") == Names{"conv1d", "conv2d", "conv3d"});
  CHECK(gradientOf("layer_norm_param_grad") == Names{"layer_norm"});
  CHECK(gradientOf("max_pool_2d_grad") == Names{"max_pool_2d"});
  CHECK(gradientOf("upsample_nearest_2d_grad") == Names{"upsample_nearest_2d"});
  CHECK(gradientOf("broadcast_matmul_grad_b") == Names{"broadcast_matmul"});
  CHECK(gradientOf("relu").empty());
  CHECK(gradientOf("matmul").empty());
  size_t served = 0;
  for (const user_op::OpDef *def : builtIn().ops()) {
    INFO(def->name);
    const std::string suffix = "_grad";
    const bool isGradient =
        def->name.size() > suffix.size() && def->name.compare(def->name.size() - suffix.size(), 5, suffix) == 0;
    if (isGradient) CHECK_FALSE(def->gradientOf.empty());
    for (const std::string &op : def->gradientOf) CHECK(builtIn().findOp(op));
    served += !def->gradientOf.empty();
  }
  CHECK(served > 55);
}

TEST_CASE("A derived gradient names its op") {
  const user_op::OpDef *sqrt = builtIn().findOp("sqrt");
  REQUIRE(sqrt);
  auto derived = builtIn().derivedGradient(*sqrt, 0);
  REQUIRE(derived);
  REQUIRE(*derived);
  CHECK((*derived)->def.gradientOf == std::vector<std::string>{"sqrt"});
}

TEST_CASE("Poolings say over how many dimensions they pool") {
  for (const std::string &op : {"max_pool_1d", "avg_pool_1d", "adaptive_avg_pool1d"})
    CHECK(builtIn().findOp(op)->pooledDims == 1);
  for (const std::string &op : {"max_pool_2d", "avg_pool_2d", "adaptive_avg_pool2d"})
    CHECK(builtIn().findOp(op)->pooledDims == 2);
  for (const std::string &op : {"max_pool_3d", "avg_pool_3d", "adaptive_avg_pool3d"})
    CHECK(builtIn().findOp(op)->pooledDims == 3);
  CHECK(builtIn().findOp("max_pool_2d_grad")->pooledDims == 0);
  CHECK(builtIn().findOp("relu")->pooledDims == 0);
}
