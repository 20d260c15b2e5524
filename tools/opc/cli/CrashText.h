// What a program says when it crashes, in handlers of signals: no memory is taken, no lock, and a text is one write(2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace opc::cli {

/// The first thread that ends the process by a crash goes on; all others wait here for the end. False: this thread has
/// been here before, and has crashed again.
bool beginCrash() noexcept;

/// What is said is in parts, each a line: "error[CODE]: ...", "help: ...".
enum class CrashPart : uint8_t { kError, kHelp, kMore, kNote, kReplay, kFolder };

/// What the line of a part begins with.
const char *headOf(CrashPart part) noexcept;

/// From now on what this process's crashes say goes to a file, as records that crashOf() reads, and not to standard
/// error: another process shows it.
void sayCrashesIn(int file) noexcept;

/// Ends the part before it. `code` is an error's.
void beginPart(CrashPart part, const char *code = "") noexcept;
/// Of the part that was begun. It leaves the process with flushCrashText(), or when there is much of it.
void say(const char *text) noexcept;
/// Without what a terminal would obey.
void sayName(const char *name) noexcept;
/// "; it may be a plugin's: a rule of op TYPE (LIBRARY)", when such a rule runs in this thread, or with `afterKernel`
/// the kernel of a plugin that ran there before. False: none is known.
bool sayPluginCode(bool afterKernel) noexcept;
void flushCrashText() noexcept;
/// Ends the last part, too.
void endParts() noexcept;

/// What a process has said in a file before its end: of each part the first.
struct SaidCrash {
  bool isAny = false;
  std::string code, error, help, replay;
};
/// The process may have ended in the middle of a record.
SaidCrash crashOf(std::string_view records);

} // namespace opc::cli
