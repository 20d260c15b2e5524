// Finds Python kernels, asks shape rules, makes tasks.
// SPDX-License-Identifier: Apache-2.0
#include "PythonKernels.h"

#include "KernelCall.h"
#include "NumpyTensors.h"
#include "PythonTurn.h"

#include <csignal>
#include <string_view>

namespace opc::python {

using user_op::TensorDesc;

namespace {

PyObject *hostModule = nullptr; // opc._host; held until the process ends

PyRef hostFunction(const char *name) { return PyRef::take(PyObject_GetAttrString(hostModule, name)); }

std::string utf8(PyObject *text) {
  const char *s = text && PyUnicode_Check(text) ? PyUnicode_AsUTF8(text) : nullptr;
  if (!s) PyErr_Clear();
  return s ? s : "";
}

Result<std::vector<std::string>> texts(PyObject *sequence) {
  std::vector<std::string> list;
  const PyRef tuple = PyRef::take(PySequence_Tuple(sequence));
  if (!tuple) return takePythonError("opc._host");
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple.get()); ++i) list.push_back(utf8(PyTuple_GET_ITEM(tuple.get(), i)));
  return list;
}

/// A code's place as opc._host.Place gets it.
PyRef placeOf(const OpCode &code, const std::string &node) {
  return PyRef::take(Py_BuildValue("(ssssssiOd)", code.op.c_str(), node.c_str(), code.module.c_str(),
                                   code.qualifiedName.c_str(), code.contentHash.c_str(), code.file.c_str(), code.line,
                                   code.isolated ? Py_True : Py_False, code.timeoutSeconds));
}

/// The op's code before it is bound to tensors.
class PythonKernel final : public user_op::OpKernel {
public:
  explicit PythonKernel(const OpCode &code) : code(&code) {}
  ~PythonKernel() override {
    const GilForRelease gil;
    if (gil)
      found.function = {};
    else
      found.function.release();
  }
  bool AlwaysComputeWhenAllOutputsEmpty() const override { return true; }
  const OpCode *code;
  // Found once: tensors may move from run to run, what a kernel keeps for its place (a process, an object) stays.
  mutable KernelFunction found;
};

class PythonKernels final : public KernelHost {
public:
  Status infer(const OpCode &code, user_op::InferContext *ctx) override {
    const PythonTurn turn(code.op);
    if (!turn.status().isOk()) return turn.status();
    const PyRef specType = hostFunction("Spec"), rule = hostFunction("infer");
    const PyRef inputs = PyRef::take(PyDict_New()), attrs = PyRef::take(PyDict_New()), place = placeOf(code, "");
    if (!specType || !rule || !inputs || !attrs || !place) return takePythonError(code.op);
    for (const auto &def : code.inputs) {
      const PyRef list = PyRef::take(PyList_New(0));
      for (int32_t i = 0; list && i < ctx->input_size(def.name); ++i) {
        const PyRef spec = pythonSpec(specType.get(), ctx->In(def.name, i));
        if (!spec || PyList_Append(list.get(), spec.get()) < 0) return takePythonError(code.op);
      }
      if (!list || PyDict_SetItemString(inputs.get(), def.name.c_str(), list.get()) < 0)
        return takePythonError(code.op);
    }
    for (const auto &[name, value] : ctx->user_op_conf().conf().attrs) {
      const PyRef item = pythonValue(value);
      if (!item || PyDict_SetItemString(attrs.get(), name.c_str(), item.get()) < 0) return takePythonError(code.op);
    }
    const PyRef answer =
        PyRef::take(PyObject_CallFunctionObjArgs(rule.get(), place.get(), inputs.get(), attrs.get(), nullptr));
    if (!answer) return takePythonError(code.op);
    return takeSpecs(code, answer.get(), ctx);
  }

  Status create(const OpCode &code, std::unique_ptr<user_op::OpKernel> *kernel) override {
    *kernel = std::make_unique<PythonKernel>(code);
    return Status::ok();
  }

  Status bind(const user_op::OpKernel &kernel, user_op::KernelBindContext *ctx,
              std::unique_ptr<user_op::BoundKernel> *task) override {
    const auto &own = static_cast<const PythonKernel &>(kernel);
    const OpCode &code = *own.code;
    const PythonTurn turn(code.op);
    if (!turn.status().isOk()) return turn.status();
    if (!own.found.function) {
      OPC_ASSIGN_OR_RETURN(own.found, find(code, ctx->op_name()));
    }
    OPC_ASSIGN_OR_RETURN(auto call, KernelCall::make(code, own.found.share(), ctx));
    *task = std::move(call);
    return Status::ok();
  }

  Result<std::string> describe(const std::string &folder) override {
    const PythonTurn turn(folder);
    if (!turn.status().isOk()) return turn.status();
    const PyRef function = hostFunction("describe");
    const PyRef text = function ? PyRef::take(PyObject_CallFunction(function.get(), "s", folder.c_str())) : PyRef();
    if (!text) return takePythonError(folder);
    return utf8(text.get());
  }

private:
  static Status takeSpecs(const OpCode &code, PyObject *answer, user_op::InferContext *ctx) {
    const PyRef specs = PyRef::take(PySequence_Tuple(answer));
    if (!specs) return takePythonError(code.op);
    const auto &outputs = ctx->outputs();
    if (static_cast<size_t>(PyTuple_GET_SIZE(specs.get())) != outputs.size())
      return Status(StatusCode::kUnsupported, "OPC0923",
                    "the shape rule has returned " + std::to_string(PyTuple_GET_SIZE(specs.get())) +
                        " specs, expected " + std::to_string(outputs.size()))
          .withHelp("return opc.Spec(shape, dtype) for each output");
    for (size_t i = 0; i < outputs.size(); ++i) {
      OPC_ASSIGN_OR_RETURN(const TensorDesc desc, descOfSpec(PyTuple_GET_ITEM(specs.get(), static_cast<Py_ssize_t>(i)),
                                                             "the answer for '" + outputs[i].first + "'"));
      ctx->Out(outputs[i].first, outputs[i].second) = desc;
    }
    return Status::ok();
  }

  static Result<KernelFunction> find(const OpCode &code, const std::string &node) {
    const PyRef function = hostFunction("find"), place = placeOf(code, node);
    const PyRef found =
        function && place ? PyRef::take(PyObject_CallFunctionObjArgs(function.get(), place.get(), nullptr)) : PyRef();
    if (!found) return takePythonError(code.op);
    PyObject *callable = nullptr, *positional = nullptr, *keywords = nullptr;
    int out = 0, zeros = 0;
    if (!PyArg_ParseTuple(found.get(), "OOOpp", &callable, &positional, &keywords, &out, &zeros))
      return takePythonError(code.op);
    KernelFunction made;
    made.function = PyRef::share(callable);
    OPC_ASSIGN_OR_RETURN(made.positional, texts(positional));
    OPC_ASSIGN_OR_RETURN(made.keywords, texts(keywords));
    made.takesOut = out;
    made.noneIsZero = zeros;
    return made;
  }
};

// What opc._host needs of this side.
PyObject *pyBeforeFork(PyObject *, PyObject *) { return beforeFork(), Py_NewRef(Py_None); }
PyObject *pyAfterForkInParent(PyObject *, PyObject *) { return afterForkInParent(), Py_NewRef(Py_None); }
PyObject *pyAfterForkInChild(PyObject *, PyObject *) { return afterForkInChild(), Py_NewRef(Py_None); }
PyObject *pyClose(PyObject *, PyObject *) { return closePython(), Py_NewRef(Py_None); }
/// (op, turn), or None outside of kernels.
PyObject *pyRunningKernel(PyObject *, PyObject *) {
  const RunningKernel call = runningKernel();
  if (call.op.empty()) return Py_NewRef(Py_None);
  return Py_BuildValue("s#k", call.op.data(), static_cast<Py_ssize_t>(call.op.size()),
                       static_cast<unsigned long>(call.turn));
}
PyObject *pyStartedInKernel(PyObject *, PyObject *args) {
  const char *op = nullptr;
  unsigned long turn = 0;
  if (!PyArg_ParseTuple(args, "sk", &op, &turn)) return nullptr;
  startedInKernel({op, static_cast<uint32_t>(turn)});
  return Py_NewRef(Py_None);
}
PyMethodDef kHooks[] = {{"before_fork", pyBeforeFork, METH_NOARGS, nullptr},
                        {"after_fork_in_parent", pyAfterForkInParent, METH_NOARGS, nullptr},
                        {"after_fork_in_child", pyAfterForkInChild, METH_NOARGS, nullptr},
                        {"close", pyClose, METH_NOARGS, nullptr},
                        {"running_kernel", pyRunningKernel, METH_NOARGS, nullptr},
                        {"started_in_kernel", pyStartedInKernel, METH_VARARGS, nullptr},
                        {nullptr, nullptr, 0, nullptr}};

/// opc._host.start(folders, hooks)
bool startHost(const std::vector<std::string> &folders) {
  const PyRef list = PyRef::take(PyList_New(0)), hooks = PyRef::take(PyDict_New());
  for (const std::string &folder : folders) {
    const PyRef text = PyRef::take(PyUnicode_DecodeFSDefault(folder.c_str()));
    if (!list || !text || PyList_Append(list.get(), text.get()) < 0) return false;
  }
  for (PyMethodDef *m = kHooks; m->ml_name; ++m) {
    const PyRef function = PyRef::take(PyCFunction_New(m, nullptr));
    if (!hooks || !function || PyDict_SetItemString(hooks.get(), m->ml_name, function.get()) < 0) return false;
  }
  const PyRef start = hostFunction("start");
  return start && PyRef::take(PyObject_CallFunctionObjArgs(start.get(), list.get(), hooks.get(), nullptr));
}

} // namespace

namespace {
/// Not where Python was started by a command: Ctrl-C is the command's, and Python's list of handlers may not be there.
bool isInterruptOfPython() {
  const PyRef name = PyRef::take(PyUnicode_FromString("_signal"));
  const PyRef module = name ? PyRef::take(PyImport_GetModule(name.get())) : PyRef();
  const PyRef handler = module ? PyRef::take(PyObject_CallMethod(module.get(), "getsignal", "i", SIGINT)) : PyRef();
  PyErr_Clear();
  return handler && PyCallable_Check(handler.get());
}

/// Ctrl-C within a kernel ends the run, and whoever waits for the run sees the signal again: when it has been put into
/// words, which is Python's work, too.
struct InterruptAgain {
  bool wanted = false;
  ~InterruptAgain() {
    if (wanted && isInterruptOfPython()) PyErr_SetInterrupt();
  }
};
} // namespace

Status takePythonError(const std::string &op) {
  InterruptAgain again;
  PyObject *type = nullptr, *value = nullptr, *trace = nullptr;
  PyErr_Fetch(&type, &value, &trace);
  PyErr_NormalizeException(&type, &value, &trace);
  again.wanted = type && PyErr_GivenExceptionMatches(type, PyExc_KeyboardInterrupt);
  if (value && trace) PyException_SetTraceback(value, trace);
  const PyRef t = PyRef::take(type), v = PyRef::take(value), b = PyRef::take(trace);
  if (!v)
    return Status(StatusCode::kExecution, "OPC0622", "the Python code of '" + op + "' failed and does not say why");
  const PyRef explain = hostModule ? hostFunction("explain") : PyRef();
  const PyRef said = explain ? PyRef::take(PyObject_CallFunctionObjArgs(explain.get(), v.get(), nullptr)) : PyRef();
  const char *id = nullptr, *message = nullptr, *help = nullptr;
  if (!said || !PyArg_ParseTuple(said.get(), "sss", &id, &message, &help)) {
    PyErr_Clear();
    const PyRef text = PyRef::take(PyObject_Str(v.get()));
    return Status(StatusCode::kExecution, "OPC0622", std::string(Py_TYPE(v.get())->tp_name) + ": " + utf8(text.get()));
  }
  // What the code does is execution; that it is not there, or may not run, is not.
  const bool isOfSetup = std::string_view(id).substr(0, 6) == "OPC092";
  return Status(isOfSetup ? StatusCode::kUnsupported : StatusCode::kExecution, id, message).withHelp(help);
}

std::string definedAt(PyObject *function) {
  const PyRef ask = hostFunction("defined_at");
  const PyRef said = ask ? PyRef::take(PyObject_CallFunctionObjArgs(ask.get(), function, nullptr)) : PyRef();
  if (!said) PyErr_Clear();
  return utf8(said.get());
}

Result<KernelHost *> startPythonKernels(const std::vector<std::string> &folders) {
  static PythonKernels host;
  if (hostModule) return static_cast<KernelHost *>(&host);
  OPC_RETURN_IF_ERROR(openNumpy());
  hostModule = PyImport_ImportModule("opc._host");
  if (!hostModule || !startHost(folders)) {
    Status why = takePythonError("opc._host");
    hostModule = nullptr;
    return Status(StatusCode::kUnsupported, "OPC0922", "the Python package of opc cannot be imported: " + why.message())
        .withHelp("opc python --path prints where it should be");
  }
  return static_cast<KernelHost *>(&host);
}

} // namespace opc::python
