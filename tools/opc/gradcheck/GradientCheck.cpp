// opc grad --check: gradients against central differences in f64.
// SPDX-License-Identifier: Apache-2.0
#include "GradientCheck.h"

#include "GraphInput.h"
#include "LearningCheck.h"
#include "ModelValues.h"
#include "NumberText.h"
#include "RunCut.h"
#include "Session.h"
#include "TensorCompare.h"
#include "TextParts.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fnmatch.h>
#include <functional>
#include <map>
#include <numeric>
#include <set>

namespace opc::cli {

std::vector<std::string> namesToCheck(const GradientRequest &request) {
  std::vector<std::string> names = request.losses;
  for (const std::string &name : request.wrt)
    if (name.find_first_of("*?[") == std::string::npos) names.push_back(name);
  return names;
}

bool GradientCheck::passed() const {
  return std::all_of(tensors.begin(), tensors.end(), [](const TensorCheck &t) { return t.passed(); });
}

namespace {

/// The losses as a function of the inputs and variables.
class LossFunction {
public:
  LossFunction(Session session, std::vector<HostTensor> weights)
      : session_(std::move(session)), weights_(std::move(weights)) {}
  Session &session() { return session_; }

  /// Finds the variables that a run changes, by running: every run begins with what they have now.
  Status findStates() {
    std::vector<std::pair<std::string, HostTensor>> before;
    for (const PortInfo &v : session_.interface().variables) {
      OPC_ASSIGN_OR_RETURN(HostTensor t, session_.variable(v.name));
      before.emplace_back(v.name, std::move(t));
    }
    OPC_RETURN_IF_ERROR(session_.run());
    for (auto &[name, value] : before) {
      OPC_ASSIGN_OR_RETURN(const HostTensor after, session_.variable(name));
      if (value.bytes() > 0 && std::memcmp(value.data(), after.data(), value.bytes()) != 0)
        states_.emplace(name, std::move(value));
    }
    return Status::ok();
  }
  Status setVariable(const std::string &name, const HostTensor &value) {
    const auto state = states_.find(name);
    if (state == states_.end()) return session_.setVariable(name, value);
    std::memcpy(state->second.data(), value.data(), value.bytes());
    return Status::ok();
  }
  Result<HostTensor> variable(const std::string &name) {
    const auto state = states_.find(name);
    return state == states_.end() ? session_.variable(name) : state->second.clone();
  }

  /// Sum over the losses of weight times loss. `*magnitude` receives the sum of absolute values.
  Result<double> value(double *magnitude) {
    for (const auto &[name, value] : states_) OPC_RETURN_IF_ERROR(session_.setVariable(name, value));
    OPC_RETURN_IF_ERROR(session_.run());
    double sum = 0, size = 0, carry = 0;
    for (size_t k = 0; k < weights_.size(); ++k) {
      const std::string name = "loss:" + std::to_string(k);
      const auto *loss = static_cast<const double *>(session_.outputData(name));
      if (!loss) return session_.fetch(name).status();
      const double *w = weights_[k].as<double>();
      for (int64_t i = 0; i < weights_[k].elemCount(); ++i) {
        // Kahan: a difference of two sums loses what the sums lost.
        const double term = loss[i] * w[i] - carry, next = sum + term;
        carry = (next - sum) - term;
        sum = next;
        size += std::fabs(loss[i] * w[i]);
      }
    }
    *magnitude = size;
    return sum;
  }

private:
  Session session_;
  std::vector<HostTensor> weights_; // f64, one for each loss
  std::map<std::string, HostTensor> states_;
};

/// One element of an input or variable of a LossFunction.
class Perturbation {
public:
  Perturbation(LossFunction &f, const std::string &name, HostTensor value)
      : f_(&f), name_(name), value_(std::move(value)), input_(static_cast<double *>(f.session().inputData(name))) {}
  Result<double> at(int64_t element, double x, double *magnitude) {
    const double old = value_.as<double>()[element];
    OPC_RETURN_IF_ERROR(set(element, x));
    Result<double> loss = f_->value(magnitude);
    OPC_RETURN_IF_ERROR(set(element, old));
    return loss;
  }

private:
  Status set(int64_t element, double x) {
    value_.as<double>()[element] = x;
    if (input_) {
      input_[element] = x;
      return Status::ok();
    }
    return f_->setVariable(name_, value_);
  }
  LossFunction *f_;
  std::string name_;
  HostTensor value_;
  double *input_; // null: it is a variable
};

/// Elements spread over the tensor: every (count / samples)-th, at a place in its stretch that the index decides.
std::vector<int64_t> sampleElements(int64_t count, int64_t samples) {
  if (samples == 0 || samples >= count) {
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  std::vector<int64_t> list;
  for (int64_t s = 0; s < samples; ++s) {
    const int64_t begin = count * s / samples, end = count * (s + 1) / samples;
    const uint64_t mixed = (static_cast<uint64_t>(s) + 1) * 0x9e3779b97f4a7c15u >> 20;
    list.push_back(begin + static_cast<int64_t>(mixed % static_cast<uint64_t>(end - begin)));
  }
  return list;
}

Status checkElement(Perturbation &x, int64_t element, double at, double analytic, double loss,
                    const GradientCheckOptions &options, TensorCheck *result) {
  double previous = 0;
  for (int attempt = 0; attempt < 3; ++attempt) {
    const double h = options.eps * std::max(1.0, std::fabs(at)) * std::pow(0.1, attempt);
    double high = 0, low = 0;
    OPC_ASSIGN_OR_RETURN(const double plus, x.at(element, at + h, &high));
    OPC_ASSIGN_OR_RETURN(const double minus, x.at(element, at - h, &low));
    const double step = (at + h) - (at - h); // what was really added
    const double numeric = (plus - minus) / step;
    const double right = (plus - loss) / ((at + h) - at), left = (loss - minus) / (at - (at - h));
    // Rounding of the two sums, in units of the quotient.
    const double noise = 16 * 2.2e-16 * (std::max(high, low) + 1e-300) / h;
    const double difference = std::fabs(analytic - numeric);
    const double size = std::max(std::fabs(analytic), std::fabs(numeric));
    // The truncation error is of the order of h times the second difference; it goes down with h.
    const double curvature = std::fabs(right - left);
    if (!std::isfinite(numeric)) { // the edge of the domain: a quotient has nothing to say
      ++result->kinks;
      return Status::ok();
    }
    // A gradient that is NaN compares as false, and is wrong.
    if (difference <= options.rtol * size + noise + 1e-12) {
      ++result->checked;
      // A gradient of zero has a quotient of noise: the error is relative to what the comparison can see.
      const double error = difference / std::max({size, noise / options.rtol, 1e-300});
      if (result->worst < 0 || (error > result->maxError && result->mismatches == 0))
        result->setWorst(element, error, analytic, numeric);
      return Status::ok();
    }
    // A kink: the one-sided slopes differ by as much at a tenth of the step.
    if (attempt > 0 && curvature > 0.5 * previous && curvature > 1e-3 * (size + 1e-12)) {
      const double slack = options.rtol * size + noise + 1e-3 * curvature;
      if (analytic >= std::min(left, right) - slack && analytic <= std::max(left, right) + slack) {
        ++result->kinks;
        return Status::ok();
      }
    }
    previous = curvature;
    if (attempt < 2) continue;
    ++result->checked;
    const double error = size > 0 ? difference / size : std::numeric_limits<double>::infinity();
    if (result->mismatches++ == 0 || error > result->maxError) result->setWorst(element, error, analytic, numeric);
  }
  return Status::ok();
}

/// One graph to check: what to compile, and how to fill the session that computes the gradients.
struct Job {
  std::string name;
  SharedBytes bytes;
  CompileOptions compile;
  GraphCut cut;
  std::function<Status(Session &)> give;
};

/// An op without a kernel for f64 is an error of the check alone: the graph says f32, and runs.
Failure inDouble(Failure failure) {
  for (Diagnostic &d : failure.findings) {
    if (d.code != "OPC0411") continue;
    d.notes.push_back(
        "--check computes in f64: every floating-point tensor of the graph becomes f64, whatever the graph "
        "says; differences of f32 are too coarse");
    d.help += std::string(d.help.empty() ? "" : "\n") +
              "register a kernel for double (a kernel template serves both types), or name losses and --wrt whose path "
              "does not have this op";
  }
  return failure;
}

/// Keeps what the losses need, and what gradients are asked for; the rest of the graph need have no kernel for f64, not
/// even an op that there is. Nothing when a name does not exist, which the differentiation reports.
GraphCut cutToLosses(const GradientRequest &request, const GraphFacts &graph) {
  GraphCut cut;
  const std::vector<std::string> outputs = namesOf(graph.outputs);
  for (const std::string &name : namesToCheck(request)) {
    Result<GraphCut> one = cutAt({name}, graph);
    if (!one) return {};
    const auto &[tensor, text] = one->until[0];
    const bool isOutput = std::find(outputs.begin(), outputs.end(), text) != outputs.end();
    cut.until.push_back({tensor, isOutput ? text : tensor}); // an output keeps the name that the request has for it
  }
  for (const auto *list : {&graph.inputs, &graph.variables})
    for (const GraphTensor &t : *list) {
      bool isAsked = request.wrt.empty() && list == &graph.variables;
      for (const std::string &glob : request.wrt) isAsked |= fnmatch(glob.c_str(), t.name.c_str(), 0) == 0;
      if (isAsked) cut.until.push_back({t.tensor, t.tensor});
    }
  std::set<std::string> taken;
  cut.until.erase(std::remove_if(cut.until.begin(), cut.until.end(),
                                 [&taken](const auto &u) { return !taken.insert(u.second).second; }),
                  cut.until.end());
  return cut;
}

/// `gradients`: what the compilation has made, `writes`: whether a run changes variables, when somebody wants to know.
Outcome<Session> compileAndLoad(const Registry &registry, const Job &job, const GradientCheckOptions &options,
                                uint64_t seed, std::vector<GraphGradient> *gradients = nullptr,
                                bool *writes = nullptr) {
  Pipeline pipeline(registry, job.compile);
  if (!pipeline.import(job.name, job.bytes)) return failureOf(pipeline);
  if (!job.cut.empty() && !pipeline.cut(job.cut)) return failureOf(pipeline);
  if (!pipeline.run(Phase::kPlan)) return inDouble(failureOf(pipeline));
  if (gradients) *gradients = pipeline.facts().gradients;
  SessionOptions session;
  session.threads = options.threads;
  session.seed = seed;
  const std::string plan = pipeline.emit(Emit::kPlan);
  if (writes) *writes = writesVariables(plan, registry);
  OPC_ASSIGN_OR_RETURN(Session loaded, Session::load(plan, registry, session));
  return loaded;
}

Result<HostTensor> copyInput(Session &session, const PortInfo &port) {
  OPC_ASSIGN_OR_RETURN(HostTensor t, HostTensor::create(port.desc.data_type(), port.desc.shape()));
  OPC_ASSIGN_OR_RETURN(const void *given, session.inputMemory(port.name));
  if (t.bytes() > 0) std::copy_n(static_cast<const char *>(given), t.bytes(), static_cast<char *>(t.data()));
  return t;
}

/// A graph's inputs and variables: those of `from` under the same names.
Status copyValues(Session &from, Session &to) {
  for (const PortInfo &p : to.interface().inputs) {
    OPC_ASSIGN_OR_RETURN(HostTensor t, copyInput(from, p));
    OPC_RETURN_IF_ERROR(to.feed(p.name, t));
  }
  for (const PortInfo &v : to.interface().variables) {
    OPC_ASSIGN_OR_RETURN(HostTensor t, from.variable(v.name));
    OPC_RETURN_IF_ERROR(to.setVariable(v.name, t));
  }
  return Status::ok();
}

/// Checks one graph. `job.compile.gradient` is the request.
Outcome<std::vector<TensorCheck>> checkJob(const Registry &registry, Job job, const GradientCheckOptions &options,
                                           uint64_t seed) {
  const GradientRequest request = *job.compile.gradient;
  job.compile.gradient->lossOutputs = true;
  std::vector<GraphGradient> wanted;
  OPC_ASSIGN_OR_RETURN(Session gradients, compileAndLoad(registry, job, options, seed, &wanted));
  job.compile.gradient->lossesOnly = true;
  bool hasStates = false;
  OPC_ASSIGN_OR_RETURN(Session forward, compileAndLoad(registry, job, options, seed, nullptr, &hasStates));
  OPC_RETURN_IF_ERROR(job.give(gradients));
  OPC_RETURN_IF_ERROR(gradients.prepare());
  OPC_RETURN_IF_ERROR(copyValues(gradients, forward)); // before the step, which may update variables
  OPC_RETURN_IF_ERROR(gradients.run());

  std::vector<HostTensor> weights;
  for (size_t k = 0; k < request.losses.size(); ++k) {
    OPC_ASSIGN_OR_RETURN(HostTensor weight, gradients.fetch("loss:" + std::to_string(k)));
    fillConstant(&weight, 1);
    if (request.dyInputs)
      for (const PortInfo &p : gradients.interface().inputs) {
        if (p.name != request.losses[k] + ".dy") continue;
        OPC_ASSIGN_OR_RETURN(weight, copyInput(gradients, p));
      }
    weights.push_back(std::move(weight));
  }
  OPC_RETURN_IF_ERROR(forward.prepare());
  LossFunction loss(std::move(forward), std::move(weights));
  if (hasStates) OPC_RETURN_IF_ERROR(loss.findStates());
  double magnitude = 0;
  OPC_ASSIGN_OR_RETURN(double base, loss.value(&magnitude));
  if (!std::isfinite(base))
    return Status(StatusCode::kExecution, "OPC0506",
                  "the loss is " + realText(base) + " at these values; differences say nothing")
        .withHelp("give other inputs with --input, or another --seed");

  std::vector<TensorCheck> checks;
  for (const GraphGradient &g : wanted) {
    TensorCheck t;
    t.name = g.name;
    t.desc = user_op::TensorDesc(g.shape, g.dtype);
    t.elements = g.shape.elem_cnt();
    const bool isInput = loss.session().inputData(g.name) != nullptr;
    bool isVariable = false;
    for (const PortInfo &v : loss.session().interface().variables) isVariable |= v.name == g.name;
    if (g.output.empty())
      t.skipped = "the loss does not depend on it";
    else if (g.output != g.name + ".grad")
      t.skipped = "a derivative of higher order"; // checked by differentiating the emitted graph
    else if (!isInput && !isVariable)
      t.skipped =
          g.tensor == g.name ? "an op makes it; only inputs and variables can be moved" : "the loss does not read it";
    if (!t.skipped.empty()) {
      checks.push_back(std::move(t));
      continue;
    }
    OPC_ASSIGN_OR_RETURN(HostTensor gradient, gradients.fetch(g.output));
    OPC_ASSIGN_OR_RETURN(HostTensor value,
                         isInput ? copyInput(loss.session(), PortInfo{g.name, t.desc}) : loss.variable(g.name));
    const std::vector<double> x(value.as<double>(), value.as<double>() + t.elements);
    Perturbation moved(loss, g.name, std::move(value));
    for (int64_t element : sampleElements(t.elements, options.samples))
      OPC_RETURN_IF_ERROR(checkElement(moved, element, x[static_cast<size_t>(element)], gradient.as<double>()[element],
                                       base, options, &t));
    checks.push_back(std::move(t));
  }
  return checks;
}

/// Finds the ops whose own rule is wrong: each by itself, on the inputs that it has in the graph, with random gradients
/// of its outputs.
class BlameSearch {
public:
  BlameSearch(const Registry &registry, const Job &job, const GradientCheckOptions &options, uint64_t seed)
      : registry_(registry), job_(job), options_(options), seed_(seed) {
    job_.compile.gradient.reset();
    job_.compile.maxErrors = 1;
    options_.samples = 8;
  }

  Status run(GradientCheck *result) {
    Pipeline pipeline(registry_, job_.compile);
    if (!pipeline.import(job_.name, job_.bytes) || !(job_.cut.empty() || pipeline.cut(job_.cut)) ||
        !pipeline.run(Phase::kShape))
      return Status(StatusCode::kInternal, "OPC0901", "the graph compiled before, and now it does not");
    const GraphFacts graph = pipeline.facts();
    if (graph.ops.size() > kMostSearchedOps) {
      result->unsearchedOps = graph.ops.size();
      return Status::ok();
    }
    OPC_RETURN_IF_ERROR(collectValues(graph));
    for (const GraphOp &op : graph.ops)
      if (candidate(op)) result->ops.push_back(check(op));
    return Status::ok();
  }

private:
  bool candidate(const GraphOp &op) const {
    bool in = false, out = false;
    for (const auto &input : op.inputs) {
      auto value = values_.find(input.tensor);
      in |= value != values_.end() && value->second.dtype() == kDouble;
    }
    for (const GraphTensor &t : op.outputs) out |= t.dtype == kDouble;
    const user_op::OpDef *def = registry_.findOp(op.type);
    return in && out && def && !def->noGrad;
  }

  /// What every op reads, by tensor.
  Status collectValues(const GraphFacts &graph) {
    Job job = job_;
    std::set<std::string> read;
    for (const GraphOp &op : graph.ops)
      for (const auto &input : op.inputs) read.insert(input.tensor);
    std::vector<std::string> tensors(read.begin(), read.end());
    for (size_t k = 0; k < tensors.size(); ++k) job.cut.until.push_back({tensors[k], "value:" + std::to_string(k)});
    Outcome<Session> session = compileAndLoad(registry_, job, options_, seed_);
    if (!session)
      return session.status().status ? Status(StatusCode::kInvalidGraph, "OPC0901", "the compilation failed")
                                     : session.status().status;
    OPC_RETURN_IF_ERROR(job.give(*session));
    OPC_RETURN_IF_ERROR(session->prepare());
    OPC_RETURN_IF_ERROR(session->run());
    for (size_t k = 0; k < tensors.size(); ++k) {
      OPC_ASSIGN_OR_RETURN(HostTensor t, session->fetch("value:" + std::to_string(k)));
      values_.emplace(tensors[k], std::move(t));
    }
    for (const auto &sources : {graph.inputs, graph.variables})
      for (const GraphTensor &t : sources) tensorOf_[t.name] = t.tensor;
    return Status::ok();
  }

  OpVerdict check(const GraphOp &op) {
    OpVerdict verdict;
    verdict.op = op.name;
    verdict.type = op.type;
    verdict.range = op.range;
    Job job = job_;
    job.cut = {};
    job.cut.only = {op.name};
    GradientRequest request;
    for (const GraphTensor &t : op.outputs)
      if (t.dtype == kDouble) request.losses.push_back(t.tensor);
    request.wrt = {"*"};
    request.dyInputs = true;
    job.compile.gradient = request;
    job.give = [this](Session &session) { return giveOp(session); };
    Outcome<std::vector<TensorCheck>> result = checkJob(registry_, job, options_, seed_);
    if (!result) {
      verdict.detail = result.status().status.message();
      for (const Diagnostic &d : result.status().findings)
        if (d.severity == Severity::kError) verdict.detail = d.code + ": " + d.message;
      return verdict;
    }
    verdict.checked = true;
    for (const TensorCheck &t : *result) {
      if (t.passed() || !verdict.passed) continue;
      verdict.passed = false;
      verdict.detail = "its rule gives " + roundedText(t.analytic, 9) + " for " + t.name + " at " +
                       indexText(t.desc.shape(), t.worst) + "; the difference quotient is " + roundedText(t.numeric, 9);
    }
    return verdict;
  }

  Status giveOp(Session &session) const {
    auto find = [&](const std::string &name) {
      auto source = tensorOf_.find(name);
      return values_.find(source == tensorOf_.end() ? name : source->second);
    };
    for (const PortInfo &p : session.interface().inputs) {
      auto value = find(p.name);
      if (value != values_.end() && value->second.desc() == p.desc) {
        OPC_RETURN_IF_ERROR(session.feed(p.name, value->second));
        continue;
      }
      OPC_ASSIGN_OR_RETURN(HostTensor dy, HostTensor::create(p.desc.data_type(), p.desc.shape()));
      fillUniform(&dy, -1, 1, {seed_, stableHash(p.name)});
      OPC_RETURN_IF_ERROR(session.feed(p.name, dy));
    }
    for (const PortInfo &v : session.interface().variables)
      if (auto value = find(v.name); value != values_.end())
        OPC_RETURN_IF_ERROR(session.setVariable(v.name, value->second));
    return Status::ok();
  }

  const Registry &registry_;
  Job job_;
  GradientCheckOptions options_;
  uint64_t seed_;
  std::map<std::string, HostTensor> values_;
  std::map<std::string, std::string> tensorOf_; // input and variable ops
};

/// A check that compared nothing proves nothing. OPC0506 with the reason of each tensor.
Status checkCompared(const std::vector<TensorCheck> &tensors) {
  std::vector<std::string> reasons;
  for (const TensorCheck &t : tensors) {
    if (t.checked + t.mismatches > 0) return Status::ok();
    const std::string reason = t.kinks ? "all elements are at kinks or edges of the loss, or it changes from run to run"
                               : t.skipped.empty() ? "it has no elements"
                                                   : t.skipped;
    if (reasons.size() < 8) reasons.push_back(t.name + ": " + reason);
  }
  return Status(StatusCode::kUsage, "OPC0506",
                "there is nothing to compare" + (reasons.empty() ? "" : ": " + joined(reasons, "; ")))
      .withHelp(
          "name variables or floating-point inputs that the loss depends on with --wrt; --explain NAME shows where "
          "a gradient stops");
}

/// What of the graph is checked. `names` receives its inputs and variables, `values` what a model says of the latter.
Outcome<GraphCut> cutOf(const Registry &registry, const Job &job, std::set<std::string> *names, ModelValues *values) {
  Pipeline pipeline(registry, job.compile);
  if (!pipeline.import(job.name, job.bytes)) return failureOf(pipeline);
  const GraphFacts graph = pipeline.facts();
  for (const auto *list : {&graph.inputs, &graph.variables})
    for (const GraphTensor &t : *list) names->insert(t.name);
  *values = pipeline.values();
  return cutToLosses(*job.compile.gradient, graph);
}

} // namespace

Outcome<GradientCheck> checkGradients(const Registry &registry, const CheckInputs &inputs,
                                      const GradientCheckOptions &options) {
  Job job;
  job.name = inputs.name;
  job.bytes = inputs.bytes;
  job.compile.shapes = options.shapes;
  job.compile.model = options.model;
  job.compile.floatsAs = kDouble;
  job.compile.train = false;
  job.compile.gradient = options.request;
  job.compile.wanted = namesToCheck(options.request);
  std::set<std::string> whole; // names of the graph's inputs and variables, also where the cut leaves them out
  ModelValues own;
  OPC_ASSIGN_OR_RETURN(job.cut, cutOf(registry, job, &whole, &own));
  // Values: given ones, else a model's own, else random floats and integer zeros (indices and labels that are always in
  // range).
  auto give = [&inputs, &whole, &own](Session &session, bool lenient) -> Status {
    ValueFlags values = inputs.values;
    values.cast = true; // everything is f64 here
    std::vector<std::string> &specs = values.inputs;
    std::set<std::string> known;
    for (const PortInfo &p : session.interface().inputs) known.insert(p.name);
    for (const PortInfo &v : session.interface().variables) known.insert(v.name);
    // A part of the graph: values for the rest have no place.
    const auto hasNoPlace = [&](const std::string &spec) {
      const std::string name = spec.substr(0, spec.find('='));
      return !known.count(name) && (lenient || whole.count(name));
    };
    specs.erase(std::remove_if(specs.begin(), specs.end(), hasNoPlace), specs.end());
    OPC_ASSIGN_OR_RETURN(NamedValues named, values.open());
    if (values.fill.empty()) {
      values.fill = "rand";
      for (const PortInfo &p : session.interface().inputs)
        if (!IsFloatingDataType(p.desc.data_type()) && !named.has(p.name)) specs.push_back(p.name + "=zeros");
      OPC_ASSIGN_OR_RETURN(named, values.open());
    }
    OPC_ASSIGN_OR_RETURN(const std::set<std::string> given, giveModelValues(session, own, named, values));
    return giveValues(session, named, values, inputs.command, given).status();
  };
  job.give = [&](Session &session) { return give(session, false); };
  GradientCheck check;
  OPC_ASSIGN_OR_RETURN(check.tensors, checkJob(registry, job, options, inputs.values.seed.value_or(0)));
  OPC_RETURN_IF_ERROR(checkCompared(check.tensors));
  if (!check.passed()) {
    job.give = [&](Session &session) { return give(session, true); };
    BlameSearch search(registry, job, options, inputs.values.seed.value_or(0));
    OPC_RETURN_IF_ERROR(search.run(&check));
  }
  return check;
}

} // namespace opc::cli
