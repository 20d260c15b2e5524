// Conversions between protobuf messages and the SDK's values.
// SPDX-License-Identifier: Apache-2.0
#include "AttrWire.h"

#include <algorithm>

namespace opc::wire {
namespace {

template <class T, class List> std::vector<T> toVector(const List &list) {
  std::vector<T> v;
  v.reserve(static_cast<size_t>(list.val_size()));
  for (const auto &x : list.val()) v.push_back(static_cast<T>(x));
  return v;
}

struct Writer {
  graph::AttrValue *out;
  void operator()(std::monostate) const { out->Clear(); }
  void operator()(int32_t v) const { out->set_at_int32(v); }
  void operator()(int64_t v) const { out->set_at_int64(v); }
  void operator()(bool v) const { out->set_at_bool(v); }
  void operator()(float v) const { out->set_at_float(v); }
  void operator()(double v) const { out->set_at_double(v); }
  void operator()(const std::string &v) const { out->set_at_string(v); }
  void operator()(const Shape &v) const { toProto(v, out->mutable_at_shape()); }
  void operator()(DataType v) const { out->set_at_data_type(static_cast<graph::DataTypeProto>(v)); }
  void operator()(const std::vector<int32_t> &v) const {
    auto *list = out->mutable_at_list_int32();
    for (int32_t x : v) list->add_val(x);
  }
  void operator()(const std::vector<int64_t> &v) const {
    auto *list = out->mutable_at_list_int64();
    for (int64_t x : v) list->add_val(x);
  }
  void operator()(const std::vector<float> &v) const {
    auto *list = out->mutable_at_list_float();
    for (float x : v) list->add_val(x);
  }
  void operator()(const std::vector<DataType> &v) const {
    auto *list = out->mutable_at_list_data_type();
    for (DataType x : v) list->add_val(static_cast<graph::DataTypeProto>(x));
  }
  void operator()(const std::vector<Shape> &v) const {
    auto *list = out->mutable_at_list_shape();
    for (const Shape &x : v) toProto(x, list->add_val());
  }
  void operator()(const std::vector<std::string> &v) const {
    auto *list = out->mutable_at_list_string();
    for (const std::string &x : v) list->add_val(x);
  }
  void operator()(const RawAttr &v) const { out->ParseFromString(v.bytes); }
};

std::vector<user_op::ArgBinding>
bindings(const google::protobuf::RepeatedPtrField<graph::UserOpConf::ArgEntry> &entries,
         const google::protobuf::RepeatedPtrField<std::string> &order) {
  std::vector<user_op::ArgBinding> list;
  list.reserve(static_cast<size_t>(entries.size()));
  for (const auto &e : entries) list.push_back({e.key(), {e.value().s().begin(), e.value().s().end()}});
  if (order.empty()) return list;
  auto position = [&](const std::string &key) { return std::find(order.begin(), order.end(), key) - order.begin(); };
  std::stable_sort(list.begin(), list.end(),
                   [&](const auto &a, const auto &b) { return position(a.name) < position(b.name); });
  return list;
}

} // namespace

Shape fromProto(const graph::ShapeProto &proto) { return Shape(DimVector(proto.dim().begin(), proto.dim().end())); }

void toProto(const Shape &shape, graph::ShapeProto *proto) {
  proto->Clear();
  for (int64_t d : shape) proto->add_dim(d);
}

AttrValue fromProto(const graph::AttrValue &p) {
  using P = graph::AttrValue;
  switch (p.value_case()) {
  case P::kAtInt32: return p.at_int32();
  case P::kAtInt64: return p.at_int64();
  case P::kAtBool: return p.at_bool();
  case P::kAtFloat: return p.at_float();
  case P::kAtDouble: return p.at_double();
  case P::kAtString: return p.at_string();
  case P::kAtShape: return fromProto(p.at_shape());
  case P::kAtDataType: return static_cast<DataType>(p.at_data_type());
  case P::kAtListInt32: return toVector<int32_t>(p.at_list_int32());
  case P::kAtListInt64: return toVector<int64_t>(p.at_list_int64());
  case P::kAtListFloat: return toVector<float>(p.at_list_float());
  case P::kAtListDataType: return toVector<DataType>(p.at_list_data_type());
  case P::kAtListShape: {
    std::vector<Shape> v;
    for (const auto &x : p.at_list_shape().val()) v.push_back(fromProto(x));
    return v;
  }
  case P::kAtListString:
    return std::vector<std::string>(p.at_list_string().val().begin(), p.at_list_string().val().end());
  case P::VALUE_NOT_SET: return {};
  default: {
    RawAttr raw;
    raw.type = static_cast<AttrType>(p.value_case());
    p.SerializePartialToString(&raw.bytes);
    return raw;
  }
  }
}

void toProto(const AttrValue &value, graph::AttrValue *proto) { std::visit(Writer{proto}, value.variant()); }

user_op::OpConf fromProto(const std::string &name, const graph::UserOpConf &proto) {
  user_op::OpConf conf;
  conf.name = name;
  conf.type = proto.op_type_name();
  conf.inputs = bindings(proto.input(), proto.input_order());
  conf.outputs = bindings(proto.output(), proto.output_order());
  for (const auto &a : proto.attr()) conf.attrs[a.key()] = fromProto(a.value());
  return conf;
}

void toProto(const user_op::OpConf &conf, graph::UserOpConf *proto) {
  proto->set_op_type_name(conf.type);
  const auto bind = [](const user_op::ArgBinding &b, auto *entry) {
    entry->set_key(b.name);
    for (const std::string &t : b.tensors) entry->mutable_value()->add_s(t);
  };
  for (const user_op::ArgBinding &b : conf.inputs) bind(b, proto->add_input());
  for (const user_op::ArgBinding &b : conf.outputs) bind(b, proto->add_output());
  for (const auto &[name, value] : conf.attrs) {
    auto *attr = proto->add_attr();
    attr->set_key(name);
    toProto(value, attr->mutable_value());
  }
}

graph::OperatorConf *addOp(graph::DLNetConf *net, const std::string &name, const std::string &place) {
  graph::OperatorConf *op = net->add_op();
  op->set_name(name);
  if (!place.empty()) op->set_loc(place);
  return op;
}

void toProto(const user_op::TensorDesc &desc, graph::InputOpConf *proto) {
  proto->set_out("out");
  toProto(desc.shape(), proto->mutable_blob_conf()->mutable_shape());
  proto->mutable_blob_conf()->set_data_type(static_cast<graph::DataTypeProto>(desc.data_type()));
}

void toProto(const user_op::TensorDesc &desc, graph::VariableOpConf *proto) {
  proto->set_out("out");
  toProto(desc.shape(), proto->mutable_shape());
  proto->set_data_type(static_cast<graph::DataTypeProto>(desc.data_type()));
}

void makeOutput(const std::string &tensor, graph::OperatorConf *op) {
  op->mutable_output_conf()->set_in(tensor);
  op->mutable_output_conf()->set_out("out");
}

} // namespace opc::wire
