// Conversions between protobuf messages and the SDK's values.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph.pb.h"
#include "opc/Attr.h"
#include "opc/OpConf.h"
#include "opc/Tensor.h"

namespace opc::wire {

/// An AttrValue message as the SDK's value. Kinds that no operator reads (15 and up) become RawAttr; a message without
/// a value becomes an empty AttrValue.
AttrValue fromProto(const graph::AttrValue &proto);
/// The inverse.
void toProto(const AttrValue &value, graph::AttrValue *proto);

Shape fromProto(const graph::ShapeProto &proto);
void toProto(const Shape &shape, graph::ShapeProto *proto);

/// A UserOpConf as an OpConf named `name`: entries in file order (or in input_order/output_order when present).
/// Duplicate keys are kept, so that completeOpConf can report them.
user_op::OpConf fromProto(const std::string &name, const graph::UserOpConf &proto);
/// The inverse: all but the name, which is the OperatorConf's.
void toProto(const user_op::OpConf &conf, graph::UserOpConf *proto);

/// A new op of a graph file. `place`: where it was made, "train.py:41"; may be empty.
graph::OperatorConf *addOp(graph::DLNetConf *net, const std::string &name, const std::string &place = "");
/// What it is, when it is an input or a variable of this type, whose tensor is NAME/out, or an output.
void toProto(const user_op::TensorDesc &desc, graph::InputOpConf *proto);
void toProto(const user_op::TensorDesc &desc, graph::VariableOpConf *proto);
void makeOutput(const std::string &tensor, graph::OperatorConf *op);

} // namespace opc::wire
