// The log behind -v, by spdlog. The one file that compiles spdlog and fmt: Debian has no static library of them.
// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#define SPDLOG_HEADER_ONLY 1
#define SPDLOG_FMT_EXTERNAL 1
#include "Log.h"

#include "PrintableText.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <cstdio>
#include <memory>

namespace opc::cli {

namespace {
std::unique_ptr<spdlog::logger> logger; // none without -v, so that nobody else pays for it
bool isSilent = false;
} // namespace

void startLog(int verbosity) {
  isSilent = verbosity < 0;
  if (verbosity <= 0) return;
  logger = std::make_unique<spdlog::logger>("opc", std::make_shared<spdlog::sinks::stderr_sink_mt>());
  logger->set_pattern("[%H:%M:%S.%e] %v");
  logger->set_level(verbosity > 1 ? spdlog::level::debug : spdlog::level::info);
}

void logNote(const std::string &text) {
  if (!isSilent) std::fputs(("note: " + printableName(text) + "\n").c_str(), stderr);
}

void logInfo(const std::string &text) {
  if (logger) logger->info(printableName(text));
}

void logDebug(const std::string &text) {
  if (logger) logger->debug(printableName(text));
}

} // namespace opc::cli
