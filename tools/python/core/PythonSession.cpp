// Feeding, running and fetching, with the border between Python's threads and opc's.
// SPDX-License-Identifier: Apache-2.0
#include "PythonSession.h"

#include "AllowTf32.h"
#include "NearestNames.h"
#include "OptionRanges.h"
#include "OutputFiles.h"
#include "PythonErrors.h"
#include "PythonTurn.h"
#include "RegionCode.h"
#include "TextParts.h"
#include "WithoutGil.h"

#include <algorithm>
#include <cstring>

namespace py = pybind11;

namespace opc::python {
namespace {

/// Little of the file is in memory beside what is made of it.
void copyInPieces(const StoredTensor &value, char *to) {
  constexpr size_t kPiece = size_t{8} << 20;
  for (size_t at = 0; at < value.bytes.size(); at += kPiece) {
    const std::string_view piece = value.bytes.substr(at, kPiece);
    std::memcpy(to + at, piece.data(), piece.size());
    letGo(value);
  }
}

/// What came with the graph, from where it lies straight into the session's memory.
Status giveValues(Session &session, const GraphValues &values) {
  OPC_RETURN_IF_ERROR(values.areAsTheyWere());
  for (const PortInfo &v : session.interface().variables) {
    const auto value = values.tensors->find(v.name);
    if (value == values.tensors->end() || value->second.desc != v.desc) continue;
    if (void *to = session.variableData(v.name)) {
      copyInPieces(value->second, static_cast<char *>(to));
      continue;
    }
    OPC_ASSIGN_OR_RETURN(HostTensor copy, HostTensor::createUninitialized(v.desc.data_type(), v.desc.shape()));
    copyInPieces(value->second, static_cast<char *>(copy.data()));
    OPC_RETURN_IF_ERROR(session.setVariable(v.name, copy));
  }
  return Status::ok();
}

Session load(const CompiledProgram &program, const SessionOptions &options, bool codegen, bool tf32) {
  Session session = valueOf(withoutGil([&] {
    const WithoutRegionCode loops(!codegen);
    const AllowTf32 products(tf32);
    return Session::load(program.plan, *program.registry, options);
  }));
  if (program.values.tensors) check(withoutGil([&] { return giveValues(session, program.values); }));
  return session;
}

py::str internedKey(const std::string &name) {
  PyObject *text = textOf(name).release().ptr();
  PyUnicode_InternInPlace(&text); // names in calls are interned, too: one comparison of addresses finds them
  return py::reinterpret_steal<py::str>(text);
}

/// What is no number of steps is refused in words.
int64_t stepCount(py::handle steps) {
  int overflow = 0;
  const long long n = PyLong_CheckExact(steps.ptr()) ? PyLong_AsLongLongAndOverflow(steps.ptr(), &overflow) : -1;
  if (n >= 1 && cli::ranges::kCount.has(static_cast<double>(n))) return n;
  return py::module_::import("opc._numbers").attr("steps")(steps).cast<int64_t>();
}

template <class List> [[noreturn]] void noSuch(const char *what, const std::string &name, const List &ports) {
  std::vector<std::string> names;
  for (const auto &p : ports) names.push_back(p.name);
  raise(Status(StatusCode::kUsage, "OPC0611", std::string("the graph has no ") + what + " '" + name + "'")
            .withHelp(didYouMean(name, names, "it has " + joined(names, ", "), "'")));
}

/// A line for each of them that a key which is no variable's is near to: "'fc.w': did you mean 'fc_w'?".
std::string meantKeys(const std::vector<std::string> &lacking, const TensorArchive &archive,
                      const std::vector<PortInfo> &variables) {
  std::vector<std::string> keys;
  for (const TensorEntry &e : archive.entries())
    if (std::none_of(variables.begin(), variables.end(), [&](const PortInfo &v) { return v.name == e.key; }))
      keys.push_back(e.key);
  std::string text;
  for (const std::string &name : lacking)
    if (const std::string meant = didYouMean(name, keys, "", "'"); !meant.empty())
      text += concat("\n  '", name, "': ", meant);
  return text;
}

} // namespace

PythonSession::Use::Use(PythonSession *s) : session(s) {
  if (!session->inUse_.exchange(true)) return;
  python::check(refuseInsideKernel()); // it is the kernel's own run that has the session
  throw std::runtime_error("this session is running in another thread; make a session for each thread: "
                           "program.session()");
}

PythonSession::PythonSession(std::shared_ptr<CompiledProgram> program, const SessionOptions &options, bool codegen,
                             bool allowTf32)
    : program_(std::move(program)), session_(load(*program_, options, codegen, allowTf32)),
      interface_(session_.interface()) {
  for (const PortInfo &p : interface_.inputs) inputKeys_.append(internedKey(p.name));
  for (const PortInfo &p : interface_.outputs) outputKeys_.append(internedKey(p.name));
  fed_.resize(interface_.inputs.size());
}

PythonSession::~PythonSession() {
  endWithoutGil([this] { const Session ended = std::move(session_); });
}

py::dict PythonSession::run(const py::dict &inputs, py::handle steps) {
  const Use use(this);
  const int64_t n = stepCount(steps);
  ++call_;
  for (const auto &[name, value] : inputs) feed(inputIndex(name), value);
  readAgain();
  runSteps(n);
  py::dict outputs;
  for (size_t i = 0; i < interface_.outputs.size(); ++i)
    if (PyDict_SetItem(outputs.ptr(), PyList_GET_ITEM(outputKeys_.ptr(), static_cast<Py_ssize_t>(i)),
                       output(i).ptr()) != 0)
      throw py::error_already_set();
  return outputs;
}

HostTensor PythonSession::fetch(const std::string &output) {
  const Use use(this);
  return valueOf(session_.fetch(output));
}

void PythonSession::setStep(int64_t step) {
  const Use use(this);
  check(session_.setStep(step));
}

py::array PythonSession::variable(const std::string &name) {
  const Use use(this);
  return arrayOf(valueOf(withoutGil([&] { return session_.variable(name); })));
}

void PythonSession::setVariable(const std::string &name, py::handle value) {
  const Use use(this);
  for (const PortInfo &v : interface_.variables) {
    if (v.name != name) continue;
    const std::string what = "variable '" + name + "'";
    HostTensor tensor = valueOf(HostTensor::createUninitialized(v.desc.data_type(), v.desc.shape()));
    const AnyArray array(value, v.desc.data_type(), what);
    check(array.check(v.desc, what));
    array.copyTo(tensor.data());
    return python::check(session_.setVariable(name, tensor));
  }
  for (const PortInfo &n : interface_.numbers) {
    if (n.name != name) continue;
    HostTensor tensor = valueOf(HostTensor::createUninitialized(n.desc.data_type(), n.desc.shape()));
    const AnyArray array(value, n.desc.data_type(), "'" + name + "'");
    check(array.check(n.desc, "'" + name + "'"));
    array.copyTo(tensor.data());
    return python::check(session_.checkNumber(name, tensor));
  }
  noSuch("variable", name, interface_.variables);
}

size_t PythonSession::loadVariables(const std::string &path, bool isPart, const std::string &parameter) {
  const Use use(this);
  const std::unique_ptr<TensorArchive> archive = valueOf(openTensorArchive(path));
  std::vector<const PortInfo *> found;
  std::vector<std::string> lacking;
  for (const PortInfo &v : interface_.variables)
    if (archive->contains(v.name))
      found.push_back(&v);
    else
      lacking.push_back(v.name);
  check(session_.checkNumbers(*archive));
  if (!lacking.empty() && !(isPart && !found.empty()))
    raise(Status(StatusCode::kUsage, "OPC0717",
                 concat(path, " lacks ", lacking.size(), " of the graph's ",
                        counted(interface_.variables.size(), "variable"), ": '", joined(lacking, "', '"), "'",
                        meantKeys(lacking, *archive, interface_.variables)))
              .withHelp(isPart ? "none of the file's keys is a variable of the graph"
                               : concat("give a file that has them, or load a part: ", parameter, "=True")));
  const auto optionsFor = [](const PortInfo &v) {
    TensorReadOptions options;
    options.voidType = v.desc.data_type();
    return options;
  };
  // All of them first: a file that does not fit leaves every variable as it was.
  for (const PortInfo *v : found)
    check(checkTensor(valueOf(archive->describe(v->name, optionsFor(*v))), v->desc,
                      "variable '" + v->name + "' of " + path));
  for (const PortInfo *v : found) check(session_.setVariable(v->name, valueOf(archive->read(v->name, optionsFor(*v)))));
  return found.size();
}

void PythonSession::saveVariables(const std::string &path) {
  const Use use(this);
  check(cli::checkEnding("save_weights", path, {".npz", ".safetensors", ".st"}));
  std::vector<HostTensor> values;
  for (const PortInfo &v : interface_.variables) values.push_back(valueOf(session_.variable(v.name)));
  NamedTensors tensors;
  for (size_t i = 0; i < values.size(); ++i) tensors.emplace_back(interface_.variables[i].name, &values[i]);
  const bool isNpz = path.size() > 4 && path.compare(path.size() - 4, 4, ".npz") == 0;
  check(isNpz ? writeNpz(path, tensors) : writeSafetensors(path, tensors));
}

size_t PythonSession::inputIndex(py::handle name) const {
  const auto count = static_cast<size_t>(PyList_GET_SIZE(inputKeys_.ptr()));
  for (size_t i = 0; i < count; ++i)
    if (PyList_GET_ITEM(inputKeys_.ptr(), static_cast<Py_ssize_t>(i)) == name.ptr()) return i;
  const auto text = name.cast<std::string>();
  for (size_t i = 0; i < count; ++i)
    if (interface_.inputs[i].name == text) return i;
  noSuch("input", text, interface_.inputs);
}

void PythonSession::feed(size_t i, py::handle value) {
  const PortInfo &port = interface_.inputs[i];
  read(i, AnyArray(value, port.desc.data_type(), "input '" + port.name + "'"));
}

void PythonSession::read(size_t i, AnyArray array) {
  const PortInfo &port = session_.interface().inputs[i];
  if (!port.sizes.empty()) check(takeSizes(port, array));
  check(array.check(port.desc, "input '" + port.name + "'"));
  constexpr size_t kWorthLending = size_t{1} << 16;
  const void *lent = array.bytes() >= kWorthLending && array.isReadable() ? array.data() : nullptr;
  if (lent && !session_.lendInput(port.name, lent)) lent = nullptr;
  if (!lent) array.copyTo(valueOf(session_.inputMemory(port.name)));
  fed_[i].emplace(Fed{std::move(array), lent, call_});
}

/// Of an input whose sizes the plan leaves open: they are those of the array, where its elements are the input's.
Status PythonSession::takeSizes(const PortInfo &port, const AnyArray &array) {
  const Shape shape = array.shape();
  OPC_RETURN_IF_ERROR(array.check({shape, port.desc.data_type()}, "input '" + port.name + "'"));
  return session_.setInputShape(port.name, shape);
}

/// Arrays that were fed before are read as they are now, whether they can be read where they lie or not.
void PythonSession::readAgain() {
  for (size_t i = 0; i < fed_.size(); ++i) {
    if (!fed_[i] || fed_[i]->call == call_) continue;
    if (!fed_[i]->lent || fed_[i]->array.data() != fed_[i]->lent)
      read(i, fed_[i]->array);
    else
      check(fed_[i]->array.checkThere("input '" + interface_.inputs[i].name + "'"));
  }
}

void PythonSession::runSteps(int64_t steps) {
  check(refuseInsideKernel());
  for (int64_t i = 0; i < steps; ++i) {
    const Status status = withoutGil([&] { return session_.run(1); });
    // First: an interrupt within a kernel in Python is a failure of the kernel, too.
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
    check(status);
  }
}

py::object PythonSession::output(size_t i) const {
  const PortInfo &port = session_.interface().outputs[i]; // with the sizes of the run
  const void *data = session_.outputData(port.name);
  return data ? arrayOf(port.desc, data) : arrayOf(valueOf(session_.fetch(port.name)));
}

} // namespace opc::python
