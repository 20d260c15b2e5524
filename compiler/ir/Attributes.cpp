// The attributes of the dialect: their syntax and what must hold of them.
// SPDX-License-Identifier: Apache-2.0
#include "OpcDialect.h"
#include "SbpCode.h"

#include "mlir/IR/DialectImplementation.h"

#include <set>

using namespace mlir;
using namespace opc::ir;

using EmitError = llvm::function_ref<InFlightDiagnostic()>;

// B, P or S(axis).
static ParseResult parseState(AsmParser &parser, int64_t *code) {
  const SMLoc loc = parser.getCurrentLocation();
  StringRef letter;
  if (parser.parseKeyword(&letter)) return failure();
  if (letter == "S") return failure(parser.parseLParen() || parser.parseInteger(*code) || parser.parseRParen());
  if (letter != "B" && letter != "P") return parser.emitError(loc, "a state is S(axis), B or P, not ") << letter;
  *code = letter == "B" ? opc::kBroadcastCode : opc::kPartialSumCode;
  return success();
}

static void printState(AsmPrinter &printer, int64_t code) {
  if (code >= 0)
    printer << "S(" << code << ")";
  else
    printer << (code == opc::kBroadcastCode ? "B" : "P");
}

static ParseResult parseCodes(AsmParser &parser, SmallVectorImpl<int64_t> *codes) {
  return parser.parseCommaSeparatedList([&] { return parseState(parser, &codes->emplace_back()); });
}

static void printCodes(AsmPrinter &printer, ArrayRef<int64_t> codes) {
  llvm::interleaveComma(codes, printer, [&](int64_t code) { printState(printer, code); });
}

StateAttr StateAttr::get(MLIRContext *context, const opc::NdSbp &states) {
  SmallVector<int64_t> codes;
  for (const opc::SbpParallel &s : states) codes.push_back(opc::codeOf(s));
  return get(context, codes);
}

opc::NdSbp StateAttr::getStates() const {
  opc::NdSbp states;
  for (int64_t code : getCodes()) states.push_back(*opc::stateOfCode(code));
  return states;
}

LogicalResult StateAttr::verify(EmitError emitError, ArrayRef<int64_t> codes) {
  if (codes.empty()) return emitError() << "a state has an entry for each dimension of the mesh, at least one";
  for (int64_t code : codes)
    if (!opc::stateOfCode(code) || code >= opc::kMaxRank)
      return emitError() << "S(" << code << ") is no state: axes are 0 to " << opc::kMaxRank - 1;
  return success();
}

Attribute StateAttr::parse(AsmParser &parser, Type) {
  SmallVector<int64_t> codes;
  if (parser.parseLess() || parseCodes(parser, &codes) || parser.parseGreater()) return {};
  return parser.getChecked<StateAttr>(parser.getContext(), ArrayRef<int64_t>(codes));
}

void StateAttr::print(AsmPrinter &printer) const {
  printer << "<";
  printCodes(printer, getCodes());
  printer << ">";
}

LogicalResult ShardingAttr::verify(EmitError emitError, uint32_t, StateAttr state, ArrayRef<int64_t> dims) {
  if (!state) return emitError() << "a sharding has states";
  for (int64_t d : dims)
    if (d < 0) return emitError() << "the whole tensor has the dimension " << d;
  for (int64_t code : state.getCodes())
    if (code >= static_cast<int64_t>(dims.size()))
      return emitError() << "axis " << code << " is split, and the tensor has " << dims.size() << " axes";
  return success();
}

// <placement, [states], [dimensions]>
Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  uint32_t placement = 0;
  SmallVector<int64_t> codes, dims;
  if (parser.parseLess() || parser.parseInteger(placement) || parser.parseComma() || parser.parseLSquare() ||
      parseCodes(parser, &codes) || parser.parseRSquare() || parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square,
                                     [&] { return parser.parseInteger(dims.emplace_back()); }) ||
      parser.parseGreater())
    return {};
  auto state = parser.getChecked<StateAttr>(parser.getContext(), ArrayRef<int64_t>(codes));
  if (!state) return {};
  return parser.getChecked<ShardingAttr>(parser.getContext(), placement, state, ArrayRef<int64_t>(dims));
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << "<" << getPlacement() << ", [";
  printCodes(printer, getState().getCodes());
  printer << "], [" << getDims() << "]>";
}

LogicalResult PlacementAttr::verify(EmitError emitError, ArrayRef<int64_t> dims, ArrayRef<int64_t> ranks) {
  int64_t product = 1;
  for (int64_t d : dims)
    if (d < 1 || __builtin_mul_overflow(product, d, &product))
      return emitError() << "a mesh cannot have the dimension " << d;
  if (dims.empty() || product != static_cast<int64_t>(ranks.size()))
    return emitError() << "the mesh has " << product << " devices and lists " << ranks.size() << " ranks";
  std::set<int64_t> seen;
  for (int64_t r : ranks)
    if (r < 0 || !seen.insert(r).second) return emitError() << "rank " << r << " is listed twice, or negative";
  return success();
}

/// The fields of each initializer: a letter for the type (f f32, d f64, i i32, l i64, s string), then the name.
static constexpr struct {
  StringLiteral kind, fields;
} kInitializers[] = {{"constant_conf", "f:value"},
                     {"constant_int_conf", "l:value"},
                     {"random_uniform_conf", "f:min f:max"},
                     {"random_uniform_int_conf", "i:min i:max"},
                     {"random_normal_conf", "f:mean f:std"},
                     {"truncated_normal_conf", "f:mean f:std"},
                     {"xavier_conf", "i:variance_norm s:data_format"},
                     {"msra_conf", "i:variance_norm s:data_format"},
                     {"range_conf", "d:start d:stride l:axis"},
                     {"int_range_conf", "l:start l:stride l:axis"},
                     {"variance_scaling_conf", "f:scale i:variance_norm i:distribution s:data_format"},
                     {"empty_conf", ""}};

static char letterOf(Attribute a) {
  if (isa<StringAttr>(a)) return 's';
  if (auto f = dyn_cast<FloatAttr>(a)) return f.getType().isF32() ? 'f' : f.getType().isF64() ? 'd' : '?';
  if (auto i = dyn_cast<IntegerAttr>(a)) return i.getType().isInteger(32) ? 'i' : i.getType().isInteger(64) ? 'l' : '?';
  return '?';
}

LogicalResult InitializerAttr::verify(EmitError emitError, StringAttr kind, DictionaryAttr fields) {
  const auto *known = llvm::find_if(kInitializers, [&](const auto &k) { return k.kind == kind.getValue(); });
  if (known == std::end(kInitializers)) return emitError() << "there is no initializer " << kind;
  SmallVector<StringRef> expected;
  known->fields.split(expected, ' ', -1, /*KeepEmpty=*/false);
  for (NamedAttribute f : fields) {
    const std::string wanted = std::string(1, letterOf(f.getValue())) + ":" + f.getName().str();
    if (!llvm::is_contained(expected, wanted))
      return emitError() << "the initializer " << kind << " has no field " << f.getName() << " = " << f.getValue();
  }
  return success();
}

LogicalResult DeviceAttr::verify(EmitError emitError, StringAttr kind, uint32_t) {
  if (kind.getValue().empty()) return emitError() << "a device has a kind: \"cpu\"";
  return success();
}

LogicalResult BoundAttr::verifyEncoding(ArrayRef<int64_t> shape, Type, EmitError emitError) const {
  if (shape.size() != getDims().size())
    return emitError() << "the bound has " << getDims().size() << " dimensions, the tensor " << shape.size();
  for (auto [size, bound] : llvm::zip(shape, getDims())) {
    if (bound < 0) return emitError() << "the bound " << bound << " is negative";
    if (!ShapedType::isDynamic(size) && size != bound)
      return emitError() << "a dimension of size " << size << " has the bound " << bound
                         << "; known sizes are their own";
  }
  return success();
}

// [state, state] with [S(0), B] for a state on several dimensions.
ParseResult opc::ir::parseStates(OpAsmParser &parser, ArrayAttr &list) {
  SmallVector<Attribute> states;
  auto one = [&]() -> ParseResult {
    SmallVector<int64_t> codes;
    if (succeeded(parser.parseOptionalLSquare())) {
      if (parseCodes(parser, &codes) || parser.parseRSquare()) return failure();
    } else if (parseState(parser, &codes.emplace_back())) {
      return failure();
    }
    auto state = parser.getChecked<StateAttr>(parser.getContext(), ArrayRef<int64_t>(codes));
    if (!state) return failure();
    states.push_back(state);
    return success();
  };
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, one)) return failure();
  list = parser.getBuilder().getArrayAttr(states);
  return success();
}

void opc::ir::printStates(OpAsmPrinter &printer, Operation *, ArrayAttr list) {
  printer << "[";
  llvm::interleaveComma(list.getAsRange<StateAttr>(), printer, [&](StateAttr s) {
    const bool several = s.getCodes().size() > 1;
    printer << (several ? "[" : "");
    printCodes(printer, s.getCodes());
    printer << (several ? "]" : "");
  });
  printer << "]";
}
