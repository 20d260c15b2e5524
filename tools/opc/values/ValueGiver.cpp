// Values for a session.
// SPDX-License-Identifier: Apache-2.0
#include "ValueGiver.h"

#include "CommandLine.h"
#include "NearestNames.h"
#include "TextParts.h"

#include <algorithm>
#include <optional>

namespace opc::cli {

std::vector<std::string> fillKinds() { return {"rand", "zeros", "ones", "iota"}; }

std::vector<Option> ValueFlags::options() {
  return {{"--input", 0, "NAME=SPEC",
           "a value for an input or variable (repeatable): x=@x.npy, x=@in.npz:key, 'x=f32[2,3]:@x.bin', x=1,2,3, "
           "x=3.5, 'x=f32[4]:rand(-1,1)', x=randn, x=iota",
           &inputs, true},
          {"--inputs", 0, "FILE|DIR", "all inputs from one npz, safetensors, or directory of npy or ONNX .pb files",
           &archive, true},
          {"--weights", 0, "FILE", "variables by name from npz or safetensors (repeatable)", &weights, true},
          {"--partial-weights", 0, "", "variables that no file of --weights has begin as the graph initialises them",
           &partialWeights},
          Option{"--fill", 0, "", "for whatever is missing", &fill, true}.oneOf(fillKinds()),
          {"--seed", 0, "N", "for random values (default 0)", &seed},
          {"--cast", 0, "", "convert the element type of given tensors where it differs", &cast}};
}

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

Status noSuchPort(const std::string &name, const std::vector<std::string> &inputs, const std::vector<std::string> &all,
                  const std::string &flag) {
  const bool isOther = nearestNames(name, inputs, 1).empty() && !nearestNames(name, all, 1).empty();
  return noSuchName(isOther ? "variable" : "input", name, isOther ? all : inputs, flag);
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
    if (flags_.partialWeights && flags_.weights.empty())
      return usageError("--partial-weights says how --weights is read, and no file is given",
                        "give --weights FILE, or leave it out");
    for (const std::string &path : flags_.weights) {
      OPC_ASSIGN_OR_RETURN(NamedValues opened, NamedValues::open({}, path, "--weights"));
      weights_.push_back(std::move(opened));
    }
    return Status::ok();
  }

  Status checkNames() const {
    std::vector<std::string> known;
    for (const PortInfo &p : session_.interface().inputs) known.push_back(p.name);
    const size_t inputCount = known.size();
    for (const PortInfo &v : session_.interface().variables) known.push_back(v.name);
    for (const PortInfo &n : session_.interface().numbers) known.push_back(n.name);
    for (const std::string &name : inputs_.flagNames()) {
      if (std::find(known.begin(), known.end(), name) != known.end()) continue;
      const std::vector<std::string> inputs(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(inputCount));
      return noSuchPort(name, inputs, known, inputs_.flagOf(name) + " " + name + "=" + inputs_.origin(name));
    }
    return Status::ok();
  }

  /// What is given for numbers of the model must be what it has: they are in ops.
  Status checkNumbers() const {
    for (const PortInfo &n : session_.interface().numbers) {
      const NamedValues *source = sourceOf(n.name);
      if (!source) continue;
      OPC_ASSIGN_OR_RETURN(const auto type, source->fileTypeOf(n.name, n.desc.data_type()));
      if (type && type->shape() != n.desc.shape()) // its elements may be larger than the machine
        return checkTensor(*type, n.desc, "'" + n.name + "', a number of the model,");
      Result<HostTensor> given = source->make({n.name, n.desc, flags_.seed.value_or(0), flags_.cast});
      Status s = given ? withCastHelp(session_.checkNumber(n.name, *given)) : given.status();
      if (!s) return std::move(s).withContext("giving " + n.name + " the value " + source->origin(n.name));
    }
    return Status::ok();
  }

  /// Files of weights that lack a variable: the graph would run on the numbers of an initializer without a word.
  Status checkWeights(const std::set<std::string> &givenElsewhere) {
    const auto &variables = session_.interface().variables;
    std::vector<const PortInfo *> lacking;
    size_t fitting = 0;
    for (const PortInfo &v : variables) {
      const bool isThere = std::any_of(weights_.begin(), weights_.end(), [&](const auto &w) { return w.has(v.name); });
      fitting += isThere;
      if (!isThere && !inputs_.has(v.name) && !givenElsewhere.count(v.name)) lacking.push_back(&v);
    }
    if (weights_.empty() || lacking.empty()) return Status::ok();
    if (fitting == 0 || !flags_.partialWeights) return lackingWeights(lacking, fitting);
    report_.notes.push_back(joined(flags_.weights, ", ") + ": no value for " + counted(lacking.size(), "variable") +
                            " of " + std::to_string(variables.size()) + " (" + shownNames(lacking) +
                            "), as the graph has them");
    return Status::ok();
  }

  Status variables(const std::set<std::string> &givenElsewhere) {
    for (const PortInfo &v : session_.interface().variables) {
      if (givenElsewhere.count(v.name)) continue;
      const NamedValues *source = sourceOf(v.name);
      if (source || !v.hasInitializer) OPC_RETURN_IF_ERROR(give(Port{v.name, "variable", v.desc}, source));
    }
    return Status::ok();
  }

  /// Who gives a variable; null: nobody. Of several files the last one wins, as of several flags.
  const NamedValues *sourceOf(const std::string &name) const {
    if (inputs_.has(name)) return &inputs_;
    const auto last = std::find_if(weights_.rbegin(), weights_.rend(), [&](const auto &w) { return w.has(name); });
    return last == weights_.rend() ? nullptr : &*last;
  }

  /// Of a plan that leaves sizes open: the values that have a shape say it, before others follow from it.
  Status sizes(const std::set<std::string> &fedElsewhere) {
    if (session_.interface().sizes.empty()) return Status::ok();
    for (const PortInfo &p : session_.interface().inputs) {
      if (fedElsewhere.count(p.name) || !inputs_.has(p.name)) continue;
      Result<std::optional<Shape>> shape = inputs_.shapeOf(p.name, p.desc.data_type());
      Status s = shape.status();
      if (s && *shape) s = session_.setInputShape(p.name, **shape);
      if (!s) return std::move(s).withContext("giving input " + p.name + " the value " + inputs_.origin(p.name));
    }
    return Status::ok();
  }

  Status inputs(const std::set<std::string> &fedElsewhere) {
    OPC_RETURN_IF_ERROR(sizes(fedElsewhere));
    for (const PortInfo &p : session_.interface().inputs)
      if (!fedElsewhere.count(p.name))
        OPC_RETURN_IF_ERROR(give(Port{p.name, "input", p.desc}, inputs_.has(p.name) ? &inputs_ : nullptr));
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
    for (const PortInfo &v : session_.interface().variables) variableNames.insert(v.name);
    for (const PortInfo &n : session_.interface().numbers) variableNames.insert(n.name);
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
  struct Port {
    const std::string &name;
    const char *kind;
    const user_op::TensorDesc &desc;
    bool isInput() const { return std::string_view(kind) == "input"; }
  };

  static std::string shownNames(const std::vector<const PortInfo *> &list) {
    std::vector<std::string> names;
    for (size_t i = 0; i < list.size() && i < 5; ++i) names.push_back(list[i]->name);
    return joined(names, ", ") + (list.size() > names.size() ? ", ..." : "");
  }

  /// OPC0717: each variable with the key that may have been meant for it.
  Status lackingWeights(const std::vector<const PortInfo *> &lacking, size_t fitting) const {
    constexpr size_t kShown = 20;
    const auto &variables = session_.interface().variables;
    std::set<std::string> taken;
    for (const PortInfo &v : variables) taken.insert(v.name);
    std::vector<std::string> free;
    size_t keys = 0;
    for (const NamedValues &w : weights_)
      for (const std::string &key : w.archiveKeys()) {
        ++keys;
        if (!taken.count(key)) free.push_back(key);
      }
    const std::string files = joined(flags_.weights, ", ");
    std::string message =
        fitting
            ? files + (weights_.size() == 1 ? " lacks " : " lack ") + std::to_string(lacking.size()) +
                  " of the graph's " + counted(variables.size(), "variable") + ":"
            : "none of the " + counted(keys, "tensor") + " of " + files + " is called like a variable of the graph:";
    size_t width = 0;
    for (size_t i = 0; i < lacking.size() && i < kShown; ++i) width = std::max(width, lacking[i]->name.size());
    for (size_t i = 0; i < lacking.size() && i < kShown; ++i) {
      const std::string &name = lacking[i]->name;
      const std::string meant = didYouMean(name, free, "", "'");
      message += "\n  " + name + std::string(width - name.size() + 2, ' ') + lacking[i]->desc.toString() +
                 (meant.empty() ? "" : "  " + meant);
    }
    if (lacking.size() > kShown) message += "\n  and " + std::to_string(lacking.size() - kShown) + " more";
    const std::string has = free.empty() ? "" : "the file has " + joined(firstOf(free), ", ") + "; ";
    return Status(StatusCode::kUsage, "OPC0717", message)
        .withHelp(fitting ? "give the rest with another --weights FILE, or let it begin as the graph initialises it: "
                            "--partial-weights"
                          : has + "a key is the name of a variable's op: opc show GRAPH --what tensors lists them");
  }
  static std::vector<std::string> firstOf(std::vector<std::string> names) {
    if (names.size() > 8) names.resize(8), names.push_back("...");
    return names;
  }

  /// What --feed gives a value is an input of the part that runs, and none of the graph.
  std::string wordFor(const Port &port) const {
    return inputs_.flagOf(port.name) == "--feed" ? "the tensor of --feed" : port.kind;
  }

  /// The value of a port from where it is given, else from the fill.
  Status give(const Port &port, const NamedValues *source) {
    if (!source && !fill_.isOk()) {
      missing_.push_back({port.name, port.kind, "", port.desc});
      return Status::ok();
    }
    const std::string origin = source ? source->origin(port.name) : flags_.fill;
    const SpecContext context{port.name, port.desc, flags_.seed.value_or(0), flags_.cast};
    Status s = source ? giveFrom(*source, port, context) : set(port, makeTensor(*fill_, context));
    if (!s) return std::move(s).withContext("giving " + wordFor(port) + " " + port.name + " the value " + origin);
    report_.rows.push_back({port.name, port.kind, origin, port.desc});
    return Status::ok();
  }

  Status giveFrom(const NamedValues &source, const Port &port, const SpecContext &context) {
    // A specification of another shape is refused before it is made: a slip may be larger than the machine.
    const std::optional<user_op::TensorDesc> type = source.typeOf(port.name);
    if (type && type->shape() != port.desc.shape())
      return Status(StatusCode::kUsage, "OPC0704",
                    wordFor(port) + " '" + port.name + "' is " + type->toString() + ", expected " +
                        port.desc.toString() + ": the shapes differ");
    // A file of another type is refused by its header: its elements may be larger than the machine.
    OPC_ASSIGN_OR_RETURN(const auto found, source.fileTypeOf(port.name, port.desc.data_type()));
    if (found) {
      const DataType wanted = flags_.cast ? found->data_type() : port.desc.data_type();
      OPC_RETURN_IF_ERROR(withCastHelp(
          checkTensor(*found, user_op::TensorDesc(port.desc.shape(), wanted), wordFor(port) + " '" + port.name + "'")));
    }
    // Files go straight to their place: a copy in between would be the largest part of the memory. The pieces of an
    // input on several ranks are cut anew in every run where it was filled in place.
    void *to = !port.isInput()         ? session_.variableData(port.name)
               : session_.ranks() == 1 ? session_.inputData(port.name)
                                       : nullptr;
    if (to) {
      OPC_ASSIGN_OR_RETURN(const bool isRead, source.readInto(context, to));
      if (isRead) return Status::ok();
    }
    return set(port, source.make(context));
  }

  Status set(const Port &port, const Result<HostTensor> &tensor) {
    if (!tensor) return tensor.status();
    return withCastHelp(port.isInput() ? session_.feed(port.name, *tensor) : session_.setVariable(port.name, *tensor));
  }

  Status withCastHelp(Status s) const {
    if (s || s.id() != "OPC0703" || flags_.cast) return s;
    return Status(s.code(), s.id(), s.message())
        .withHelp(s.help() + (s.help().empty() ? "" : "; ") + "or let opc convert it: --cast")
        .withContext(s.context());
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
  OPC_RETURN_IF_ERROR(giver.checkNumbers());
  OPC_RETURN_IF_ERROR(giver.checkWeights(fedElsewhere));
  OPC_RETURN_IF_ERROR(giver.variables(fedElsewhere));
  OPC_RETURN_IF_ERROR(giver.inputs(fedElsewhere));
  OPC_RETURN_IF_ERROR(giver.checkMissing(command));
  giver.noteUnused();
  return giver.take();
}

} // namespace opc::cli
