// What a process says in a file before its end, as another one reads it.
// SPDX-License-Identifier: Apache-2.0
#include "CrashText.h"

#include <catch2/catch.hpp>

#include <functional>
#include <string>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace opc::cli;

namespace {

/// The records of a process that says this.
std::string recordsOf(const std::function<void()> &speak) {
  const int file = ::memfd_create("said", MFD_CLOEXEC);
  REQUIRE(file >= 0);
  const pid_t child = ::fork();
  if (child == 0) {
    sayCrashesIn(file);
    speak();
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  REQUIRE(status == 0);
  std::string bytes(static_cast<size_t>(::lseek(file, 0, SEEK_END)), '\0');
  REQUIRE(::pread(file, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
  ::close(file);
  return bytes;
}

} // namespace

TEST_CASE("A crash is read as it was said, whatever its texts look like", "[crash]") {
  const std::string large(10000, 'x'); // of several writes
  const SaidCrash said = crashOf(recordsOf([&] {
    beginPart(CrashPart::kError, "OPC0605");
    say("]: 'a'\nhelp: none\nopc debug replay no-folder\nerror[OPC0001]: ");
    flushCrashText();
    say(large.c_str());
    beginPart(CrashPart::kHelp);
    say("error[OPC0002]: ");
    say("b");
    beginPart(CrashPart::kMore);
    say("opc explain");
    beginPart(CrashPart::kReplay);
    say("a folder");
    beginPart(CrashPart::kError, "OPC0999"); // of a crash that the first has led to
    say("another");
    beginPart(CrashPart::kHelp);
    say("another");
    endParts();
  }));
  CHECK(said.isAny);
  CHECK(said.code == "OPC0605");
  CHECK(said.error == "]: 'a'\nhelp: none\nopc debug replay no-folder\nerror[OPC0001]: " + large);
  CHECK(said.help == "error[OPC0002]: b");
  CHECK(said.replay == "a folder");
}

TEST_CASE("A process may end while it says why", "[crash]") {
  const std::string whole = recordsOf([] {
    beginPart(CrashPart::kError, "OPC0605");
    say("a kernel");
    beginPart(CrashPart::kHelp);
    say("a debugger");
    endParts();
  });
  CHECK(crashOf(whole).help == "a debugger");
  CHECK_FALSE(crashOf("").isAny);
  for (size_t size = 0; size < whole.size(); ++size) {
    const SaidCrash said = crashOf(std::string_view(whole).substr(0, size));
    CHECK((said.code.empty() || said.code == "OPC0605"));
    CHECK((said.error.empty() || said.error == "a kernel"));
    CHECK(said.help.empty());
    CHECK(said.isAny == !said.code.empty());
  }
  CHECK_FALSE(crashOf("error[OPC0605]: a kernel\nhelp: a debugger\n").isAny); // no records
}
