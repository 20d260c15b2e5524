// What programs that know a repository call its files.
// SPDX-License-Identifier: Apache-2.0
#include "CheckoutPaths.h"

#include "GitFiles.h"
#include "GraphFiles.h"

#include <cstdlib>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

const std::string kStandardInput = "-", kStandardInputName = "<stdin>";

/// The way from `folder` to a place in it; "" for one outside.
fs::path wayFrom(const fs::path &folder, const fs::path &place) {
  const fs::path way = place.lexically_relative(folder);
  return way.empty() || *way.begin() == ".." ? fs::path() : way;
}

} // namespace

CheckoutPaths::CheckoutPaths(const char *variable) {
  const char *value = std::getenv(variable);
  std::error_code error;
  if (value && *value) given_ = fs::canonical(value, error); // empty where there is no such folder
}

const CheckoutPath &CheckoutPaths::of(const std::string &file) {
  const auto [at, isNew] = known_.try_emplace(file);
  if (isNew) at->second = find(file);
  return at->second;
}

CheckoutPath CheckoutPaths::find(const std::string &file) const {
  if (file == kStandardInput || file == kStandardInputName) return {file};
  const fs::path place = placeOfFile(file), top = topOf(place.parent_path());
  if (!top.empty()) return {place.lexically_relative(top).string(), true};
  std::error_code error;
  const fs::path way = wayFrom(fs::current_path(error), place);
  return {way.empty() ? fs::path(file).lexically_normal().string() : way.string()};
}

/// Below the folder that CI names the outermost repository counts: a checkout may be a part of it, and has submodules.
fs::path CheckoutPaths::topOf(const fs::path &folder) const {
  if (given_.empty() || wayFrom(given_, folder).empty()) return gitRootOf(folder);
  fs::path top = given_;
  for (fs::path at = gitRootOf(folder); !at.empty() && !wayFrom(given_, at).empty(); at = gitRootOf(at.parent_path())) {
    top = at;
    if (at == given_) break;
  }
  return top;
}

} // namespace opc::cli
