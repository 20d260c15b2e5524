// What a program says when it crashes, in handlers of signals: no memory is taken, no lock, and a text is one write(2).
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace opc::cli {

/// The first thread that ends the process by a crash goes on; all others wait here for the end. False: this thread has
/// been here before, and has crashed again.
bool beginCrash() noexcept;

/// From now on the texts of this process's crashes go to a file, and not to standard error: another process shows them.
void sayCrashesIn(int file) noexcept;

/// Part of the text. It leaves the process with flushCrashText(), or when there is much of it.
void say(const char *text) noexcept;
/// Without what a terminal would obey.
void sayName(const char *name) noexcept;
/// "; it may be a plugin's: a rule of op TYPE (LIBRARY)", when such a rule runs in this thread, or with `afterKernel`
/// the kernel of a plugin that ran there before. False: none is known.
bool sayPluginCode(bool afterKernel) noexcept;
void flushCrashText() noexcept;

} // namespace opc::cli
