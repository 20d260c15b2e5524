// The opc dialect: registration, the custom syntax of opc.user_op, its verifier and its effects.
// SPDX-License-Identifier: Apache-2.0
#include "OpcDialect.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpInstance.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace opc::ir;

#include "OpcDialect.cpp.inc"

#define GET_TYPEDEF_CLASSES
#include "OpcTypes.cpp.inc"

#define GET_ATTRDEF_CLASSES
#include "OpcAttrs.cpp.inc"

#define GET_OP_CLASSES
#include "OpcOps.cpp.inc"

void OpcDialect::initialize() {
  addOperations<
#define GET_OP_LIST
#include "OpcOps.cpp.inc"
      >();
  registerTypes();
  registerAttributes();
}
void OpcDialect::registerTypes() {
  addTypes<
#define GET_TYPEDEF_LIST
#include "OpcTypes.cpp.inc"
      >();
}
void OpcDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "OpcAttrs.cpp.inc"
      >();
}

namespace {
const opc::user_op::OpDef *definition(UserOp op) {
  const opc::Registry *registry = cast<OpcDialect>(op->getDialect())->getRegistry();
  return registry ? registry->findOp(op.getOpType().str()) : nullptr;
}

/// Groups of consecutive equal names: "in: %a, in: %b" is one argument with two tensors.
void addGrouped(StringRef name, SmallVectorImpl<Attribute> *names, SmallVectorImpl<int32_t> *sizes, Builder &b) {
  if (!names->empty() && cast<StringAttr>(names->back()).getValue() == name) {
    ++sizes->back();
    return;
  }
  names->push_back(b.getStringAttr(name));
  sizes->push_back(1);
}
} // namespace

// "type"(arg: %v, ...) -> (out, ...) {attrs} : (types) -> types
ParseResult UserOp::parse(OpAsmParser &parser, OperationState &result) {
  Builder &b = parser.getBuilder();
  std::string opType;
  if (parser.parseString(&opType) || parser.parseLParen()) return failure();
  SmallVector<OpAsmParser::UnresolvedOperand> operands;
  SmallVector<Attribute> inNames, outNames;
  SmallVector<int32_t> inSizes, outSizes;
  std::string keyword;
  if (parser.parseOptionalRParen()) {
    do {
      if (parser.parseKeywordOrString(&keyword) || parser.parseColon() || parser.parseOperand(operands.emplace_back()))
        return failure();
      addGrouped(keyword, &inNames, &inSizes, b);
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRParen()) return failure();
  }
  if (parser.parseArrow() || parser.parseLParen()) return failure();
  if (parser.parseOptionalRParen()) {
    do {
      if (parser.parseKeywordOrString(&keyword)) return failure();
      addGrouped(keyword, &outNames, &outSizes, b);
    } while (succeeded(parser.parseOptionalComma()));
    if (parser.parseRParen()) return failure();
  }
  NamedAttrList attrs;
  FunctionType type;
  SMLoc typeLoc;
  if (parser.parseOptionalAttrDict(attrs) || parser.parseOptionalAttrDictWithKeyword(result.attributes) ||
      parser.parseColon() || parser.getCurrentLocation(&typeLoc) || parser.parseType(type))
    return failure();
  if (parser.resolveOperands(operands, type.getInputs(), typeLoc, result.operands)) return failure();
  auto &p = result.getOrAddProperties<UserOp::Properties>();
  p.opType = b.getStringAttr(opType);
  p.inputNames = b.getArrayAttr(inNames);
  p.inputSizes = b.getDenseI32ArrayAttr(inSizes);
  p.outputNames = b.getArrayAttr(outNames);
  p.outputSizes = b.getDenseI32ArrayAttr(outSizes);
  p.opAttrs = attrs.getDictionary(b.getContext());
  result.addTypes(type.getResults());
  return success();
}

void UserOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printString(getOpType());
  p << '(';
  unsigned operand = 0;
  for (auto [name, size] : llvm::zip(getInputNames(), getInputSizes()))
    for (int32_t i = 0; i < size && operand < getArgs().size(); ++i) {
      if (operand) p << ", ";
      p.printKeywordOrString(cast<StringAttr>(name).getValue());
      p << ": " << getArgs()[operand++];
    }
  p << ") -> (";
  bool first = true;
  for (auto [name, size] : llvm::zip(getOutputNames(), getOutputSizes()))
    for (int32_t i = 0; i < size; ++i) {
      if (!first) p << ", ";
      p.printKeywordOrString(cast<StringAttr>(name).getValue());
      first = false;
    }
  p << ')';
  p.printOptionalAttrDict(getOpAttrs().getValue());
  // What passes attach is not part of the operator's configuration.
  p.printOptionalAttrDictWithKeyword((*this)->getDiscardableAttrDictionary().getValue());
  p << " : ";
  p.printFunctionalType(getOperation());
}

LogicalResult UserOp::verify() {
  int64_t inputs = 0, outputs = 0;
  for (int32_t n : getInputSizes()) inputs += n;
  for (int32_t n : getOutputSizes()) outputs += n;
  if (getInputNames().size() != getInputSizes().size() || inputs != static_cast<int64_t>(getArgs().size()))
    return emitOpError("names ") << inputs << " inputs and has " << getArgs().size() << " operands";
  if (getOutputNames().size() != getOutputSizes().size() || outputs != static_cast<int64_t>(getOuts().size()))
    return emitOpError("names ") << outputs << " outputs and has " << getOuts().size() << " results";
  for (NamedAttribute a : getOpAttrs())
    if (fromMlir(a.getValue()).empty()) return emitOpError("has an attribute of no AttrValue kind: ") << a.getName();
  const opc::Registry *registry = cast<OpcDialect>((*this)->getDialect())->getRegistry();
  if (!registry) return success();
  const opc::user_op::OpDef *def = definition(*this);
  if (!def) {
    const auto near = registry->nearest(getOpType().str(), 1);
    return opc::emitFinding(getLoc(), "OPC0201", "unknown op type '" + getOpType() + "'",
                            near.empty() ? "" : "did you mean '" + near[0] + "'?");
  }
  opc::user_op::OpConf conf = toOpConf(*this);
  if (opc::Status s = opc::completeOpConf(*def, &conf); !s.isOk())
    return opc::emitFinding(getLoc(), s.id(), s.message(), s.help());
  // With all types known the shape rule must agree with them. A rank's piece follows from the whole instead.
  if ((*this)->hasAttr(kShardingAttr)) return success();
  auto instance = toInstance(*this, *def);
  if (!instance) return success();
  for (Value v : getOuts())
    if (isa<UnresolvedType>(v.getType())) return success();
  std::vector<opc::user_op::TensorDesc> declared = instance->outputDescs();
  if (opc::Status s = instance->infer(); !s.isOk()) return opc::emitFinding(getLoc(), s.id(), s.message());
  for (size_t i = 0; i < declared.size(); ++i)
    if (declared[i] != instance->outputDescs()[i])
      return opc::emitFinding(getLoc(), "OPC0203",
                              getOpType().str() + ": result " + std::to_string(i) + " is declared " +
                                  declared[i].toString() + ", the shape rule gives " +
                                  instance->outputDescs()[i].toString());
  return success();
}

void UserOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  const opc::user_op::OpDef *def = definition(*this);
  // What the registry does not know, and what it calls impure, may do anything. What is ordered by control has its
  // place for a reason that its operands do not show.
  const bool ordered = (*this)->hasAttr(kCtrlInAttr) || (*this)->hasAttr(kOrderedAttr);
  if (def && def->pure && !ordered && !(def->modifyInputs && opc::writesInputs(*def, toOpConf(*this)))) return;
  effects.emplace_back(MemoryEffects::Write::get());
  effects.emplace_back(MemoryEffects::Read::get());
}
