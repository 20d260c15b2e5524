// PTX that is not PTX: a message with a line, never a crash; and what a module says of itself.
// SPDX-License-Identifier: Apache-2.0
#include "SimulatorFixture.h"

#include <fstream>
#include <iterator>
#include <random>

using namespace opc::gpusim;
using namespace opc::gpusim::test;

namespace {

std::string known() {
  std::ifstream f(std::string(OPC_SOURCE_DIR) + "/tests/gpusim/known_bad.ptx");
  return {std::istreambuf_iterator<char>(f), {}};
}

std::string errorOf(const std::string &ptx) {
  std::string error;
  auto module = Module::parse(ptx, &error);
  return module ? "" : error;
}

/// One kernel and what comes before the first: enough text for every directive, little enough to try every byte.
std::string oneKernel(const std::string &name) {
  std::string all = known();
  size_t first = all.find(".visible .entry"), begin = all.find(".visible .entry " + name + "("),
         end = all.find("\n}", begin);
  REQUIRE(begin != all.npos);
  return all.substr(0, first) + all.substr(begin, end + 3 - begin) + all.substr(all.find(".file"));
}

/// Parses, and if that succeeds runs whatever came out.
void tryOut(const std::string &ptx) {
  std::string error;
  std::shared_ptr<const Module> module = Module::parse(ptx, &error);
  if (!module) {
    REQUIRE(error.rfind("line ", 0) == 0);
    return;
  }
  Memory memory(1 << 24);
  auto loaded = LoadedModule::load(module, memory, &error);
  if (!loaded || module->kernels().empty()) return;
  uint64_t out = memory.allocate(1024), in = memory.allocate(1024);
  memory.fill(in, 1, 1024);
  std::vector<char> params(std::max<uint32_t>(64, module->kernels()[0].paramBytes), 0);
  std::memcpy(params.data(), &out, 8), std::memcpy(params.data() + 8, &in, 8);
  Launch launch;
  launch.module = loaded.get(), launch.kernel = module->kernels()[0].name, launch.params = params.data();
  launch.block.x = 64, launch.instructionLimit = 2000;
  run(memory, launch);
}

} // namespace

TEST_CASE("a module says what it has", "[gpusim]") {
  std::string error;
  auto module = Module::parse(kHead + R"(
.visible .entry k(.param .u32 n, .param .align 16 .b8 s[20], .param .u64 .ptr .global .align 4 p)
.maxntid 128, 2, 1
.minnctapersm 3
{ .shared .align 8 .b8 a[24]; .shared .b32 b; .local .b8 l[40]; ret; }
.global .align 4 .u32 x[2] = {7, -1};
.const .f32 y = 0f3F800000;
)",
                              &error);
  INFO(error);
  REQUIRE(module);
  const KernelInfo *k = module->kernel("k");
  REQUIRE(k);
  CHECK(k->params.size() == 3);
  CHECK(k->params[1].offset == 16);
  CHECK(k->params[2].offset == 40);
  CHECK(k->paramBytes == 48);
  CHECK(k->maxThreads == 256);
  CHECK(k->minBlocks == 3);
  CHECK(k->staticShared == 28);
  CHECK(k->localBytes == 40);
  CHECK(module->kernel("x") == nullptr);
  REQUIRE(module->variables().size() == 2);
  CHECK(module->variables()[0].bytes == 8);
  CHECK(std::to_integer<int>(module->variables()[0].initial[7]) == 255);
  CHECK(module->variables()[1].constant);
  CHECK(module->target() == "sm_80");
  CHECK(module->version() == 80);
}

TEST_CASE("an error names its line and what is wrong", "[gpusim]") {
  auto body = [](const std::string &text) {
    return kHead + ".entry k() {\n.reg .b32 %r<4>;\n.reg .pred %p<2>;\n" + text + "\nret;\n}\n";
  };
  std::pair<std::string, std::string> wrong[] = {
      {"", "line 1: a PTX module begins with .version"},
      {"hello", "line 1: a PTX module begins with .version"},
      {".version 8.0\n.target sm_80\n.address_size 32", "line 3: addresses have 64 bits"},
      {body("mov.u32 %r9, 1;"), "line 7: the register %r9 is not declared"},
      {body("mov.u32 %r1, nowhere;"), "line 7: the name nowhere is not declared"},
      {body("bra $L1;"), "line 7: the label $L1 is nowhere"},
      {body("L: L: ret;"), "line 7: the label L is there twice"},
      {body("@%r1 ret;"), "line 7: the guard is no predicate"},
      {body("mov.u32 %r1, 1"), "line 8: expected ';', found 'ret'"},
      {body("mov.u32 %r1, 12abc;"), "line 7: a number goes on as a word"},
      {body("mov.f32 %r1, 0f12;"), "line 7: a number is wrong"},
      {body("call f, ();"), "line 7: the function f is not declared"},
      {body("\x01"), "line 7: a character that PTX does not have: 0x01"},
      {body("/* "), "line 7: a comment has no end"},
      {kHead + ".entry k() {\n", "line 5: the function k has no end"},
      {kHead + ".entry k() { ret; }\n.entry k() { ret; }", "line 5: the function k is defined twice"},
      {kHead + ".global .b8 a[2] = {1, 2, 3};", "line 4: an initializer is larger than its variable a"},
      {kHead + ".global .align 3 .b8 a[2];", "line 4: an alignment is a power of two"},
      {kHead + ".entry k() { .reg .b32 %r<999999999>; }", "line 4: too many registers"},
      {kHead + ".global .b32 g[4294967296][4294967296];", "line 4: an array is too large"},
      {kHead + ".shared .b32 g[4294967296][4294967296];", "line 4: an array is too large"},
      {body(".shared .b32 g[4294967296][4294967296];"), "line 7: an array is too large"},
      {body(".local .b32 g[65536][65536][65536][65536];"), "line 7: an array is too large"},
      {body("ld.global.v4.u32 {%r1, %r2}, [%r3];"), "line 7: an access to 4 elements names 2"},
      {body("ld.global.v2.u32 %r1, [%r3];"), "line 7: an access to 2 elements names 1"},
      {body("ld.global.u32 {%r1, %r2}, [%r3];"), "line 7: an access to 1 element names 2"},
      {body("st.global.v2.u32 [%r3], {%r0, %r1, %r2, %r3};"), "line 7: an access to 2 elements names 4"},
      {kHead + ".entry k() .maxntid 0 { ret; }", "line 4: a block has at least one thread"},
      {kHead + ".entry k() .reqntid 32, 0, 1 { ret; }", "line 4: a block has at least one thread"},
      {kHead + ".strange 1;", "line 4: a directive that is not known here: .strange"},
  };
  for (auto &[text, message] : wrong) {
    INFO(text);
    CHECK_THAT(errorOf(text), Catch::StartsWith(message));
  }
}

TEST_CASE("text that is cut anywhere is refused or run", "[gpusim]") {
  std::string text = oneKernel("bad_missing_second_barrier");
  for (size_t n = 0; n < text.size(); n += 3) tryOut(text.substr(0, n));
  std::string assertion = oneKernel("bad_assertion");
  for (size_t n = 0; n < assertion.size(); n += 7) tryOut(assertion.substr(0, n));
}

TEST_CASE("text with changed bytes is refused or run", "[gpusim]") {
  std::mt19937 random(7);
  for (const char *name : {"good_copy_of_older_group", "good_misaligned_vector", "bad_mask_waits_for_barrier",
                           "good_recursion", "good_assertion"}) {
    std::string all = known(), text = std::string(name) == "good_recursion" ? all : oneKernel(name);
    int tries = text.size() > 20000 ? 60 : 400;
    for (int i = 0; i < tries; ++i) {
      std::string changed = text;
      for (int k = 1 + int(random() % 3); k > 0; --k) {
        size_t at = random() % changed.size();
        // Digits and letters are what changes meanings; other bytes change the form.
        if (random() % 2)
          changed[at] = "0123456789abdfrpsu.,;[]{}%-"[random() % 27];
        else
          changed[at] = char(random());
      }
      tryOut(changed);
    }
  }
}
