// What unknown op types may have meant.
// SPDX-License-Identifier: Apache-2.0
#include "OpSuggestions.h"

#include "TestRegistry.h"
#include "TextParts.h"

#include <catch2/catch.hpp>

#include <set>

using namespace opc;
using test::registry;

TEST_CASE("what other frameworks' operators are here exists", "[spelling]") {
  std::set<std::string> seen;
  for (const OpElsewhere &other : opsElsewhere()) {
    INFO(other.name);
    CHECK(other.name == plainOpName(other.name));
    CHECK(seen.insert(other.name).second);
    for (const std::string &op : splitAt(other.ops, ' ')) {
      INFO(op);
      CHECK(registry().findOp(op));
    }
    CHECK(other.isEither <= (splitAt(other.ops, ' ').size() > 1));
    // An entry that an op's own name hides would never be said.
    for (const user_op::OpDef *op : registry().ops()) CHECK(plainOpName(op->name) != other.name);
  }
}

TEST_CASE("spellings of other frameworks lead to the op", "[spelling]") {
  CHECK(suggestOps(registry(), "torch.nn.ReLU") == "did you mean relu?");
  CHECK(suggestOps(registry(), "Max_Pool-2D") == "did you mean max_pool_2d?");
  CHECK(suggestOps(registry(), "aten::bmm") == "here that is batch_matmul");
  CHECK(suggestOps(registry(), "std") == "here that is var and sqrt");
  CHECK(suggestOps(registry(), "nn.GRU") == "did you mean gru?");
  CHECK(suggestOps(registry(), "Conv") == "here that is conv1d, conv2d or conv3d");
  CHECK(suggestOps(registry(), "acc") ==
        "here that is add_n (OneFlow's, the sum over several parts of a batch: opc grad --accumulate N)");
  CHECK(suggestOps(registry(), "repeat").find("opc grad --accumulate N") != std::string::npos);
  CHECK(suggestOps(registry(), "unpack").find("opc compile --micro-batches N") != std::string::npos);
  CHECK(suggestOps(registry(), "softmx").rfind("did you mean softmax", 0) == 0);
  CHECK(suggestOps(registry(), "frobnicate_the_tensor").empty());
  CHECK(suggestOps(registry(), std::string(1 << 20, 'x')).empty());
}

TEST_CASE("what is loaded is named by kind, without a blank at the end", "[registry]") {
  PluginInfo library, manifest;
  library.path = "libmine.so";
  manifest.path = "python:ops", manifest.source = "ops";
  CHECK(loadedText({}) == "loaded plugins: none (--plugin LIB loads one)");
  CHECK(loadedText({library, library}) == "loaded plugins: libmine.so, libmine.so");
  CHECK(loadedText({manifest}) == "loaded plugins: none (--plugin LIB loads one); operators in Python: ops");
  CHECK(loadedText({manifest, library}) == "loaded plugins: libmine.so; operators in Python: ops");
}
