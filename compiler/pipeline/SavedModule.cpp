// IR between two phases as a file.
// SPDX-License-Identifier: Apache-2.0
#include "SavedModule.h"

#include "EmitStatus.h"
#include "GraphStates.h"
#include "Locations.h"
#include "OpcDialect.h"
#include "RankModules.h"
#include "opc/Version.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/Parser/Parser.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;

namespace opc {

namespace {

constexpr llvm::StringLiteral kVersion = "opc", kPhase = "phase", kPending = "pending", kMicroBatches = "micro_batches";

Location locationOf(MLIRContext *context, const SavedState &state) {
  Builder b(context);
  const auto facts = b.getDictionaryAttr({b.getNamedAttr(kVersion, b.getStringAttr(OPC_VERSION_STRING)),
                                          b.getNamedAttr(kPhase, b.getStringAttr(state.phase)),
                                          b.getNamedAttr(kPending, b.getStringAttr(state.pending)),
                                          b.getNamedAttr(kMicroBatches, b.getI64IntegerAttr(state.microBatches))});
  return FusedLoc::get({FileLineColLoc::get(context, state.graph, 0, 0)}, facts, context);
}

/// The state and, in `version`, who wrote it.
std::optional<SavedState> stateOf(Location location, std::string *version) {
  const auto fused = dyn_cast<FusedLoc>(location);
  const auto facts = fused ? dyn_cast_if_present<DictionaryAttr>(fused.getMetadata()) : nullptr;
  const auto file =
      facts && fused.getLocations().size() == 1 ? dyn_cast<FileLineColLoc>(fused.getLocations()[0]) : nullptr;
  if (!file) return std::nullopt;
  const auto text = [&](StringRef name) { return facts.getAs<StringAttr>(name); };
  const auto count = facts.getAs<IntegerAttr>(kMicroBatches);
  if (!text(kVersion) || !text(kPhase) || !text(kPending) || !count) return std::nullopt;
  *version = text(kVersion).str();
  return SavedState{file.getFilename().str(), text(kPhase).str(), text(kPending).str(), count.getInt()};
}

/// How many ranks IR is for, of a phase that has decided it; 0: one device.
int64_t ranksOf(ModuleOp module) {
  int64_t ranks = 0;
  if (module->hasAttr(ir::kPlacementsAttr))
    for (const Placement &p : readPlacements(module))
      for (const int64_t r : p.ranks) ranks = std::max(ranks, r + 1);
  return ranks;
}

/// The mesh that IR was planned for: that of the ops that run on all ranks; nothing when no op does.
std::optional<MeshRequest> meshOf(ModuleOp module, int64_t ranks, int64_t microBatches) {
  for (const Placement &p : readPlacements(module)) {
    MeshRequest mesh;
    mesh.dims = p.dims;
    mesh.microBatches = microBatches;
    if (static_cast<int64_t>(p.ranks.size()) == ranks && mesh.devices() == ranks) return mesh;
  }
  return std::nullopt;
}

/// Whether there is a state for each tensor, and what they split are axes that it has.
bool fit(ArrayAttr states, ValueRange tensors) {
  if (tensors.empty()) return true; // a rank that only sends, or only receives
  if (states.size() != tensors.size()) return false;
  for (const auto &[state, tensor] : llvm::zip(states.getAsRange<ir::StateAttr>(), tensors)) {
    const auto type = dyn_cast<RankedTensorType>(tensor.getType());
    for (const SbpParallel &s : state.getStates())
      if (s.has_split_parallel() && (!type || s.axis() >= type.getRank())) return false;
  }
  return true;
}

/// Ops of graphs, with known operators and, where `hasShapes`, with types.
bool isBody(Block &block, bool hasShapes) {
  return llvm::all_of(block, [&](Operation &op) {
    if (isa<func::ReturnOp>(op)) return true;
    if (!isa<ir::OpcDialect>(op.getDialect()) || ir::opName(&op).empty()) return false;
    if (auto user = dyn_cast<ir::UserOp>(&op); user && hasShapes && !user.def()) return false;
    if (auto step = dyn_cast<ir::BoxingOp>(&op);
        step && (!fit(step.getFrom(), step.getArgs()) || !fit(step.getTo(), step.getOuts())))
      return false;
    return !hasShapes || llvm::all_of(op.getResultTypes(), [](Type t) {
      const auto tensor = dyn_cast<RankedTensorType>(t);
      return tensor && tensor.hasStaticShape();
    });
  });
}

/// One function, and beside it the graphs of ranks.
bool isGraph(ModuleOp module, bool takesParts, bool hasShapes) {
  size_t functions = 0;
  for (Operation &op : *module.getBody()) {
    auto function = dyn_cast<func::FuncOp>(&op);
    auto part = dyn_cast<ModuleOp>(&op);
    const bool isWhole = function && function.getBody().hasOneBlock() && function.getNumArguments() == 0 &&
                         isBody(function.getBody().front(), hasShapes);
    if (isWhole) ++functions;
    const bool isPart =
        takesParts && part && part->getAttrOfType<DenseI32ArrayAttr>(ir::kRanksAttr) && isGraph(part, false, hasShapes);
    if (!isWhole && !isPart) return false;
  }
  return functions == 1;
}

/// Every rank in exactly one part.
bool hasEveryRank(ModuleOp module, int64_t ranks) {
  std::vector<int> seen(static_cast<size_t>(ranks));
  bool isGood = true;
  for (auto part : module.getOps<ModuleOp>())
    for (const int32_t r : part->getAttrOfType<DenseI32ArrayAttr>(ir::kRanksAttr).asArrayRef())
      isGood &= r >= 0 && r < ranks && seen[static_cast<size_t>(r)]++ == 0;
  return isGood && llvm::all_of(seen, [](int times) { return times == 1; });
}

// MLIR reads bytecode that it has written; damage it may not survive. So the producer's name, which follows the magic
// and the version's one byte, has a digest of the rest.
constexpr llvm::StringLiteral kMagic = "ML\xefR", kProducer = "opc-", kNoDigest = "0000000000000000";
constexpr size_t kDigestAt = kMagic.size() + 1 + kProducer.size();

/// Of bytes that have no digest yet.
std::string digestOf(const std::string &bytes) {
  std::string text = llvm::utohexstr(llvm::xxh3_64bits(llvm::StringRef(bytes)), /*LowerCase=*/true);
  return std::string(kNoDigest.size() - text.size(), '0') + text;
}

std::string bytecodeOf(ModuleOp module) {
  std::string bytes;
  llvm::raw_string_ostream out(bytes);
  (void)writeBytecodeToFile(module, out, BytecodeWriterConfig((kProducer + kNoDigest).str())); // fails for old versions
  return bytes.replace(kDigestAt, kNoDigest.size(), digestOf(bytes));
}

/// Whether it is no bytecode, or bytecode as it was written.
bool isWhole(std::string bytes) {
  if (!llvm::StringRef(bytes).starts_with(kMagic)) return true;
  if (bytes.size() < kDigestAt + kNoDigest.size()) return false;
  const std::string digest = bytes.substr(kDigestAt, kNoDigest.size());
  bytes.replace(kDigestAt, kNoDigest.size(), kNoDigest.data(), kNoDigest.size());
  return digest == digestOf(bytes);
}

} // namespace

SavedState savedState(const std::string &graph, Phase phase, const CompileOptions &options) {
  SavedState state{graph, phaseName(phase), ""};
  if (options.mesh) state.microBatches = options.mesh->microBatches;
  if (phase < Phase::kShape && (options.cut.hasParts() || !options.castOps.empty()))
    state.pending = "what --until and --cast-ops ask for is done in phase shape, and is not in it";
  else if (phase < Phase::kGrad && options.gradient)
    state.pending = "the training step that train_conf asks for is made in phase grad, and is not in it";
  return state;
}

std::string savedModule(ModuleOp module, const PhysicalGraphs &ranks, const SavedState &state, bool asBytecode) {
  OwningOpRef<ModuleOp> whole = module.clone();
  PhysicalGraphs copies{{}, ranks.partOfRank};
  for (auto &part : ranks.parts) copies.parts.emplace_back(ModuleOp(part.get()).clone());
  putBeside(*whole, std::move(copies));
  (*whole)->setLoc(locationOf(module.getContext(), state));
  if (asBytecode) return bytecodeOf(*whole);
  std::string bytes;
  llvm::raw_string_ostream out(bytes);
  whole->print(out, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false).printNameLocAsPrefix());
  out << "\n";
  return bytes;
}

OwningOpRef<ModuleOp> readSavedModule(MLIRContext *context, std::string *name, const std::string &bytes,
                                      std::optional<Phase> after, CompileOptions *options, Phase *reached) {
  const Location place = FileLineColLoc::get(context, *name, 0, 0);
  const auto refuse = [&](const Twine &message, const Twine &help = "") {
    emitFinding(place, "OPC0114", *name + ": " + message, help);
    return OwningOpRef<ModuleOp>();
  };
  if (after >= Phase::kPlan) return refuse("nothing is left to do after phase plan", "opc run takes the plan");
  if (looksLikePlan(bytes)) return refuse("it is a plan, and --from reads IR", "opc run takes the plan");
  if (!looksLikeIr(bytes))
    return refuse("it is no IR, which --from goes on from",
                  "leave --from out for a graph; opc compile GRAPH --to PHASE --emit mlir writes IR");
  if (!isWhole(bytes)) return refuse("the bytecode is damaged, or not opc's", "write it anew from the graph");
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(bytes, ParserConfig(context), *name);
  if (!module) return module;
  std::string version;
  const auto saved = stateOf(module->getLoc(), &version);
  if (!saved)
    return refuse("MLIR that does not say which phase it was written after",
                  "opc compile GRAPH --to PHASE --emit mlir writes such IR");
  if (version != OPC_VERSION_STRING)
    return refuse("it was written by opc " + version + ", and this is " OPC_VERSION_STRING,
                  "write it anew from the graph");
  const std::optional<Phase> phase = parsePhase(saved->phase);
  if (!phase || (after && phase != after))
    return refuse("it was written after phase " + saved->phase +
                      (after ? std::string(", and --from says ") + phaseName(*after) : ", which opc does not have"),
                  phase ? "--from " + saved->phase : "write it anew from the graph");
  if (!saved->pending.empty()) return refuse(saved->pending, "write it after a later phase: --to grad");
  const int64_t planned = ranksOf(*module);
  if (!after && !options->mesh && planned) options->mesh = meshOf(*module, planned, saved->microBatches);
  const int64_t ranks = options->mesh ? options->mesh->devices() : 0;
  const int64_t microBatches = options->mesh ? options->mesh->microBatches : 1;
  if (phase >= Phase::kSbp && (planned != ranks || saved->microBatches != microBatches))
    return refuse("it was planned for " + (planned ? std::to_string(planned) + " ranks" : "one device") +
                      (saved->microBatches > 1 ? " and " + std::to_string(saved->microBatches) + " micro-batches" : ""),
                  "give the same --mesh and --micro-batches");
  const bool hasParts = phase >= Phase::kBoxing && ranks;
  if (!isGraph(*module, hasParts, phase >= Phase::kShape))
    return refuse("it is no graph: one function of named ops whose operators and shapes are known");
  if (hasParts && !hasEveryRank(*module, ranks)) return refuse("not every rank has one graph");
  *name = saved->graph;
  *reached = *phase;
  return module;
}

} // namespace opc
