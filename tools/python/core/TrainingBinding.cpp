// What a training loop needs beside a session: batches of data sets, checkpoints, a file of metrics.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "ArrayConversion.h"
#include "BatchLoader.h"
#include "Checkpoint.h"
#include "DlpackArrays.h"
#include "NamedValues.h"
#include "OutputFiles.h"
#include "PythonErrors.h"
#include "PythonSession.h"
#include "RunIdentity.h"
#include "TrainingData.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <fnmatch.h>

namespace py = pybind11;

namespace opc::python {
namespace {

/// A data set: a file's, mapped where it can be, or a copy of an array.
MappedTensor dataSet(const Session &session, const std::string &input, py::handle given) {
  for (const PortInfo &p : session.interface().inputs) {
    if (p.name != input) continue;
    if (PyUnicode_Check(given.ptr())) return valueOf(MappedTensor::open(given.cast<std::string>(), p.desc.data_type()));
    const std::string what = "the data set of input '" + input + "'";
    const auto array = py::reinterpret_borrow<py::object>(
        isPlainArray(given)
            ? given
            : py::module_::import("opc._arrays").attr("as_array")(given, what, dataTypeName(p.desc.data_type())));
    const auto values = array.cast<py::array>();
    DimVector dims(values.shape(), values.shape() + values.ndim());
    const user_op::TensorDesc desc(Shape(dims), p.desc.data_type());
    check(checkArray(values, desc, what));
    HostTensor copy = valueOf(HostTensor::createUninitialized(desc.data_type(), desc.shape()));
    copyArray(values, copy.data());
    return MappedTensor(std::move(copy));
  }
  raise(Status(StatusCode::kUsage, "OPC0611", "the graph has no input '" + input + "'"));
}

} // namespace

BatchLoader batchesOf(const Session &session, const py::dict &data, bool shuffle, uint64_t seed,
                      std::map<std::string, std::string> *contents) {
  std::vector<BatchLoader::Source> sources;
  for (const auto &[name, given] : data) {
    const auto input = name.cast<std::string>();
    sources.push_back({input, dataSet(session, input, given)});
    const MappedTensor &tensor = sources.back().data;
    if (contents) (*contents)[cli::contentKey(input)] = cli::contentOf(tensor.desc(), tensor.data());
  }
  return valueOf(BatchLoader::create(session, std::move(sources), shuffle, seed));
}

namespace {

/// The batches of a session's data sets, and what is in them.
class Batches {
public:
  Batches(PythonSession &session, const py::dict &data, bool shuffle, uint64_t seed)
      : loader_(batchesOf(session.session(), data, shuffle, seed, &contents_)) {}

  void feed(PythonSession &session, int64_t step) {
    const PythonSession::Use use(&session);
    check(loader_.feed(session.session(), step));
  }
  const BatchOrder &order() const { return loader_.order(); }
  const std::map<std::string, std::string> &contents() const { return contents_; }

private:
  std::map<std::string, std::string> contents_;
  BatchLoader loader_;
};

std::vector<std::string> writeCheckpoint(PythonSession &session, const std::string &path, int64_t step, int64_t epoch,
                                         uint64_t seed, const std::map<std::string, std::string> &notes,
                                         bool alsoNotFinite) {
  const PythonSession::Use use(&session);
  const Checkpoint checkpoint = valueOf(Checkpoint::take(session.session(), {step, epoch, seed, notes}));
  std::vector<std::string> odd = checkpoint.notFinite();
  if (odd.empty() || alsoNotFinite) check(checkpoint.write(path));
  return odd;
}

py::tuple readCheckpoint(PythonSession &session, const std::string &path,
                         const std::map<std::string, std::string> &mine) {
  const PythonSession::Use use(&session);
  const TrainingState state = valueOf(loadCheckpoint(path, session.session()));
  check(cli::checkSameRun(path, state.notes, mine));
  return py::make_tuple(state.step, state.epoch, state.seed, state.notes);
}

/// OPC0005 for a glob of no_decay that matches nothing.
void checkNoDecay(const std::vector<std::string> &globs, const std::vector<std::string> &names) {
  for (const std::string &glob : globs)
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string &name) { return fnmatch(glob.c_str(), name.c_str(), 0) == 0; }))
      check(cli::noSuchName("variable", glob, names, "--no-decay " + glob));
}

} // namespace

void bindTraining(py::module_ &module) {
  module.def("check_no_decay", &checkNoDecay);
  py::class_<Batches>(module, "Batches")
      .def(py::init<PythonSession &, const py::dict &, bool, uint64_t>())
      .def("feed", &Batches::feed)
      .def_property_readonly("examples", [](const Batches &b) { return b.order().examples(); })
      .def_property_readonly("batch", [](const Batches &b) { return b.order().batch(); })
      .def_property_readonly("steps_per_epoch", [](const Batches &b) { return b.order().stepsPerEpoch(); })
      .def_property_readonly("contents", &Batches::contents);
  module.def("check_checkpoint_name",
             [](const std::string &path) { check(cli::checkEnding("save", path, {".safetensors", ".st"})); });
  module.def("write_checkpoint", &writeCheckpoint);
  module.def("read_checkpoint", &readCheckpoint);
  module.def("file_metadata", [](const std::string &path) { return valueOf(openTensorArchive(path))->metadata(); });
  bindTrainingRecord(module);
}

} // namespace opc::python
