// Reading a graph file.
#include "GraphFile.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/io/tokenizer.h>
#include <google/protobuf/io/zero_copy_stream_impl_lite.h>
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

SourceRange toRange(const std::string &file, const pb::TextFormat::ParseLocationRange &r) {
  SourceRange out;
  out.file = file;
  if (r.start.line < 0) return out;
  out.line = static_cast<uint32_t>(r.start.line + 1);
  out.column = static_cast<uint32_t>(r.start.column + 1);
  out.endLine = static_cast<uint32_t>(std::max(r.end.line, r.start.line) + 1);
  out.endColumn = static_cast<uint32_t>(std::max(r.end.column, 0) + 1);
  return out;
}

/// Collects what the text parser says.
class Collector : public pb::io::ErrorCollector {
public:
  Collector(std::string file, std::vector<Diagnostic> *out) : file_(std::move(file)), out_(out) {}
  void AddError(int line, int column, const std::string &message) override { add(Severity::kError, "OPC0101", line, column, message); }
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
    if (line >= 0) {
      d.range.line = d.range.endLine = static_cast<uint32_t>(line + 1);
      d.range.column = static_cast<uint32_t>(column + 1);
      d.range.endColumn = d.range.column + 1;
    }
    if (severity == Severity::kError)
      d.help = "the graph is protobuf text: check for a missing or extra brace, quote or colon near this place";
    out_->push_back(std::move(d));
  }
  std::string file_;
  std::vector<Diagnostic> *out_;
  int warnings_ = 0;
};

void error(std::vector<Diagnostic> *out, const std::string &file, const char *code, std::string message, std::string help = "") {
  Diagnostic d;
  d.code = code;
  d.message = std::move(message);
  d.help = std::move(help);
  d.range.file = file;
  out->push_back(std::move(d));
}

/// Text has no control characters but tab, newline, carriage return and form feed. (Binary graphs have: the tag of the
/// first op is 0x0a and its length or the name's tag follow.)
bool looksLikeText(const std::string &bytes) {
  size_t control = 0;
  for (unsigned char c : bytes)
    if (c < 32 && c != '\t' && c != '\n' && c != '\r' && c != '\f') ++control;
  return control == 0;
}

/// The first identifier at the top level of a text file.
std::string firstIdentifier(const std::string &text) {
  size_t i = 0;
  while (i < text.size()) {
    if (text[i] == '#') {
      while (i < text.size() && text[i] != '\n') ++i;
    } else if (isspace(static_cast<unsigned char>(text[i]))) {
      ++i;
    } else
      break;
  }
  size_t end = i;
  while (end < text.size() && (isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_')) ++end;
  return text.substr(i, end - i);
}

const pb::FieldDescriptor *field(const pb::Descriptor *d, const char *name) { return d->FindFieldByName(name); }

/// Ranges and trees of the elements of a repeated op field.
void collectRanges(GraphFile *file, const Tree *parent, const pb::FieldDescriptor *ops, int count) {
  for (int i = 0; i < count; ++i) {
    file->opRanges.push_back(toRange(file->name, parent ? parent->GetLocationRange(ops, i) : pb::TextFormat::ParseLocationRange()));
    file->opTrees.push_back(parent ? parent->GetTreeForNested(ops, i) : nullptr);
  }
}

bool takeSavedModel(GraphFile *file, graph::SavedModel &model, const Tree *tree, std::vector<Diagnostic> *diagnostics) {
  int chosen = -1;
  for (int i = 0; i < model.graphs_size(); ++i)
    if (model.graphs_size() == 1 || model.graphs(i).key() == model.default_graph_name()) chosen = i;
  if (chosen < 0) {
    error(diagnostics, file->name, "OPC0103", "the saved model has " + std::to_string(model.graphs_size()) + " graphs and no default among them");
    return false;
  }
  auto *ops = model.mutable_graphs(chosen)->mutable_value()->mutable_op_list();
  const Tree *entry = tree ? tree->GetTreeForNested(field(graph::SavedModel::descriptor(), "graphs"), chosen) : nullptr;
  const Tree *value = entry ? entry->GetTreeForNested(field(graph::SavedModel::GraphEntry::descriptor(), "value"), -1) : nullptr;
  collectRanges(file, value, field(graph::GraphDef::descriptor(), "op_list"), ops->size());
  file->job.mutable_net()->mutable_op()->Swap(ops);
  file->job.mutable_job_conf()->set_job_name(model.name());
  return true;
}

const Tree *nested(const Tree *tree, const pb::FieldDescriptor *f) {
  if (!tree) return nullptr;
  const Tree *t = tree->GetTreeForNested(f, f->is_repeated() ? 0 : -1);
  return t;
}

std::unique_ptr<GraphFile> readText(const std::string &name, const std::string &text, std::vector<Diagnostic> *diagnostics) {
  auto file = std::make_unique<GraphFile>();
  file->name = name;
  const std::string first = firstIdentifier(text);
  if (first.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) { return isspace(c); })) {
    error(diagnostics, name, "OPC0103", "the graph is empty", "a graph is a list of op { ... }, a DLNetConf, or a Job");
    return nullptr;
  }
  Collector collector(name, diagnostics);
  pb::TextFormat::Parser parser;
  parser.RecordErrorsTo(&collector);
  parser.WriteLocationsTo(&file->tree);
  parser.AllowPartialMessage(true);
  parser.AllowUnknownField(true);
  parser.SetRecursionLimit(kMaxNesting);
  pb::io::ArrayInputStream input(text.data(), static_cast<int>(text.size()));

  const auto knows = [&](const pb::Descriptor *d) { return d->FindFieldByName(first) != nullptr; };
  if (knows(graph::DLNetConf::descriptor())) {
    file->format = "list of op (text)";
    if (!parser.Parse(&input, file->job.mutable_net())) return nullptr;
    collectRanges(file.get(), &file->tree, field(graph::DLNetConf::descriptor(), "op"), file->job.net().op_size());
  } else if (knows(graph::Job::descriptor())) {
    file->format = "Job (text)";
    if (!parser.Parse(&input, &file->job)) return nullptr;
    collectRanges(file.get(), nested(&file->tree, field(graph::Job::descriptor(), "net")),
                  field(graph::DLNetConf::descriptor(), "op"), file->job.net().op_size());
  } else if (knows(graph::GraphDef::descriptor())) {
    file->format = "GraphDef (text)";
    graph::GraphDef def;
    if (!parser.Parse(&input, &def)) return nullptr;
    collectRanges(file.get(), &file->tree, field(graph::GraphDef::descriptor(), "op_list"), def.op_list_size());
    file->job.mutable_net()->mutable_op()->Swap(def.mutable_op_list());
  } else if (knows(graph::SavedModel::descriptor())) {
    file->format = "SavedModel (text)";
    graph::SavedModel model;
    if (!parser.Parse(&input, &model)) return nullptr;
    if (!takeSavedModel(file.get(), model, &file->tree, diagnostics)) return nullptr;
  } else {
    error(diagnostics, name, "OPC0103", "not a graph: it begins with " + (first.empty() ? std::string("no field name") : "'" + first + "'"),
          "a graph begins with op { ... } (a list of ops), net { ... } (a Job), op_list or graphs (a saved model)");
    return nullptr;
  }
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

std::unique_ptr<GraphFile> readBinary(const std::string &name, const std::string &bytes, std::vector<Diagnostic> *diagnostics) {
  auto file = std::make_unique<GraphFile>();
  file->name = name;
  // The messages share field numbers, so each is tried and the one whose ops make most sense is taken.
  graph::Job job;
  graph::DLNetConf net;
  graph::SavedModel model;
  const int asJob = parseBinary(bytes, &job) ? plausibleOps(job.net().op()) : -1;
  const int asNet = parseBinary(bytes, &net) ? plausibleOps(net.op()) : -1;
  int asModel = -1;
  if (parseBinary(bytes, &model)) {
    asModel = 0;
    for (const auto &g : model.graphs()) asModel += plausibleOps(g.value().op_list());
  }
  const int best = std::max({asJob, asNet, asModel});
  if (best <= 0) {
    error(diagnostics, name, "OPC0102",
          best < 0 ? "not a graph: neither protobuf text nor a complete binary Job, DLNetConf or SavedModel"
                   : "not a graph: the bytes parse, but hold no operator",
          "if the file was copied or downloaded, check that it is complete");
    return nullptr;
  }
  if (asJob == best) {
    file->format = "Job (binary)";
    file->job.Swap(&job);
    collectRanges(file.get(), nullptr, nullptr, file->job.net().op_size());
  } else if (asNet == best) {
    file->format = "DLNetConf (binary)";
    file->job.mutable_net()->Swap(&net);
    collectRanges(file.get(), nullptr, nullptr, file->job.net().op_size());
  } else {
    file->format = "SavedModel (binary)";
    if (!takeSavedModel(file.get(), model, nullptr, diagnostics)) return nullptr;
  }
  std::map<std::string, int> unknown;
  noteUnknown(file->job, name, &unknown);
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

SourceRange GraphFile::inputRange(int op, int entry, int index) const {
  const SourceRange fallback = opRanges[static_cast<size_t>(op)];
  const auto *t = opTrees[static_cast<size_t>(op)];
  if (!t) return fallback;
  t = nested(t, field(graph::OperatorConf::descriptor(), "user_conf"));
  if (!t) return fallback;
  t = t->GetTreeForNested(field(graph::UserOpConf::descriptor(), "input"), entry);
  if (!t) return fallback;
  t = nested(t, field(graph::UserOpConf::ArgEntry::descriptor(), "value"));
  if (!t) return fallback;
  SourceRange r = toRange(name, t->GetLocationRange(field(graph::UserOpConf::ListString::descriptor(), "s"), index));
  return r.known() ? r : fallback;
}

SourceRange GraphFile::attrRange(int op, int entry) const {
  const SourceRange fallback = opRanges[static_cast<size_t>(op)];
  const auto *t = opTrees[static_cast<size_t>(op)];
  t = nested(t, field(graph::OperatorConf::descriptor(), "user_conf"));
  if (!t) return fallback;
  SourceRange r = toRange(name, t->GetLocationRange(field(graph::UserOpConf::descriptor(), "attr"), entry));
  return r.known() ? r : fallback;
}

std::unique_ptr<GraphFile> readGraphFile(const std::string &name, const std::string &bytes, uint64_t maxBytes,
                                         std::vector<Diagnostic> *diagnostics) {
  // protobuf counts in int.
  const uint64_t limit = std::min<uint64_t>(maxBytes, INT32_MAX);
  if (bytes.size() > limit) {
    error(diagnostics, name, "OPC0110", "the graph has " + std::to_string(bytes.size()) + " bytes; the limit is " + std::to_string(limit),
          "keep weights in tensor files (--weights), not in the graph");
    return nullptr;
  }
  if (bytes.rfind("\xef\xbb\xbf", 0) == 0) return readGraphFile(name, "   " + bytes.substr(3), maxBytes, diagnostics); // BOM; columns stay
  return looksLikeText(bytes) ? readText(name, bytes, diagnostics) : readBinary(name, bytes, diagnostics);
}

} // namespace opc
