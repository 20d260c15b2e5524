// Registry and graphs for Python: opc._core.GraphMessage, op definitions, plugins.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"
#include "BuiltIn.h"

#include "ArrayConversion.h"
#include "AttrConversion.h"
#include "CompileRequest.h"
#include "FileBytes.h"
#include "FileUse.h"
#include "GraphMessage.h"
#include "ModelSource.h"
#include "OpSuggestions.h"
#include "PluginOverrides.h"
#include "PythonErrors.h"
#include "opc/PackedElements.h"

#include <pybind11/stl.h>

#include <google/protobuf/text_format.h>

namespace py = pybind11;

namespace opc::python {
namespace {

py::tuple factTuple(const TensorFact &fact) {
  return py::make_tuple(fact.name, shapeToPython(fact.desc.shape()), dataTypeName(fact.desc.data_type()));
}

user_op::TensorDesc descFrom(py::handle shape, py::handle dtype) {
  const DataType type = dataTypeFromPython(dtype);
  if (type == kInvalidDataType)
    throw py::type_error("no element type is called " + std::string(py::repr(dtype)) + "; there are " +
                         elementTypeNames());
  return {shapeFromPython(shape), type};
}

/// What the file of a Python line has, so that the message can show the line.
NewOp newOp(const Registry &registry, const std::string &type, const py::dict &inputs, const py::dict &attrs,
            const std::string &name, const std::string &place) {
  NewOp op;
  op.type = type;
  op.name = name;
  op.place = place;
  for (const auto &[arg, tensors] : inputs)
    op.inputs.emplace_back(arg.cast<std::string>(), tensors.cast<std::vector<std::string>>());
  const user_op::OpDef *def = findGraphOp(registry, type);
  for (const auto &[key, value] : attrs) {
    const auto attrName = key.cast<std::string>();
    const user_op::AttrDef *attr = def ? def->findAttr(attrName) : nullptr;
    // An attribute that the op does not have is reported with the op.
    if (!attr) {
      op.attrs[attrName] = AttrValue(std::string());
      continue;
    }
    Result<AttrValue> converted = attrFromPython(*attr, value);
    if (!converted) {
      Diagnostic finding;
      finding.code = converted.status().id();
      finding.message = type + ": " + converted.status().message();
      finding.subject = "op " + name;
      finding.range = placeOf(place);
      raise({finding}, 1, StatusCode::kInvalidGraph, sourceAt(finding.range));
    }
    op.attrs[attrName] = std::move(*converted);
  }
  return op;
}

py::tuple addOp(GraphMessage &graph, const std::string &type, const py::dict &inputs, const py::dict &attrs,
                const std::string &name, const std::map<std::string, int32_t> &outputs, const std::string &place,
                const std::vector<std::string> &after) {
  const RegistryPtr registry = currentRegistry();
  NewOp op = newOp(*registry, type, inputs, attrs, name, place);
  op.outputs = outputs;
  op.after = after;
  std::vector<std::pair<std::string, TensorFact>> made;
  std::string madeName;
  Diagnostic finding;
  if (!graph.addOp(*registry, std::move(op), &made, &madeName, &finding))
    raise({finding}, 1, StatusCode::kInvalidGraph, sourceAt(finding.range));
  py::list facts;
  for (const auto &[arg, fact] : made)
    facts.append(py::make_tuple(arg, fact.name, shapeToPython(fact.desc.shape()), dataTypeName(fact.desc.data_type())));
  return py::make_tuple(madeName, facts);
}

py::tuple addVariable(GraphMessage &graph, const std::string &name, py::handle shape, py::handle dtype,
                      const std::string &init, bool trainable, const std::string &place) {
  graph::InitializerConf conf;
  if (!google::protobuf::TextFormat::ParseFromString(init, &conf))
    throw py::value_error("'" + init + "' is no initializer");
  return factTuple(valueOf(graph.addVariable(name, descFrom(shape, dtype), conf, trainable, place)));
}

/// A definition as plain values: what the package makes signatures, documentation and stubs of.
py::dict describeOp(const user_op::OpDef &def) {
  auto args = [](const std::vector<user_op::ArgDef> &list) {
    py::list all;
    for (const user_op::ArgDef &a : list) all.append(py::make_tuple(a.name, a.optional, a.count, a.atLeast));
    return all;
  };
  py::list attrs;
  for (const user_op::AttrDef &a : def.attrs)
    attrs.append(py::make_tuple(a.name, attrTypeName(a.type), attrToPython(a.defaultValue), !a.defaultValue.empty()));
  py::dict d;
  d["name"] = def.name;
  d["doc"] = def.doc;
  d["inputs"] = args(def.inputs);
  d["outputs"] = args(def.outputs);
  d["attrs"] = attrs;
  d["library"] = libraryText(def.origin);
  return d;
}

} // namespace

void bindRegistry(py::module_ &module) {
  module.def("op_names", [] {
    py::list names;
    for (const user_op::OpDef *op : currentRegistry()->ops()) names.append(op->name);
    return names;
  });
  module.def("describe_op", [](const std::string &type) -> py::object {
    const RegistryPtr registry = currentRegistry();
    const user_op::OpDef *def = findGraphOp(*registry, type);
    return def ? py::object(describeOp(*def)) : py::none();
  });
  module.def("suggest_ops", [](const std::string &type) {
    const std::string suggestion = suggestOps(*currentRegistry(), type);
    return suggestion.empty() ? suggestion : ": " + suggestion;
  });
  module.def("write_file", [](const std::string &path, const py::bytes &bytes) {
    check(writeFileAtomically(path, std::string_view(bytes)));
  });
  module.def("spare_model", [](const std::string &path, const std::string &model, const std::string &what) {
    cli::FileUse files;
    files.readsGraph(model, "the model");
    check(files.writes(path, what));
  });
  module.def("read_file", [](const std::string &path) -> py::object {
    const auto file = std::make_shared<const FileBytes>(valueOf(FileBytes::open(path)));
    if (!looksLikeModel(file->view())) return py::bytes(file->view().data(), file->view().size());
    return py::cast(ModelFile(path, SharedBytes(file->view(), file, file->isMapped())));
  });
  module.def("load_plugin", [](const std::string &path) { check(addPlugin(path)); });
  module.def("dtype_name", [](py::handle type) -> py::object {
    const DataType known = dataTypeFromPython(type);
    return known == kInvalidDataType ? py::object(py::none()) : py::str(dataTypeName(known));
  });
  module.def("dtypes", [] {
    py::list all;
    for (const DataType known : dataTypes<types::All>()) {
      const ElementType &t = elementType(known);
      const py::object highest = holdsFractions(known) ? py::object(py::float_(t.highest)) : py::none();
      all.append(py::make_tuple(t.name, t.graphName, t.numpyName, numpyType(known), highest, t.mantissa));
    }
    return all;
  });
}

void bindGraph(py::module_ &module) {
  py::class_<GraphMessage>(module, "GraphMessage")
      .def(py::init<std::string>())
      .def("text", &GraphMessage::text)
      .def("binary",
           [](const GraphMessage &graph) {
             return py::bytes(graph.isJob() ? graph.job().SerializeAsString() : graph.job().net().SerializeAsString());
           })
      .def("free_name", &GraphMessage::freeName)
      .def("find",
           [](const GraphMessage &graph, const std::string &tensor) -> py::object {
             const user_op::TensorDesc *desc = graph.find(tensor);
             return desc ? py::object(factTuple({tensor, *desc})) : py::none();
           })
      .def("add_input",
           [](GraphMessage &graph, const std::string &name, py::handle shape, py::handle dtype,
              const std::string &place) {
             return factTuple(valueOf(graph.addInput(name, descFrom(shape, dtype), place)));
           })
      .def("add_variable", &addVariable)
      .def("add_output", [](GraphMessage &graph, const std::string &name, const std::string &tensor,
                            const std::string &place) { check(graph.addOutput(name, tensor, place)); })
      .def("add_op", &addOp);
}

} // namespace opc::python
