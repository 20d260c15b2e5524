// Errors as values: Status and Result<T>, shared by the SDK, the registry and the runtime.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace opc {

/// What kind of failure a Status reports. The command line maps it to its exit code
/// (docs/cli.md: 2 usage, 3 invalid graph or plan, 4 not possible here, 5 execution failed, 70 internal).
enum class StatusCode {
  kOk = 0,
  kUsage,        // a bad flag or specification, a missing file
  kInvalidGraph, // the graph, plan or tensor file is not valid
  kUnsupported,  // valid, but not possible here: no kernel, no device, plugin ABI, too little memory
  kExecution,    // a kernel failed, a trap fired, memory ran out while running
  kInternal,     // a bug in opc
};

/// Success, or an error with a stable code ("OPC0203"), a message, an optional help line and an optional context
/// chain ("running op fc1 (matmul)"). Success is one null pointer, so it is free to return.
class [[nodiscard]] Status {
public:
  Status() = default;
  Status(StatusCode code, std::string id, std::string message)
      : info_(std::make_shared<Info>(Info{code, std::move(id), std::move(message), {}, {}})) {}

  static Status ok() { return {}; }
  bool isOk() const { return info_ == nullptr; }
  explicit operator bool() const { return isOk(); }

  StatusCode code() const { return info_ ? info_->code : StatusCode::kOk; }
  /// The error's stable identifier, e.g. "OPC0203"; empty for success.
  const std::string &id() const { return info_ ? info_->id : emptyString(); }
  const std::string &message() const { return info_ ? info_->message : emptyString(); }
  const std::string &help() const { return info_ ? info_->help : emptyString(); }
  const std::string &context() const { return info_ ? info_->context : emptyString(); }

  /// Attaches the way out of the error.
  Status &&withHelp(std::string help) && {
    if (info_) info_->help = std::move(help);
    return std::move(*this);
  }
  /// Puts `where` in front of the context chain, outermost first.
  Status &&withContext(const std::string &where) && {
    if (info_) info_->context = info_->context.empty() ? where : where + " <- " + info_->context;
    return std::move(*this);
  }
  Status &&withId(std::string id) && {
    if (info_) info_->id = std::move(id);
    return std::move(*this);
  }
  /// "OPC0203: message (context); help: ...", for logs and tests.
  std::string toString() const {
    if (!info_) return "ok";
    std::string s = info_->id.empty() ? info_->message : info_->id + ": " + info_->message;
    if (!info_->context.empty()) s += " (" + info_->context + ")";
    if (!info_->help.empty()) s += "; help: " + info_->help;
    return s;
  }

private:
  struct Info {
    StatusCode code;
    std::string id, message, help, context;
  };
  static const std::string &emptyString() {
    static const std::string s;
    return s;
  }
  // Shared, because a Status is copied into reports while the session keeps its own.
  std::shared_ptr<Info> info_;
};

/// A value, kept in place, or the error that explains its absence.
template <class T> class [[nodiscard]] Result {
public:
  Result(T value) : value_(std::move(value)) {}
  /// `status` must be an error. Success without a value is a mistake of the caller; without assertions it is an error
  /// of its own, so that nobody reads a value that is not there.
  Result(Status status) : status_(std::move(status)) {
    assert(!status_.isOk() && "a Result is made of a value or of an error");
    if (status_.isOk()) status_ = Status(StatusCode::kInternal, "OPC0901", "success was returned without a value");
  }
  bool isOk() const { return value_.has_value(); }
  explicit operator bool() const { return isOk(); }
  const Status &status() const { return status_; }
  T &operator*() & { return *value_; }
  const T &operator*() const & { return *value_; }
  T &&operator*() && { return std::move(*value_); }
  T *operator->() { return &*value_; }
  const T *operator->() const { return &*value_; }

private:
  std::optional<T> value_;
  Status status_;
};

} // namespace opc

/// Returns from the enclosing function when `expr` is an error Status.
#define OPC_RETURN_IF_ERROR(expr)                                                                                      \
  do {                                                                                                                 \
    if (::opc::Status opcStatus_ = (expr); !opcStatus_.isOk()) return opcStatus_;                                      \
  } while (false)

#define OPC_CONCAT_IMPL(a, b) a##b
#define OPC_CONCAT(a, b) OPC_CONCAT_IMPL(a, b)
/// `OPC_ASSIGN_OR_RETURN(const auto bytes, tensorBytes(desc));`: the value of a Result, or a return of its error from
/// the enclosing function. The first argument must not hold a comma.
#define OPC_ASSIGN_OR_RETURN(value, ...) OPC_ASSIGN_OR_RETURN_IMPL(OPC_CONCAT(opcResult_, __LINE__), value, __VA_ARGS__)
#define OPC_ASSIGN_OR_RETURN_IMPL(result, value, ...)                                                                  \
  auto result = (__VA_ARGS__);                                                                                         \
  if (!result.isOk()) return result.status();                                                                          \
  value = *std::move(result)
