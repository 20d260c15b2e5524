// Files of revisions, read with git.
// SPDX-License-Identifier: Apache-2.0
#include "GitFiles.h"

#include "NumberText.h"
#include "TextParts.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <map>
#include <set>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace opc::cli {

namespace {

constexpr size_t kLongestObject = 4000; // fits a pipe's buffer
constexpr uint64_t kLargestFile = uint64_t{4} << 30;

/// What a repository's configuration could have git execute is turned off: it may be anybody's. `cat-file` runs no
/// hook, no filter, no textconv and no external diff; what remains is fetching what a partial clone lacks, monitors,
/// and a repository within the files of another.
constexpr const char *kGit[] = {"git",
                                "-C",
                                "", // where it is asked: gitWords()
                                "--no-pager",
                                "--no-optional-locks",
                                "--no-replace-objects",
                                "-c",
                                "core.fsmonitor=false",
                                "-c",
                                "core.hooksPath=/dev/null",
                                "-c",
                                "core.sshCommand=false",
                                "-c",
                                "core.askPass=",
                                "-c",
                                "credential.helper=",
                                "-c",
                                "protocol.allow=never",
                                "-c",
                                "safe.bareRepository=explicit",
                                "cat-file",
                                "--batch"};
constexpr const char *kSet[] = {"GIT_NO_LAZY_FETCH=1", "GIT_ALLOW_PROTOCOL=none", "GIT_TERMINAL_PROMPT=0",
                                "GIT_OPTIONAL_LOCKS=0", "LC_ALL=C"};

constexpr const char *kHere[] = {
    "GIT_DIR",    "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES",
    "GIT_PREFIX", "GIT_COMMON_DIR"};

const std::string kOfCommit = "^{commit}"; // behind a revision: the commit that a tag stands for

Status failed(std::string object, const std::string &why, const std::string &help = "") {
  if (const size_t at = object.rfind(kOfCommit); at != std::string::npos && at + kOfCommit.size() == object.size())
    object.resize(at); // what the user has written
  Status status(StatusCode::kUsage, "OPC0706", "cannot read git:" + object + ": " + why);
  return help.empty() ? std::move(status) : std::move(status).withHelp(help);
}

/// `folder`: where it is asked; the working directory when it is empty, as git has it.
std::vector<std::string> gitWords(const std::string &folder) {
  std::vector<std::string> words(std::begin(kGit), std::end(kGit));
  words[2] = folder;
  return words;
}

/// The environment of git: ours, with what is set here in place of what was, and, where it is asked elsewhere, without
/// what names the repository of the working directory, as git does for hooks.
std::vector<std::string> gitEnvironment(bool isElsewhere) {
  std::vector<std::string> list;
  for (char **entry = environ; *entry; ++entry) {
    const std::string text = *entry, name = text.substr(0, text.find('='));
    bool replaced = false;
    for (const char *set : kSet) replaced |= name == std::string(set).substr(0, std::strcspn(set, "="));
    for (const char *here : kHere) replaced |= isElsewhere && name == here;
    if (!replaced) list.push_back(text);
  }
  list.insert(list.end(), std::begin(kSet), std::end(kSet));
  return list;
}

std::vector<char *> pointers(std::vector<std::string> &texts) {
  std::vector<char *> list;
  for (std::string &text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

struct File {
  int fd = -1;
  ~File() { close(); }
  void close() {
    if (fd >= 0) ::close(fd);
    fd = -1;
  }
};

/// Until its end, at most `most` bytes.
std::string readAll(int fd, uint64_t most) {
  std::string text;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t n = ::read(fd, buffer, sizeof buffer);
    if (n > 0 && text.size() + static_cast<size_t>(n) <= most)
      text.append(buffer, static_cast<size_t>(n));
    else if (n >= 0 || errno != EINTR)
      return text;
  }
}

/// What git says of its last error: the first line, without "fatal: ".
std::string lastWords(int errors) {
  ::lseek(errors, 0, SEEK_SET);
  std::string text = readAll(errors, 1 << 16);
  text = text.substr(0, text.find('\n'));
  const std::string fatal = "fatal: ";
  return text.compare(0, fatal.size(), fatal) == 0 ? text.substr(fatal.size()) : text;
}

/// What git says of a path that is in no repository, or in another one.
bool saysElsewhere(const std::string &why) {
  return why.find("not a git repository") != std::string::npos || why.find("outside repository") != std::string::npos;
}

/// The way out of what git says of a repository.
std::string helpFor(const std::string &why) {
  if (why.find("dubious ownership") != std::string::npos)
    return "the repository is another user's, as in a container: git config --global --add safe.directory PATH";
  return saysElsewhere(why) ? "revisions are those of the working directory's repository: opc -C DIR" : "";
}

/// The answer of `git cat-file --batch` to one name, which goes through its standard input: no part of it can be taken
/// for an option.
Result<std::string> askGit(const std::string &object, const std::string &folder,
                           const std::vector<std::string> &options, bool *isElsewhere = nullptr) {
  if (object.size() > kLongestObject || object.find('\n') != std::string::npos ||
      object.find('\0') != std::string::npos)
    return failed(object.substr(0, 60), "the name is too long, or has a line break");
  int question[2], answer[2];
  if (::pipe2(question, O_CLOEXEC) != 0) return failed(object, std::strerror(errno));
  File questionEnd{question[0]}, questionStart{question[1]};
  if (::pipe2(answer, O_CLOEXEC) != 0) return failed(object, std::strerror(errno));
  File answerEnd{answer[0]}, answerStart{answer[1]};
  File errors{::memfd_create("git", MFD_CLOEXEC)};
  const std::string line = object + "\n";
  if (errors.fd < 0 || ::write(questionStart.fd, line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    return failed(object, std::strerror(errno));
  questionStart.close();

  std::vector<std::string> words = gitWords(folder), environment = gitEnvironment(!folder.empty());
  words.insert(words.end(), options.begin(), options.end());
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, questionEnd.fd, STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, answerStart.fd, STDOUT_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, errors.fd, STDERR_FILENO);
  pid_t child = 0;
  const int error =
      ::posix_spawnp(&child, words[0].c_str(), &actions, nullptr, pointers(words).data(), pointers(environment).data());
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0)
    return failed(object, std::string("git cannot be started: ") + std::strerror(error), "install git, or see PATH");
  answerStart.close();
  questionEnd.close();
  std::string text = readAll(answerEnd.fd, kLargestFile + 4096);
  answerEnd.close();
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return text;
  const std::string why = lastWords(errors.fd);
  if (isElsewhere) *isElsewhere = saysElsewhere(why);
  return failed(object, why.empty() ? "git failed" : why, helpFor(why));
}

struct Answer {
  std::string type; // "blob", "commit", "tree"; "missing", "ambiguous"; "symlink", which leads out
  std::string bytes;
  size_t digest = 0; // bytes of an object's name
};

/// Links within a revision lead to what it has there.
const std::vector<std::string> kFollow = {"--follow-symlinks"};

/// "OID TYPE SIZE\nBYTES\n", or "NAME missing\n", or of links "dangling SIZE\nNAME\n".
Result<Answer> answerOf(const std::string &object, const std::string &folder = "",
                        const std::vector<std::string> &options = {}) {
  OPC_ASSIGN_OR_RETURN(std::string text, askGit(object, folder, options));
  const size_t end = text.find('\n');
  if (end == std::string::npos) return failed(object, "git gave no answer");
  const std::string head = text.substr(0, end);
  const std::vector<std::string> words = splitAt(head, ' ');
  const auto size = parseInteger<uint64_t>(words.back());
  if (size && words.size() == 2) return Answer{words[0], "", 0};
  if (!size || words.size() != 3) return Answer{words.back(), "", 0};
  if (*size > kLargestFile) return failed(object, "it has more than " + bytesText(kLargestFile));
  if (text.size() < end + 1 + *size) return failed(object, "git gave less than the whole file");
  return Answer{words[1], text.substr(end + 1, *size), words[0].size() / 2};
}

struct TreeEntry {
  std::string mode, name, object; // the object's name in hexadecimal digits
};

bool isRegular(const TreeEntry &entry) { return entry.mode == "100644" || entry.mode == "100755"; }

/// "MODE NAME\0DIGEST", one behind the other.
std::vector<TreeEntry> entriesOf(const Answer &tree) {
  static const char kDigits[] = "0123456789abcdef";
  std::vector<TreeEntry> entries;
  for (size_t at = 0; at < tree.bytes.size();) {
    const size_t blank = tree.bytes.find(' ', at), end = tree.bytes.find('\0', at);
    if (blank == std::string::npos || end == std::string::npos || blank > end ||
        end + 1 + tree.digest > tree.bytes.size())
      break;
    TreeEntry entry{tree.bytes.substr(at, blank - at), tree.bytes.substr(blank + 1, end - blank - 1), ""};
    at = end + 1 + tree.digest;
    for (size_t i = end + 1; i < at; ++i) {
      const auto byte = static_cast<unsigned char>(tree.bytes[i]);
      entry.object += {kDigits[byte >> 4], kDigits[byte & 15]};
    }
    entries.push_back(std::move(entry));
  }
  return entries;
}

std::optional<TreeEntry> entryOf(const Answer &tree, const std::string &name) {
  if (tree.type != "tree") return std::nullopt;
  for (TreeEntry &entry : entriesOf(tree))
    if (entry.name == name) return std::move(entry);
  return std::nullopt;
}

/// The colon behind the revision, as git finds it: not one within braces.
size_t colonOf(const std::string &object) {
  size_t depth = 0;
  for (size_t i = 0; i < object.size(); ++i) {
    if (object[i] == ':' && depth == 0) return i;
    depth += object[i] == '{';
    depth -= object[i] == '}' && depth > 0;
  }
  return std::string::npos;
}

namespace fs = std::filesystem;

/// The folder itself, or the next one above the path that is there.
fs::path folderOf(const std::string &path) {
  std::error_code error;
  fs::path folder = fs::absolute(path, error).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();
  while (folder.has_relative_path() && !fs::is_directory(folder, error)) folder = folder.parent_path();
  return folder;
}

bool isBelow(const fs::path &folder, const fs::path &other) {
  const fs::path relative = folder.lexically_relative(other);
  return !other.empty() && !relative.empty() && relative != "." && *relative.begin() != "..";
}

/// Whether a path is in no repository, or in another one than the folder. The index is asked, which every repository
/// has, whatever its revisions are, and for a folder, of which it has none.
bool isElsewhere(const std::string &path, const std::string &folder) {
  bool is = false;
  (void)askGit(":" + path + "/", folder, {}, &is); // other errors are for the question itself to find
  return is;
}

/// Where git is asked of a path, and what path and revision are called there.
struct Place {
  std::string folder, path, revision; // folder "": the working directory
  bool isWithin = false;              // a repository among the files of the working directory's
  std::string module = "";            // a submodule; its revision is what the revision that was given records
};

/// What a revision of the working directory's repository, which is at `here`, is called in one among its files: of a
/// submodule the commit that it records.
Result<std::string> recordedRevision(const fs::path &root, const fs::path &here, const std::string &revision,
                                     bool *isModule) {
  const fs::path outer = gitRootOf(root.parent_path());
  std::string of = revision;
  if (outer != here) {
    if (!isBelow(outer, here)) return revision;
    OPC_ASSIGN_OR_RETURN(of, recordedRevision(outer, here, revision, isModule));
  }
  const std::string folder = gitPathOf(root.parent_path().lexically_relative(outer).string());
  OPC_ASSIGN_OR_RETURN(const Answer tree, answerOf(of + ":" + folder + "/", outer.string()));
  const std::optional<TreeEntry> entry = entryOf(tree, root.filename().string());
  *isModule = entry && entry->mode == "160000";
  return *isModule ? entry->object : revision;
}

/// In the working directory, or, where that is in no repository or in another one, in the path's own folder.
Result<Place> placeOf(const std::string &revision, const std::string &path) {
  std::error_code error;
  const fs::path named = folderOf(path), folder = fs::canonical(named, error);
  const fs::path root = gitRootOf(folder), here = gitRootOf(fs::current_path(error));
  const std::string name = gitPathOf(path);
  if ((root.empty() || root == here) && !isElsewhere(name, "")) return Place{"", name, revision};
  if (isElsewhere(".", folder.string()))
    return failed(revision, named.string() + " is in no git repository",
                  "a revision is one of the repository that the graph is in; --against FILE takes a file");
  const fs::path below = fs::absolute(path, error).lexically_normal().lexically_relative(named);
  Place place{folder.string(), gitPathOf(below.string()), revision, isBelow(root, here)};
  bool isModule = false;
  if (place.isWithin) {
    OPC_ASSIGN_OR_RETURN(place.revision, recordedRevision(root, here, revision, &isModule));
  }
  if (isModule) place.module = root.string();
  return place;
}

/// What else can be done for a file that the revision does not have, and for one that Git LFS has.
struct Ways {
  std::string missing, lfs;
};

/// A regular file in the folder of "REV:PATH", asked for in `folder`.
Result<std::string> readBeside(const std::string &object, const std::string &folder, const std::string &location,
                               const Ways &ways) {
  static const std::string kLfs = "version https://git-lfs.github.com/spec/";
  const size_t colon = colonOf(object), slash = object.rfind('/');
  const fs::path path = fs::path(location).lexically_normal();
  const std::string within = object.substr(0, slash == std::string::npos || slash < colon ? colon + 1 : slash + 1);
  const std::string wanted = within + path.generic_string();
  // Links lead to the model's folder, and no further. The folder says what is a link, the file does not.
  OPC_ASSIGN_OR_RETURN(Answer tree, answerOf(within, folder, kFollow));
  for (const fs::path &part : path.parent_path()) {
    const std::optional<TreeEntry> inner = entryOf(tree, part.string());
    if (!inner || inner->mode != "40000") return failed(wanted, "the revision has no such file", ways.missing);
    OPC_ASSIGN_OR_RETURN(tree, answerOf(inner->object, folder));
  }
  const std::optional<TreeEntry> entry = entryOf(tree, path.filename().string());
  if (!entry) return failed(wanted, "the revision has no such file", ways.missing);
  if (!isRegular(*entry)) return failed(wanted, "it is a link or a folder, and no regular file", ways.missing);
  OPC_ASSIGN_OR_RETURN(Answer answer, answerOf(entry->object, folder));
  if (answer.type != "blob") return failed(wanted, "the repository does not have its bytes", "git fetch");
  if (answer.bytes.starts_with(kLfs)) return failed(wanted, "its bytes are in Git LFS, which is not asked", ways.lfs);
  return std::move(answer.bytes);
}

GitFilesBeside readOnce(std::function<Result<std::string>(const std::string &location)> read) {
  using Bytes = std::shared_ptr<const std::string>;
  return [read = std::move(read),
          files = std::make_shared<std::map<std::string, Bytes>>()](const std::string &location) -> Result<Bytes> {
    Bytes &file = (*files)[location];
    if (file) return file;
    OPC_ASSIGN_OR_RETURN(std::string bytes, read(location));
    return file = std::make_shared<const std::string>(std::move(bytes));
  };
}

Status checkRevisionIn(const std::string &folder, const std::string &revision) {
  OPC_ASSIGN_OR_RETURN(const Answer answer, answerOf(revision + kOfCommit, folder));
  if (answer.type == "commit") return Status::ok();
  if (revision.find("..") != std::string::npos)
    return failed(revision, "it is a range, and one revision is wanted", "e.g. \"$(git merge-base main HEAD)\"");
  const std::string of = folder.empty() ? "" : " in the repository of " + folder;
  return failed(
      revision, (answer.type == "ambiguous" ? "the revision is ambiguous" : "there is no such revision") + of,
      "git log --oneline shows revisions; git fetch gets those of others, in a shallow clone with --unshallow");
}

/// Of a repository among the files, too.
Status checkRevisionIn(const Place &place, const std::string &revision) {
  if (place.module.empty()) return checkRevisionIn(place.folder, revision);
  OPC_ASSIGN_OR_RETURN(const Answer answer, answerOf(place.revision + kOfCommit, place.folder));
  if (answer.type == "commit") return Status::ok();
  return failed(revision,
                "it has commit " + place.revision + " of the submodule " + place.module + ", which that lacks",
                "git submodule update --init, or git fetch within it");
}

/// Whether there need not be such a revision: in a repository among the files that is no submodule the revision of the
/// one around it has nothing.
bool mayLack(const Place &place) { return place.isWithin && place.module.empty(); }

/// The file that a path leads to now, where that is another name; nothing where none is there.
std::optional<std::string> whereLinksLead(const std::string &file) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error || real == fs::absolute(file, error).lexically_normal()) return std::nullopt;
  return real.string();
}

/// What a revision has of a place, links within it followed.
Result<Answer> answerAt(const Place &place) {
  return answerOf(place.revision + ":" + (place.path == "." ? "./" : place.path), place.folder, kFollow);
}

struct Found {
  Place place;
  Answer answer;
};

/// What a file or folder is in a revision: by its name or, where the revision has nothing of that name or a link that
/// leads out of the repository, by where links lead now.
Result<Found> findAt(const std::string &revision, const std::string &file) {
  OPC_ASSIGN_OR_RETURN(Place place, placeOf(revision, file));
  OPC_ASSIGN_OR_RETURN(Answer answer, answerAt(place));
  const std::optional<std::string> real = whereLinksLead(file);
  if (answer.type == "blob" || answer.type == "tree" || !real) return Found{std::move(place), std::move(answer)};
  Result<Place> other = placeOf(revision, *real);
  if (!other && answer.type == "symlink") return other.status();
  if (!other) return Found{std::move(place), std::move(answer)};
  OPC_ASSIGN_OR_RETURN(answer, answerAt(*other));
  return Found{*std::move(other), std::move(answer)};
}

/// The file itself, where a place is a link to it within the revision.
Result<Place> withoutLinks(Place place) {
  constexpr int kMostLinks = 40;
  for (int links = 0; links < kMostLinks; ++links) {
    const fs::path path(place.path);
    const std::string folder = place.revision + ":" + path.parent_path().generic_string() + "/";
    OPC_ASSIGN_OR_RETURN(const Answer tree, answerOf(folder, place.folder, kFollow));
    const std::optional<TreeEntry> entry = entryOf(tree, path.filename().string());
    if (!entry || entry->mode != "120000") break;
    OPC_ASSIGN_OR_RETURN(const Answer target, answerOf(entry->object, place.folder));
    if (fs::path(target.bytes).is_absolute()) break;
    place.path = "./" + (path.parent_path() / target.bytes).lexically_normal().generic_string();
  }
  return place;
}

} // namespace

fs::path gitRootOf(fs::path folder) {
  std::error_code error;
  for (; folder.has_relative_path(); folder = folder.parent_path())
    if (fs::exists(folder / ".git", error)) return folder;
  return fs::exists(folder / ".git", error) ? folder : fs::path();
}

std::optional<std::string> gitObjectOf(const std::string &path) {
  static const std::string kScheme = "git:";
  if (path.compare(0, kScheme.size(), kScheme) != 0) return std::nullopt;
  return path.substr(kScheme.size());
}

Status checkGitRevision(const std::string &revision, const std::vector<std::string> &paths) {
  if (paths.empty()) return checkRevisionIn("", revision);
  std::set<fs::path> folders;
  for (const std::string &path : paths) folders.insert(folderOf(path));
  std::set<std::string> asked;
  for (const fs::path &folder : folders) {
    OPC_ASSIGN_OR_RETURN(const Place place, placeOf(revision, folder.string()));
    if (asked.insert(place.folder).second) OPC_RETURN_IF_ERROR(checkRevisionIn(place, revision));
  }
  return Status::ok();
}

Result<std::string> readGitFile(const std::string &object) {
  const size_t colon = colonOf(object);
  if (colon == std::string::npos || colon == 0 || colon + 1 == object.size())
    return failed(object, "a revision and a path are needed", "write git:REV:PATH, e.g. git:HEAD~1:nets/mlp.pbtxt");
  OPC_ASSIGN_OR_RETURN(Answer answer, answerOf(object));
  if (answer.type == "blob") return std::move(answer.bytes);
  OPC_RETURN_IF_ERROR(checkRevisionIn("", object.substr(0, colon)));
  if (answer.type == "tree") return failed(object, "it is a folder");
  return failed(object, "the revision has no such file",
                "the path is from the root of the repository; git:REV:./PATH is from here");
}

Result<std::optional<std::string>> findGitFile(const std::string &revision, const std::string &file) {
  OPC_ASSIGN_OR_RETURN(Found found, findAt(revision, file));
  if (found.answer.type == "blob") return std::optional<std::string>(std::move(found.answer.bytes));
  if (!mayLack(found.place)) OPC_RETURN_IF_ERROR(checkRevisionIn(found.place, revision));
  return std::optional<std::string>();
}

GitFilesBeside gitFilesBeside(const std::string &revision, const std::string &file) {
  return readOnce([=](const std::string &location) -> Result<std::string> {
    OPC_ASSIGN_OR_RETURN(Found found, findAt(revision, file));
    OPC_ASSIGN_OR_RETURN(const Place place, withoutLinks(std::move(found.place)));
    const Ways ways = {"commit it with " + file + ", or compare with a file: --against FILE",
                       "--against FILE takes a file"};
    return readBeside(place.revision + ":" + place.path, place.folder, location, ways);
  });
}

GitFilesBeside gitFilesBeside(const std::string &object) {
  return readOnce([=](const std::string &location) {
    return readBeside(object, "", location, {"commit it with the model, or give the model's file", "give the file"});
  });
}

Result<std::vector<std::string>> listGitFiles(const std::string &revision, const std::string &folder) {
  constexpr size_t kMostFolders = 2000; // git is asked for each; a tree may be in itself many times over
  OPC_ASSIGN_OR_RETURN(const Found found, findAt(revision, folder));
  const Place &place = found.place;
  const std::string top = place.revision + ":" + place.path + "/";
  std::vector<std::string> files;
  std::vector<std::pair<std::string, std::string>> folders = {{"", top}}; // below the first one, what git calls it
  for (size_t next = 0; next < folders.size(); ++next) {
    const auto [prefix, object] = folders[next];
    OPC_ASSIGN_OR_RETURN(const Answer tree, next == 0 ? found.answer : answerOf(object, place.folder));
    if (tree.type != "tree") {
      if (next == 0 && !mayLack(place)) OPC_RETURN_IF_ERROR(checkRevisionIn(place, revision));
      continue;
    }
    for (TreeEntry &entry : entriesOf(tree)) {
      if (isRegular(entry)) files.push_back(prefix + entry.name);
      if (entry.mode == "40000" && entry.name[0] != '.')
        folders.push_back({prefix + entry.name + "/", std::move(entry.object)});
    }
    if (folders.size() > kMostFolders)
      return failed(top, "more than " + std::to_string(kMostFolders) + " folders are below it",
                    "name folders below it, or graphs");
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string gitPathOf(const std::string &path) {
  std::error_code error;
  const fs::path file(path);
  fs::path from = (file.is_absolute() ? file.lexically_relative(fs::current_path(error)) : file).lexically_normal();
  if (!from.has_filename()) from = from.parent_path();
  return from.empty() || from == "." ? "." : "./" + from.generic_string();
}

} // namespace opc::cli
