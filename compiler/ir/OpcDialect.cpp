// The opc dialect: registration, the custom syntax of opc.user_op, its verifier and its effects.
// SPDX-License-Identifier: Apache-2.0
#include "OpcDialect.h"
#include "AttrBridge.h"
#include "EmitStatus.h"
#include "Locations.h"
#include "MutableInputs.h"
#include "OpEffects.h"
#include "OpInstance.h"
#include "RegionBridge.h"

#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

#include <mutex>

using namespace mlir;
using namespace opc::ir;

#include "OpcDialect.cpp.inc"
#include "OpcEnums.cpp.inc"

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

const opc::user_op::OpDef *OpcDialect::definition(StringAttr opType) {
  if (!registry_) return nullptr;
  {
    std::shared_lock<std::shared_mutex> lock(definitionsMutex_, std::defer_lock);
    if (getContext()->isMultithreadingEnabled()) lock.lock(); // passes ask this of each op, several times
    if (const opc::user_op::OpDef *known = definitions_.lookup(opType)) return known;
  }
  const opc::user_op::OpDef *found = registry_->findOp(opType.str());
  if (!found) return nullptr;
  const std::unique_lock<std::shared_mutex> lock(definitionsMutex_);
  return definitions_[opType] = found;
}

namespace {
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

namespace {
std::optional<unsigned> numberOf(ArrayAttr names, ArrayRef<int32_t> sizes, StringRef arg, int32_t index) {
  unsigned first = 0;
  for (auto [name, size] : llvm::zip(names, sizes)) {
    if (cast<StringAttr>(name).getValue() == arg)
      return index >= 0 && index < size ? std::optional<unsigned>(first + static_cast<unsigned>(index)) : std::nullopt;
    first += static_cast<unsigned>(size);
  }
  return std::nullopt;
}

/// Before verification there may be fewer values than the sizes say.
void forEachArg(ArrayAttr names, ArrayRef<int32_t> sizes, ValueRange values,
                llvm::function_ref<void(StringRef, ValueRange)> f) {
  for (auto [name, size] : llvm::zip(names, sizes)) {
    const size_t n = std::min(static_cast<size_t>(std::max(size, 0)), values.size());
    f(cast<StringAttr>(name).getValue(), values.take_front(n));
    values = values.drop_front(n);
  }
}

auto oneByOne(llvm::function_ref<void(StringRef, int32_t, Value)> f) {
  return [f](StringRef arg, ValueRange values) {
    for (auto [i, v] : llvm::enumerate(values)) f(arg, static_cast<int32_t>(i), v);
  };
}
} // namespace

Value UserOp::input(StringRef arg, int32_t index) {
  const auto number = inputNumber(arg, index);
  return number ? getArgs()[*number] : Value();
}
std::optional<unsigned> UserOp::inputNumber(StringRef arg, int32_t index) {
  return numberOf(getInputNames(), getInputSizes(), arg, index);
}
std::optional<unsigned> UserOp::outputNumber(StringRef arg, int32_t index) {
  return numberOf(getOutputNames(), getOutputSizes(), arg, index);
}
void UserOp::forEachInputArg(llvm::function_ref<void(StringRef, ValueRange)> f) {
  forEachArg(getInputNames(), getInputSizes(), getArgs(), f);
}
void UserOp::forEachOutputArg(llvm::function_ref<void(StringRef, ValueRange)> f) {
  forEachArg(getOutputNames(), getOutputSizes(), getOuts(), f);
}
void UserOp::forEachInput(llvm::function_ref<void(StringRef, int32_t, Value)> f) { forEachInputArg(oneByOne(f)); }
void UserOp::forEachOutput(llvm::function_ref<void(StringRef, int32_t, Value)> f) { forEachOutputArg(oneByOne(f)); }
const opc::user_op::OpDef *UserOp::def() {
  return cast<OpcDialect>((*this)->getDialect())->definition(getOpTypeAttr());
}

// "type"(arg: %v, ...) -> (out, ...) role backward on <"cpu", 0> {attrs} : (types) -> types
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
  opc::ir::Role role = opc::ir::Role::kForward;
  DeviceAttr device;
  if (succeeded(parser.parseOptionalKeyword("role"))) {
    const SMLoc loc = parser.getCurrentLocation();
    StringRef name;
    if (parser.parseKeyword(&name)) return failure();
    const std::optional<opc::ir::Role> known = symbolizeRole(name);
    if (!known) return parser.emitError(loc, "a role is forward, backward, optimizer or accumulation, not ") << name;
    role = *known;
  }
  // The full form of an attribute would take the types that follow for its own.
  if (succeeded(parser.parseOptionalKeyword("on")) && parser.parseCustomAttributeWithFallback(device)) return failure();
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
  p.role = RoleAttr::get(b.getContext(), role);
  p.device = device;
  result.addTypes(type.getResults());
  return success();
}

void UserOp::print(OpAsmPrinter &p) {
  p << ' ';
  p.printString(getOpType());
  p << '(';
  const char *separator = "";
  auto next = [&](StringRef arg) {
    p << separator;
    p.printKeywordOrString(arg);
    separator = ", ";
  };
  forEachInput([&](StringRef arg, int32_t, Value v) {
    next(arg);
    p << ": " << v;
  });
  p << ") -> (";
  separator = "";
  forEachOutput([&](StringRef arg, int32_t, Value) { next(arg); });
  p << ')';
  if (getRole() != opc::ir::Role::kForward) p << " role " << stringifyRole(getRole());
  if (DeviceAttr device = getDeviceAttr()) {
    p << " on ";
    p.printStrippedAttrOrType(device);
  }
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
  const opc::user_op::OpDef *def = this->def();
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

bool opc::ir::onlyMakesResults(UserOp op, const opc::user_op::OpDef &def) {
  if (op->hasAttr(kCtrlInAttr) || op->hasAttr(kOrderedAttr)) return false;
  return !def.modifyInputs || !opc::writesInputs(def, toOpConf(op));
}

void UserOp::getEffects(SmallVectorImpl<SideEffects::EffectInstance<MemoryEffects::Effect>> &effects) {
  const opc::user_op::OpDef *def = this->def();
  // What the registry does not know, and what it calls impure, may do anything.
  if (def && def->pure && onlyMakesResults(*this, *def)) return;
  effects.emplace_back(MemoryEffects::Write::get());
  effects.emplace_back(MemoryEffects::Read::get());
}

LogicalResult FusedOp::verifyRegions() {
  Block &block = getBody().front();
  if (block.getArgumentTypes() != getArgs().getTypes())
    return emitOpError("has a region whose arguments are not of the types of its operands");
  for (Operation &op : block.without_terminator()) {
    auto user = dyn_cast<UserOp>(op);
    if (getKind() == kUpdatesKind) {
      if (!user || user->getNumResults() != 0)
        return op.emitOpError("stands in an opc.fused of updates, which holds opc.user_op without results");
    } else if (!isa<ConstantOp>(op) && !(user && user.def() && onlyMakesResults(user, *user.def())))
      return op.emitOpError("stands in an opc.fused, which holds opc.constant, and opc.user_op that only make results");
  }
  auto yield = dyn_cast<YieldOp>(block.getTerminator());
  if (!yield || yield.getArgs().getTypes() != getOuts().getTypes())
    return emitOpError("does not yield values of the types of its results");
  return success();
}
