// The contexts that an operator's rules receive: shape inference, SBP, batch axis, time shape.
// Each is a thin facade over a few virtual functions of the host. What the host cannot give comes back as nullptr, and
// the facade, compiled into the operator's own library, throws: no exception crosses a library boundary.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "opc/OpConf.h"
#include "opc/Sbp.h"
#include "opc/Tensor.h"

namespace opc {

/// Settings of the job that an op belongs to.
class JobDesc {
public:
  const std::string &job_name() const { return name_; }
  bool IsTrain() const { return false; }
  bool IsPredict() const { return true; }
  std::string name_;
};

class ParallelDesc {
public:
  int64_t parallel_num() const { return 1; }
};

struct OptInt64 {
  bool has_value() const { return set_; }
  int64_t value() const { return value_; }
  void set_value(int64_t v) { value_ = v, set_ = true; }
  void clear_value() { set_ = false; }

private:
  int64_t value_ = 0;
  bool set_ = false;
};

namespace user_op {

namespace detail {
[[noreturn]] inline void throwNoArg(const char *what, const std::string &arg, int32_t index, const OpConf &conf) {
  std::string have;
  for (const auto *list : {&conf.inputs, &conf.outputs})
    for (const auto &a : *list)
      have += (have.empty() ? "" : ", ") + a.name + "[" + std::to_string(a.tensors.size()) + "]";
  throw ContractError(std::string("no ") + what + " '" + arg + "' with index " + std::to_string(index) +
                      "; this op instance has " + have);
}
} // namespace detail

/// What every rule's context offers: the arguments, the attributes and the op's configuration.
class OpContext {
public:
  virtual ~OpContext() = default;
  virtual const ArgList &inputs() const = 0;
  virtual const ArgList &outputs() const = 0;
  virtual const UserOpConfWrapper &user_op_conf() const = 0;

  template <class T> const T &Attr(const std::string &name) const {
    return UserOpConfWrapper::attrAs<T>(findAttr(name), name);
  }
  bool has_input(const std::string &arg, int32_t index) const { return user_op_conf().has_input(arg, index); }
  bool has_output(const std::string &arg, int32_t index) const { return user_op_conf().has_output(arg, index); }
  /// Is the argument, an input or an output, bound?
  bool Has(const std::string &arg, int32_t index = 0) const { return has_input(arg, index) || has_output(arg, index); }
  int32_t input_size(const std::string &arg) const { return user_op_conf().input_size(arg); }
  int32_t output_size(const std::string &arg) const { return user_op_conf().output_size(arg); }
  const std::string &op_name() const { return user_op_conf().op_name(); }
  const std::string &op_type_name() const { return user_op_conf().op_type_name(); }
  const std::string &op_loc() const {
    static const std::string none;
    return none;
  }

protected:
  virtual const AttrValue *findAttr(const std::string &name) const = 0;
};

/// Context of shape, dtype and temporary-size rules. Output descriptors start as a copy of the first input's.
class InferContext : public OpContext {
public:
  /// The tensor of an argument. Without an index the first.
  const TensorDesc &In(const std::string &arg, int32_t index = 0) const {
    return *TensorDesc4ArgNameAndIndex(arg, index);
  }
  TensorDesc &Out(const std::string &arg, int32_t index = 0) { return *TensorDesc4ArgNameAndIndex(arg, index); }
  // The same in OneFlow's spelling.
  TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &arg, int32_t index) {
    TensorDesc *d = findDesc(arg, index);
    if (!d) detail::throwNoArg("argument", arg, index, user_op_conf().conf());
    return d;
  }
  const TensorDesc *TensorDesc4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    return const_cast<InferContext *>(this)->TensorDesc4ArgNameAndIndex(arg, index);
  }
  Shape *Shape4ArgNameAndIndex(const std::string &arg, int32_t index) {
    return TensorDesc4ArgNameAndIndex(arg, index)->mut_shape();
  }
  const Shape *Shape4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    return &TensorDesc4ArgNameAndIndex(arg, index)->shape();
  }
  DataType *Dtype4ArgNameAndIndex(const std::string &arg, int32_t index) {
    return TensorDesc4ArgNameAndIndex(arg, index)->mut_data_type();
  }
  const DataType *Dtype4ArgNameAndIndex(const std::string &arg, int32_t index) const {
    return const_cast<InferContext *>(this)->Dtype4ArgNameAndIndex(arg, index);
  }
  bool *IsDynamic4ArgNameAndIndex(const std::string &arg, int32_t index) {
    return TensorDesc4ArgNameAndIndex(arg, index)->mut_is_dynamic();
  }
  bool *IsTensorList4ArgNameAndIndex(const std::string &arg, int32_t index) {
    return TensorDesc4ArgNameAndIndex(arg, index)->mut_is_tensor_list();
  }
  // The later spelling of the same.
  const TensorDesc &InputTensorDesc(const std::string &a, int32_t i) const { return *TensorDesc4ArgNameAndIndex(a, i); }
  const TensorDesc &OutputTensorDesc(const std::string &a, int32_t i) const {
    return *TensorDesc4ArgNameAndIndex(a, i);
  }
  TensorDesc *MutOutputTensorDesc(const std::string &a, int32_t i) { return TensorDesc4ArgNameAndIndex(a, i); }
  const Shape &InputShape(const std::string &a, int32_t i) const { return InputTensorDesc(a, i).shape(); }
  const Shape &OutputShape(const std::string &a, int32_t i) const { return InputTensorDesc(a, i).shape(); }
  void SetOutputShape(const std::string &a, int32_t i, const Shape &s) { *Shape4ArgNameAndIndex(a, i) = s; }
  Shape *MutOutputShape(const std::string &a, int32_t i) { return Shape4ArgNameAndIndex(a, i); }
  DataType InputDType(const std::string &a, int32_t i) const { return InputTensorDesc(a, i).data_type(); }
  DataType OutputDType(const std::string &a, int32_t i) const { return InputTensorDesc(a, i).data_type(); }
  void SetOutputDType(const std::string &a, int32_t i, DataType t) { *Dtype4ArgNameAndIndex(a, i) = t; }
  bool InputIsDynamic(const std::string &a, int32_t i) const { return InputTensorDesc(a, i).is_dynamic(); }
  void SetOutputIsDynamic(const std::string &a, int32_t i, bool v) { *IsDynamic4ArgNameAndIndex(a, i) = v; }

  const ParallelContext &parallel_ctx() const { return parallelContext_; }
  int64_t parallel_num() const { return parallelContext_.parallel_num(); }
  const ParallelDesc &parallel_desc() const { return parallelDesc_; }
  const JobDesc &job_desc() const { return jobDesc_; }
  const SbpParallel &SbpParallel4ArgNameAndIndex(const std::string &, int32_t) const { return broadcast_; }

protected:
  virtual TensorDesc *findDesc(const std::string &arg, int32_t index) = 0;

private:
  ParallelContext parallelContext_{0, 1};
  ParallelDesc parallelDesc_;
  JobDesc jobDesc_;
  SbpParallel broadcast_ = SbpParallel::broadcast();
};

/// Context of SetGetSbpFn and of sharding rules that depend on attributes or shapes.
class SbpContext : public OpContext {
public:
  /// The whole tensor of an argument.
  const TensorDesc &In(const std::string &arg, int32_t index = 0) const {
    return LogicalTensorDesc4InputArgNameAndIndex(arg, index);
  }
  const TensorDesc &Out(const std::string &arg, int32_t index = 0) const {
    const TensorDesc *d = findOutputDesc(arg, index);
    if (!d) detail::throwNoArg("output", arg, index, user_op_conf().conf());
    return *d;
  }
  const TensorDesc &LogicalTensorDesc4InputArgNameAndIndex(const std::string &arg, int32_t index) const {
    const TensorDesc *d = findInputDesc(arg, index);
    if (!d) detail::throwNoArg("input", arg, index, user_op_conf().conf());
    return *d;
  }
  virtual DeviceType device_type() const = 0;
  virtual int64_t parallel_num() const = 0;
  int64_t hierarchy_value() const { return parallel_num(); }
  UserOpSbpSignatureBuilder NewBuilder() { return UserOpSbpSignatureBuilder(signatures()); }

protected:
  virtual const TensorDesc *findInputDesc(const std::string &arg, int32_t index) const = 0;
  virtual const TensorDesc *findOutputDesc(const std::string &arg, int32_t index) const = 0;
  virtual std::vector<SbpSignature> *signatures() = 0;
};

/// Context of SetInferSbpSignatureFn.
class InferSbpSignatureFnContext : public OpContext {
public:
  virtual SbpSignature *mutable_sbp_signature() = 0;
  virtual const SbpSignature &sbp_signature_conf() const = 0;
  const SbpParallel &SbpParallelHint4InputArgNameAndIndex(const std::string &arg, int32_t index) const {
    const SbpParallel *hint = findHint(arg, index);
    if (!hint) detail::throwNoArg("input", arg, index, user_op_conf().conf());
    return *hint;
  }

protected:
  virtual const SbpParallel *findHint(const std::string &arg, int32_t index) const = 0;
};

/// Context of SetBatchAxisInferFn (v0.3 sources; opc derives batch splits from the sharding rule).
class BatchAxisContext : public OpContext {
public:
  const TensorDesc &LogicalTensorDesc4InputArgNameAndIndex(const std::string &arg, int32_t index) const {
    const TensorDesc *d = findInputDesc(arg, index);
    if (!d) detail::throwNoArg("input", arg, index, user_op_conf().conf());
    return *d;
  }
  OptInt64 *BatchAxis4ArgNameAndIndex(const std::string &arg, int32_t index) {
    OptInt64 *axis = findBatchAxis(arg, index);
    if (!axis) detail::throwNoArg("argument", arg, index, user_op_conf().conf());
    return axis;
  }

protected:
  virtual const TensorDesc *findInputDesc(const std::string &arg, int32_t index) const = 0;
  virtual OptInt64 *findBatchAxis(const std::string &arg, int32_t index) = 0;
};

/// Context of SetInferOutputBlobTimeShapeFn.
class InferOutputBlobTimeShapeFnContext {
public:
  virtual ~InferOutputBlobTimeShapeFnContext() = default;
  virtual const Shape &TimeShape4InputArgNameAndIndex(const std::string &arg, int32_t index) = 0;
  virtual const UserOpConfWrapper &user_op_conf() const = 0;
  virtual Shape *mut_output_blob_time_shape() = 0;
};

/// Ready-made rules.
struct TensorDescInferFnUtil {
  /// Every output has the shape and dtype of the first input.
  static Maybe<void> Unchanged(InferContext *ctx);
  /// Output i has the shape and dtype of input i.
  static Maybe<void> InOutCorrespond(InferContext *ctx);
};
struct CheckAttrFnUtil {
  static Maybe<void> NoCheck(const UserOpDefWrapper &, const UserOpConfWrapper &) { return Maybe<void>::Ok(); }
};
struct TmpSizeInferFnUtil {
  static size_t ZeroTmpSize(InferContext *) { return 0; }
};
struct BatchAxisInferFnUtil {
  static Maybe<void> DefaultAsFirstHasValueInput(BatchAxisContext *ctx);
  static Maybe<void> NaiveInferBatchAxis(BatchAxisContext *ctx) { return DefaultAsFirstHasValueInput(ctx); }
};
struct GetSbpFnUtil {
  static Maybe<void> DefaultBroadcastToBroadcast(SbpContext *) { return Maybe<void>::Ok(); }
  /// Every argument split on the same axis, for each axis of the first input.
  static Maybe<void> SplitForEachAxis(SbpContext *ctx);
};

} // namespace user_op
} // namespace opc
