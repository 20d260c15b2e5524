// Files of revisions, read with git: nothing of the repository is executed and nothing is fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// "git:REV:PATH" -> "REV:PATH", in git's own notation: PATH is from the repository's root, or from the working
/// directory when it begins with "./". Nothing for anything else.
std::optional<std::string> gitObjectOf(const std::string &path);

/// The bytes of the file that `object` ("REV:PATH") names in the repository of the working directory. Errors: OPC0706
/// when there is no such revision, file, repository or git.
Result<std::string> readGitFile(const std::string &object);

/// The bytes that a revision has of a file, in the repository of the working directory or, where the file is outside
/// of that, in the file's own; nothing when the revision is there and has no such file. Of a submodule the revision is
/// the commit that it records, and a repository among the files that is none need not have it. Links are followed as
/// the revision has them and, where that leads to nothing within the repository, as they are now.
Result<std::optional<std::string>> findGitFile(const std::string &revision, const std::string &file);

/// The bytes that a revision has of regular files in a model's folder or below it, read when they are asked for, each
/// once. Errors: OPC0706, also for links and for what Git LFS has elsewhere.
using GitFilesBeside = std::function<Result<std::shared_ptr<const std::string>>(const std::string &location)>;
/// Beside `file`, whose repository it is.
GitFilesBeside gitFilesBeside(const std::string &revision, const std::string &file);
/// Beside the file that "REV:PATH" names.
GitFilesBeside gitFilesBeside(const std::string &object);

/// The names of the regular files of a revision below a folder, relative to it and sorted; none when it does not have
/// the folder. Its repository is found as that of a file. Links, submodules and folders whose names begin with a dot
/// are passed over. Errors: OPC0706, also for more folders than anybody has.
Result<std::vector<std::string>> listGitFiles(const std::string &revision, const std::string &folder);

/// The next folder, this one or above, that a repository or a submodule has its files in; "" where none says so. git is
/// not asked. No link is in the way to `folder`.
std::filesystem::path gitRootOf(std::filesystem::path folder);

/// What git calls a path: from the working directory, which "./" says.
std::string gitPathOf(const std::string &path);

/// Whether `revision` names a commit of the repository of each path, found as that of a file; without paths of that of
/// the working directory. Errors: OPC0706 when it does not, or a path is in no repository.
Status checkGitRevision(const std::string &revision, const std::vector<std::string> &paths);

} // namespace opc::cli
