// Options of a compilation: shapes, mesh and pins, gradients and training steps.
// SPDX-License-Identifier: Apache-2.0
#include "CompileRequest.h"

#include "AttrConversion.h"
#include "DlpackArrays.h"
#include "MeshText.h"
#include "PythonErrors.h"
#include "StoredFiles.h"
#include "TextParts.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <sys/stat.h>

namespace py = pybind11;

namespace opc::python {
namespace {

Status refused(const std::string &what, const std::string &help) {
  return Status(StatusCode::kUsage, "OPC0003", what).withHelp(help);
}

void setMesh(CompileOptions &options, std::vector<int64_t> dims, const std::vector<std::string> &pins,
             const std::vector<std::string> &stages, int64_t microBatches, uint64_t deviceMemory) {
  MeshRequest mesh;
  mesh.dims = std::move(dims);
  if (!mesh.dims.empty() && !parseMesh(joined(mesh.dims, "x")))
    return check(refused("a mesh has the dimensions " + joined(mesh.dims, "x"),
                         "there are at most 8 dimensions and 1,048,576 devices"));
  if (mesh.dims.empty() || mesh.dims.size() > 4)
    return check(refused(concat("a mesh has ", mesh.dims.size(), " dimensions"), "states are planned on 1 to 4"));
  for (const std::string &text : pins) {
    const auto pin = parsePin(text);
    if (!pin) return check(refused("'" + text + "' is no pin", "for example 'fc*.w=S(0)' or 'x=[S(0), B]'"));
    mesh.pins.push_back(*pin);
  }
  for (const std::string &text : stages) {
    const auto stage = parseStage(text);
    if (!stage) return check(refused("'" + text + "' is no stage", "for example 'emb*,layer0*=0-1'"));
    for (const int64_t rank : stage->placement.ranks)
      if (rank >= mesh.devices())
        return check(
            refused(concat("the stage '", text, "' names rank ", rank, ", the mesh has ", mesh.devices()), ""));
    mesh.stages.push_back(*stage);
  }
  mesh.microBatches = microBatches;
  mesh.deviceMemory = deviceMemory;
  options.mesh = std::move(mesh);
}

std::map<std::string, AttrValue> attrsOf(const std::string &type, const py::dict &given) {
  const RegistryPtr registry = currentRegistry();
  const user_op::OpDef *op = registry->findOp(type);
  std::map<std::string, AttrValue> attrs;
  for (const auto &[key, value] : given) {
    const auto name = key.cast<std::string>();
    const user_op::AttrDef *attr = op ? op->findAttr(name) : nullptr;
    if (!attr) {
      std::string what = type;
      check(
          refused(what.append(" has no attribute '").append(name).append("'"), "opc ops show " + type + " lists them"));
    }
    attrs[attr->name] = valueOf(attrFromPython(*attr, value));
  }
  return attrs;
}

/// One optimizer over some of the variables; keys are those of opc.optim.
OptimizerGroup groupFrom(const py::dict &given) {
  OptimizerGroup group;
  group.updateOp = given["op"].cast<std::string>();
  group.attrs = attrsOf(group.updateOp, given["attrs"]);
  group.schedule = attrsOf("learning_rate_schedule", given["schedule"]);
  group.variables = given["variables"].cast<std::vector<std::string>>();
  group.learningRate = given["lr"].cast<double>();
  group.clipNorm = given["clip_norm"].cast<double>();
  group.weightDecay = given["weight_decay"].cast<double>();
  group.decayAttr = given["decay_attr"].cast<std::string>();
  group.decayNever = given["no_decay"].cast<std::vector<std::string>>();
  return group;
}

/// The bytes of a value that becomes a constant of an ONNX model, in the type that the model gives it.
Result<std::string> constantFrom(py::handle value, const std::string &name, const user_op::TensorDesc &desc) {
  try {
    const std::string what = "constant '" + name + "'";
    const AnyArray array(value, desc.data_type(), what);
    OPC_RETURN_IF_ERROR(array.check(desc, what));
    std::string bytes(array.bytes(), '\0');
    array.copyTo(bytes.data());
    return bytes;
  } catch (py::error_already_set &e) {
    return Status(StatusCode::kUsage, "OPC0003", py::str(e.value()).cast<std::string>());
  }
}

void setModel(CompileOptions &options, std::map<std::string, int64_t> dims, const py::dict &constants) {
  options.model.dims = std::move(dims);
  for (const auto &[name, value] : constants) options.model.constants.insert(name.cast<std::string>());
  // The import runs without the GIL, and its end may drop the last reference.
  const std::shared_ptr<py::dict> values(new py::dict(constants), [](py::dict *d) {
    const py::gil_scoped_acquire gil;
    delete d;
  });
  options.model.constant = [values](const std::string &name, const user_op::TensorDesc &desc) {
    const py::gil_scoped_acquire gil;
    return constantFrom((*values)[py::str(name)], name, desc);
  };
}

void setGradient(CompileOptions &options, std::vector<std::string> losses, std::vector<std::string> wrt, int order,
                 bool dyInputs, bool backwardOnly) {
  GradientRequest request;
  request.losses = std::move(losses);
  request.wrt = std::move(wrt);
  request.order = order;
  request.dyInputs = dyInputs;
  request.backwardOnly = backwardOnly;
  options.gradient = std::move(request);
}

void setTraining(CompileOptions &options, const py::list &groups, int64_t accumulate, double lossScale,
                 bool dynamicScale, int64_t recompute) {
  TrainingConfig config;
  for (const py::handle group : groups) config.groups.push_back(groupFrom(group.cast<py::dict>()));
  config.accumulate = accumulate;
  config.lossScale.value = lossScale;
  config.lossScale.dynamic = dynamicScale;
  options.gradient->training = std::move(config);
  options.gradient->recompute.segments = recompute;
}

} // namespace

/// Device and node, and what changes when the file is written.
static std::vector<int64_t> identityOf(const std::string &path) {
  struct stat now;
  if (::stat(path.c_str(), &now) != 0 || !S_ISREG(now.st_mode)) return {};
  return {static_cast<int64_t>(now.st_dev), static_cast<int64_t>(now.st_ino), now.st_size, now.st_mtim.tv_sec,
          now.st_mtim.tv_nsec};
}

ModelFile::ModelFile(std::string path, SharedBytes bytes)
    : path_(std::move(path)), bytes_(std::move(bytes)), identity_(identityOf(path_)) {}

Status ModelFile::check() const {
  const std::vector<int64_t> now = identityOf(path_);
  if (identity_.empty() || now.empty() || now == identity_) return Status::ok();
  if (!std::equal(now.begin(), now.begin() + 2, identity_.begin())) return Status::ok(); // another device or node
  return Status(StatusCode::kInvalidGraph, "OPC0323",
                "'" + path_ + "' has been written since the model was loaded from it")
      .withHelp("load it again: weights are read when a session is made");
}

Status GraphValues::areAsTheyWere() const {
  if (!tensors) return Status::ok();
  if (check) OPC_RETURN_IF_ERROR(check());
  return filesAreComplete(*tensors);
}

void raiseFindings(const Pipeline &pipeline) {
  raise(pipeline.diagnostics(), pipeline.errorCount(), pipeline.errorClass(), pipeline.source());
}

void bindCompileOptions(py::module_ &module) {
  py::class_<GraphValues>(module, "GraphValues");
  py::class_<CompileOptions>(module, "CompileOptions")
      .def(py::init<>())
      .def_readwrite("shapes", &CompileOptions::shapes)
      .def_readwrite("max_errors", &CompileOptions::maxErrors)
      .def_readwrite("simplify", &CompileOptions::simplify)
      .def_readwrite("fuse", &CompileOptions::fuse)
      .def_readwrite("winograd", &CompileOptions::winograd)
      .def_readwrite("train", &CompileOptions::train)
      .def("set_mesh", &setMesh)
      .def("set_model", &setModel)
      .def("set_values",
           [](CompileOptions &options, const GraphValues &values) {
             check(values.areAsTheyWere());
             options.values = *values.tensors;
           })
      .def("set_gradient", &setGradient)
      .def("set_training", &setTraining);
}

} // namespace opc::python
