// What is known of a command, noted before anything can go wrong, in a form that a handler of signals can write.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "SharedBytes.h"

#include <string>
#include <string_view>
#include <vector>

namespace opc::cli {

/// A bundle's graph has at most so many bytes; of a larger one it has the path and the SHA-256.
constexpr size_t kMostBundledBytes = 16 << 20;

/// JSON texts, and what cannot be one yet.
struct CommandRecord {
  struct Plugin {
    std::string path, json;
  };
  std::vector<std::string> words, positional;
  bool isReplayed = false;                             // whether opc debug replay takes the command
  std::string version, command, settings, environment; // JSON
  std::vector<Plugin> plugins;
  std::vector<std::string> folders; // where a bundle may be written, the first that can be is taken; none: nowhere
  bool isStartFolder = false;       // the first one is where opc was started
};
struct GraphRecord {
  std::string path, json;
  std::string command; // JSON: the command's words, with {} for the graph
  SharedBytes bytes;   // empty when there are more than kMostBundledBytes
  size_t size = 0;
  const char *file = ""; // what a bundle calls it: graph.pbtxt, graph.pb, graph.plan
};

/// Whether `opc debug replay` runs a command again, of which these are the words behind `opc`: such as do nothing but
/// with graphs. Others start programs, load what they are given as code, or change the machine.
bool isReplayedCommand(const std::vector<std::string> &words);

/// At the start of the program: bundles go to the folder that is the working directory now.
void noteStart();
/// `words`: those after `opc`. OPC_* of the environment are noted, and settings that come from files, but for the
/// plugins that files name.
void noteCommand(const std::vector<std::string> &words, const std::vector<std::string> &positional,
                 const Config &config, const std::vector<std::string> &plugins);
/// The graph or plan that the calling thread works on from now on; "" for none.
void noteGraph(const std::string &path, const SharedBytes &bytes);

/// What was noted, for the writer of bundles; null: nothing yet. Of the graphs the calling thread's, or else the main
/// thread's.
const CommandRecord *notedCommand() noexcept;
const GraphRecord *notedGraph() noexcept;
/// Of the folder where opc was started; negative: it could not be opened.
int startFolder() noexcept;

} // namespace opc::cli
