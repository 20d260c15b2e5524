// Values that a run is given.
// SPDX-License-Identifier: Apache-2.0
#include "RunValues.h"

#include "CommandLine.h"
#include "GraphInput.h"
#include "NumberText.h"

#include <algorithm>
#include <set>

namespace opc::cli {

Result<NamedValues> NamedValues::open(const std::vector<std::string> &specs, const std::string &archivePath,
                                      const std::string &flag) {
  NamedValues values;
  for (const std::string &text : specs) {
    Result<std::pair<std::string, std::string>> named = splitNamed(text, flag);
    if (!named) return named.status();
    if (values.find(named->first))
      return Status(StatusCode::kUsage, "OPC0003", flag + " is given twice for '" + named->first + "'");
    Result<TensorSpec> spec = parseTensorSpec(named->second);
    if (!spec) return Status(spec.status()).withContext("reading " + flag + " " + text);
    values.entries_.push_back({named->first, named->second, std::move(*spec)});
  }
  if (archivePath.empty()) return values;
  const char *role = flag == "--input" ? "input" : flag == "--expect" ? "output" : "";
  Result<std::unique_ptr<TensorArchive>> archive = openTensorArchive(archivePath, role);
  if (!archive) return archive.status();
  values.archive_ = std::move(*archive);
  values.archivePath_ = archivePath;
  return values;
}

const NamedValues::Entry *NamedValues::find(const std::string &name) const {
  for (const Entry &e : entries_)
    if (e.name == name) return &e;
  return nullptr;
}

bool NamedValues::has(const std::string &name) const { return find(name) || (archive_ && archive_->contains(name)); }

Result<HostTensor> NamedValues::make(const SpecContext &context) const {
  if (const Entry *e = find(context.name)) return makeTensor(e->spec, context);
  TensorReadOptions options;
  options.v2IsBf16 = context.expected && context.expected->data_type() == kBFloat16;
  Result<HostTensor> read = archive_->read(context.name, options);
  if (!read || !context.cast || !context.expected || read->dtype() == context.expected->data_type()) return read;
  return castTensor(*read, context.expected->data_type());
}

bool NamedValues::readInto(const std::string &name, const user_op::TensorDesc &desc, void *to) const {
  return !find(name) && archive_ && archive_->readInto(name, desc, to).isOk();
}

Result<std::optional<Shape>> NamedValues::shapeOf(const std::string &name, uint64_t seed) const {
  using Found = std::optional<Shape>;
  if (const Entry *e = find(name)) {
    if (e->spec.desc) return Found(e->spec.desc->shape());
    if (e->spec.kind != TensorSpec::Kind::kFile) return Found();
  }
  SpecContext context;
  context.name = name;
  context.seed = seed;
  Result<HostTensor> tensor = make(context);
  if (!tensor) return tensor.status();
  return Found(tensor->shape());
}

std::optional<user_op::TensorDesc> NamedValues::typeOf(const std::string &name) const {
  const Entry *e = find(name);
  return e ? e->spec.desc : std::nullopt;
}

std::string NamedValues::origin(const std::string &name) const {
  const Entry *e = find(name);
  return e ? e->text : archivePath_;
}

std::vector<std::string> NamedValues::flagNames() const {
  std::vector<std::string> names;
  for (const Entry &e : entries_) names.push_back(e.name);
  return names;
}

void NamedValues::rename(const std::string &from, const std::string &to) {
  for (Entry &e : entries_)
    if (e.name == from) e.name = to;
}

Status NamedValues::absorb(NamedValues &&other, const std::string &flag) {
  for (Entry &e : other.entries_) {
    if (find(e.name))
      return Status(StatusCode::kUsage, "OPC0003", flag + " gives '" + e.name + "' a value, and it has one already");
    entries_.push_back(std::move(e));
  }
  other.entries_.clear();
  return Status::ok();
}

void NamedValues::drop(const std::string &name) {
  entries_.erase(std::remove_if(entries_.begin(), entries_.end(), [&](const Entry &e) { return e.name == name; }),
                 entries_.end());
}

std::vector<std::string> NamedValues::archiveKeys() const {
  std::vector<std::string> keys;
  if (archive_)
    for (const TensorEntry &e : archive_->entries()) keys.push_back(e.key);
  return keys;
}

Status noSuchName(const std::string &kind, const std::string &name, const std::vector<std::string> &known,
                  const std::string &flag) {
  const std::vector<std::string> near = nearestNames(name, known, 1);
  std::string help;
  if (!near.empty())
    help = "did you mean " + near[0] + "?";
  else if (known.empty())
    help = "the graph has no " + kind;
  else {
    help = "the graph has";
    for (size_t i = 0; i < known.size() && i < 8; ++i) help += (i ? ", " : " ") + known[i];
    if (known.size() > 8) help += ", ...";
  }
  return Status(StatusCode::kUsage, "OPC0005", "the graph has no " + kind + " '" + name + "' (" + flag + ")")
      .withHelp(help);
}

namespace {

bool isOpen(const GraphTensor &t) {
  return t.dtype == kInvalidDataType || std::any_of(t.shape.begin(), t.shape.end(), [](int64_t d) { return d < 0; });
}

struct MissingValue {
  std::string name, type;
  bool isVariable = false, isOpen = false;
};

/// OPC0004 for all that is missing, with the command that would run.
Status missingValues(const std::vector<MissingValue> &missing, const std::vector<std::string> &command) {
  const bool variables =
      std::any_of(missing.begin(), missing.end(), [](const MissingValue &m) { return m.isVariable; });
  std::string message = "no value for " + std::to_string(missing.size()) + " of the graph's inputs" +
                        (variables ? " and variables" : "") + ":";
  size_t width = 0;
  for (const MissingValue &m : missing) width = std::max(width, m.name.size());
  std::string line = "opc";
  for (const std::string &word : command) line += " " + shellQuoted(word);
  for (const MissingValue &m : missing) {
    message += "\n  " + m.name + std::string(width - m.name.size() + 2, ' ') + m.type +
               (m.isVariable ? "  variable without an initializer" : "");
    if (m.isOpen) line += " --shape " + shellQuoted(m.name) + "=DIMS";
  }
  return Status(StatusCode::kUsage, "OPC0004", message)
      .withHelp("give each with --input NAME=SPEC (opc run -h), or fill them: " + line + " --fill rand");
}

} // namespace

Status checkGraphInputs(const GraphInfo &info, const NamedValues &inputs,
                        const std::map<std::string, std::vector<int64_t>> &shapes, const ValueFlags &flags,
                        const std::vector<std::string> &command, const std::set<std::string> *fedElsewhere) {
  std::vector<std::string> names, known;
  for (const GraphTensor &t : info.inputs) names.push_back(t.name);
  known = names;
  for (const GraphTensor &t : info.variables) known.push_back(t.name);
  for (const std::string &name : inputs.flagNames())
    if (std::find(known.begin(), known.end(), name) == known.end())
      return noSuchName("input", name, names, "--input " + name + "=" + inputs.origin(name));
  if (!flags.fill.empty()) return Status::ok();
  std::vector<MissingValue> missing;
  bool anyOpen = false;
  for (const GraphTensor &t : info.inputs) {
    if (inputs.has(t.name) || (fedElsewhere && fedElsewhere->count(t.name))) continue;
    const bool open = isOpen(t) && !shapes.count(t.name);
    missing.push_back({t.name, typeText(t.dtype, t.shape), false, open});
    anyOpen |= open || fedElsewhere;
  }
  // Inputs with a known shape are reported later, together with variables.
  return anyOpen ? missingValues(missing, command) : Status::ok();
}

Result<std::map<std::string, std::vector<int64_t>>> shapesOfOpenInputs(const GraphInfo &info, const NamedValues &inputs,
                                                                       uint64_t seed) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const GraphTensor &t : info.inputs) {
    if (!isOpen(t) || !inputs.has(t.name)) continue;
    Result<std::optional<Shape>> shape = inputs.shapeOf(t.name, seed);
    if (!shape) return Status(shape.status()).withContext("reading input " + t.name);
    if (!*shape) continue;
    const DimVector &given = (*shape)->dim_vec();
    // The dimensions that the graph does give must agree; the rest is bound.
    bool fits = t.dtype == kInvalidDataType || given.size() == t.shape.dim_vec().size();
    for (size_t i = 0; fits && t.dtype != kInvalidDataType && i < given.size(); ++i)
      fits = t.shape.dim_vec()[i] < 0 || t.shape.dim_vec()[i] == given[i];
    if (!fits)
      return Status(StatusCode::kUsage, "OPC0704",
                    "input " + t.name + ": " + inputs.origin(t.name) + " has shape " + (*shape)->ToString() +
                        ", the graph wants " + t.shape.ToString() + ", where -1 is any");
    shapes[t.name] = given;
  }
  return shapes;
}

namespace {

/// Feeds one port after another and keeps the book.
class ValueGiver {
public:
  ValueGiver(Session &session, const NamedValues &inputs, const ValueFlags &flags)
      : session_(session), inputs_(inputs), flags_(flags) {
    if (!flags.fill.empty()) fill_ = parseTensorSpec(flags.fill);
  }

  Status openWeights() {
    for (const std::string &path : flags_.weights) {
      Result<NamedValues> opened = NamedValues::open({}, path, "--weights");
      if (!opened) return opened.status();
      weights_.push_back(std::move(*opened));
    }
    return Status::ok();
  }

  Status checkNames() const {
    std::vector<std::string> known;
    for (const PortInfo &p : session_.interface().inputs) known.push_back(p.name);
    const size_t inputCount = known.size();
    for (const VariableInfo &v : session_.interface().variables) known.push_back(v.name);
    for (const std::string &name : inputs_.flagNames()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      known.resize(inputCount);
      return noSuchName("input", name, known, "--input " + name + "=" + inputs_.origin(name));
    }
    return Status::ok();
  }

  Status variables(const std::set<std::string> &givenElsewhere) {
    for (const VariableInfo &v : session_.interface().variables) {
      if (givenElsewhere.count(v.name)) continue;
      const NamedValues *source = inputs_.has(v.name) ? &inputs_ : nullptr;
      // Of several files the last one wins, as of several flags.
      for (const NamedValues &w : weights_)
        if (w.has(v.name)) source = inputs_.has(v.name) ? source : &w;
      Result<HostTensor> tensor = Status();
      std::string origin;
      if (source) {
        origin = source->origin(v.name);
        // Weights go straight to their place: a copy in between would be the largest part of the memory.
        if (void *to = session_.variableData(v.name); to && source->readInto(v.name, v.desc, to)) {
          report_.rows.push_back({v.name, "variable", origin, v.desc});
          continue;
        }
        tensor = make(*source, "variable", v.name, v.desc);
      } else if (v.hasInitializer) {
        continue;
      } else if (fill_.isOk()) {
        tensor = makeTensor(*fill_, contextOf(v.name, v.desc));
        origin = flags_.fill;
      } else {
        missing_.push_back({v.name, "variable", "", v.desc});
        continue;
      }
      OPC_RETURN_IF_ERROR(give(v.name, "variable", origin, v.desc, std::move(tensor)));
    }
    return Status::ok();
  }

  Status inputs(const std::set<std::string> &fedElsewhere) {
    for (const PortInfo &p : session_.interface().inputs) {
      if (fedElsewhere.count(p.name)) continue;
      Result<HostTensor> tensor = Status();
      std::string origin;
      if (inputs_.has(p.name)) {
        tensor = make(inputs_, "input", p.name, p.desc);
        origin = inputs_.origin(p.name);
      } else if (fill_.isOk()) {
        tensor = makeTensor(*fill_, contextOf(p.name, p.desc));
        origin = flags_.fill;
      } else {
        missing_.push_back({p.name, "input", "", p.desc});
        continue;
      }
      OPC_RETURN_IF_ERROR(give(p.name, "input", origin, p.desc, std::move(tensor)));
    }
    return Status::ok();
  }

  Status checkMissing(const std::vector<std::string> &command) const {
    if (missing_.empty()) return Status::ok();
    std::vector<MissingValue> missing;
    for (const bool variable : {false, true})
      for (const ValueReport::Row &r : missing_)
        if ((r.kind == "variable") == variable) missing.push_back({r.name, r.desc.toString(), variable, false});
    return missingValues(missing, command);
  }

  /// Keys of archives that name nothing in the graph.
  void noteUnused() {
    std::set<std::string> inputNames, variableNames;
    for (const PortInfo &p : session_.interface().inputs) inputNames.insert(p.name);
    for (const VariableInfo &v : session_.interface().variables) variableNames.insert(v.name);
    auto note = [&](const NamedValues &values, const std::set<std::string> &a, const std::set<std::string> &b,
                    const char *kind) {
      std::string keys;
      size_t count = 0;
      for (const std::string &key : values.archiveKeys()) {
        if (a.count(key) || b.count(key)) continue;
        if (++count <= 5) keys += (keys.empty() ? "" : ", ") + key;
      }
      if (count)
        report_.notes.push_back(values.archivePath() + ": no " + kind + " of the graph is called " + keys +
                                (count > 5 ? ", ..." : "") + "; skipped");
    };
    note(inputs_, inputNames, variableNames, "input");
    for (const NamedValues &w : weights_) note(w, variableNames, {}, "variable");
  }

  ValueReport take() { return std::move(report_); }

private:
  SpecContext contextOf(const std::string &name, const user_op::TensorDesc &desc) const {
    return {name, desc, flags_.seed, flags_.cast};
  }

  /// A specification of another shape is refused before it is made: a slip may be larger than the machine.
  Result<HostTensor> make(const NamedValues &source, const std::string &kind, const std::string &name,
                          const user_op::TensorDesc &desc) const {
    const std::optional<user_op::TensorDesc> type = source.typeOf(name);
    if (type && type->shape() != desc.shape())
      return Status(StatusCode::kUsage, "OPC0704",
                    kind + " '" + name + "' is " + type->toString() + ", expected " + desc.toString() +
                        ": the shapes differ");
    return source.make(contextOf(name, desc));
  }

  Status give(const std::string &name, const char *kind, const std::string &origin, const user_op::TensorDesc &desc,
              Result<HostTensor> tensor) {
    const std::string doing = std::string("giving ") + kind + " " + name + " the value " + origin;
    if (!tensor) return Status(tensor.status()).withContext(doing);
    Status s = std::string_view(kind) == "input" ? session_.feed(name, *tensor) : session_.setVariable(name, *tensor);
    if (!s) {
      std::string help = s.help();
      if (s.id() == "OPC0703" && !flags_.cast)
        help += (help.empty() ? "" : "; ") + std::string("or let opc convert it: --cast");
      return Status(s.code(), s.id(), s.message()).withHelp(help).withContext(s.context()).withContext(doing);
    }
    report_.rows.push_back({name, kind, origin, desc});
    return Status::ok();
  }

  Session &session_;
  const NamedValues &inputs_;
  const ValueFlags &flags_;
  Result<TensorSpec> fill_ = Status(StatusCode::kUsage, "OPC0004", "nothing to fill with");
  std::vector<NamedValues> weights_;
  std::vector<ValueReport::Row> missing_;
  ValueReport report_;
};

} // namespace

Result<ValueReport> giveValues(Session &session, const NamedValues &inputs, const ValueFlags &flags,
                               const std::vector<std::string> &command, const std::set<std::string> &fedElsewhere) {
  ValueGiver giver(session, inputs, flags);
  OPC_RETURN_IF_ERROR(giver.openWeights());
  OPC_RETURN_IF_ERROR(giver.checkNames());
  OPC_RETURN_IF_ERROR(giver.variables(fedElsewhere));
  OPC_RETURN_IF_ERROR(giver.inputs(fedElsewhere));
  OPC_RETURN_IF_ERROR(giver.checkMissing(command));
  giver.noteUnused();
  return giver.take();
}

} // namespace opc::cli
