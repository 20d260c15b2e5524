// Higher-order booleans: the expressions by which a kernel says what it matches.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/Kernel.h"

#include <functional>
#include <memory>
#include <string>

namespace opc::hob {

/// A condition over a context. Knows how to explain itself, so that "no kernel" errors can say which condition failed.
template <class Ctx> class BoolFunctor {
public:
  virtual ~BoolFunctor() = default;
  virtual bool eval(const Ctx &ctx) const = 0;
  /// The condition as text: `data_type(out_0) == f32`.
  virtual std::string text() const = 0;
  /// The first conjunct that is false, as text with what was found; empty when all hold.
  virtual std::string firstFailure(const Ctx &ctx) const { return eval(ctx) ? "" : text(); }
  /// Calls f(subject, value) for each equality that this condition requires ("device", "cpu"; "dtype:out_0", "f32").
  virtual void requirements(const std::function<void(const std::string &, const std::string &)> &) const {}
};
template <class Ctx> using BoolFunctorPtr = std::shared_ptr<const BoolFunctor<Ctx>>;

template <class Ctx> class And final : public BoolFunctor<Ctx> {
public:
  And(BoolFunctorPtr<Ctx> a, BoolFunctorPtr<Ctx> b) : a_(std::move(a)), b_(std::move(b)) {}
  bool eval(const Ctx &c) const override { return a_->eval(c) && b_->eval(c); }
  std::string text() const override { return a_->text() + " & " + b_->text(); }
  std::string firstFailure(const Ctx &c) const override {
    std::string f = a_->firstFailure(c);
    return f.empty() ? b_->firstFailure(c) : f;
  }
  void requirements(const std::function<void(const std::string &, const std::string &)> &f) const override {
    a_->requirements(f);
    b_->requirements(f);
  }

private:
  BoolFunctorPtr<Ctx> a_, b_;
};
template <class Ctx> class Or final : public BoolFunctor<Ctx> {
public:
  Or(BoolFunctorPtr<Ctx> a, BoolFunctorPtr<Ctx> b) : a_(std::move(a)), b_(std::move(b)) {}
  bool eval(const Ctx &c) const override { return a_->eval(c) || b_->eval(c); }
  std::string text() const override { return "(" + a_->text() + " | " + b_->text() + ")"; }

private:
  BoolFunctorPtr<Ctx> a_, b_;
};
template <class Ctx> class Not final : public BoolFunctor<Ctx> {
public:
  explicit Not(BoolFunctorPtr<Ctx> a) : a_(std::move(a)) {}
  bool eval(const Ctx &c) const override { return !a_->eval(c); }
  std::string text() const override { return "~(" + a_->text() + ")"; }

private:
  BoolFunctorPtr<Ctx> a_;
};
template <class Ctx> class Constant final : public BoolFunctor<Ctx> {
public:
  explicit Constant(bool value) : value_(value) {}
  bool eval(const Ctx &) const override { return value_; }
  std::string text() const override { return value_ ? "true" : "false"; }

private:
  bool value_;
};

/// An equality of a text-valued property of the context with a fixed value.
template <class Ctx> class Equals final : public BoolFunctor<Ctx> {
public:
  using Get = std::function<std::string(const Ctx &)>;
  Equals(std::string subject, Get get, std::string value)
      : subject_(std::move(subject)), value_(std::move(value)), get_(std::move(get)) {}
  bool eval(const Ctx &c) const override { return get_(c) == value_; }
  std::string text() const override { return subject_ + " == " + value_; }
  std::string firstFailure(const Ctx &c) const override {
    return eval(c) ? "" : subject_ + " is " + get_(c) + ", the kernel wants " + value_;
  }
  void requirements(const std::function<void(const std::string &, const std::string &)> &f) const override {
    f(subject_, value_);
  }

private:
  std::string subject_, value_;
  Get get_;
};
template <class Ctx> class Predicate final : public BoolFunctor<Ctx> {
public:
  Predicate(std::string text, std::function<bool(const Ctx &)> f) : text_(std::move(text)), f_(std::move(f)) {}
  bool eval(const Ctx &c) const override { return f_(c); }
  std::string text() const override { return text_; }

private:
  std::string text_;
  std::function<bool(const Ctx &)> f_;
};

template <class Ctx> BoolFunctorPtr<Ctx> operator&(const BoolFunctorPtr<Ctx> &a, const BoolFunctorPtr<Ctx> &b) {
  return std::make_shared<And<Ctx>>(a, b);
}
template <class Ctx> BoolFunctorPtr<Ctx> operator|(const BoolFunctorPtr<Ctx> &a, const BoolFunctorPtr<Ctx> &b) {
  return std::make_shared<Or<Ctx>>(a, b);
}
template <class Ctx> BoolFunctorPtr<Ctx> operator~(const BoolFunctorPtr<Ctx> &a) {
  return std::make_shared<Not<Ctx>>(a);
}

} // namespace opc::hob

namespace opc::user_op {

using MatchCondition = hob::BoolFunctorPtr<KernelRegContext>;

namespace detail {
/// The left side of a comparison: a named property of the context, of type T.
template <class T> class HobGetter {
public:
  using Get = std::function<T(const KernelRegContext &)>;
  HobGetter(std::string subject, Get get) : subject_(std::move(subject)), get_(std::move(get)) {}
  MatchCondition compare(const char *op, const T &v, bool (*cmp)(const T &, const T &)) const {
    std::ostringstream text;
    text << subject_ << " " << op << " " << v;
    return std::make_shared<hob::Predicate<KernelRegContext>>(
        text.str(), [get = get_, v, cmp](const KernelRegContext &c) { return cmp(get(c), v); });
  }
  friend MatchCondition operator==(const HobGetter &g, const T &v) {
    return g.compare("==", v, [](const T &a, const T &b) { return a == b; });
  }
  friend MatchCondition operator!=(const HobGetter &g, const T &v) {
    return g.compare("!=", v, [](const T &a, const T &b) { return a != b; });
  }
  friend MatchCondition operator<(const HobGetter &g, const T &v) {
    return g.compare("<", v, [](const T &a, const T &b) { return a < b; });
  }
  friend MatchCondition operator<=(const HobGetter &g, const T &v) {
    return g.compare("<=", v, [](const T &a, const T &b) { return a <= b; });
  }
  friend MatchCondition operator>(const HobGetter &g, const T &v) {
    return g.compare(">", v, [](const T &a, const T &b) { return a > b; });
  }
  friend MatchCondition operator>=(const HobGetter &g, const T &v) {
    return g.compare(">=", v, [](const T &a, const T &b) { return a >= b; });
  }

private:
  std::string subject_;
  Get get_;
};

inline MatchCondition equals(std::string subject, hob::Equals<KernelRegContext>::Get get, std::string value) {
  return std::make_shared<hob::Equals<KernelRegContext>>(std::move(subject), std::move(get), std::move(value));
}
// Thousands of kernels have one of these conditions, so that each is made once.
MatchCondition isDevice(const std::string &tag);
MatchCondition isType(const std::string &arg, int32_t index, DataType type);
/// a & b of two of them.
MatchCondition isBoth(const MatchCondition &a, const MatchCondition &b);

struct HobDevice {
  static MatchCondition is(const std::string &tag) { return isDevice(tag); }
  friend MatchCondition operator==(const HobDevice &, DeviceType d) { return is(DeviceTag(d)); }
  friend MatchCondition operator==(const HobDevice &, const char *tag) { return is(tag); }
  friend MatchCondition operator==(const HobDevice &, const std::string &tag) { return is(tag); }
  template <class T> friend MatchCondition operator!=(const HobDevice &h, const T &d) { return ~(h == d); }
};
struct HobType {
  std::string arg;
  int32_t index;
  friend MatchCondition operator==(const HobType &h, DataType t) { return isType(h.arg, h.index, t); }
  friend MatchCondition operator!=(const HobType &h, DataType t) { return ~(h == t); }
};
struct HobSubTag {
  template <class T> friend MatchCondition operator==(const HobSubTag &, const T &tag) {
    return equals(
        "device_sub_tag",
        [](const KernelRegContext &c) -> std::string {
          const UserOpConfWrapper &conf = c.user_op_conf();
          return conf.has_attr("device_sub_tag") ? conf.attr<std::string>("device_sub_tag") : "";
        },
        std::string(tag));
  }
};
} // namespace detail

inline MatchCondition HobTrue() { return std::make_shared<hob::Constant<KernelRegContext>>(true); }
inline MatchCondition HobFalse() { return std::make_shared<hob::Constant<KernelRegContext>>(false); }
inline detail::HobDevice HobDeviceType() { return {}; }
inline detail::HobDevice HobDeviceTag() { return {}; }
inline detail::HobSubTag HobDeviceSubTag() { return {}; }
inline detail::HobType HobDataType(const std::string &arg, int32_t index) { return {arg, index}; }
template <class T>
detail::HobGetter<T> HobCtxGetter(const std::string &text, std::function<T(const KernelRegContext &)> f) {
  return {text, std::move(f)};
}
inline detail::HobGetter<int64_t> HobNumAxes(const std::string &arg, int32_t index) {
  return {"rank of " + arg + "_" + std::to_string(index), [=](const KernelRegContext &c) -> int64_t {
            const TensorDesc *d = c.TensorDesc4ArgNameAndIndex(arg, index);
            return d ? d->shape().NumAxes() : -1;
          }};
}
template <class T> detail::HobGetter<T> HobAttr(const std::string &name) {
  return {"attribute " + name, [=](const KernelRegContext &c) -> T { return c.user_op_conf().template attr<T>(name); }};
}
inline detail::HobGetter<int64_t> HobInputSize(const std::string &arg) {
  return {"tensors of " + arg, [=](const KernelRegContext &c) -> int64_t { return c.user_op_conf().input_size(arg); }};
}

} // namespace opc::user_op
