// Reading a graph file: which message it is, the parsed messages, and where everything stands in the text.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Diagnostic.h"
#include "StoredTensor.h"

#include "graph.pb.h"
#include <google/protobuf/arena.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace opc {

/// A parsed graph file. Messages live in the arena: a graph of 100,000 ops is a million small messages.
struct GraphFile {
  std::string name;
  std::string format; // "Job (text)", ...
  bool isText = false;
  google::protobuf::Arena arena;
  graph::Job *job =
      google::protobuf::Arena::CreateMessage<graph::Job>(&arena); // ops in job->net, whatever the file's message was
  std::vector<SourceRange> opRanges; // parallel to job->net().op(); unknown for binary files
  std::string_view text;             // the caller's bytes, or ownedText; text files only
  std::string ownedText;
  std::map<std::string, StoredTensor> values; // of variables, by the op's name: of files that hold tensors
  std::set<std::string> constants;            // those of `values` that are constants of the graph
  std::vector<std::string> decided;           // inputs of a model that its import has made constants
  std::map<std::string, std::vector<int>>
      sizeDims;                // by input of a model: SizeRequest::dims, as the names of sizes tie them
  bool isModel = false;        // of ONNX
  bool isUnbound = false;      // a model of which the inputs are known alone
  bool keepsInterface = false; // inputs and outputs have an order of their own: positions say which
  std::vector<std::pair<size_t, size_t>> opText; // [begin, end) of each op's block in `text`, when opRanges are known

  /// The range of tensor `index` of input entry `entry` of op `op`'s user_conf; the op's range when not known. Parses
  /// the op's text again: only errors ask.
  SourceRange inputRange(int op, int entry, int index) const;
  SourceRange attrRange(int op, int entry) const;
};

/// Parses `bytes`, text or binary, as Job, DLNetConf, GraphDef, SavedModel or a bare list of ops. Errors and notes go
/// to `diagnostics`; returns null on error.
std::unique_ptr<GraphFile> readGraphFile(const std::string &name, const std::string &bytes, uint64_t maxBytes,
                                         std::vector<Diagnostic> *diagnostics);

} // namespace opc
