// Maybe<T>, Error, JUST and the CHECK families, as OneFlow's operator sources use them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Status.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

namespace opc {

/// Thrown inside operator code when it breaks the SDK's contract: an absent argument, a wrong dtype, a failed CHECK.
/// The SDK's wrappers catch it inside the library that threw it; it becomes an error that names the op.
class ContractError : public std::runtime_error {
public:
  explicit ContractError(const std::string &message) : std::runtime_error(message) {}
};

/// An error under construction: stream text into it, return it from a function that gives a Maybe.
class Error {
public:
  Error() = default;
  explicit Error(std::string id) : id_(std::move(id)) {}

  static Error CheckFailed() { return Error(); }
  static Error CheckFailedError() { return Error(); }
  static Error RuntimeError() { return Error(); }
  static Error TypeError() { return Error("OPC0204"); }
  static Error InvalidValueError() { return Error("OPC0205"); }
  static Error InvalidValueError(const std::string &m) { return Error("OPC0205") << m; }
  static Error IndexError() { return Error("OPC0205"); }
  static Error ValueError(const std::string &m) { return Error("OPC0205") << m; }
  static Error Unimplemented() { return Error() << "not implemented: "; }
  static Error UnimplementedError() { return Unimplemented(); }
  static Error Todo() { return Error() << "not supported: "; }
  static Error TodoError() { return Todo(); }
  static Error GradientFunctionNotFound() { return Error("OPC0501"); }
  /// The shapes of an op's operands do not fit together.
  static Error ShapeMismatch() { return Error("OPC0203"); }

  template <class T> Error &operator<<(const T &value) & {
    std::ostringstream s;
    s << value;
    message_ += s.str();
    return *this;
  }
  template <class T> Error &&operator<<(const T &value) && {
    *this << value;
    return std::move(*this);
  }
  /// The way out, printed on a line of its own.
  Error &&help(std::string text) && {
    help_ = std::move(text);
    return std::move(*this);
  }
  Error &&id(std::string text) && {
    id_ = std::move(text);
    return std::move(*this);
  }
  /// Where the check stands that failed, printed at the message's end.
  Error &&at(std::string place) && {
    place_ = std::move(place);
    return std::move(*this);
  }
  Status toStatus() const {
    std::string text = message_.empty() ? "check failed" : message_;
    text.erase(text.find_last_not_of(' ') + 1);
    return Status(StatusCode::kInvalidGraph, id_, text + (place_.empty() ? "" : " (" + place_ + ")")).withHelp(help_);
  }

private:
  std::string id_, message_, help_, place_;
};

template <class T> class Maybe;

/// Success or an error, for rules that compute nothing.
template <> class [[nodiscard]] Maybe<void> {
public:
  Maybe() = default;
  Maybe(const Error &e) : status_(e.toStatus()) {}
  Maybe(Status s) : status_(std::move(s)) {}
  static Maybe<void> Ok() { return {}; }
  bool IsOk() const { return status_.isOk(); }
  const Status &status() const { return status_; }
  void value() const {}

private:
  Status status_;
};

/// A value or an error.
template <class T> class [[nodiscard]] Maybe {
public:
  Maybe(T value) : value_(std::move(value)) {}
  Maybe(const std::shared_ptr<T> &value) : value_(*value) {}
  Maybe(const Error &e) : status_(e.toStatus()) {}
  Maybe(Status s) : status_(std::move(s)) {}
  bool IsOk() const { return status_.isOk(); }
  const Status &status() const { return status_; }
  const T &value() const { return *value_; }

private:
  std::optional<T> value_;
  Status status_;
};

template <class K, class V> using HashMap = std::unordered_map<K, V>;
template <class K> using HashSet = std::unordered_set<K>;

namespace detail {
/// "my_op.cpp:42", without the folders of the machine that built it.
inline std::string checkPlace(const char *file, int line) {
  const std::string path = file;
  return path.substr(path.find_last_of('/') + 1) + ":" + std::to_string(line);
}
/// Collects the text of a failed CHECK and throws it as a ContractError at the end of the statement.
class CheckThrower {
public:
  CheckThrower(const std::string &what, std::string place) : place_(std::move(place)) {
    text_ << "check failed: " << what;
  }
  CheckThrower(CheckThrower &&) = default;
  [[noreturn]] ~CheckThrower() noexcept(false) { throw ContractError(text_.str() + " (" + place_ + ")"); }
  template <class T> CheckThrower &operator<<(const T &v) {
    text_ << (first_ ? ": " : "") << v;
    first_ = false;
    return *this;
  }

private:
  std::ostringstream text_;
  std::string place_;
  bool first_ = true;
};
struct CheckVoid {
  void operator&(CheckThrower &) {}
  void operator&(CheckThrower &&) {}
};
template <class A, class B> std::string checkText(const char *expr, const A &a, const B &b) {
  std::ostringstream s;
  s << expr << " (" << a << " vs " << b << ")";
  return s.str();
}
} // namespace detail
} // namespace opc

/// The value of a Maybe, or a return of its error from the enclosing function.
#define JUST(...)                                                                                                      \
  ({                                                                                                                   \
    auto &&opcMaybe_ = (__VA_ARGS__);                                                                                  \
    if (!opcMaybe_.IsOk()) return opcMaybe_.status();                                                                  \
    opcMaybe_.value();                                                                                                 \
  })

#ifndef CHECK
#define OPC_PLACE ::opc::detail::checkPlace(__FILE__, __LINE__)
#define OPC_CHECK_IMPL(ok, text)                                                                                       \
  (ok) ? (void)0 : ::opc::detail::CheckVoid() & ::opc::detail::CheckThrower(text, OPC_PLACE)
#define CHECK(c) OPC_CHECK_IMPL((c), #c)
#define CHECK_EQ(a, b) OPC_CHECK_IMPL((a) == (b), ::opc::detail::checkText(#a " == " #b, (a), (b)))
#define CHECK_NE(a, b) OPC_CHECK_IMPL((a) != (b), ::opc::detail::checkText(#a " != " #b, (a), (b)))
#define CHECK_LT(a, b) OPC_CHECK_IMPL((a) < (b), ::opc::detail::checkText(#a " < " #b, (a), (b)))
#define CHECK_LE(a, b) OPC_CHECK_IMPL((a) <= (b), ::opc::detail::checkText(#a " <= " #b, (a), (b)))
#define CHECK_GT(a, b) OPC_CHECK_IMPL((a) > (b), ::opc::detail::checkText(#a " > " #b, (a), (b)))
#define CHECK_GE(a, b) OPC_CHECK_IMPL((a) >= (b), ::opc::detail::checkText(#a " >= " #b, (a), (b)))
#define CHECK_NOTNULL(p) ((p) != nullptr ? (p) : throw ::opc::ContractError(#p " is null (" + OPC_PLACE + ")"))
#endif

#define CHECK_OR_RETURN(c)                                                                                             \
  if (!(c)) return ::opc::Error::CheckFailedError().at(OPC_PLACE) << "check failed: " #c " "
#define OPC_CHECK_OP_OR_RETURN(a, op, b)                                                                               \
  if (!((a)op(b)))                                                                                                     \
  return ::opc::Error::CheckFailedError().at(OPC_PLACE) << ::opc::detail::checkText(#a " " #op " " #b, (a), (b)) << " "
#define CHECK_EQ_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, ==, b)
#define CHECK_NE_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, !=, b)
#define CHECK_LT_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, <, b)
#define CHECK_LE_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, <=, b)
#define CHECK_GT_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, >, b)
#define CHECK_GE_OR_RETURN(a, b) OPC_CHECK_OP_OR_RETURN(a, >=, b)
#define CHECK_NOTNULL_OR_RETURN(p) CHECK_OR_RETURN((p) != nullptr)
#define CHECK_ISNULL_OR_RETURN(p) CHECK_OR_RETURN((p) == nullptr)
#define CHECK_STREQ_OR_RETURN(a, b) CHECK_EQ_OR_RETURN(std::string(a), std::string(b))

#define FOR_RANGE(type, i, begin, end) for (type i = (begin), opcEnd_##i = (end); i < opcEnd_##i; ++i)

#define UNIMPLEMENTED() throw ::opc::ContractError("not implemented (" + OPC_PLACE + ")")
#define UNIMPLEMENTED_THEN_RETURN() return ::opc::Error::Unimplemented().at(OPC_PLACE)
#define OF_UNIMPLEMENTED() return ::opc::Error::Unimplemented().at(OPC_PLACE)
