# Text decides nothing: no comparison and no search with a literal, or a constant that is one, on names, locations and serialized text.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import tempfile
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
FOLDERS = ("compiler", "runtime", "tools", "kernels")

# A name, location, message or text of a file. The types of ops are no names: the registry keeps them apart, and a rewrite
# for one operator asks for its type.
NAMED = (r'(?<!type_)(?:[nN]ame|[nN]ames|opName|tensorName|[lL]oc|[lL]ocation|[pP]lace|[sS]ubject|[mM]essage|[hH]elp|[rR]eason|[cC]onf|[lL]ibrary|text|bytes|producer|'
         r'found|expected)')
CALLS = r'(?:\w*\(\w*\)|\[\w+\])?(?:\.str\(\)|\.getValue\(\)|\.value\(\))?'
# constexpr StringRef kTag = "gradient_of:"; kTag("..."), kTag[] = "...", kTag{"..."}; a list of texts.
CONSTANT = re.compile(r'\b(k[A-Z]\w*)(?:\[\w*\])?(?: = \{?|[({] *)"')
# Texts that stand for something: a constant map, or list, of pairs that begin with one, or a list of texts.
TABLE = re.compile(r'(?:\bstatic const|\bconstexpr|^const)\b[^;={}]*\b(\w+)(?:\[\w*\])? *(?:= *)?\{\s*(?:\{\s*)?"', re.M)
DECLARED = re.compile(r'\bextern\b[^;]*\b(k[A-Z]\w*)')


def deciding(literal):
    """What finds the lines where such a literal decides."""
    return [
        # A search for it: text.find("backward_pass"), name.ends_with("_grad"), s.compare(0, 3, "OPC").
        re.compile(r'[.>](?:find|rfind|starts_with|startswith|ends_with|endswith|contains_insensitive|equals_insensitive|compare|consume_front|'
                   r'consume_back|match)\((?:[^()"]*(?:\(\))?, *)?' + literal),
        # StringRef(place).contains(": node "), text().contains("x"). A document's contains("key") asks for a field.
        re.compile(r'(?:StringRef|string_view)\([^"]*\)\.contains\(' + literal),
        re.compile(NAMED + CALLS + r'(?:\(\))?(?:\.|->)contains\(' + literal),
        # A part of a text that is one: name.substr(0, 3) == "opt".
        re.compile(r'substr\([^()]*(?:\(\))?\) *[=!]= *' + literal),
        # What is called like a name: opName(op) == "micro_batch".
        re.compile(NAMED + CALLS + r' *[=!]= *' + literal),
        # One of several: llvm::is_contained({"a", "b"}, name), StringSwitch<Kind>(name).Case("a", ...).
        re.compile(r'is_contained\(\{?[^"]*' + literal + r'.*\b' + NAMED + CALLS + r'\)'),
        re.compile(r'StringSwitch<[^>]*>\([^"]*' + NAMED + CALLS + r'\)'),
    ]


SPELT = deciding('"') + [
    re.compile(r'"[^"]*" *[=!]= *[\w.>()-]*' + NAMED + r'\b'),
    # What was put together as text: "in_0", "net.pbtxt:7:3".
    re.compile(r"[.>](?:rfind|rsplit|find_last_of)\('[_:]'\)"),
    # A pattern: std::regex_search(name, ...), llvm::Regex("...").match(name).
    re.compile(r'\b(?:std::regex(?:_match|_search|_replace)?|llvm::Regex|RE2)\b'),
]


def lookups(tables):
    """What finds the lines where a name is looked up in one of these tables of texts."""
    each = r"\b(?:" + "|".join(sorted(tables)) + r")(?:\(\))?"
    return [re.compile(each + r'(?:\.|->)(?:find|count|contains|at|lookup)\([^"]*\b' + NAMED + CALLS + r'\)'),
            re.compile(each + r'\[[^"\]]*\b' + NAMED + CALLS + r'\]'),
            re.compile(r'is_contained\([\w:]*' + each + r', [^"]*\b' + NAMED + CALLS + r'\)')] if tables else []


# Where text is what is read. Each with its reason; a path, or a path and what the line has in it.
ALLOWED = [
    ("tools/opc/cli/", "", "reads the command line and the settings"),
    ("compiler/codegen/CodeCache.cpp", "", "names of its own files, and how they begin"),
    ("compiler/fusion/RegionWriter.cpp", "kGradientOfAttr", "the name of an attribute of the dialect, and no op's"),
    ("compiler/schedule/UpdateBatches.cpp", "kShardingAttr", "the name of an attribute of the dialect, and no op's"),
    ("runtime/taskgraph/ControlTask.cpp", "kPartsAttr", "looks up a number of a task by its key: the name that the definition of the op gives it"),
    ("compiler/lock/InitialText.cpp", "", "reads a field of lock files"),
    ("compiler/pipeline/SavedModule.cpp", "kMagic", "how a file of its own begins"),
    ("compiler/wire/GraphAttributes.cpp", "kOriginTag", "reads a field of graph files into its attribute"),
    ("runtime/session/Checkpoint.cpp", "kFormatKey", "a key of a file's metadata"),
    ("runtime/session/Session.cpp", "kWriter", "which version has written a plan that is refused: of what is said"),
    ("tools/opc/check/GraphCheck.cpp", "kAnyGraph", "a help is completed, and nothing else"),
    ("tools/opc/check/GraphFiles.cpp", "kAnyFolders", "reads a pattern that the user has typed"),
    ("tools/opc/check/LockUpdate.cpp", "", "reads sections that the user has typed"),
    ("tools/opc/check/StrictnessFlags.cpp", "", "reads rules that the user has typed"),
    ("tools/opc/commands/Check.cpp", "kPathsSetting", "a key of the settings"),
    ("tools/opc/commands/Check.cpp", "kStandardOutput", "reads a path that the user has typed"),
    ("tools/opc/commands/Check.cpp", "kGit", "reads a revision that the user has typed"),
    ("tools/opc/graph/FactsInput.cpp", "kStart", "tells kinds of files by their bytes"),
    ("tools/opc/graph/GitFiles.cpp", "kOfCommit", "a revision that the user has typed"),
    ("tools/opc/graph/GitFiles.cpp", "kLfs", "tells kinds of files by their bytes"),
    ("tools/opc/graph/GitFiles.cpp", "kScheme", "a path that the user has typed"),
    ("tools/opc/commands/Quantize.cpp", '", or opc run --input "', "a help is shortened, and nothing else"),
    ("tools/opc/graph/OnnxOutput.cpp", "kDigits", "names of its own files"),
    ("tools/opc/graph/Reproducer.cpp", "kByteOrderMark", "how a file begins"),
    ("tools/opc/training/CheckpointKeeper.cpp", "kStep", "names of its own files"),
    ("tools/opc/training/RunIdentity.cpp", "kContent", "keys of a file's metadata"),
    ("tools/opc/main.cpp", "", "reads the command line"),
    ("tools/opc/crash/CrashRecord.cpp", "", "reads the environment"),
    ("tools/opc/debug/", "", "reads command lines of bundles"),
    ("tools/opc/commands/Complete.cpp", "", "completes what the user has typed"),
    ("kernels/spelling/CommandOptions.cpp", "", "finds options of the command line in its messages"),
    ("tools/python/core/PythonWords.cpp", "", "says the command's messages in Python's words"),
    ("tools/opc/values/", "", "reads values that the user has typed"),
    ("tools/opc/text/", "", "reads numbers and modes that the user has typed"),
    ("tools/opc/graph/GitFiles.cpp", "why.find", "git says in words alone what is wrong; the help follows, and which repository is asked"),
    ("tools/opc/graph/GitFiles.cpp", '".."', "a range that the user has typed"),
    ("tools/opc/graph/GraphSelection.cpp", '".."', "reads A..B"),
    ("tools/opc/graph/ShapeFlags.cpp", "", "reads shapes that the user has typed"),
    ("tools/opc/training/TrainingFlags.cpp", "", "reads settings that the user has typed"),
    ("tools/opc/training/TrainingOptions.cpp", '"=@"', "reads NAME=@FILE"),
    ("tools/opc/training/TrainingRun.cpp", "metadata", "a key of a file's metadata"),
    ("tools/opc/check/GraphCheck.cpp", "plain.rfind", "reads a pattern that the user has typed"),
    ("tools/opc/reports/GraphDrawing.cpp", '"->"', "a signature's text gives an op its colour, and nothing else"),
    ("tools/opc/reports/GraphDrawing.cpp", 'found == "B"', "a signature's text gives an op its colour, and nothing else"),
    ("compiler/importer/StateHints.cpp", "name.rfind", "reads how OneFlow writes states behind the names of tensors"),
    ("compiler/importer/StateHints.cpp", '"nd_sbp"', "looks up an attribute by the name that OneFlow's sources give it"),
    ("compiler/pipeline/Pipeline.cpp", '"decay_type"', "looks up an attribute of a schedule by the name that its definition gives it"),
    ("compiler/lock/CostComparison.cpp", "kPythonLibrary", "a help is chosen, and nothing else"),
    ("tools/opc/bench/GraphBench.cpp", "ofRuns", "options of the command line"),
    ("tools/opc/commands/Check.cpp", "place.rfind", "where a setting stands: of what is shown, and nothing else"),
    ("tools/opc/run/Expectations.cpp", "text.rfind", "reads what the user has typed"),
    ("tools/opc/training/BestSoFar.cpp", "text.rfind", "reads what the user has typed"),
    ("tools/python/core/GraphMessage.cpp", "op.type.rfind", "the namespace of an op's type"),
    ("tools/python/core/PythonErrors.cpp", "place.rfind", "reads OperatorConf.loc, a field of graph files, as Python has written it"),
    ("tools/opc/check/GraphCheck.cpp", "kNoGradient", "the code of a warning, as a lock has it"),
    ("tools/opc/graph/GraphInput.cpp", "kManifestEnding", "tells kinds of files by how their names end"),
    ("tools/opc/graph/PhaseDump", "", "a pattern that the user has typed"),
    ("tools/opc/reports/MachineReport.cpp", "library", "file names of shared libraries"),
    ("tools/opc/reports/OpReport.cpp", "origin.file", "a path of the sources is shown shorter"),
    ("tools/opc-bench/", "", "its own notation for networks"),
    ("kernels/cost/OpCost.cpp", '"->"', "reads the notation of sharding rules"),
    ("kernels/signatures/Signatures.cpp", "", "reads the notation of sharding rules"),
    ("kernels/sharding/NdSbp.cpp", "", "reads states as files write them"),
    ("kernels/cuda/build_images/", "", "a step of the build, which reads PTX and the names of its own files"),
    ("kernels/gradients/DerivedGradient.cpp", '"dy"', "a name that is not yet taken"),
    ("kernels/instance/DeviceCopy.h", "", "the type of an op, which its definition calls its name"),
    ("kernels/instance/OpInstance.cpp", '"UserSourceOpTickInput"', "an argument that OneFlow gives every source, and no definition has"),
    ("kernels/ops/convolution/DnnlConvolution.cpp", "implementation", "the library says in words alone how it computes"),
    ("kernels/ops/convolution/FusedConvolution.cpp", "kRelu", "reads an attribute"),
    ("kernels/ops/convolution/FusedConvolution.cpp", '"clip"', "reads an attribute"),
    ("kernels/python/host/KernelCall.cpp", "", "reads the arguments of a function of Python; what begins with @ is no name there"),
    ("kernels/python/host/PythonKernels.cpp", '"OPC092"', "codes of errors come in families"),
    ("kernels/python/manifest/InferenceRule.cpp", '"oneflow::"', "an error is worded"),
    ("kernels/python/manifest/OpManifest.cpp", '"::"', "the namespace of an op's type"),
    ("kernels/python/manifest/OpManifest.cpp", "kManifestEnding", "tells kinds of files by how their names end"),
    ("kernels/registry/PluginLoader.cpp", "text.find", "the loader says in words alone what is wrong; the help follows, and nothing else"),
    ("kernels/registry/PluginOverrides.cpp", '"lib"', "a library's name for people"),
    ("kernels/registry/PluginOverrides.cpp", "kOverriding", "reads a plugin that the user has typed"),
    ("kernels/registry/PluginOverrides.cpp", "kMark", "the namespace of an op's type"),
    ("kernels/registry/Registry.cpp", "subject", "what Hob.h calls the device and the types that a condition requires, and calls nothing else"),
    ("kernels/registry/UnknownNamespace.h", "", "the namespace of an op's type"),
    ("kernels/sdk/compat/oneflow/core/operator/operator.h", "", "the interface of OneFlow, whose names of blobs are in_0"),
    ("kernels/sdk/src/Op.cpp", "argAndIndex", "the interface of OneFlow, whose names of blobs are in_0"),
    ("kernels/sdk/include/opc/Hob.h", "g.compare", "makes conditions of comparisons, and compares nothing"),
    ("tools/opc/commands/Help.cpp", '"common options:"', "shows a part of a help text"),
    ("compiler/onnx/import/", "", "reads another format, whose operators, activations and equations are words"),
    ("compiler/importer/ForeignFile.cpp", "", "tells kinds of files by their bytes"),
    ("compiler/importer/ParseHints.cpp", "", "reads the messages of protobuf's parser"),
    ("compiler/inference/ShapeInference.cpp", '"epsilon"', "an attribute that normalisations share, and no name"),
    ("compiler/importer/GraphFile.cpp", "", "finds out which message a graph file is"),
    ("compiler/emitter/CanonicalText.cpp", "message_type", "names of protobuf messages decide how they are laid out"),
    ("compiler/simulate/ClusterFile.cpp", "", "reads a JSON file"),
    ("compiler/simplify/Simplify.cpp", 'def->name == "cast"', "the one op whose no-op form depends on its types alone"),
    ("compiler/lock/Lock", "", "reads a JSON file"),
    ("tools/opc/commands/Check.cpp", '"false"', "reads CI of the environment"),
    ("runtime/tensorio/", "", "reads file formats"),
    ("runtime/taskgraph/Poison.cpp", "", "reads the environment"),
    ("runtime/taskgraph/PluginCuda.cpp", '".nvFatBinSegment"', "a section of a library's file, by its name"),
    ("runtime/taskgraph/DeviceExchange.cpp", "", "reads the environment"),
    ("tools/gpusim/ptx/", "", "reads another language, whose directives are words"),
    ("tools/gpusim/machine/", "", "mnemonics and device functions of that language; kinds of findings"),
    ("tools/gpusim/driver/PtxImages.cpp", "", "tells PTX from other images by its text, and reads its target"),
    ("tools/gpusim/driver/DroppedWaits.cpp", "", "finds instructions in the text of that language"),
    ("tools/gpusim/driver/SimOptions.cpp", '"%p"', "a place for the process's number in a file's name that the user has typed"),
    ("tools/gpusim/ptxsim/main.cpp", "", "reads the command line"),
]


def sources(root):
    """(path, lines) of every source."""
    for folder in FOLDERS:
        for directory, _, names in sorted(os.walk(os.path.join(root, folder))):
            for name in sorted(names):
                if name.endswith((".cpp", ".h")):
                    path = os.path.join(directory, name)
                    with open(path, encoding="utf-8") as f:
                        yield os.path.relpath(path, root), [line.strip() for line in f]


def named(constants):
    """What finds the lines where one of these constants decides; nothing without any."""
    return deciding(r"(?:\w+::)*(?:" + "|".join(sorted(constants)) + r")\b(?!\[|\.(?:end|begin)\b)") if constants else []


# A line that goes on: its next one belongs to the comparison or the call.
UNFINISHED = re.compile(r'(?:[=!]=|\(|,|&&|\|\|)$')


def wholeLines(lines):
    """Each line with what it goes on with: a comparison whose literal is on the next line, a call whose arguments are."""
    for k, line in enumerate(lines):
        rest = lines[k + 1] if k + 1 < len(lines) else ""
        yield line + ("" if line.endswith("(") else " ") + rest if UNFINISHED.search(line) or rest.startswith(("==", "!=")) else line


def decides(line, patterns):
    code = re.sub(r'(?<!:)//.*', "", line) if '"' not in line.split("//")[0] else line
    return any(p.search(code) for p in patterns)


def findings(root):
    """(path, line number, line) of every place that nothing allows, and the entries of ALLOWED that allow nothing."""
    found, used, files = [], set(), list(sources(root))
    texts = {path: "\n".join(lines) for path, lines in files}
    constants = {path: set(CONSTANT.findall(text)) for path, text in texts.items()}
    tables = {path: set(TABLE.findall(text)) - {"return"} for path, text in texts.items()}
    declared = set().union(*(DECLARED.findall(text) for path, text in texts.items() if path.endswith(".h")))
    everywhere = set().union(*(names if path.endswith(".h") else names & declared for path, names in constants.items()))
    sharedTables = set().union(*(names if path.endswith(".h") else names & declared for path, names in tables.items()))
    for path, lines in files:
        words = set(re.findall(r"\w+", texts[path]))
        patterns = SPELT + named(constants[path] | everywhere & words) + lookups(tables[path] | sharedTables & words)
        for number, (line, whole) in enumerate(zip(lines, wholeLines(lines)), 1):
            # What two lines say together, and neither of them alone.
            isSplit = whole != line and not decides(whole[len(line):], patterns)
            if not decides(whole if isSplit else line, patterns):
                continue
            line = whole if isSplit and not decides(line, patterns) else line
            entry = next((e for e in ALLOWED if path.startswith(e[0]) and e[1] in line), None)
            if entry:
                used.add(entry)
            else:
                found.append(f"{path}:{number}: {line}")
    return found, [f"{e[0]} {e[1]}" for e in ALLOWED if e not in used]


class TextDecides(unittest.TestCase):
    def test_nothing(self):
        found, _ = findings(SOURCE)
        self.assertFalse(found, "text decides; give the fact an attribute or a field of its own, or a line in ALLOWED with "
                         "its reason:\n  " + "\n  ".join(found))

    def test_exceptions_are_needed(self):
        self.assertFalse(findings(SOURCE)[1], "exceptions that nothing needs any more")

    def test_planted_lines_are_found(self):
        planted = ['if (graph.find("backward_pass") != std::string::npos) return true;',
                   'return op.getOpType().ends_with("_grad");',
                   'if (ir::opName(user) == "micro_batch") return 1;',
                   'trainable = var.getConf().find("trainable: false") == StringRef::npos;',
                   'if (text.rfind("help: ", 0) == 0) help = text;',
                   'return "loss" == port.name;',
                   'if (text.compare(0, 3, "OPC") == 0) code = text;',
                   'if (name.substr(0, 3) == "opt") return;',
                   'if (l.conf == "optimizer_pass") return;',
                   'return conf.find(kTag) != std::string::npos;',
                   'if (name.starts_with(ir::kPrefix)) return;',
                   'if (name.compare(0, kPrefix.size(), kPrefix) == 0) return;',
                   'if (name.substr(kPrefix.size()) != kSuffix) return;',
                   'isLoss = names[i] == kLossName;',
                   'if (def.origin.library == "built-in") return true;',
                   'const bool isNode = StringRef(l.pythonLoc).contains(": node ");',
                   'if (op.name().contains(kTag)) return;',
                   'if (llvm::is_contained({"loss", "optimizer"}, ir::opName(op))) return;',
                   'return llvm::StringSwitch<Kind>(ir::opName(op)).Case("loss", Kind::kLoss);',
                   'const Kind kind = kKinds.at(op.name);',
                   'if (const auto it = kindTable().find(tensorName(v)); it != end) kind = it->second;',
                   'kind = kKinds[opName(op)];',
                   'if (llvm::is_contained(kNames, name)) return;',
                   'return std::regex_search(name, pattern);',
                   "const size_t mark = slot.rfind('_');",
                   "const auto [file, line] = place.rsplit(':');",
                   'return ir::opName(op) == "micro_batch";', # of two lines
                   'if (graph.find("backward_pass", 0) != npos) return;',
                   'return name == kFarConstant;']
        twoLines = {planted[-3]: 'return ir::opName(op) ==\n"micro_batch";', planted[-2]: 'if (graph.find(\n"backward_pass", 0) != npos) return;'}
        harmless = ['if (record.contains("seed")) return;', 'return isNew ? names.at(name) : "x";', 'x = kKinds.at(kind);', 'call(name,', '"text");',
                    'if (found == kKinds.end()) return;', 'error("the name is \'x\'");', 'if (name.empty()) return;', '// a name == "x" in prose',
                    'json["name"] = name;', 'if (tensor.producer == kNobody) return;', 'word = kKinds[kind];', 'for (auto &n : names) text += n + ", ";']
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "compiler", "sbp"))
            constants = ['constexpr StringRef kTag = "pass_tag: \\"gradient_of:";', 'constexpr char kLossName[] = "loss";',
                         'constexpr llvm::StringLiteral kSuffix("_grad");', "constexpr int kNobody = -1;",
                         'static const std::map<std::string, Kind> kKinds = {{"loss", Kind::kLoss}};',
                         'const std::map<std::string, Kind> &kindTable() {', 'static const std::map<std::string, Kind> kindTable = {', '{"loss", Kind::kLoss}};', '}',
                         'constexpr const char *kNames[] = {"a", "b"};']
            with open(os.path.join(root, "compiler", "sbp", "Planted.cpp"), "w") as f:
                f.write("\n".join(constants + [twoLines.get(line, line) for line in planted] + harmless) + "\n")
            with open(os.path.join(root, "compiler", "sbp", "Planted.h"), "w") as f:
                f.write('constexpr std::string_view kPrefix{"opt"};\nextern const char *const kFarConstant;\n')
            with open(os.path.join(root, "compiler", "sbp", "Far.cpp"), "w") as f:
                f.write('const char *const kFarConstant = "far";\n')
            with open(os.path.join(root, "compiler", "sbp", "Other.cpp"), "w") as f: # whose constant is a number
                f.write("constexpr int kTag = 3;\nif (place.producer == kTag) return;\n")
            found, _ = findings(root)
            self.assertEqual([f.split(": ", 1)[1] for f in found], planted)


if __name__ == "__main__":
    unittest.main()
