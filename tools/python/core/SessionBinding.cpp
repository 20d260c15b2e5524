// Sessions for Python: arrays in, steps without the GIL, arrays out.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "ArrayConversion.h"
#include "AttrConversion.h"
#include "CompiledProgram.h"
#include "PythonErrors.h"
#include "Session.h"

#include "NearestNames.h"

#include <pybind11/stl.h>

#include <atomic>

namespace py = pybind11;

namespace opc::python {
namespace {

class PythonSession {
public:
  PythonSession(std::shared_ptr<CompiledProgram> program, const SessionOptions &options)
      : program_(std::move(program)), session_(load(*program_, options)), interface_(session_.interface()) {
    for (const PortInfo &p : interface_.inputs) inputKeys_.append(key(p.name));
    for (const PortInfo &p : interface_.outputs) outputKeys_.append(key(p.name));
    lent_.resize(interface_.inputs.size());
  }

  /// Feeds what is given, runs, and gives every output.
  py::dict run(const py::dict &inputs, int64_t steps) {
    const Use use(this);
    for (const auto &[name, value] : inputs) feed(indexOf(name), value);
    runSteps(steps);
    py::dict outputs;
    for (size_t i = 0; i < interface_.outputs.size(); ++i) outputs[outputKeys_[i]] = output(i);
    return outputs;
  }

  py::array variable(const std::string &name) {
    const Use use(this);
    Result<HostTensor> value = [&] {
      const py::gil_scoped_release others;
      return session_.variable(name);
    }();
    return arrayOf(valueOf(std::move(value)));
  }

  void setVariable(const std::string &name, py::handle value) {
    const Use use(this);
    for (const VariableInfo &v : interface_.variables) {
      if (v.name != name) continue;
      const py::array array = toArray(value, "variable '" + name + "'");
      check(checkArray(array, v.desc, "variable '" + name + "'"));
      HostTensor tensor = valueOf(HostTensor::createUninitialized(v.desc.data_type(), v.desc.shape()));
      copyArray(array, tensor.data());
      return check(session_.setVariable(name, tensor));
    }
    std::vector<std::string> names;
    for (const VariableInfo &v : interface_.variables) names.push_back(v.name);
    noSuch("variable", name, names);
  }

  template <class List> static py::list ports(const List &list) {
    py::list all;
    for (const auto &p : list)
      all.append(py::make_tuple(p.name, shapeToPython(p.desc.shape()), dataTypeName(p.desc.data_type())));
    return all;
  }
  const SessionInterface &interface() const { return interface_; }
  Session &session() { return session_; }

private:
  /// One thread at a time: a second one gets an exception and not a race.
  struct Use {
    explicit Use(PythonSession *s) : session(s) {
      if (session->inUse_.exchange(true))
        throw std::runtime_error("this session is running in another thread: make a session for each thread "
                                 "(program.session())");
    }
    ~Use() { session->inUse_ = false; }
    PythonSession *session;
  };

  static Session load(const CompiledProgram &program, const SessionOptions &options) {
    Result<Session> loaded = [&] {
      const py::gil_scoped_release others;
      return Session::load(program.plan, *program.registry, options);
    }();
    return valueOf(std::move(loaded));
  }

  static py::str key(const std::string &name) {
    PyObject *text = PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
    PyUnicode_InternInPlace(&text); // names in calls are interned, too: one comparison of addresses finds them
    return py::reinterpret_steal<py::str>(text);
  }

  [[noreturn]] static void noSuch(const char *what, const std::string &name, const std::vector<std::string> &names) {
    raise(Status(StatusCode::kUsage, "OPC0611", std::string("the graph has no ") + what + " '" + name + "'")
              .withHelp(didYouMean(name, names, "its interface lists them", "'")));
  }

  size_t indexOf(py::handle name) const {
    const auto count = static_cast<size_t>(PyList_GET_SIZE(inputKeys_.ptr()));
    for (size_t i = 0; i < count; ++i)
      if (PyList_GET_ITEM(inputKeys_.ptr(), static_cast<Py_ssize_t>(i)) == name.ptr()) return i;
    const auto text = name.cast<std::string>();
    std::vector<std::string> names;
    for (size_t i = 0; i < count; ++i) {
      if (interface_.inputs[i].name == text) return i;
      names.push_back(interface_.inputs[i].name);
    }
    noSuch("input", text, names);
  }

  static py::array toArray(py::handle value, const std::string &what) {
    if (py::isinstance<py::array>(value)) return py::reinterpret_borrow<py::array>(value);
    return py::module_::import("opc._arrays").attr("as_array")(value, what);
  }

  void feed(size_t i, py::handle value) {
    const PortInfo &port = interface_.inputs[i];
    const std::string what = "input '" + port.name + "'";
    const py::array array = toArray(value, what);
    check(checkArray(array, port.desc, what));
    constexpr py::ssize_t kWorthLending = 1 << 16;
    if (array.nbytes() >= kWorthLending && isReadable(array) && port.desc.data_type() != kBool &&
        session_.lendInput(port.name, array.data())) {
      lent_[i] = array;
      return;
    }
    copyArray(array, session_.inputData(port.name));
    lent_[i] = py::object();
  }

  /// Without the GIL; signals are looked at between steps.
  void runSteps(int64_t steps) {
    for (int64_t i = 0; i < steps; ++i) {
      Status status = [&] {
        const py::gil_scoped_release others;
        return session_.run(1);
      }();
      check(status);
      if (steps > 1 && PyErr_CheckSignals() != 0) throw py::error_already_set();
    }
  }

  py::object output(size_t i) const {
    const PortInfo &port = interface_.outputs[i];
    const void *data = session_.outputData(port.name);
    if (!data) return arrayOf(valueOf(session_.fetch(port.name)));
    return arrayOf(port.desc, data);
  }

  std::shared_ptr<CompiledProgram> program_;
  std::vector<py::object> lent_; // before the session, which reads them until it is gone
  Session session_;
  SessionInterface interface_;
  py::list inputKeys_, outputKeys_;
  std::atomic<bool> inUse_{false};
};

} // namespace

void bindSession(py::module_ &module) {
  py::class_<PythonSession>(module, "Session")
      .def(py::init(
          [](std::shared_ptr<CompiledProgram> program, uint64_t seed, int threads, uint64_t maxMemory, int64_t ranks) {
            SessionOptions options;
            options.seed = seed;
            options.threads = threads;
            options.maxMemory = maxMemory;
            options.ranks = ranks;
            return std::make_unique<PythonSession>(std::move(program), options);
          }))
      .def("run", &PythonSession::run)
      .def("variable", &PythonSession::variable)
      .def("set_variable", &PythonSession::setVariable)
      .def_property(
          "step", [](PythonSession &s) { return s.session().step(); },
          [](PythonSession &s, int64_t step) { check(s.session().setStep(step)); })
      .def_property_readonly("inputs", [](PythonSession &s) { return PythonSession::ports(s.interface().inputs); })
      .def_property_readonly("outputs", [](PythonSession &s) { return PythonSession::ports(s.interface().outputs); })
      .def_property_readonly("variables",
                             [](PythonSession &s) { return PythonSession::ports(s.interface().variables); });
}

} // namespace opc::python
