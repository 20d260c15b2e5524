// A run on generated inputs or those of a file.
// SPDX-License-Identifier: Apache-2.0
#include "OutputRun.h"

#include "BesideFiles.h"
#include "Session.h"
#include "Sha256.h"
#include "ValueGiver.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <fnmatch.h>
#include <mutex>

namespace opc::cli {

namespace {

constexpr int64_t kSamples = 64;

Result<HostTensor> generated(const user_op::TensorDesc &desc, const std::string &name, const NumericFacts &numerics) {
  OPC_ASSIGN_OR_RETURN(HostTensor tensor, HostTensor::createUninitialized(desc.data_type(), desc.shape()));
  const FillKey key{numerics.seed, stableHash(name)};
  if (IsFloatingDataType(desc.data_type()))
    fillUniform(&tensor, numerics.low, numerics.high, key);
  else
    fillUniform(&tensor, 0, 1, key);
  return tensor;
}

OutputValues valuesOf(const NamedOutput &output) {
  const HostTensor &t = output.tensor;
  OutputValues v;
  v.name = output.name;
  v.dtype = t.dtype();
  v.shape = t.shape();
  v.bits = sha256({static_cast<const char *>(t.data()), t.bytes()});
  const int64_t n = t.elemCount();
  for (int64_t i = 0; i < std::min(n, kSamples); ++i) v.samples.push_back(elementAt(t, indexOfSample(n, i)));
  if (!IsFloatingDataType(t.dtype())) {
    v.digest = v.bits;
    return v;
  }
  double sum = 0, squares = 0;
  int64_t finite = 0;
  for (int64_t i = 0; i < n; ++i) {
    const double x = elementAt(t, i);
    v.nan += std::isnan(x);
    v.inf += std::isinf(x);
    if (!std::isfinite(x)) continue;
    v.min = finite ? std::min(v.min, x) : x;
    v.max = finite ? std::max(v.max, x) : x;
    sum += x;
    squares += x * x;
    ++finite;
  }
  if (!finite) return v;
  v.mean = sum / static_cast<double>(finite);
  double spread = 0;
  for (int64_t i = 0; i < n; ++i)
    if (const double x = elementAt(t, i); std::isfinite(x)) spread += (x - v.mean) * (x - v.mean);
  v.std = std::sqrt(spread / static_cast<double>(finite));
  v.l2 = std::sqrt(squares);
  return v;
}

/// Copies of the tensors whose names the globs match, before their memory is used again.
class TensorKeeper final : public RunObserver {
public:
  explicit TensorKeeper(const std::vector<std::string> &globs) : globs_(globs) {}

  Status after(const ObservedTask &task, int64_t /*step*/, TaskData &data) override {
    for (size_t i = 0; i < task.outputs.size(); ++i) {
      const ObservedTensor &out = task.outputs[i];
      if (std::none_of(globs_.begin(), globs_.end(),
                       [&](const std::string &g) { return fnmatch(g.c_str(), out.name.c_str(), 0) == 0; }))
        continue;
      OPC_ASSIGN_OR_RETURN(HostTensor copy, HostTensor::createUninitialized(out.desc.data_type(), out.desc.shape()));
      if (copy.bytes()) {
        OPC_ASSIGN_OR_RETURN(const void *bytes, data.output(i));
        std::memcpy(copy.data(), bytes, copy.bytes());
      }
      const std::lock_guard<std::mutex> guard(lock_);
      tensors_.push_back({out.name, std::move(copy)});
    }
    return Status::ok();
  }

  /// By name: streams run at their own pace.
  std::vector<NamedOutput> take() {
    std::sort(tensors_.begin(), tensors_.end(),
              [](const NamedOutput &a, const NamedOutput &b) { return a.name < b.name; });
    return std::move(tensors_);
  }

private:
  const std::vector<std::string> &globs_;
  std::mutex lock_;
  std::vector<NamedOutput> tensors_;
};

/// What an input or variable is given: of the file, else generated.
class InputSource {
public:
  static Result<InputSource> open(const std::string &path, const SessionInterface &graph) {
    InputSource source;
    if (path.empty()) return source;
    OPC_RETURN_IF_ERROR(checkRegular(path));
    OPC_ASSIGN_OR_RETURN(source.file_, openNpz(path));
    std::vector<std::string> names;
    for (const PortInfo &p : graph.inputs) names.push_back(p.name);
    for (const PortInfo &v : graph.variables) names.push_back(v.name);
    for (const TensorEntry &e : source.file_->entries())
      if (std::find(names.begin(), names.end(), e.key) == names.end())
        return noSuchName("input or variable", e.key, names, path);
    return source;
  }
  bool has(const std::string &name) const { return file_ && file_->contains(name); }
  Result<HostTensor> make(const std::string &name, const user_op::TensorDesc &desc,
                          const NumericFacts &numerics) const {
    if (!has(name)) return generated(desc, name, numerics);
    TensorReadOptions options;
    options.voidType = desc.data_type();
    return file_->read(name, options);
  }

private:
  std::unique_ptr<TensorArchive> file_;
};

Status give(Session *session, const InputSource &source, const NumericFacts &numerics) {
  for (const PortInfo &in : session->interface().inputs) {
    OPC_ASSIGN_OR_RETURN(const HostTensor value, source.make(in.name, in.desc, numerics));
    OPC_RETURN_IF_ERROR(session->feed(in.name, value));
  }
  for (const PortInfo &v : session->interface().variables) {
    if (v.hasInitializer && !source.has(v.name)) continue;
    OPC_ASSIGN_OR_RETURN(const HostTensor value, source.make(v.name, v.desc, numerics));
    OPC_RETURN_IF_ERROR(session->setVariable(v.name, value));
  }
  return Status::ok();
}

} // namespace

int64_t indexOfSample(int64_t elements, int64_t sample) {
  return elements <= kSamples ? sample : sample * (elements - 1) / (kSamples - 1);
}

Status runOutputs(std::string_view plan, const Registry &registry, const OutputRequest &request, NumericFacts *numerics,
                  std::vector<NamedOutput> *values) {
  SessionOptions options;
  options.threads = request.threads;
  options.seed = numerics->seed;
  options.ranks = 0;
  options.deterministic = true;
  options.keepPackedVariables = !request.tensors.empty();
  OPC_ASSIGN_OR_RETURN(Session session, Session::load(plan, registry, options));
  OPC_ASSIGN_OR_RETURN(const InputSource source, InputSource::open(request.inputs, session.interface()));
  OPC_RETURN_IF_ERROR(give(&session, source, *numerics));
  TensorKeeper keeper(request.tensors);
  if (!request.tensors.empty()) session.observe(&keeper);
  OPC_RETURN_IF_ERROR(session.run());
  session.observe(nullptr);
  OPC_ASSIGN_OR_RETURN(std::vector<NamedOutput> made, fetchAll(session));
  for (const NamedOutput &output : made) numerics->outputs.push_back(valuesOf(output));
  for (NamedOutput &tensor : keeper.take()) {
    numerics->outputs.push_back(valuesOf(tensor));
    numerics->outputs.back().isInside = true;
    made.push_back(std::move(tensor));
  }
  if (request.keepsValues) *values = std::move(made);
  return Status::ok();
}

} // namespace opc::cli
