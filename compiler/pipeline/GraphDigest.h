// What a graph file says is to be computed: whether two files compute the same.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

namespace opc {

/// XXH64 of what a graph file says is to be computed: its ops in any order, with their attributes in any order, and how
/// a Job trains; not the form of the file nor the names of jobs. Nothing for a file that is no graph.
std::optional<std::string> graphDigest(const std::string &bytes);

/// The text of a graph file as messages are printed, without comments and OperatorConf.loc, which names files; of
/// graphs in its ops as well. What is no graph is given back as it is.
std::string graphWithoutPlaces(const std::string &text);

} // namespace opc
