// What kernels of graphs that are the same pack of their inputs, in memory once.
// SPDX-License-Identifier: Apache-2.0
#include "opc/PackedInputs.h"

#include <catch2/catch.hpp>

using namespace opc::user_op;

namespace {

/// A pack, and how many were made.
std::shared_ptr<const void> pack(const std::string &key, int *made) {
  return sharedPack(key, [made] { return std::make_shared<int>(++*made); });
}

} // namespace

TEST_CASE("packs are shared while a sharing lives, by their keys", "[packing]") {
  int made = 0;
  CHECK(pack("w", &made) != pack("w", &made));
  CHECK(made == 2);
  std::shared_ptr<const void> kept;
  {
    const PackSharing sharing;
    kept = pack("w", &made);
    CHECK(pack("w", &made) == kept);
    CHECK(pack("v", &made) != kept);
    CHECK(made == 4);
    {
      const PackSharing inner; // a graph in the graph has its own
      CHECK(pack("w", &made) != kept);
    }
    CHECK(pack("w", &made) == kept);
    CHECK(made == 5);
    CHECK(pack("", &made) != pack("", &made)); // what has no key is nobody else's
    CHECK(made == 7);
  }
  CHECK(pack("w", &made) != kept);
  CHECK(kept.use_count() == 1); // who binds owns it
}
