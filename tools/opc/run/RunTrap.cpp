// --trap: the first op that makes a value that is not wanted.
// SPDX-License-Identifier: Apache-2.0
#include "RunTrap.h"

#include "CommandLine.h"
#include "ExitCodes.h"
#include "GraphOutput.h"
#include "NumberText.h"
#include "TensorCompare.h"
#include "TensorSpec.h"
#include "WriteFailure.h"
#include "opc/Convert.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace opc::cli {

namespace fs = std::filesystem;

namespace {

/// The classes of a floating value, from its bits alone.
enum class FloatClass { kFine, kNan, kInf, kDenormal };

/// From the bits alone: in a machine that flushes denormals to zero, arithmetic does not see them.
template <class T> FloatClass classify(T value) {
  using U = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  U bits;
  std::memcpy(&bits, &value, sizeof bits);
  constexpr int mantissa = FloatLimits<T>::mantissa;
  const U fraction = static_cast<U>(bits & ((U{1} << mantissa) - 1));
  const U most = static_cast<U>((U{1} << (sizeof(U) * 8 - 1 - mantissa)) - 1);
  const U exponent = static_cast<U>((bits >> mantissa) & most);
  if (exponent == most) return fraction ? FloatClass::kNan : FloatClass::kInf;
  return exponent == 0 && fraction ? FloatClass::kDenormal : FloatClass::kFine;
}
/// 8-bit floats need not have infinities; their denormals are none in f32.
template <class Format> FloatClass classify(Float8<Format> value) {
  const float v = numberOf(value);
  if (v != v) return FloatClass::kNan;
  if (std::isinf(v)) return FloatClass::kInf;
  return v != 0 && std::abs(v) < FloatLimits<Float8<Format>>::smallestNormal ? FloatClass::kDenormal
                                                                             : FloatClass::kFine;
}

template <int kBits, bool kSigned> FloatClass classify(NarrowInteger<kBits, kSigned>) { return FloatClass::kFine; }

struct Finding {
  int64_t first = -1, count = 0;
};

Finding scan(const void *data, DataType type, int64_t count, TrapKinds kinds) {
  return visit<Join<types::Floating, types::Storage>>(type, [&](auto tag) {
    Finding f;
    const auto *p = static_cast<const typename decltype(tag)::type *>(data);
    for (int64_t i = 0; i < count; ++i) {
      const FloatClass c = classify(p[i]);
      if (c == FloatClass::kFine) continue;
      if (!(c == FloatClass::kNan ? kinds.nan : c == FloatClass::kInf ? kinds.inf : kinds.denormal)) continue;
      if (f.first < 0) f.first = i;
      ++f.count;
    }
    return f;
  });
}

std::string folderName(const std::string &op) {
  std::string name = "opc-trap-";
  for (char c : op) name += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' ? c : '_';
  return name.substr(0, 100);
}

struct Kind {
  const char *word;
  bool TrapKinds::*flag;
  bool operator==(const std::string &text) const { return text == word; }
};
constexpr Kind kKinds[] = {{"nan", &TrapKinds::nan}, {"inf", &TrapKinds::inf}, {"denormal", &TrapKinds::denormal}};

} // namespace

std::optional<TrapKinds> readTrapKinds(const std::string &text) {
  TrapKinds kinds;
  for (size_t start = 0; start <= text.size();) {
    const size_t comma = std::min(text.find(',', start), text.size());
    const auto kind = std::find(std::begin(kKinds), std::end(kKinds), text.substr(start, comma - start));
    if (kind == std::end(kKinds)) return std::nullopt;
    kinds.*(kind->flag) = true;
    start = comma + 1;
  }
  return kinds;
}

Option trapOption(TrapKinds *to) {
  return Option{"--trap", 0, "KINDS",
                "nan, inf, denormal: stop at the first op that makes one, and leave it as a case that runs alone",
                into(to, readTrapKinds)}
      .oneOf({"nan", "inf", "denormal"})
      .taking("nan, inf and denormal", "--trap nan,inf");
}

Status RunTrap::before(const ObservedTask &task, int64_t, TaskData &data) {
  for (size_t i = 0; i < task.inputs.size(); ++i) {
    if (!task.inputs[i].isOverwritten) continue;
    OPC_ASSIGN_OR_RETURN(HostTensor copy,
                         HostTensor::createUninitialized(task.inputs[i].desc.data_type(), task.inputs[i].desc.shape()));
    OPC_ASSIGN_OR_RETURN(const void *bytes, data.input(i));
    if (copy.bytes()) std::memcpy(copy.data(), bytes, copy.bytes());
    std::lock_guard<std::mutex> guard(lock_);
    kept_[{task.stream, i}] = std::move(copy);
  }
  return Status::ok();
}

Result<HostTensor> RunTrap::inputOf(const ObservedTask &task, size_t i, TaskData &data) {
  if (task.inputs[i].isOverwritten) return kept_[{task.stream, i}].clone();
  Result<HostTensor> copy =
      HostTensor::createUninitialized(task.inputs[i].desc.data_type(), task.inputs[i].desc.shape());
  if (!copy) return copy;
  OPC_ASSIGN_OR_RETURN(const void *bytes, data.input(i));
  if (copy->bytes()) std::memcpy(copy->data(), bytes, copy->bytes());
  return copy;
}

Status RunTrap::after(const ObservedTask &task, int64_t step, TaskData &data) {
  if (task.isView) return Status::ok(); // the bytes were looked at where they were made
  // What the task made: its outputs, and the variables that it updated.
  const size_t outputs = task.outputs.size();
  for (size_t o = 0; o < outputs + task.inputs.size(); ++o) {
    const bool isOutput = o < outputs;
    const ObservedTensor &out = isOutput ? task.outputs[o] : task.inputs[o - outputs];
    if (!IsFloatingDataType(out.desc.data_type()) || !(isOutput || out.isMutable)) continue;
    const int64_t count = out.desc.shape().elem_cnt();
    OPC_ASSIGN_OR_RETURN(const void *bytes, isOutput ? data.output(o) : data.input(o - outputs));
    const Finding found = scan(bytes, out.desc.data_type(), count, kinds_);
    if (found.first < 0) continue;
    std::lock_guard<std::mutex> guard(lock_);
    OPC_ASSIGN_OR_RETURN(HostTensor value, HostTensor::createUninitialized(out.desc.data_type(), out.desc.shape()));
    std::memcpy(value.data(), bytes, value.bytes());
    std::string message = task.type + ": " + out.name + indexText(out.desc.shape(), found.first) + " is " +
                          elementText(value, found.first);
    if (kinds_.denormal && std::abs(elementAt(value, found.first)) > 0 &&
        scan(bytes, out.desc.data_type(), count, {false, false, true}).first == found.first)
      message += ", a denormal number";
    message += "; " + countText(static_cast<uint64_t>(found.count)) + " of " + countText(static_cast<uint64_t>(count)) +
               " values of " + out.desc.toString() + " are trapped" + (step ? " at step " + std::to_string(step) : "");
    std::string help;
    Fired fired{task.index, {}};
    std::set<std::string> looked;
    for (size_t i = 0; i < task.inputs.size(); ++i) {
      OPC_ASSIGN_OR_RETURN(HostTensor in, inputOf(task, i, data));
      const ObservedTensor &t = task.inputs[i];
      const Finding bad = scan(in.data(), in.dtype(), in.elemCount(), kinds_);
      if (bad.count && looked.insert(t.name).second)
        help += (help.empty() ? "" : "; ") + std::string("its input ") + t.name + " already holds " +
                countText(static_cast<uint64_t>(bad.count)) + " such values, first at " +
                indexText(t.desc.shape(), bad.first) +
                (t.source == ObservedTensor::Source::kInput      ? " (it was fed)"
                 : t.source == ObservedTensor::Source::kVariable ? " (a variable)"
                 : t.source == ObservedTensor::Source::kConstant ? " (a constant)"
                                                                 : "");
      fired.inputs.push_back(std::move(in));
    }
    // Of several streams the first one counts; the others stop for it.
    if (!fired_) fired_ = std::move(fired);
    return Status(StatusCode::kExecution, "OPC0620", message)
        .withHelp(help)
        .withContext("running op " + task.name + task.where.at());
  }
  return Status::ok();
}

Status RunTrap::withCase(Session &session, const Status &status) const {
  if (!fired()) return status;
  std::string where = "no folder is written: the op is all that runs here, so this command is its case already";
  if (session.tasks().size() > 1) {
    const Result<std::string> folder = dump(session);
    // The finding counts for more than that its case cannot be written.
    where = folder ? "the op and its inputs are in " + *folder + ": sh " + *folder + "/run.sh runs it alone"
                   : "its inputs are not kept: " + folder.status().message();
  }
  return Status(status.code(), status.id(), status.message())
      .withHelp(status.help().empty() ? where : status.help() + "; " + where)
      .withContext(status.context());
}

Result<std::string> RunTrap::dump(Session &session) const {
  std::vector<std::string> names;
  Result<std::string> graph = session.taskGraphText(fired_->task, &names);
  if (!graph) return graph;
  // Made under a passing name: a folder that is there is complete.
  const std::string base = folderName(session.tasks()[fired_->task].name);
  const std::string temporary = base + ".tmp" + std::to_string(getpid());
  std::error_code error;
  auto failed = [&](Status s) {
    fs::remove_all(temporary, error);
    return s;
  };
  if (!fs::create_directories(temporary + "/inputs", error))
    return cannotWrite("make the directory", temporary, error.value());
  if (Status s = writeGraphOutput(temporary + "/graph.pbtxt", *graph, origin_.graph); !s) return failed(s);
  std::set<std::string> written;
  for (size_t i = 0; i < names.size(); ++i)
    if (written.insert(names[i]).second)
      if (Status s = writeNpy(temporary + "/inputs/" + names[i] + ".npy", fired_->inputs[i]); !s) return failed(s);
  std::string command = "opc run graph.pbtxt";
  if (!names.empty()) command += " --inputs inputs";
  std::string wanted;
  for (const Kind &kind : kKinds)
    if (kinds_.*(kind.flag)) wanted += (wanted.empty() ? "" : ",") + std::string(kind.word);
  command += " --trap " + wanted;
  if (const std::string &device = session.tasks()[fired_->task].device; device != "cpu")
    command += " --device " + device;
  const auto add = [&](const char *option, const std::vector<std::string> &paths) {
    for (const std::string &p : paths) command += option + shellQuoted(fs::absolute(p, error).string());
  };
  add(" --plugin ", origin_.plugins), add(" --op-path ", origin_.opPaths);
  const std::string script = "#!/bin/sh\n# Runs the op that a trap stopped, with the inputs that it had. Exit code " +
                             std::to_string(kExitExecution) + " while it fails.\ncd \"$(dirname \"$0\")\" && exec " +
                             command + " \"$@\"\n";
  if (Status s = writeFileAtomically(temporary + "/run.sh", script); !s) return failed(s);
  ::chmod((temporary + "/run.sh").c_str(), 0755);
  std::string folder = base;
  for (int i = 2; ::rename(temporary.c_str(), folder.c_str()) != 0; ++i) {
    if ((errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) || i > 1000)
      return failed(cannotWrite("make the directory", folder, errno));
    folder = base + "-" + std::to_string(i);
  }
  return folder;
}

} // namespace opc::cli
