// What a run's outputs are compared with: flags, tolerances, metrics, and what is said of a difference.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "Config.h"
#include "FileUse.h"
#include "Invocation.h"
#include "JsonOutput.h"
#include "OutputFiles.h"
#include "TensorCompare.h"
#include "TensorMetrics.h"
#include "ValueGiver.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace opc::cli {

/// "[NAME:]X" flags: a value for all outputs and values for single ones. The name ends at the last ':'.
class ToleranceFlags {
public:
  Status parse(const std::vector<std::string> &texts, const std::string &flag);
  std::optional<double> of(const std::string &name) const;
  std::vector<std::string> names() const;

private:
  std::optional<double> all_;
  std::map<std::string, double> byName_;
};

struct Expectation {
  std::string name, origin;
  HostTensor tensor;
};

class ExpectFlags {
public:
  std::vector<Option> options();
  /// Checks the flags' values. `rules` come from opc.toml; flags win over them.
  Status parse(std::vector<ToleranceRule> rules = {});
  /// Opens files and checks specifications, before anything is compiled.
  Status open();
  bool any() const { return !specs_.empty() || !archive_.empty(); }
  /// The first flag that says how outputs are compared; "" for none.
  std::string howFlag() const;
  void addFiles(FileUse *files) const { files->readsValues(specs_, "--expect", archive_, "--expects"); }
  /// Whether the outputs that are compared are those of a file.
  bool hasArchive() const { return !archive_.empty(); }
  /// The outputs that flags name; after open().
  std::vector<std::string> names() const { return values_ ? values_->flagNames() : std::vector<std::string>(); }

  /// Reads what is expected of the session's outputs.
  Result<std::vector<Expectation>> read(const Session &session, const ValueFlags &values,
                                        std::vector<std::string> *notes) const;
  /// Checks that every output that --rtol, --atol and --metric name exists.
  Status checkNames(const std::vector<std::string> &outputs) const;
  /// Checks that every row of an output has more than the K values that a topk=K asks for. Errors: OPC0003.
  Status checkRows(const std::string &name, const user_op::TensorDesc &desc) const;
  /// Compares one output, says what came of it, and appends a record to `list`.
  bool compare(Invocation &invocation, const NamedOutput &output, const Expectation &expected, Json *list) const;
  /// The tolerance for a tensor of that name: the flags', else opc.toml's, else the element type's.
  Tolerance toleranceOf(const std::string &name, DataType type) const;
  /// The same where `standard` is that of the element type.
  Tolerance toleranceOf(const std::string &name, DataType type, Tolerance standard) const;
  /// Whether a NaN of that tensor equals a NaN: the flag's, else opc.toml's, else not.
  bool nanEquals(const std::string &name, DataType type) const;
  /// What is asked of an output in place of a tolerance.
  std::vector<Metric> metricsOf(const std::string &name, DataType type) const;

private:
  std::vector<std::string> specs_, rtol_, atol_, metric_;
  std::string archive_, nan_;
  std::optional<NamedValues> values_;
  ToleranceFlags rtolFlags_, atolFlags_;
  std::vector<Metric> metrics_;
  std::map<std::string, std::vector<Metric>> namedMetrics_;
  std::vector<ToleranceRule> rules_;
};

} // namespace opc::cli
