// The log behind -v, by spdlog. The one file that compiles spdlog and fmt: Debian has no static library of them.
// SPDX-License-Identifier: Apache-2.0
#define FMT_HEADER_ONLY 1
#define SPDLOG_HEADER_ONLY 1
#define SPDLOG_FMT_EXTERNAL 1
#include "Log.h"

#include "PrintableText.h"
#include "WriteFailure.h"

#include <spdlog/logger.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

namespace opc::cli {

namespace {
std::unique_ptr<spdlog::logger> logger; // none without -v, so that nobody else pays for it
bool isSilent = false;
std::unique_ptr<spdlog::logger> file; // --log
constexpr const char *kTitle = "# opc log: ";

std::unique_ptr<spdlog::logger> makeLogger(spdlog::sink_ptr sink, spdlog::level::level_enum level) {
  auto made = std::make_unique<spdlog::logger>("opc", std::move(sink));
  made->set_pattern("[%H:%M:%S.%e] %v");
  made->set_level(level);
  return made;
}

std::string filePath;
int fileError = 0; // the first errno of a write

/// Whether opc may write behind what a file holds: nothing, or a log. Devices and pipes hold nothing.
bool takesLog(const std::string &path) {
  std::error_code error;
  if (std::filesystem::exists(path, error) && !std::filesystem::is_regular_file(path, error)) return true;
  std::ifstream in(path, std::ios::binary);
  std::string first;
  return !in || !std::getline(in, first) || first.rfind(kTitle, 0) == 0;
}
} // namespace

void startLog(int verbosity) {
  isSilent = verbosity < 0;
  if (verbosity <= 0) return;
  logger = makeLogger(std::make_shared<spdlog::sinks::stderr_sink_mt>(),
                      verbosity > 1 ? spdlog::level::debug : spdlog::level::info);
}

Status openLog(const std::string &path, const std::string &title) {
  if (path == "-")
    return Status(StatusCode::kUsage, "OPC0001", "--log writes to the end of a file, not to the standard output")
        .withHelp("-v -v says the same on standard error");
  if (!takesLog(path))
    return Status(StatusCode::kUsage, "OPC0002", "--log " + path + ": the file is there, and is no log of opc")
        .withHelp("give another name: a log is written at the end of its file");
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty() && !std::filesystem::is_directory(folder, error)) // spdlog would make it
    return Status(StatusCode::kUsage, "OPC0707",
                  "cannot write to --log " + path + ": there is no folder " + folder.string())
        .withHelp("make it, or give another name");
  try {
    file = makeLogger(std::make_shared<spdlog::sinks::basic_file_sink_mt>(path), spdlog::level::debug);
  } catch (const spdlog::spdlog_ex &e) {
    return Status(StatusCode::kUsage, "OPC0707", "cannot write to --log " + path + ": " + e.what());
  }
  filePath = path;
  file->set_error_handler([](const std::string &) {
    if (!fileError) fileError = errno ? errno : EIO;
  });
  file->flush_on(spdlog::level::debug); // a log is read where a command ended early
  file->set_pattern("%v");
  file->info(kTitle + printableName(title));
  file->set_pattern("[%H:%M:%S.%e] %v");
  return logWritten();
}

Status logWritten() { return fileError ? cannotWrite("write the log", filePath, fileError) : Status::ok(); }

bool logs() { return file != nullptr; }

void logText(const std::string &text) {
  if (!file) return;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    file->info(printableName(text.substr(start, end - start)));
    start = end + 1;
  }
}

void logNote(const std::string &text) {
  logText("note: " + text);
  if (!isSilent) std::fputs(("note: " + printableName(text) + "\n").c_str(), stderr);
}

void logInfo(const std::string &text) {
  if (file) file->info(printableName(text));
  if (logger) logger->info(printableName(text));
}

void logDebug(const std::string &text) {
  if (file) file->debug(printableName(text));
  if (logger) logger->debug(printableName(text));
}

} // namespace opc::cli
