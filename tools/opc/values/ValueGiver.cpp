// Values for a session.
// SPDX-License-Identifier: Apache-2.0
#include "ValueGiver.h"

#include "CommandLine.h"

#include <algorithm>
#include <optional>

namespace opc::cli {

std::vector<std::string> fillKinds() { return {"rand", "zeros", "ones", "iota"}; }

Status missingValues(const std::vector<MissingValue> &missing, const std::vector<std::string> &command,
                     const std::string &program) {
  const bool variables =
      std::any_of(missing.begin(), missing.end(), [](const MissingValue &m) { return m.isVariable; });
  std::string message = "no value for " + std::to_string(missing.size()) + " of the graph's inputs" +
                        (variables ? " and variables" : "") + ":";
  size_t width = 0;
  for (const MissingValue &m : missing) width = std::max(width, m.name.size());
  std::string line = program.substr(0, program.find(' '));
  for (const std::string &word : command) line += " " + shellQuoted(word);
  for (const MissingValue &m : missing) {
    message += "\n  " + m.name + std::string(width - m.name.size() + 2, ' ') + m.type +
               (m.isVariable ? "  variable without an initializer" : "");
    if (m.isOpen) line += " --shape " + shellQuoted(m.name) + "=DIMS";
  }
  return Status(StatusCode::kUsage, "OPC0004", message)
      .withHelp("give each with --input NAME=SPEC (" + program + " -h), or fill them: " + line + " --fill rand");
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
      std::optional<Result<HostTensor>> tensor;
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
      OPC_RETURN_IF_ERROR(give(v.name, "variable", origin, v.desc, *std::move(tensor)));
    }
    return Status::ok();
  }

  Status inputs(const std::set<std::string> &fedElsewhere) {
    for (const PortInfo &p : session_.interface().inputs) {
      if (fedElsewhere.count(p.name)) continue;
      std::optional<Result<HostTensor>> tensor;
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
      OPC_RETURN_IF_ERROR(give(p.name, "input", origin, p.desc, *std::move(tensor)));
    }
    return Status::ok();
  }

  Status checkMissing(const std::vector<std::string> &command) const {
    if (missing_.empty()) return Status::ok();
    std::vector<MissingValue> missing;
    for (const bool variable : {false, true})
      for (const ValueReport::Row &r : missing_)
        if ((r.kind == "variable") == variable) missing.push_back({r.name, r.desc.toString(), variable, false});
    return missingValues(missing, command, flags_.program);
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
