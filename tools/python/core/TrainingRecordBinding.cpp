// What a run of training leaves behind, by the command's own rules; validation.
// SPDX-License-Identifier: Apache-2.0
#include "Bindings.h"

#include "DlpackArrays.h"
#include "FileUse.h"
#include "LearningCheck.h"
#include "OutputFiles.h"
#include "PythonErrors.h"
#include "PythonSession.h"
#include "TrainingData.h"
#include "TrainingRecord.h"
#include "Validation.h"
#include "WithoutGil.h"

#include <pybind11/stl.h>

namespace py = pybind11;

namespace opc::python {
namespace {

template <class T> using Values = std::vector<std::pair<std::string, T>>;

/// In Python it is no command line that is wrong.
Status asParameters(const Status &s) {
  return s ? s : Status(s.code(), s.id() == "OPC0001" ? "OPC0003" : s.id(), s.message()).withHelp(s.help());
}

template <class T> T given(const py::dict &options, const char *name, T otherwise = {}) {
  return options.contains(name) && !options[name].is_none() ? options[name].cast<T>() : otherwise;
}

cli::TrainingOptions optionsOf(const py::dict &d) {
  cli::TrainingOptions o;
  for (const auto &[name, to] :
       {std::pair("save", &o.save), {"metrics", &o.metrics}, {"plot", &o.plot}, {"resume", &o.resume}})
    *to = given<std::string>(d, name);
  for (const auto &[name, to] : {std::pair("epochs", &o.epochs),
                                 {"steps", &o.steps},
                                 {"save_every", &o.saveEvery},
                                 {"keep", &o.keep},
                                 {"patience", &o.patience}})
    *to = given<int64_t>(d, name);
  if (const auto every = given<int64_t>(d, "metrics_every")) o.metricsEvery = every;
  if (const auto best = given<std::string>(d, "keep_best"); !best.empty()) {
    o.best = cli::readBestMetric(best);
    if (!o.best)
      raise(
          Status(StatusCode::kUsage, "OPC0003", "keep_best is the name of an output of one element, not '" + best + "'")
              .withHelp("keep_best=\"loss\", or \"accuracy:max\" where more is better"));
  }
  o.stopOn.nan = given<bool>(d, "stop_nan");
  o.stopOn.inf = given<bool>(d, "stop_inf");
  check(asParameters(cli::checkTogether(o)));
  return o;
}

/// The record of a run, with the locks of its files. What is to be said waits for Python to ask.
class Record {
public:
  Record(PythonSession &session, cli::TrainingOptions options, const Values<std::string> &reads,
         cli::TrainingRecord::Run run)
      : session_(&session), options_(std::move(options)) {
    check(asParameters(cli::checkTrainingFiles(options_, "")));
    cli::FileUse files;
    for (const auto &[path, option] : reads) files.readsSpec("@" + path, option);
    for (const cli::TrainingFile &f : cli::trainingFiles(options_))
      check(f.isNumbered ? files.writesNumbered(f.path, f.option) : files.writes(f.path, f.option));
    locks_ = valueOf(cli::lockTrainingFiles(options_));
    const auto say = [this](const std::string &text) { said_.push_back(text); };
    record_.emplace(options_, session.session(), std::move(run), say, say);
  }

  void restore(const std::map<std::string, std::string> &notes) { record_->restore(notes); }
  void checkBest(const std::vector<std::string> &names) { check(asParameters(record_->checkBest(names))); }
  void open(int64_t first) {
    with([&] { return record_->open(first); });
  }
  int64_t add(int64_t step, int64_t epoch, Values<double> values, size_t validated) {
    with([&] { return record_->add({step, epoch, std::move(values)}, validated); });
    return record_->ending();
  }
  void finish() {
    with([&] { return record_->finish(); });
  }
  void flush() { record_->flush(); }
  std::vector<std::string> said() { return std::exchange(said_, {}); }
  /// (metric, value, step), or None.
  py::object best() const {
    const auto &best = record_->best();
    if (!best || best->step() < 0) return py::none();
    return py::make_tuple(best->metric().name, best->value(), best->step());
  }
  std::string left() const { return options_.save.empty() ? "" : record_->keeper().left(); }
  /// Another run may write the files.
  void close() {
    record_.reset();
    locks_.clear();
  }

private:
  template <class Work> void with(Work work) {
    const PythonSession::Use use(session_);
    check(withoutGil(work));
  }
  PythonSession *session_;
  cli::TrainingOptions options_;
  std::vector<cli::FileLock> locks_;
  std::vector<std::string> said_;
  std::optional<cli::TrainingRecord> record_;
};

using OwnedValidation = std::unique_ptr<cli::Validation, EndWithoutGil>;

OwnedValidation makeValidation(const std::shared_ptr<CompiledProgram> &program, PythonSession &trained,
                               const py::dict &data, const py::dict &inputs, int threads, const std::string &graph) {
  SessionOptions options;
  options.threads = threads;
  Session session = valueOf(withoutGil([&] { return Session::load(program->plan, *program->registry, options); }));
  check(cli::Validation::checkVariables("validate_graph " + graph, session, trained.session()));
  BatchLoader loader = batchesOf(session, data, false, 0, nullptr);
  for (const PortInfo &p : session.interface().inputs) {
    if (data.contains(p.name) || !inputs.contains(p.name)) continue;
    const std::string what = "input '" + p.name + "'";
    const AnyArray array(inputs[py::str(p.name)], p.desc.data_type(), what);
    check(array.check(p.desc, what));
    array.copyTo(valueOf(session.inputMemory(p.name)));
  }
  return OwnedValidation(valueOf(cli::Validation::make(std::move(session), std::move(loader), graph)).release());
}

Values<double> validate(cli::Validation &validation, PythonSession &trained) {
  const PythonSession::Use use(&trained);
  cli::StepMetrics metrics;
  check(withoutGil([&] { return validation.run(trained.session(), &metrics); }));
  return metrics.values;
}

} // namespace

void bindTrainingRecord(py::module_ &module) {
  py::class_<Record>(module, "Record")
      .def(py::init([](PythonSession &session, const py::dict &options, const Values<std::string> &reads,
                       std::map<std::string, std::string> notes, uint64_t seed, int64_t stepsPerEpoch,
                       std::string title, bool validates) {
             return std::make_unique<Record>(
                 session, optionsOf(options), reads,
                 cli::TrainingRecord::Run{std::move(notes), seed, stepsPerEpoch, std::move(title), true, validates});
           }),
           py::keep_alive<1, 2>())
      .def("restore", &Record::restore)
      .def("check_best", &Record::checkBest)
      .def("open", &Record::open)
      .def("add", &Record::add)
      .def("finish", &Record::finish)
      .def("flush", &Record::flush)
      .def("said", &Record::said)
      .def("left", &Record::left)
      .def("close", &Record::close)
      .def_property_readonly("best", &Record::best);
  module.attr("out_of_patience") = static_cast<int64_t>(cli::kPatience);
  py::class_<cli::Validation, OwnedValidation>(module, "Validation")
      .def(py::init(&makeValidation))
      .def_property_readonly("names", &cli::Validation::names)
      .def("run", &validate);
  module.def("check_training_options", [](const py::dict &options) { (void)optionsOf(options); });
  module.def("run_notes", &cli::runNotes);
  module.def("metric_name", &cli::metricName);
  module.def("writes_variables",
             [](const CompiledProgram &program) { return cli::writesVariables(program.plan, *program.registry); });
}

} // namespace opc::python
