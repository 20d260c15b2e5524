// Reading a graph file.
// SPDX-License-Identifier: Apache-2.0
#include "GraphFile.h"
#include "ForeignFile.h"
#include "GraphNames.h"
#include "NearestNames.h"
#include "ParseHints.h"
#include "PlainText.h"
#include "TextNumbers.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
#include <google/protobuf/text_format.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <cstring>
#include <map>

namespace opc {
namespace {

namespace pb = google::protobuf;
using Tree = pb::TextFormat::ParseInfoTree;

// Nesting that no real graph has; protobuf's own limit for binary input is the same.
constexpr int kMaxNesting = 100;

/// Places of `text`: protobuf's columns are those of a screen with tabs, ours are bytes.
SourceRange toRange(const std::string &file, std::string_view text, const pb::TextFormat::ParseLocationRange &r) {
  SourceRange out;
  out.file = file;
  if (r.start.line < 0) return out;
  const auto column = [&](int line, int screen) {
    return static_cast<uint32_t>(offsetOf(text, line, std::max(screen, 0)) - offsetOf(text, line, 0) + 1);
  };
  const int endLine = std::max(r.end.line, r.start.line);
  out.line = static_cast<uint32_t>(r.start.line + 1);
  out.column = column(r.start.line, r.start.column);
  out.endLine = static_cast<uint32_t>(endLine + 1);
  out.endColumn = column(endLine, r.end.column);
  return out;
}

/// Collects what the text parser says.
class Collector : public pb::io::ErrorCollector {
public:
  Collector(std::string file, std::string_view text, std::vector<Diagnostic> *out)
      : file_(std::move(file)), text_(text), out_(out) {}
  void AddError(int line, int column, const std::string &message) override {
    add(Severity::kError, "OPC0101", line, column, message);
  }
  void AddWarning(int line, int column, const std::string &message) override {
    if (++warnings_ > 20) return; // a dump from another version can have thousands
    add(Severity::kNote, "OPC0104", line, column, message + "; skipped");
  }

private:
  void add(Severity severity, const char *code, int line, int column, const std::string &message) {
    Diagnostic d;
    d.severity = severity;
    d.code = code;
    d.message = message;
    d.range.file = file_;
    if (severity == Severity::kError)
      d.help = "the graph is protobuf text: check for a missing or extra brace, quote or colon near this place";
    if (severity == Severity::kError || line >= 0) explainParseError(text_, line, column, &d);
    out_->push_back(std::move(d));
  }
  std::string file_;
  std::string_view text_;
  std::vector<Diagnostic> *out_;
  int warnings_ = 0;
};

void error(std::vector<Diagnostic> *out, const std::string &file, const char *code, std::string message,
           std::string help = "") {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.range.file = file;
  out->push_back(std::move(d));
}

/// Whether the bytes are of a kind that is known and no graph, which is then reported.
bool reportForeign(const std::string &name, std::string_view bytes, std::vector<Diagnostic> *diagnostics) {
  const std::optional<ForeignFile> foreign = recognizeFile(name, bytes);
  if (foreign) error(diagnostics, name, "OPC0103", "not a graph: " + name + " is " + foreign->kind, foreign->help);
  return foreign.has_value();
}

/// Text has no control characters but tab, newline, carriage return and form feed. (Binary graphs have: the tag of the
/// first op is 0x0a and its length or the name's tag follow.)
bool looksLikeText(const std::string &bytes) {
  unsigned char control = 0; // no way out in between: without one it is a loop over vectors
  for (unsigned char c : bytes) control |= (c < 32) & (c != '\t') & (c != '\n') & (c != '\r') & (c != '\f');
  return control == 0;
}

/// Where the first identifier at the top level of a text file may be.
size_t firstIdentifierAt(const std::string &text) {
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
    } else
      break;
  }
  return i;
}
std::string firstIdentifier(const std::string &text) {
  const size_t begin = firstIdentifierAt(text);
  size_t end = begin;
  while (end < text.size() && (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
  return text.substr(begin, end - begin);
}

/// Whether bytes that are no text all through begin as a graph in text does: a field's name and what follows one. The
/// parser then says where the others stand.
bool beginsAsText(const std::string &bytes) {
  const std::string first = firstIdentifier(bytes);
  const auto knows = [&](const pb::Descriptor *d) { return d->FindFieldByName(first) != nullptr; };
  if (!knows(graph::DLNetConf::descriptor()) && !knows(graph::Job::descriptor()) &&
      !knows(graph::GraphDef::descriptor()) && !knows(graph::SavedModel::descriptor()))
    return false;
  const size_t next = bytes.find_first_not_of(" \t\r\n\f", firstIdentifierAt(bytes) + first.size());
  return next != std::string::npos && std::strchr("{<:[", bytes[next]) != nullptr && bytes[next] != '\0';
}

const pb::FieldDescriptor *field(const pb::Descriptor *d, const char *name) { return d->FindFieldByName(name); }

/// The blocks `field { ... }` at nesting depth `depth`, found by counting braces. protobuf can record where everything
/// stands, but takes three times the parse for it; only errors need more than the ops' places, and they parse again.
TextBlocks findBlocks(std::string_view text, std::string_view fieldName, int depth) {
  TextBlocks blocks;
  int level = 0;
  size_t wordBegin = 0, wordEnd = 0, blockBegin = 0;
  bool inBlock = false, isTaken = false; // isTaken: a block has had the word
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      for (++i; i < text.size() && text[i] != c && text[i] != '\n'; ++i)
        if (text[i] == '\\') ++i;
    } else if (c == '{' || c == '<') {
      if (level == depth && text.substr(wordBegin, wordEnd - wordBegin) == fieldName) {
        inBlock = true;
        blockBegin = isTaken ? i : wordBegin; // those of a list, op: [{ ... }, { ... }], have one word
        isTaken = true;
      }
      ++level;
    } else if (c == '}' || c == '>') {
      --level;
      if (inBlock && level == depth) {
        blocks.emplace_back(blockBegin, i + 1);
        inBlock = false;
      }
    } else if (!inBlock && (isalnum(static_cast<unsigned char>(c)) || c == '_')) {
      if (wordEnd != i) wordBegin = i, isTaken = false;
      wordEnd = i + 1;
    }
  }
  return blocks;
}

/// Ranges of the ops of a text file. Spellings that findBlocks() does not know leave them unknown.
void locateOps(GraphFile *file, std::string_view text, TextBlocks blocks) {
  const auto count = static_cast<size_t>(file->job->net().op_size());
  if (blocks.size() != count) {
    file->opRanges.assign(count, SourceRange{file->name, 0, 0, 0, 0});
    return;
  }
  uint32_t line = 1;
  size_t lineBegin = 0, at = 0;
  auto advance = [&](size_t to) {
    for (size_t end; (end = text.substr(0, to).find('\n', at)) != text.npos; at = lineBegin = end + 1) ++line;
    at = to;
  };
  file->opRanges.reserve(count);
  for (const auto &[begin, end] : blocks) {
    SourceRange r;
    r.file = file->name;
    advance(begin);
    r.line = line;
    r.column = static_cast<uint32_t>(begin - lineBegin + 1);
    advance(end);
    r.endLine = line;
    r.endColumn = static_cast<uint32_t>(end - lineBegin + 1);
    file->opRanges.push_back(std::move(r));
  }
  file->text = text;
  file->opText = std::move(blocks);
}

bool takeSavedModel(GraphFile *file, graph::SavedModel &model, std::vector<Diagnostic> *diagnostics) {
  int chosen = -1;
  for (int i = 0; i < model.graphs_size(); ++i)
    if (model.graphs_size() == 1 || model.graphs(i).key() == model.default_graph_name()) chosen = i;
  if (chosen < 0) {
    error(diagnostics, file->name, "OPC0103",
          "the saved model has " + std::to_string(model.graphs_size()) + " graphs and no default among them");
    return false;
  }
  auto *ops = model.mutable_graphs(chosen)->mutable_value()->mutable_op_list();
  file->job->mutable_net()->mutable_op()->Swap(ops);
  file->job->mutable_job_conf()->set_job_name(model.name());
  file->opRanges.assign(static_cast<size_t>(file->job->net().op_size()), SourceRange{file->name, 0, 0, 0, 0});
  return true;
}

const Tree *nested(const Tree *tree, const pb::FieldDescriptor *f) {
  if (!tree) return nullptr;
  return tree->GetTreeForNested(f, f->is_repeated() ? 0 : -1);
}

/// `blocks` are those of the field `ops`, `depth` messages deep.
bool parseText(const std::string &name, std::string_view text, pb::Message *message, const pb::FieldDescriptor *ops,
               int depth, std::vector<Diagnostic> *diagnostics, TextBlocks *blocks) {
  if (readPlainText(text, message, ops, blocks)) return true;
  Collector collector(name, text, diagnostics);
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kMaxNesting);
  pb::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));
  if (!parser.Parse(&input, message) || !checkNumbers(name, text, *message, diagnostics)) return false;
  *blocks = findBlocks(text, ops->name(), depth);
  return true;
}

/// A text that begins with no field of a graph: of another kind, or with a slip in its first word.
void reportNoGraph(const std::string &name, const std::string &text, const std::string &first,
                   std::vector<Diagnostic> *diagnostics) {
  if (reportForeign(name, text, diagnostics)) return;
  const std::string general =
      "a graph begins with op { ... } (a list of ops), net { ... } (a Job), op_list or graphs (a saved model)";
  const std::vector<std::string> words = {"op", "net", "op_list", "graphs"};
  error(diagnostics, name, "OPC0103",
        "not a graph: it begins with " + (first.empty() ? std::string("no field name") : "'" + first + "'"),
        first.empty() ? general : didYouMean(first, words, general));
  if (first.empty()) return;
  SourceRange &range = diagnostics->back().range;
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(firstIdentifierAt(text));
  range.line = range.endLine = static_cast<uint32_t>(std::count(text.begin(), begin, '\n')) + 1;
  const auto lineBegin = std::find(std::reverse_iterator(begin), text.rend(), '\n').base();
  range.column = static_cast<uint32_t>(begin - lineBegin) + 1;
  range.endColumn = range.column + static_cast<uint32_t>(first.size());
}

std::unique_ptr<GraphFile> readText(const std::string &name, const std::string &text,
                                    std::vector<Diagnostic> *diagnostics) {
  auto file = std::make_unique<GraphFile>();
  file->name = name;
  file->isText = true;
  const std::string first = firstIdentifier(text);
  if (first.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return isspace(c); })) {
    error(diagnostics, name, "OPC0103", "the graph is empty", "a graph is a list of op { ... }, a DLNetConf, or a Job");
    return nullptr;
  }
  const auto knows = [&](const pb::Descriptor *d) { return d->FindFieldByName(first) != nullptr; };
  const auto *opOfNet = field(graph::DLNetConf::descriptor(), "op");
  const auto *opOfDef = field(graph::GraphDef::descriptor(), "op_list");
  TextBlocks blocks;
  if (knows(graph::DLNetConf::descriptor())) {
    file->format = "list of op (text)";
    if (!parseText(name, text, file->job->mutable_net(), opOfNet, 0, diagnostics, &blocks)) return nullptr;
  } else if (knows(graph::Job::descriptor())) {
    file->format = "Job (text)";
    if (!parseText(name, text, file->job, opOfNet, 1, diagnostics, &blocks)) return nullptr;
  } else if (knows(graph::GraphDef::descriptor())) {
    file->format = "GraphDef (text)";
    auto *def = pb::Arena::CreateMessage<graph::GraphDef>(&file->arena);
    if (!parseText(name, text, def, opOfDef, 0, diagnostics, &blocks)) return nullptr;
    file->job->mutable_net()->mutable_op()->Swap(def->mutable_op_list());
  } else if (knows(graph::SavedModel::descriptor())) {
    file->format = "SavedModel (text)";
    auto *model = pb::Arena::CreateMessage<graph::SavedModel>(&file->arena);
    if (!parseText(name, text, model, opOfDef, 2, diagnostics, &blocks)) return nullptr;
    if (!takeSavedModel(file.get(), *model, diagnostics)) return nullptr;
  } else {
    reportNoGraph(name, text, first, diagnostics);
    return nullptr;
  }
  locateOps(file.get(), text, std::move(blocks));
  return file;
}

/// How many ops of a parsed message make sense; -1 when it cannot be that message.
int plausibleOps(const pb::RepeatedPtrField<graph::OperatorConf> &ops) {
  int good = 0;
  for (const auto &op : ops) {
    if (op.op_type_case() != graph::OperatorConf::OP_TYPE_NOT_SET && !op.name().empty()) ++good;
  }
  return good;
}

void noteUnknown(const pb::Message &m, const std::string &file, std::map<std::string, int> *seen) {
  const pb::Reflection *r = m.GetReflection();
  const pb::UnknownFieldSet &unknown = r->GetUnknownFields(m);
  for (int i = 0; i < unknown.field_count(); ++i)
    ++(*seen)["field " + std::to_string(unknown.field(i).number()) + " of " + m.GetDescriptor()->name()];
  std::vector<const pb::FieldDescriptor *> fields;
  r->ListFields(m, &fields);
  for (const auto *f : fields) {
    if (f->cpp_type() != pb::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (f->is_repeated())
      for (int i = 0; i < r->FieldSize(m, f); ++i) noteUnknown(r->GetRepeatedMessage(m, f, i), file, seen);
    else
      noteUnknown(r->GetMessage(m, f), file, seen);
  }
}

template <class M> bool parseBinary(const std::string &bytes, M *m) {
  pb::io::CodedInputStream in(reinterpret_cast<const uint8_t *>(bytes.data()), static_cast<int>(bytes.size()));
  in.SetRecursionLimit(kMaxNesting);
  return m->ParsePartialFromCodedStream(&in) && in.ConsumedEntireMessage();
}

std::unique_ptr<GraphFile> readBinary(const std::string &name, const std::string &bytes,
                                      std::vector<Diagnostic> *diagnostics) {
  auto file = std::make_unique<GraphFile>();
  file->name = name;
  // The messages share field numbers, so each is tried and the one whose ops make most sense is taken.
  auto &job = *pb::Arena::CreateMessage<graph::Job>(&file->arena);
  auto &net = *pb::Arena::CreateMessage<graph::DLNetConf>(&file->arena);
  auto &model = *pb::Arena::CreateMessage<graph::SavedModel>(&file->arena);
  const int asJob = parseBinary(bytes, &job) ? plausibleOps(job.net().op()) : -1;
  const int asNet = parseBinary(bytes, &net) ? plausibleOps(net.op()) : -1;
  int asModel = -1;
  if (parseBinary(bytes, &model)) {
    asModel = 0;
    for (const auto &g : model.graphs()) asModel += plausibleOps(g.value().op_list());
  }
  const int best = std::max({asJob, asNet, asModel});
  if (best <= 0) {
    if (reportForeign(name, bytes, diagnostics)) return nullptr;
    error(diagnostics, name, "OPC0102",
          best < 0 ? "not a graph: neither protobuf text nor a complete binary Job, DLNetConf or SavedModel"
                   : "not a graph: the bytes parse, but hold no operator",
          "if the file was copied or downloaded, check that it is complete");
    return nullptr;
  }
  if (asJob == best) {
    file->format = "Job (binary)";
    file->job = &job;
  } else if (asNet == best) {
    file->format = "DLNetConf (binary)";
    file->job->mutable_net()->Swap(&net);
  } else {
    file->format = "SavedModel (binary)";
    if (!takeSavedModel(file.get(), model, diagnostics)) return nullptr;
  }
  file->opRanges.assign(static_cast<size_t>(file->job->net().op_size()), SourceRange{name, 0, 0, 0, 0});
  std::map<std::string, int> unknown;
  noteUnknown(*file->job, name, &unknown);
  int shown = 0;
  for (const auto &[what, count] : unknown) {
    if (++shown > 20) break;
    Diagnostic d;
    d.severity = Severity::kNote;
    d.code = "OPC0104";
    d.message = "unknown " + what + (count > 1 ? " (" + std::to_string(count) + " times)" : "") + "; skipped";
    d.range.file = name;
    diagnostics->push_back(std::move(d));
  }
  return file;
}

} // namespace

namespace {

/// Parses one op's block again, this time with places, and looks one up. `find` gets the tree of user_conf and answers
/// the range of what it looks for within the block.
template <class F> SourceRange rangeWithin(const GraphFile &file, int op, F &&find) {
  const SourceRange outer = file.opRanges[static_cast<size_t>(op)];
  if (!outer.known()) return outer;
  const auto [begin, end] = file.opText[static_cast<size_t>(op)];
  std::string block(file.text.substr(begin, end - begin));
  if (block.rfind("op_list", 0) == 0) block.replace(0, 7, "op     ");
  graph::DLNetConf net;
  Tree tree;
  std::vector<Diagnostic> ignored;
  Collector collector(file.name, block, &ignored);
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&tree);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(true);
  if (!parser.ParseFromString(block, &net)) return outer;
  const Tree *conf = tree.GetTreeForNested(field(graph::DLNetConf::descriptor(), "op"), 0);
  const Tree *user = nested(conf, field(graph::OperatorConf::descriptor(), "user_conf"));
  if (!user) return outer;
  SourceRange r = toRange(file.name, block, find(user));
  if (!r.known()) return outer;
  if (r.line == 1) r.column += outer.column - 1;
  if (r.endLine == 1) r.endColumn += outer.column - 1;
  r.line += outer.line - 1;
  r.endLine += outer.line - 1;
  return r;
}

} // namespace

SourceRange GraphFile::inputRange(int op, int entry, int index) const {
  return rangeWithin(*this, op, [&](const Tree *user) -> pb::TextFormat::ParseLocationRange {
    const Tree *t = user->GetTreeForNested(field(graph::UserOpConf::descriptor(), "input"), entry);
    t = nested(t, field(graph::UserOpConf::ArgEntry::descriptor(), "value"));
    if (!t) return {};
    return t->GetLocationRange(field(graph::UserOpConf::ListString::descriptor(), "s"), index);
  });
}

SourceRange GraphFile::attrRange(int op, int entry) const {
  return rangeWithin(*this, op, [&](const Tree *user) {
    return user->GetLocationRange(field(graph::UserOpConf::descriptor(), "attr"), entry);
  });
}

static std::unique_ptr<GraphFile> readUnspelled(const std::string &name, const std::string &bytes, uint64_t maxBytes,
                                                std::vector<Diagnostic> *diagnostics) {
  // protobuf counts in int.
  const uint64_t limit = std::min<uint64_t>(maxBytes, INT32_MAX);
  if (bytes.size() > limit) {
    error(diagnostics, name, "OPC0110",
          "the graph has " + std::to_string(bytes.size()) + " bytes; the limit is " + std::to_string(limit),
          "keep weights in tensor files (--weights), not in the graph");
    return nullptr;
  }
  if (bytes.rfind("\xef\xbb\xbf", 0) == 0) {
    // A byte order mark: blanks in its place keep the columns.
    std::string blanked = "   " + bytes.substr(3);
    auto file = readText(name, blanked, diagnostics);
    if (file) {
      file->ownedText = std::move(blanked);
      if (!file->opText.empty()) file->text = file->ownedText;
    }
    return file;
  }
  const bool isText = looksLikeText(bytes) || beginsAsText(bytes);
  return isText ? readText(name, bytes, diagnostics) : readBinary(name, bytes, diagnostics);
}

std::unique_ptr<GraphFile> readGraphFile(const std::string &name, const std::string &bytes, uint64_t maxBytes,
                                         std::vector<Diagnostic> *diagnostics) {
  auto file = readUnspelled(name, bytes, maxBytes, diagnostics);
  if (file) spellNames(file->job, bytes, file->isText);
  return file;
}

} // namespace opc
