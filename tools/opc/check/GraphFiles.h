// Which graphs a check looks at: files as they are named, and the graphs in folders.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <string>
#include <vector>

namespace opc::cli {

struct GraphFiles {
  std::vector<std::string> graphs;  // sorted where they come from a folder, none twice
  std::vector<std::string> orphans; // locks in those folders that have no graph, neither by their names nor as they say
};

/// `paths`: files, and folders, in which every *.pbtxt, *.prototxt, *.pb and *.onnx is a graph. Folders whose name
/// begins with a dot, crash folders and ONNX's test_data_set_* are passed over, as are manifests of Python operators,
/// and links are not followed. Errors: OPC0706; OPC0001 for a folder without graphs and locks.
Result<GraphFiles> findGraphs(const std::vector<std::string> &paths);

/// The files below `folder` that a glob matches, locks and manifests aside; ** stands for any folders, also none.
/// Sorted; relative to `folder` when that is the working directory. Orphans are locks whose graph would match and is
/// not there.
Result<GraphFiles> filesOfGlob(const std::string &folder, const std::string &glob);

/// A glob of the settings and the folder that it is from.
struct GraphGlob {
  std::string folder, glob;
};
/// The graphs that a revision has below `paths`, under one of them or where `globs` match, and that are not there any
/// more. Paths under which nothing else is left are taken off the list. Errors: OPC0706.
Result<std::vector<std::string>> takeRemovedGraphs(const std::string &revision, const std::vector<GraphGlob> &globs,
                                                   std::vector<std::string> *paths);

/// Whether a graph is one of a glob's, called as filesOfGlob() calls it.
bool matchesGlob(const GraphGlob &glob, const std::string &path);
/// Whether a glob matches a path as a whole; "**/" stands for any folders, also none.
bool matchesGlob(const std::string &glob, const std::string &path);

/// Adds orphans, and takes off them what belongs to one of the graphs, which may be named and have any ending.
void joinOrphans(const std::vector<std::string> &more, GraphFiles *files);

/// Where a file lies, however it is called: an absolute path, with the links on the way to it followed.
std::string placeOfFile(const std::string &path);

} // namespace opc::cli
