// What programs that know a repository call its files: by their way from its top, wherever opc runs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace opc::cli {

/// A file of a report.
struct CheckoutPath {
  std::string path;
  bool isBelowTop = false; // of a repository; otherwise it is below the working directory, or as it was named
};

class CheckoutPaths {
public:
  /// `variable`: of the environment; names the folder in which CI has the repository.
  explicit CheckoutPaths(const char *variable);
  /// Without dots, and the same however the file is called and wherever opc runs. The repository is that of `variable`
  /// for a file below it, else the file's own.
  const CheckoutPath &of(const std::string &file);

private:
  CheckoutPath find(const std::string &file) const;
  std::filesystem::path topOf(const std::filesystem::path &folder) const;
  std::filesystem::path given_; // empty: none
  std::map<std::string, CheckoutPath> known_;
};

} // namespace opc::cli
