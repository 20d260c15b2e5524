// The folder that an internal error leaves behind: opc-crash-HASH/ with bundle.json, the graph and failing.mlir.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::cli {

/// Why a command ends.
struct Crash {
  int exitCode = 70;
  int signal = 0;               // 0: an exception, or an internal error that was reported
  const char *code = "OPC0999"; // "error[CODE]"
  const char *message = "";     // JSON text, or "" for none
};

/// Where a bundle is, and why there is none.
struct BundlePlace {
  char path[4096] = ""; // "" when nothing was written
  int error = 0;        // of errno; 0 also where nothing is to be written
};

/// Writes what CrashRecord.h has noted. Nothing in it needs memory, so a handler of signals may call it. The folder
/// appears with all its files, or not at all; one that is there with other contents stays, and another number is
/// tried. The same crash has the same HASH, and its folder is written once. `ir`: what failing.mlir has; null: a
/// process is forked to find out.
BundlePlace writeCrashBundle(const Crash &crash, const std::string *ir) noexcept;

/// For a command that goes on or ends in an orderly way: writes the bundle of an internal error of the calling thread,
/// and gives the line for people, "opc debug replay opc-crash-...", or "crash folder: opc-crash-..." of a command that
/// replay does not take; "" when there is none.
std::string bundleOfError(const std::string &code, const std::string &message);
/// What people do about an internal error: whether there will be a bundle, and if not, why.
std::string reportAdvice();
/// Whether bundleOfError() was called, on any thread.
bool hasReportedCrash();

/// " in phase simplify, pass merge-equal-ops", where the calling thread's compilation has broken off; or "".
std::string crashPlace();

/// A stack of its own for handlers on the calling thread: they run where the stack has ended, too.
class CrashStack {
public:
  CrashStack();
  ~CrashStack();
  CrashStack(const CrashStack &) = delete;
  CrashStack &operator=(const CrashStack &) = delete;

private:
  void *memory_;
};

/// From now on a crash of opc writes a bundle (Program.h calls it).
void installCrashReports();

} // namespace opc::cli
