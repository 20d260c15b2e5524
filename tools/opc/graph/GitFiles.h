// Files of revisions, read with git: nothing of the repository is executed and nothing is fetched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <optional>
#include <string>

namespace opc::cli {

/// "git:REV:PATH" -> "REV:PATH", in git's own notation: PATH is from the repository's root, or from the working
/// directory when it begins with "./". Nothing for anything else.
std::optional<std::string> gitObjectOf(const std::string &path);

/// The bytes of the file that `object` ("REV:PATH") names in the repository of the working directory. Errors: OPC0706
/// when there is no such revision, file, repository or git.
Result<std::string> readGitFile(const std::string &object);

/// The same; nothing when the revision is there and has no such file.
Result<std::optional<std::string>> findGitFile(const std::string &revision, const std::string &file);

/// Whether `revision` names a commit of the repository of the working directory. Errors: OPC0706 when it does not.
Status checkGitRevision(const std::string &revision);

} // namespace opc::cli
