// opc verify: what operators declare, proven or refuted by execution: SBP signatures, purity.
// SPDX-License-Identifier: Apache-2.0
#include "Commands.h"

#include "DerivedGradient.h"
#include "JsonOutput.h"
#include "KernelTrials.h"
#include "NumberText.h"
#include "OpDeviceReport.h"
#include "OpSuggestions.h"
#include "Placement.h"
#include "PluginOpeners.h"
#include "PluginOverrides.h"
#include "ProcessOutput.h"
#include "TextParts.h"
#include "TextTable.h"
#include "VerifyProofs.h"

#include <algorithm>
#include <csignal>
#include <fnmatch.h>
#include <optional>
#include <sys/prctl.h>

namespace opc::cli {

namespace {

constexpr const char *kResults = "results"; // of the fresh process

bool isOfPython(const std::string &op, const std::vector<const user_op::OpDef *> &ops) {
  return std::any_of(ops.begin(), ops.end(), [&](const user_op::OpDef *def) {
    return def->name == op && isDefinedInPython(def->origin.library);
  });
}

/// The ops that are not what they are held to be, as text and as JSON.
std::string purityText(const PurityReport &purity, const std::vector<const user_op::OpDef *> &ops, Json *list) {
  std::string text;
  for (const PurityFinding &f : purity.findings) {
    list->push_back({{"op", f.op}, {"case", f.sample}, {"type", f.type}, {"when", f.when}, {"detail", f.detail}});
    text += f.op + "  NOT_PURE: " + f.when + ", " + f.sample + " in " + f.type + "\n    " + f.detail +
            "\n    declare it with " + (isOfPython(f.op, ops) ? "side_effect=True" : "Pure(false)") +
            ", or mend its kernel\n";
  }
  return text;
}

struct VerifyCommand final : Command {
  CommandSpec spec() override {
    CommandSpec s =
        specOf("prove or refute by execution what operators declare: SBP signatures, purity, results in place",
               "[OP...] | --all", 0, 1000);
    s.examples = {"opc verify softmax matmul", "opc verify --all", "opc verify my_op --plugin ./libmyops.so",
                  "opc verify my_op --plugin ./libmyops.so --device sim"};
    s.options = {
        {"--all", 0, "", "every operator, and the derived gradients of elementwise ones that have no rule", &all_,
         true},
        {"--parts", 0, "N,...", "parts to cut into, also meshes: 2,3,4,2x2,2x3 (the default)", &parts_, true},
        Option{"--timeout", 0, "SECONDS", "a case that takes longer has hung (default 60)", &timeout_, true}.above(
            0, "number of seconds"),
        {"--sound", 0, "", "list the sound signatures, too", &listSound_, true},
        {"--results", 0, "", "write what each case gives as lines of JSON, for another process to compare", &results_,
         true},
        {"--faults", 0, "", "look for faults of kernels alone, and write them as lines of JSON for another process",
         &faults_, true},
        {"--proofs", 0, "", "look for all but these faults, and write it as lines of JSON for another process",
         &proofs_, true}};
    s.details =
        "OP is a name or a glob. For each signature (from the sharding rule or SetGetSbpFn) and each of the op's cases "
        "the "
        "inputs are cut as declared, unevenly where the sizes do not divide; every part runs; the outputs are put "
        "together as declared and compared with the op on the whole. A signature is unsound when one case contradicts "
        "it: the counterexample says the case, attributes, shapes, the mesh and the first differing "
        "element. "
        "Not applicable: ops that give other results when they run again, ops without cases, and signatures whose axes "
        "are shorter than the parts in every case. An op that is held to be pure (opc ops show NAME says why) gives the same bits when its cases run "
        "again: in another instance, twice in one, over memory that held something else, in two threads, later and in "
        "the opposite order, in a fresh process; else it is NOT_PURE. Cases that run in no element type, kernels that "
        "write beside their tensors, compute what depends on what is beside them, end the process or never end (--timeout), and results in place that are others, are faults. Exit code 1 when a signature is "
        "unsound, an op not pure or a kernel at fault. With --device gpu or sim the kernels of the ops run there, in every element type of the CPU's: each "
        "tensor is an allocation of its own, and results are held against the CPU's. The simulator's findings (races, "
        "accesses out of bounds, unwritten bytes) are failures, and its counters are listed: lanes active of 32, "
        "sectors and wavefronts over the least possible. Exit code 1 when an op fails, 4 when none has a kernel there.";
    return s;
  }

  Outcome<int> run(Invocation &invocation, const std::vector<std::string> &positional) override {
    if (all_ == !positional.empty())
      return usageError(all_ ? "--all names every op; the names are too much" : "opc verify needs OP or --all",
                        "opc verify matmul");
    SignatureCheckOptions options;
    if (!parts_.empty()) {
      options.meshes.clear();
      for (const std::string &part : splitAt(parts_, ',')) {
        const auto dims = parseMesh(part);
        const int64_t n = dims ? Placement::dense(*dims).size() : 0;
        if (n < 2 || n > 64)
          return usageError("--parts takes numbers from 2 to 64 and meshes as 2x3 of as many, not '" + parts_ + "'");
        options.meshes.push_back(*dims);
      }
    }
    OPC_ASSIGN_OR_RETURN(Registry registry, invocation.loadRegistry());
    std::vector<const user_op::OpDef *> ops;
    OPC_RETURN_IF_ERROR(choose(registry, positional, &ops));
    if (invocation.flags().device != "cpu") return onDevice(invocation, registry, ops);

    // A process that was asked for this, and hangs, ends with the one that asked.
    if (results_ || faults_ || proofs_) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (results_) return writeResults(invocation.terminal(), registry, ops), kExitOk;
    if (faults_) return writeKernelTrials(invocation.terminal(), registry, ops), kExitOk;
    if (proofs_) return prove(invocation, registry, ops, options), kExitOk;
    // In processes of their own, which kernels may end; and what has run before is part of what purity is.
    const double seconds = timeout_.value_or(60);
    OPC_ASSIGN_OR_RETURN(KernelReport kernels, runKernelTrials(wordsOf(invocation, "--faults"), ops, seconds));
    std::vector<std::string> words = wordsOf(invocation, "--proofs");
    if (!parts_.empty()) words.insert(words.end() - 1, {"--parts", parts_});
    OPC_ASSIGN_OR_RETURN(const Proofs proofs, runProofs(words, withoutFaulty(ops, kernels), seconds, &kernels));
    return report(invocation, proofs.signatures, proofs.purity, kernels, ops);
  }

private:
  /// Purity before signatures: what has run before is part of what it tests.
  static void prove(Invocation &invocation, const Registry &registry, const std::vector<const user_op::OpDef *> &ops,
                    const SignatureCheckOptions &options) {
    PurityOptions purity;
    purity.freshProcess = [&]() -> Result<std::string> {
      std::vector<std::string> words = wordsOf(invocation, "--results");
      for (const user_op::OpDef *op : ops) words.push_back(op->name);
      // Whose time is over is for the process to say that waits for this one.
      const ProcessWatch beginnings = watchBeginnings(0);
      const auto pass = [&](std::string_view line) -> std::optional<double> {
        if (!beginnings.progress(line)) return std::nullopt;
        invocation.terminal().out(concat("\n", line, "\n"));
        return invocation.terminal().flush().isOk() ? std::optional(0.0) : std::nullopt;
      };
      writeStart(invocation.terminal());
      OPC_ASSIGN_OR_RETURN(const std::string text, outputOfOwnProgram(words, {0, pass}));
      return readResults(text);
    };
    writeProofs(invocation.terminal(), registry, ops, std::move(purity), options);
  }

  /// A line of JSON before each case, and one with all bytes.
  static void writeResults(Terminal &terminal, const Registry &registry,
                           const std::vector<const user_op::OpDef *> &ops) {
    const std::string bytes =
        resultsOfCases(registry, ops, [&](const std::string &op, const std::string &sample, const std::string &type) {
          writeBeginning(terminal, op, sample, type);
        });
    writeJsonLine(terminal, {{kResults, hexText(bytes)}});
  }

  /// The bytes; other lines are what kernels print.
  static std::string readResults(const std::string &output) {
    for (const std::string &line : splitAt(output, '\n')) {
      const Json document = Json::parse(line, nullptr, false);
      if (document.is_object() && document.contains(kResults)) return bytesOf(document.value(kResults, ""));
    }
    return "";
  }

  /// What has written where it must not, or ended its process, or did not come to an end, is run no more, and what does
  /// not run has nothing else to show.
  static std::vector<const user_op::OpDef *> withoutFaulty(std::vector<const user_op::OpDef *> ops,
                                                           const KernelReport &kernels) {
    std::erase_if(ops, [&](const user_op::OpDef *op) {
      return std::any_of(kernels.findings.begin(), kernels.findings.end(), [&](const KernelFinding &f) {
        return f.op == op->name &&
               (f.fault == KernelFault::kBeside || f.fault == KernelFault::kCrashes || f.fault == KernelFault::kHangs);
      });
    });
    return ops;
  }

  Outcome<int> onDevice(Invocation &invocation, const Registry &registry,
                        const std::vector<const user_op::OpDef *> &ops) const {
    const std::string &name = invocation.flags().device;
    for (const auto &[given, option] : {std::pair(!parts_.empty(), "--parts"),
                                        {timeout_.has_value(), "--timeout"},
                                        {listSound_, "--sound"},
                                        {results_, "--results"},
                                        {faults_, "--faults"},
                                        {proofs_, "--proofs"}})
      if (given)
        return usageError(std::string(option) + " is for what runs on the cpu, and the device is '" + name + "'",
                          "leave it out, or give --device cpu");
    OPC_ASSIGN_OR_RETURN(OpDevice device, OpDevice::open(name));
    uint64_t samples = 0, failed = 0, without = 0;
    Json list = Json::array();
    for (const user_op::OpDef *op : ops) {
      OPC_ASSIGN_OR_RETURN(const OpDeviceCheck check, checkOnDevice(registry, *op, device));
      samples += check.samples;
      failed += !check.passed();
      without += check.samples == 0;
      if (invocation.flags().json)
        list.push_back(deviceCheckJson(check));
      else if (!all_ || check.samples > 0)
        invocation.terminal().out(deviceCheckText(check, name, outTableWidth()));
    }
    if (samples == 0)
      return Status(StatusCode::kUnsupported, "OPC0411",
                    "none of " + countText(ops.size(), "op") + " has both a case and a kernel for " + name)
          .withHelp("opc plugin check LIB says what of an op is missing; opc ops --missing gpu lists ops");
    if (invocation.flags().json)
      invocation.terminal().out(jsonText({{"schema", 1},
                                          {"device", name},
                                          {"passed", failed == 0},
                                          {"samples", samples},
                                          {"not_applicable", without},
                                          {"ops", std::move(list)}}));
    invocation.note(countText(ops.size(), "op") + " on " + name + ": " + countText(samples, "sample") + ", " +
                    countText(failed) + " failed; " + countText(without) + " not applicable");
    return failed == 0 ? kExitOk : kExitNo;
  }

  Status choose(const Registry &registry, const std::vector<std::string> &names,
                std::vector<const user_op::OpDef *> *ops) const {
    if (all_) {
      *ops = registry.ops();
      for (const user_op::OpDef *op : registry.ops()) {
        if (!op->scalar) continue;
        for (size_t i = 0; i < op->inputs.size(); ++i) {
          // Where there is none, opc ops --missing grad says so.
          auto derived = registry.derivedGradient(*op, static_cast<int32_t>(i));
          if (derived && *derived && !registry.findGrad(op->name)) ops->push_back(&(*derived)->def);
        }
      }
      return Status::ok();
    }
    for (const std::string &name : names) {
      const size_t before = ops->size();
      if (const user_op::OpDef *op = findGraphOp(registry, name)) {
        ops->push_back(op);
      } else {
        for (const user_op::OpDef *op : registry.ops())
          if (fnmatch(name.c_str(), op->name.c_str(), 0) == 0) ops->push_back(op);
      }
      if (ops->size() != before) continue;
      const std::string help = suggestOps(registry, name);
      return Status(StatusCode::kUsage, "OPC0005", "there is no op '" + name + "'")
          .withHelp(help.empty() ? "opc ops lists them" : help);
    }
    return Status::ok();
  }

  /// A command line of this program that does it in another process, but for the names of the ops.
  static std::vector<std::string> wordsOf(Invocation &invocation, const char *option) {
    std::vector<std::string> args = {"verify", option};
    for (const std::string &plugin : invocation.flags().plugins) args.insert(args.end(), {"--plugin", plugin});
    for (const std::string &folder : invocation.flags().opPaths) args.insert(args.end(), {"--op-path", folder});
    args.push_back("--");
    return args;
  }

  /// A terminal's door lets no raw bytes through.
  static std::string hexText(const std::string &bytes) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(bytes.size() * 2);
    for (const char c : bytes) {
      const auto b = static_cast<unsigned char>(c);
      text += digits[b >> 4];
      text += digits[b & 15];
    }
    return text;
  }
  static std::string bytesOf(const std::string &hex) {
    auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
    std::string bytes;
    for (size_t i = 0; i + 1 < hex.size(); i += 2) bytes += static_cast<char>(digit(hex[i]) << 4 | digit(hex[i + 1]));
    return bytes;
  }

  int report(Invocation &invocation, const std::vector<SignatureCheck> &checks, const PurityReport &purity,
             const KernelReport &kernels, const std::vector<const user_op::OpDef *> &ops) const {
    size_t sound = 0, unsound = 0, trials = 0, without = 0, lacking = 0;
    Json list = Json::array();
    std::string text;
    static const char *const kVerdicts[] = {"sound", "unsound", "not applicable", "not applicable"};
    for (const SignatureCheck &c : checks) {
      const char *verdict = kVerdicts[static_cast<int>(c.verdict)];
      trials += static_cast<size_t>(c.trials);
      sound += c.verdict == SignatureVerdict::kSound;
      unsound += c.verdict == SignatureVerdict::kUnsound;
      lacking += c.verdict == SignatureVerdict::kNoRules;
      without += c.verdict == SignatureVerdict::kNotApplicable || c.verdict == SignatureVerdict::kNoRules;
      list.push_back(
          {{"op", c.op}, {"signature", c.signature}, {"verdict", verdict}, {"trials", c.trials}, {"detail", c.detail}});
      if (c.verdict == SignatureVerdict::kNoRules) text += c.op + "  NO_RULES: " + c.detail + "\n";
      if (c.verdict == SignatureVerdict::kNoRules) continue;
      if (c.verdict == SignatureVerdict::kSound && !listSound_) continue;
      if (c.verdict == SignatureVerdict::kNotApplicable && all_ && !listSound_) continue;
      text += c.op + "  " + (c.signature.empty() ? "" : c.signature + "  ") + (unsoundMark(c)) + verdict;
      if (c.verdict == SignatureVerdict::kSound) text += "  (" + countText(c.trials) + " trials)";
      text += "\n";
      if (!c.detail.empty()) text += "    " + c.detail + "\n";
    }
    Json impure = Json::array();
    text += purityText(purity, ops, &impure) + kernelFaultsText(kernels);
    const bool passed = unsound == 0 && purity.findings.empty() && kernels.findings.empty();
    if (invocation.flags().json) {
      invocation.terminal().out(jsonText({{"schema", 1},
                                          {"passed", passed},
                                          {"ops", ops.size()},
                                          {"sound", sound},
                                          {"unsound", unsound},
                                          {"not_applicable", without},
                                          {"signatures", std::move(list)},
                                          {"pure_ops", purity.ops},
                                          {"purity_samples", purity.samples},
                                          {"not_pure", std::move(impure)},
                                          {"kernel_samples", kernels.samples},
                                          {"kernel_faults", kernelFaultsJson(kernels)}}));
    } else {
      invocation.terminal().out(text);
      invocation.note(countText(ops.size(), "op") + ": " + countText(sound) + " signatures sound in " +
                      countText(trials) + " trials, " + countText(unsound) + " unsound; " + countText(without) +
                      " not applicable, of which " + countText(lacking) + " NO_RULES");
      invocation.note(countText(purity.ops, "op") + " held to be pure ran in " + countText(purity.samples, "sample") +
                      "; " + countText(purity.findings.size()) + " NOT_PURE");
      invocation.note(countText(kernels.ops, "op") + " ran in guarded memory and in place in " +
                      countText(kernels.samples, "sample") + "; " + countText(kernels.findings.size(), "fault"));
    }
    return passed ? kExitOk : kExitNo;
  }

  static const char *unsoundMark(const SignatureCheck &c) {
    return c.verdict == SignatureVerdict::kUnsound ? "REFUTED: " : "";
  }

  bool all_ = false, listSound_ = false, results_ = false, faults_ = false, proofs_ = false;
  std::string parts_;
  std::optional<double> timeout_;
};

} // namespace

std::unique_ptr<Command> makeVerifyCommand() { return std::make_unique<VerifyCommand>(); }

} // namespace opc::cli
