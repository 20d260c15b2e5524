// Reading a graph file: which message it is, the parsed messages, and where everything stands in the text.
#pragma once

#include "Diagnostic.h"

#include "graph.pb.h"
#include <google/protobuf/text_format.h>

#include <memory>
#include <string>
#include <vector>

namespace opc {

/// A parsed graph file.
struct GraphFile {
  std::string name;
  std::string format;                                      // "Job (text)", ...
  graph::Job job;                                          // ops in job.net, whatever the file's message was
  std::vector<SourceRange> opRanges;                       // parallel to job.net().op()
  google::protobuf::TextFormat::ParseInfoTree tree;        // text only
  std::vector<const google::protobuf::TextFormat::ParseInfoTree *> opTrees; // null for binary files

  /// The range of tensor `index` of input entry `entry` of op `op`'s user_conf; the op's range when not known.
  SourceRange inputRange(int op, int entry, int index) const;
  SourceRange attrRange(int op, int entry) const;
};

/// Parses `bytes`, text or binary, as Job, DLNetConf, GraphDef, SavedModel or a bare list of ops. Errors and notes go
/// to `diagnostics`; returns null on error.
std::unique_ptr<GraphFile> readGraphFile(const std::string &name, const std::string &bytes, uint64_t maxBytes,
                                         std::vector<Diagnostic> *diagnostics);

} // namespace opc
