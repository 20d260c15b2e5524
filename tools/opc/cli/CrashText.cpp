// The text of a crash.
// SPDX-License-Identifier: Apache-2.0
#include "CrashText.h"

#include "ExitCodes.h"
#include "PluginCode.h"

#include <atomic>
#include <cstring>
#include <unistd.h>

namespace opc::cli {

namespace {

constexpr int kLongestWait = 60'000; // ms; the first may compile the graph anew, for 20 s

/// In front of a piece of a part that is said in a file.
struct Piece {
  CrashPart part;
  uint8_t isCode, isFirst; // the code of an error; of a part
  uint32_t bytes;
};

int crashTexts = STDERR_FILENO;
bool areRecords = false, isOpen = false;
Piece piece{};
std::atomic<pid_t> crashing = 0, crashingProcess = 0;
char text[4096];
size_t length = 0;

void put(char c) {
  if (length == sizeof text) flushCrashText();
  text[length++] = c;
}

void write(const void *from, size_t size) {
  const char *bytes = static_cast<const char *>(from);
  while (size > 0) {
    const ssize_t written = ::write(crashTexts, bytes, size);
    if (written <= 0) break;
    bytes += written;
    size -= static_cast<size_t>(written);
  }
}

void beginPiece(CrashPart part, bool isCode) {
  flushCrashText();
  piece = {part, isCode, 1, 0};
}

void sayOp(const char *type, const char *library) {
  say(" of op ");
  sayName(type);
  say(" (");
  sayName(library);
  say(")");
}

} // namespace

bool beginCrash() noexcept {
  pid_t first = 0;
  const pid_t self = ::gettid();
  if (crashing.compare_exchange_strong(first, self)) {
    crashingProcess = ::getpid();
    return true;
  }
  if (first == self) return false;
  for (int waited = 0; waited < kLongestWait && (!crashingProcess || crashingProcess == ::getpid()); ++waited)
    (void)::usleep(1000);
  // A child of the process that crashes, where nobody else would end it; or the first waits for a lock of this
  // thread's.
  flushCrashText();
  ::_exit(kExitInternal);
}

const char *headOf(CrashPart part) noexcept {
  switch (part) {
  case CrashPart::kError: return "error[";
  case CrashPart::kHelp: return "help: ";
  case CrashPart::kMore: return "more: ";
  case CrashPart::kNote: return "note: ";
  case CrashPart::kReplay: return "opc debug replay ";
  case CrashPart::kFolder: return "crash folder: ";
  }
  return "";
}

void sayCrashesIn(int file) noexcept { crashTexts = file, areRecords = true; }

void beginPart(CrashPart part, const char *code) noexcept {
  const bool isError = part == CrashPart::kError;
  if (areRecords) {
    if (isError) beginPiece(part, true), say(code);
    beginPiece(part, false);
    return;
  }
  if (isOpen) put('\n');
  isOpen = true;
  say(headOf(part));
  if (isError) say(code), say("]: ");
}

void say(const char *part) noexcept {
  for (; *part; ++part) put(*part);
}

void sayName(const char *name) noexcept {
  for (; *name; ++name) put(static_cast<unsigned char>(*name) < 0x20 || *name == 0x7f ? '?' : *name);
}

bool sayPluginCode(bool afterKernel) noexcept {
  const PluginRule *rule = PluginRule::current();
  const KernelNames &last = lastPluginNames();
  if (!rule && !(afterKernel && last.task)) return false;
  say("; it may be a plugin's: ");
  say(rule ? rule->what() : "the kernel");
  if (rule)
    sayOp(rule->type(), rule->library());
  else
    sayOp(last.type, last.library), say(", which ran before");
  return true;
}

void flushCrashText() noexcept {
  if (areRecords && length > 0) {
    piece.bytes = static_cast<uint32_t>(length);
    write(&piece, sizeof piece);
    piece.isFirst = 0;
  }
  write(text, length);
  length = 0;
}

void endParts() noexcept {
  if (isOpen) put('\n');
  isOpen = false;
  flushCrashText();
}

SaidCrash crashOf(std::string_view records) {
  SaidCrash said;
  std::string ignored, *to = &ignored;
  for (Piece next; records.size() >= sizeof next;) {
    std::memcpy(static_cast<void *>(&next), records.data(), sizeof next);
    records.remove_prefix(sizeof next);
    if (next.bytes > records.size()) break;
    if (next.isFirst) {
      to = next.isCode                       ? &said.code
           : next.part == CrashPart::kError  ? &said.error
           : next.part == CrashPart::kHelp   ? &said.help
           : next.part == CrashPart::kReplay ? &said.replay
                                             : &ignored;
      if (!to->empty()) to = &ignored; // one crash has led to another
    }
    to->append(records.substr(0, next.bytes));
    records.remove_prefix(next.bytes);
    said.isAny = true;
  }
  return said;
}

} // namespace opc::cli
