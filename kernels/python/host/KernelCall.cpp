// The call of one Python kernel at one place in a graph.
// SPDX-License-Identifier: Apache-2.0
#include "KernelCall.h"

#include "NumpyTensors.h"
#include "PythonTurn.h"

#include "opc/Convert.h"
#include "opc/Dispatch.h"

#include <algorithm>
#include <cstring>

namespace opc::python {

using user_op::KernelBindContext;

namespace {
bool hasName(const std::vector<std::string> &list, const std::string &name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}
/// What numpy has not.
using NotInNumpy = Join<types::Of<bfloat16>, types::Storage>;
size_t bytesOf(const user_op::TensorDesc &desc) {
  return static_cast<size_t>(desc.shape().elem_cnt()) * GetSizeOfDataType(desc.data_type());
}
constexpr const char *kPosition = "@position";
constexpr const char *kInputs = "@inputs"; // every input, in the definition's order
} // namespace

void KernelCall::Widened::read() {
  visit<NotInNumpy>(type, [&](auto tag) {
    const auto *from = static_cast<const typename decltype(tag)::type *>(tensor);
    std::transform(from, from + numbers.size(), numbers.begin(), [](auto x) { return convertElement<float>(x); });
  });
}

void KernelCall::Widened::write() const {
  visit<NotInNumpy>(type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    std::transform(numbers.begin(), numbers.end(), static_cast<T *>(tensor),
                   [](float x) { return convertElement<T>(x); });
  });
}

/// What the kernel sees in place of a tensor of such a type; nothing for the others.
std::optional<KernelCall::Widened> KernelCall::widen(user_op::TensorDesc *desc, void **data) {
  if (!contains<NotInNumpy>(desc->data_type())) return std::nullopt;
  Widened made{desc->data_type(), *data, std::vector<float>(static_cast<size_t>(desc->shape().elem_cnt()))};
  *desc = user_op::TensorDesc(desc->shape(), kFloat);
  *data = made.numbers.data();
  return made;
}

void KernelCall::readWidened() {
  for (Input &i : inputs_)
    if (i.widened) i.widened->read();
}

void KernelCall::writeWidened() const {
  for (const Input &i : inputs_)
    if (i.widened && i.writable) i.widened->write();
  for (const Output &o : outputs_)
    if (o.widened) o.widened->write();
}

Status KernelCall::addTensors(const OpCode &code, KernelBindContext *ctx) {
  for (const auto &[arg, index] : ctx->inputs()) {
    const user_op::Tensor &tensor = ctx->In(arg, index);
    inputs_.push_back({tensor.desc(), const_cast<void *>(tensor.raw_dptr()), hasName(code.written, arg), arg, {}, 0});
    Input &made = inputs_.back();
    made.widened = widen(&made.desc, &made.data);
    isWidened_ |= made.widened.has_value();
    made.array = arrayOver(made.desc, made.data, made.writable);
    if (!made.array) return takePythonError(op_);
  }
  for (const auto &[arg, index] : ctx->outputs()) {
    user_op::Tensor &tensor = ctx->Out(arg, index);
    outputs_.push_back({tensor.desc(), tensor.mut_raw_dptr(), arg, {}, 0, {}});
    Output &made = outputs_.back();
    made.widened = widen(&made.desc, &made.data);
    isWidened_ |= made.widened.has_value();
    made.target = CopyTarget(made.desc, made.data);
    if (function_.takesOut && !(made.array = arrayOver(made.desc, made.data, true))) return takePythonError(op_);
  }
  for (const Output &o : outputs_)
    for (const Input &i : inputs_)
      isInPlace_ |= outputs_.size() > 1 && o.data == i.data && bytesOf(o.desc) > 0 && bytesOf(i.desc) > 0;
  for (const user_op::ArgDef &output : code.outputs) {
    const size_t before = declared_.size();
    for (Output &o : outputs_)
      if (o.name == output.name) declared_.emplace_back(o.name, &o);
    if (declared_.size() == before && !output.atLeast) declared_.emplace_back(output.name, nullptr);
  }
  return Status::ok();
}

Result<PyRef> KernelCall::argument(const OpCode &code, const std::string &name, KernelBindContext *ctx) {
  if (name == kPosition) return PyRef::share(Py_None);
  const auto input =
      std::find_if(code.inputs.begin(), code.inputs.end(), [&](const auto &a) { return a.name == name; });
  if (input == code.inputs.end()) {
    const auto &attrs = ctx->user_op_conf().conf().attrs;
    const auto attr = attrs.find(name);
    if (attr == attrs.end())
      return Status(StatusCode::kUnsupported, "OPC0923", "the kernel wants '" + name + "', which the op does not have");
    PyRef value = pythonValue(attr->second);
    if (!value) return takePythonError(op_);
    return value;
  }
  std::vector<size_t> indices;
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].name == name) indices.push_back(i);
  if (input->atLeast) {
    PyRef tuple = PyRef::take(PyTuple_New(static_cast<Py_ssize_t>(indices.size())));
    if (!tuple) return takePythonError(op_);
    for (size_t i = 0; i < indices.size(); ++i)
      PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i),
                       PyRef::share(inputs_[indices[i]].array.get()).release());
    // The empty tuple is everybody's: that it is held elsewhere says nothing.
    if (!indices.empty()) lists_.emplace_back(owned_.size(), name);
    return tuple;
  }
  return PyRef::share(indices.empty() ? Py_None : inputs_[indices[0]].array.get());
}

Status KernelCall::addArguments(const OpCode &code, KernelBindContext *ctx) {
  auto add = [&](const std::string &name) -> Status {
    OPC_ASSIGN_OR_RETURN(PyRef value, argument(code, name, ctx));
    if (name == kPosition) position_ = static_cast<int>(owned_.size());
    owned_.push_back(std::move(value));
    return Status::ok();
  };
  std::vector<std::string> names = function_.keywords;
  for (const std::string &name : function_.positional) {
    if (name != kInputs) OPC_RETURN_IF_ERROR(add(name));
    if (name == kInputs)
      for (const user_op::ArgDef &input : code.inputs) OPC_RETURN_IF_ERROR(add(input.name));
  }
  positionals_ = owned_.size();
  for (const std::string &name : names) OPC_RETURN_IF_ERROR(add(name));
  for (std::string &name : names)
    if (name == kPosition) name = "position";
  if (function_.takesOut) {
    names.push_back("out");
    if (outputs_.size() == 1) {
      owned_.push_back(PyRef::share(outputs_[0].array.get()));
    } else {
      PyRef tuple = PyRef::take(PyTuple_New(static_cast<Py_ssize_t>(outputs_.size())));
      if (!tuple) return takePythonError(op_);
      for (size_t i = 0; i < outputs_.size(); ++i)
        PyTuple_SET_ITEM(tuple.get(), static_cast<Py_ssize_t>(i), PyRef::share(outputs_[i].array.get()).release());
      owned_.push_back(std::move(tuple));
    }
  }
  if (!names.empty()) {
    keywordNames_ = PyRef::take(PyTuple_New(static_cast<Py_ssize_t>(names.size())));
    for (size_t i = 0; keywordNames_ && i < names.size(); ++i)
      PyTuple_SET_ITEM(keywordNames_.get(), static_cast<Py_ssize_t>(i), PyUnicode_InternFromString(names[i].c_str()));
    if (!keywordNames_) return takePythonError(op_);
  }
  arguments_.assign(owned_.size() + 1, nullptr);
  for (size_t i = 0; i < owned_.size(); ++i) arguments_[i + 1] = owned_[i].get();
  for (Input &i : inputs_) i.references = Py_REFCNT(i.array.get());
  for (Output &o : outputs_) o.references = o.array ? Py_REFCNT(o.array.get()) : 0;
  return Status::ok();
}

Result<std::unique_ptr<KernelCall>> KernelCall::make(const OpCode &code, KernelFunction function,
                                                     KernelBindContext *ctx) {
  std::unique_ptr<KernelCall> call(new KernelCall);
  call->op_ = code.op;
  call->node_ = ctx->op_name();
  call->function_ = std::move(function);
  OPC_RETURN_IF_ERROR(call->addTensors(code, ctx));
  OPC_RETURN_IF_ERROR(call->addArguments(code, ctx));
  return call;
}

KernelCall::~KernelCall() {
  const GilForRelease gil;
  if (gil) {
    inputs_.clear();
    outputs_.clear();
    owned_.clear();
    function_.function = {};
    keywordNames_ = {};
    return;
  }
  // Python has ended: its objects are gone, and nobody may touch them.
  for (Input &i : inputs_) i.array.release();
  for (Output &o : outputs_) o.array.release(), o.target.abandon();
  for (PyRef &o : owned_) o.release();
  function_.function.release();
  keywordNames_.release();
}

Status KernelCall::fillPosition(DeviceCtx *ctx) {
  const RunPosition &at = ctx->position();
  PyRef value = PyRef::take(
      Py_BuildValue("(KLs)", static_cast<unsigned long long>(at.seed), static_cast<long long>(at.step), node_.c_str()));
  if (!value) return takePythonError(op_);
  const auto i = static_cast<size_t>(position_);
  owned_[i] = std::move(value);
  arguments_[i + 1] = owned_[i].get();
  return Status::ok();
}

Status KernelCall::storeOne(PyObject *value, Output &output) {
  if (value == Py_None && function_.noneIsZero) {
    if (const size_t bytes = bytesOf(output.desc)) std::memset(output.data, 0, bytes);
    return Status::ok();
  }
  return store(value, output.desc, output.data, output.name);
}

/// By the names of outputs, or for the gradient "dx" by that of the input "x".
Status KernelCall::storeNamed(PyObject *result) {
  Py_ssize_t used = 0;
  auto find = [&](const std::string &name) {
    PyObject *value = PyDict_GetItemString(result, name.c_str());
    if (!value && function_.noneIsZero) value = PyDict_GetItemString(result, name.c_str() + 1);
    used += value != nullptr;
    return value;
  };
  for (const auto &[name, output] : declared_)
    if (!output && function_.noneIsZero) find(name);
  for (Output &o : outputs_) {
    PyObject *value = find(o.name);
    if (!value && !function_.noneIsZero)
      return Status(StatusCode::kExecution, "OPC0623", "the kernel has returned a dict without '" + o.name + "'")
          .withHelp("return each output under its name");
    OPC_RETURN_IF_ERROR(storeOne(value ? value : Py_None, o));
  }
  return used == PyDict_GET_SIZE(result) ? Status::ok() : refuseOther(result);
}

/// A dict of results has a key that is none of their names.
Status KernelCall::refuseOther(PyObject *result) const {
  const bool isGradient = function_.noneIsZero;
  std::vector<std::string> used;
  std::string names, other;
  for (const auto &[name, output] : declared_) {
    const bool isOwn = !isGradient || PyDict_GetItemString(result, name.c_str());
    used.push_back(isOwn ? name : name.substr(1));
    names += (names.empty() ? "" : ", ") + (isGradient ? name.substr(1) : name);
  }
  PyObject *key = nullptr, *value = nullptr;
  for (Py_ssize_t at = 0; other.empty() && PyDict_Next(result, &at, &key, &value);) {
    const char *text = PyUnicode_Check(key) ? PyUnicode_AsUTF8(key) : nullptr;
    if (text && hasName(used, text)) continue;
    const PyRef shown = PyRef::take(PyObject_Repr(key));
    const char *said = shown ? PyUnicode_AsUTF8(shown.get()) : nullptr;
    other = said ? said : "a name that is no text";
  }
  PyErr_Clear();
  return Status(StatusCode::kExecution, "OPC0623",
                (isGradient ? "the gradient rule has returned a dict with " : "the kernel has returned a dict with ") +
                    other + (isGradient ? ", which is no input that has a gradient" : ", which is no output"))
      .withHelp((isGradient ? "the names are those of the inputs: " : "the names are those of the outputs: ") + names);
}

/// The results, of which none is in memory that storing another one writes: views of inputs become copies.
PyRef KernelCall::apart(PyObject *result) const {
  auto isWritten = [this](PyObject *value) {
    return std::any_of(outputs_.begin(), outputs_.end(),
                       [&](const Output &o) { return touches(value, o.data, bytesOf(o.desc)); });
  };
  if (PyDict_Check(result)) {
    PyRef made = PyRef::take(PyDict_Copy(result));
    PyObject *key = nullptr, *value = nullptr;
    for (Py_ssize_t at = 0; made && PyDict_Next(result, &at, &key, &value);) {
      if (!isWritten(value)) continue;
      const PyRef copy = copied(value);
      if (!copy || PyDict_SetItem(made.get(), key, copy.get()) < 0) return {};
    }
    return made;
  }
  if (!PyTuple_Check(result) && !PyList_Check(result)) return PyRef::share(result);
  PyRef made = PyRef::take(PySequence_List(result));
  for (Py_ssize_t i = 0; made && i < PyList_GET_SIZE(made.get()); ++i) {
    PyObject *value = PyList_GET_ITEM(made.get(), i);
    if (!isWritten(value)) continue;
    PyRef copy = copied(value);
    if (!copy || PyList_SetItem(made.get(), i, copy.release()) < 0) return {};
  }
  return made;
}

Status KernelCall::storeAll(PyObject *result) {
  if (outputs_.size() == 1 && outputs_[0].target.take(result)) return Status::ok();
  auto count = [&](Py_ssize_t found) {
    return Status(StatusCode::kExecution, "OPC0623",
                  "the kernel has returned " + std::to_string(found) + (found == 1 ? " array" : " arrays") +
                      ", expected " + std::to_string(outputs_.size()))
        .withHelp("return one array for each output, in their order: " + [&] {
          std::string names;
          for (const Output &o : outputs_) names += (names.empty() ? "" : ", ") + o.name;
          return names.empty() ? std::string("none") : names;
        }());
  };
  if (PyTuple_Check(result) || PyList_Check(result)) {
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(result);
    const bool isComplete = function_.noneIsZero && static_cast<size_t>(n) == declared_.size();
    if (static_cast<size_t>(n) != outputs_.size() && !isComplete) return count(n);
    if (isComplete) {
      for (Py_ssize_t i = 0; i < n; ++i)
        if (Output *output = declared_[static_cast<size_t>(i)].second)
          OPC_RETURN_IF_ERROR(storeOne(PySequence_Fast_GET_ITEM(result, i), *output));
      return Status::ok();
    }
    for (Py_ssize_t i = 0; i < n; ++i)
      OPC_RETURN_IF_ERROR(storeOne(PySequence_Fast_GET_ITEM(result, i), outputs_[static_cast<size_t>(i)]));
    return Status::ok();
  }
  if (PyDict_Check(result)) return storeNamed(result);
  if (outputs_.size() == 1) return storeOne(result, outputs_[0]);
  if (result == Py_None && (outputs_.empty() || function_.noneIsZero)) {
    for (Output &o : outputs_) OPC_RETURN_IF_ERROR(storeOne(result, o));
    return Status::ok();
  }
  return count(1);
}

/// An array that somebody still holds would show later values, and after the session memory that is gone.
Status KernelCall::refuseKept() {
  auto refused = [&](const std::string &what, const std::string &name) {
    return Status(StatusCode::kExecution, "OPC0624",
                  "the kernel has kept its " + what + " '" + name + "' or a view of it: the memory is used again")
        .withHelp("keep a copy: " + name + ".copy()");
  };
  for (const Input &input : inputs_)
    if (Py_REFCNT(input.array.get()) > input.references) return refused("input", input.name);
  for (const Output &output : outputs_)
    if (output.array && Py_REFCNT(output.array.get()) > output.references) return refused("output", output.name);
  for (const auto &[at, name] : lists_)
    if (Py_REFCNT(owned_[at].get()) > 1) return refused("inputs", name);
  return Status::ok();
}

/// What is wrong with results has no line of its own, as an exception has: it gets that of the kernel.
Status KernelCall::withPlace(const Status &failure) const {
  if (failure.id() != "OPC0623" && failure.id() != "OPC0624") return failure;
  return Status(failure.code(), failure.id(), failure.message() + definedAt(function_.function.get()))
      .withHelp(failure.help());
}

Status KernelCall::call(DeviceCtx *ctx, bool followed) {
  PythonTurn turn(op_);
  if (!turn.status().isOk()) return turn.status();
  if (position_ >= 0) OPC_RETURN_IF_ERROR(fillPosition(ctx));
  if (isWidened_) readWidened();
  PyRef result = PyRef::take(PyObject_Vectorcall(function_.function.get(), arguments_.data() + 1,
                                                 positionals_ | PY_VECTORCALL_ARGUMENTS_OFFSET, keywordNames_.get()));
  if (!result) [[unlikely]]
    return withPlace(takePythonError(op_));
  Status status;
  if (!function_.takesOut) {
    if (isInPlace_ && !(result = apart(result.get()))) return takePythonError(op_);
    status = storeAll(result.get());
  } else if (result.get() != Py_None && result.get() != owned_.back().get()) {
    status = Status(StatusCode::kExecution, "OPC0623",
                    std::string("the kernel of the form with out= has returned a ") + Py_TYPE(result.get())->tp_name +
                        ", expected nothing")
                 .withHelp("write into out: out[...] = value, or np.add(x, y, out=out)");
  }
  result = {};
  if (!status.isOk()) [[unlikely]]
    return withPlace(status);
  if (isWidened_) writeWidened();
  status = refuseKept();
  if (!status.isOk()) [[unlikely]]
    return withPlace(status);
  if (followed) turn.leaveToNext();
  return status;
}

} // namespace opc::python
