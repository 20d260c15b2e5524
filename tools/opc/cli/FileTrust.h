// Whether a file may decide what code runs: who owns it, and who else may write it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace opc::cli {

/// Why somebody else may have written `path`, or "": "user 1001 owns it", "others may write it (mode 0666)". A file is
/// trusted that the user or root owns, that nobody else may write, and that lies in a folder of which the same is true
/// (in a sticky one, as /tmp is, only owners replace files). A link is as trusted as itself and what it leads to. A
/// group that is the owner's alone is nobody else. Nothing is said of what is no regular file, or is missing.
std::string distrustOf(const std::string &path);

/// The project that `folder` (absolute) belongs to: the nearest folder, it or one above it, that version control knows
/// (.git, .hg, .svn or .jj); without one, `folder` itself.
std::string projectOf(const std::string &folder);

} // namespace opc::cli
