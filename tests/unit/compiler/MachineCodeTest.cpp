// Generated code in memory: its constants and the functions that it calls may be anywhere.
// SPDX-License-Identifier: Apache-2.0
#include "MachineCode.h"
#include "FusedRegion.h"
#include "RegionCode.h"
#include "RegionEmitter.h"

#include <catch2/catch.hpp>

#include <sys/mman.h>

using namespace opc;
using namespace opc::test;

namespace {

int blocks = 0;
/// Memory in blocks that lie 16 GiB apart, further than 32 bits reach.
void *farBlock(size_t bytes) {
  static uintptr_t next = uintptr_t{1} << 44;
  void *at = MAP_FAILED;
  for (; at == MAP_FAILED; next += uintptr_t{16} << 30)
    at = mmap(reinterpret_cast<void *>(next), bytes, PROT_READ | PROT_WRITE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  ++blocks;
  return at;
}

} // namespace

TEST_CASE("generated code works wherever its memory is", "[codegen]") {
  const auto r = regionOf("lgamma"); // exp has constants, lgamma is called for each number
  llvm::LLVMContext context;
  codegen::LeafLibrary leaves(context);
  const CodeLevel level = codeLevel() == CodeLevel::kV4 ? CodeLevel::kV4 : CodeLevel::kV3;
  std::string reason;
  auto module = codegen::emitRegion(*r, leaves, context, 32, &reason);
  INFO(reason);
  REQUIRE(module);
  const std::string object = codegen::compileToObject(std::move(module), level, &reason);
  REQUIRE_FALSE(object.empty());
  blocks = 0;
  for (int copy = 0; copy < 3; ++copy) {
    const auto code = codegen::loadCode(object, codegen::kEntryName, &reason, farBlock);
    INFO(reason);
    REQUIRE(code);
    // Code reaches its constants by 32 bits: both are in one block. The functions of this program are far from it.
    CHECK(blocks == copy + 1);
    RegionCode made;
    made.function = reinterpret_cast<RegionCode::Function>(code->entry());
    made.lanes = 32;
    CHECK(agreesWithLoops(*r, made));
  }
}

TEST_CASE("an object of code is the same each time", "[codegen]") {
  const auto r = regionOf("lgamma");
  std::string reason;
  std::vector<std::string> objects;
  for (int i = 0; i < 2; ++i) {
    llvm::LLVMContext context;
    codegen::LeafLibrary leaves(context);
    objects.push_back(
        codegen::compileToObject(codegen::emitRegion(*r, leaves, context, 32, &reason), CodeLevel::kV3, &reason));
  }
  CHECK(objects[0] == objects[1]);
  CHECK_FALSE(codegen::codeVersion().empty());
  CHECK_FALSE(codegen::loadCode(objects[0].substr(0, objects[0].size() / 2), codegen::kEntryName, &reason));
}
