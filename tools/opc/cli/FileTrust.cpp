// Whether a file may decide what code runs.
// SPDX-License-Identifier: Apache-2.0
#include "FileTrust.h"

#include <cstdio>
#include <filesystem>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

bool isOurs(uid_t owner) { return owner == 0 || owner == geteuid(); }

/// Whether the group has the owner's name and no other member: what many systems make for each user, and then let
/// groups write.
bool isPrivateGroup(gid_t group, uid_t owner) {
  const passwd *user = getpwuid(owner);
  if (!user || user->pw_gid != group) return false;
  const std::string name = user->pw_name;
  const struct group *entry = getgrgid(group);
  if (!entry || name != entry->gr_name) return false;
  for (char **member = entry->gr_mem; *member; ++member)
    if (name != *member) return false;
  return true;
}

std::string modeText(mode_t mode) {
  char text[16];
  std::snprintf(text, sizeof text, "%04o", static_cast<unsigned>(mode & 07777));
  return text;
}

std::string distrustOf(const struct stat &st, const std::string &what) {
  if (!isOurs(st.st_uid)) {
    const passwd *user = getpwuid(st.st_uid);
    return "user " + (user ? std::string(user->pw_name) : std::to_string(st.st_uid)) + " owns " + what;
  }
  if (S_ISDIR(st.st_mode) && (st.st_mode & S_ISVTX)) return "";
  if (st.st_mode & S_IWOTH) return "others may write " + what + " (mode " + modeText(st.st_mode) + ")";
  if ((st.st_mode & S_IWGRP) && !isPrivateGroup(st.st_gid, st.st_uid))
    return "its group may write " + what + " (mode " + modeText(st.st_mode) + ")";
  return "";
}

std::string folderDistrust(const fs::path &file) {
  struct stat st;
  const std::string folder = file.parent_path().empty() ? "." : file.parent_path().string();
  return ::stat(folder.c_str(), &st) == 0 ? distrustOf(st, "the folder " + folder) : "";
}

} // namespace

std::string distrustOf(const std::string &path) {
  struct stat link, file;
  if (::lstat(path.c_str(), &link) != 0 || ::stat(path.c_str(), &file) != 0 || !S_ISREG(file.st_mode)) return "";
  if (S_ISLNK(link.st_mode) && !isOurs(link.st_uid)) return "user " + std::to_string(link.st_uid) + " owns the link";
  std::string why = distrustOf(file, "it");
  if (why.empty()) why = folderDistrust(path);
  std::error_code error;
  if (why.empty() && S_ISLNK(link.st_mode))
    if (const fs::path target = fs::canonical(path, error); !error) why = folderDistrust(target);
  return why;
}

std::string projectOf(const std::string &folder) {
  std::error_code error;
  for (fs::path at = folder;; at = at.parent_path()) {
    for (const char *mark : {".git", ".hg", ".svn", ".jj"})
      if (fs::exists(at / mark, error)) return at.string();
    if (at == at.parent_path()) return folder;
  }
}

} // namespace opc::cli
