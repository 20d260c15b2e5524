// Maybe, Error, JUST and the checks in OneFlow's spelling.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Op.h"

#include <iostream>
#include <memory>

namespace oneflow {
using namespace ::opc;
namespace user_op {
using namespace ::opc::user_op;
}

namespace detail {
/// What JUST gives for a class: OneFlow's is a shared_ptr, so sources write `*JUST(f())` and `JUST(f())->g()`; it is
/// the value as well.
template <class T> class JustValue {
public:
  explicit JustValue(T value) : value_(std::make_shared<T>(std::move(value))) {}
  T &operator*() const { return *value_; }
  T *operator->() const { return value_.get(); }
  operator T() const { return *value_; }
  operator std::shared_ptr<T>() const { return value_; }

private:
  std::shared_ptr<T> value_;
};
inline void justValue(const Maybe<void> &) {}
template <class T> auto justValue(const Maybe<T> &result) {
  if constexpr (std::is_scalar_v<T>)
    return result.value();
  else
    return JustValue<T>(result.value());
}
/// The value of a result that must be there.
template <class T> auto checkJust(const char *what, const Maybe<T> &result) {
  if (!result.IsOk()) throw ContractError(std::string(what) + ": " + result.status().toString());
  return justValue(result);
}

/// A message to standard error; a fatal one ends the kernel, or the rule, as a failed CHECK does.
class LogMessage {
public:
  LogMessage(const char *severity, const char *file, int line) {
    text_ << severity << " " << file << ":" << line << "] ";
  }
  LogMessage(const LogMessage &) = delete;
  LogMessage &operator=(const LogMessage &) = delete;
  ~LogMessage() { std::cerr << text_.str() + "\n"; }
  template <class T> LogMessage &operator<<(const T &value) {
    text_ << value;
    return *this;
  }

private:
  std::ostringstream text_;
};
struct LogVoid {
  template <class T> void operator&(T &&) {}
};
} // namespace detail
} // namespace oneflow

#undef JUST
#define JUST(...)                                                                                                      \
  ({                                                                                                                   \
    const auto opcJust_ = (__VA_ARGS__);                                                                               \
    if (!opcJust_.IsOk()) return opcJust_.status();                                                                    \
    ::oneflow::detail::justValue(opcJust_);                                                                            \
  })
#undef CHECK_JUST
#define CHECK_JUST(...) ::oneflow::detail::checkJust(#__VA_ARGS__, (__VA_ARGS__))
#define OF_RETURN_IF_ERROR(...) OPC_RETURN_IF_ERROR((__VA_ARGS__).status())

#ifndef LOG
#define LOG(severity) OPC_LOG_##severity
#define OPC_LOG_INFO ::oneflow::detail::LogMessage("I", __FILE__, __LINE__)
#define OPC_LOG_WARNING ::oneflow::detail::LogMessage("W", __FILE__, __LINE__)
#define OPC_LOG_ERROR ::oneflow::detail::LogMessage("E", __FILE__, __LINE__)
#define OPC_LOG_FATAL ::opc::detail::CheckThrower("LOG(FATAL)", OPC_PLACE)
#define LOG_IF(severity, condition) !(condition) ? (void)0 : ::oneflow::detail::LogVoid() & LOG(severity)
#define VLOG(level) true ? (void)0 : ::oneflow::detail::LogVoid() & LOG(INFO)
#endif
#ifndef DCHECK
#define DCHECK(c) CHECK(c)
#define DCHECK_EQ(a, b) CHECK_EQ(a, b)
#define DCHECK_NE(a, b) CHECK_NE(a, b)
#define DCHECK_LT(a, b) CHECK_LT(a, b)
#define DCHECK_LE(a, b) CHECK_LE(a, b)
#define DCHECK_GT(a, b) CHECK_GT(a, b)
#define DCHECK_GE(a, b) CHECK_GE(a, b)
#endif
#define CHECK_ISNULL(e) CHECK((e) == nullptr)
#undef UNIMPLEMENTED
#define UNIMPLEMENTED() ::opc::detail::CheckThrower("not implemented", OPC_PLACE)
#define TODO() ::opc::detail::CheckThrower("still to be written", OPC_PLACE)
