# Text decides nothing: no comparison and no search with a literal, or a constant that is one, on names, locations and serialized text.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import tempfile
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
FOLDERS = ("compiler", "runtime", "tools")

# A name, location, message or text of a file. The types of ops are no names: the registry keeps them apart, and a rewrite
# for one operator asks for its type.
NAMED = r'(?:[nN]ame|[nN]ames|opName|tensorName|[lL]oc|[lL]ocation|[sS]ubject|[mM]essage|[cC]onf|text|bytes|producer)'
# constexpr StringRef kTag = "gradient_of:"; kTag("..."), kTag[] = "...", kTag{"..."}.
CONSTANT = re.compile(r'\b(k[A-Z]\w*)(?:\[\w*\])?(?: = \{?|[({] *)"')


def deciding(literal):
    """What finds the lines where such a literal decides."""
    return [
        # A search for it: text.find("backward_pass"), name.ends_with("_grad"), s.compare(0, 3, "OPC").
        re.compile(r'[.>](?:find|rfind|starts_with|ends_with|contains_insensitive|compare|consume_front|consume_back)'
                   r'\((?:[^()"]*(?:\(\))?, *)?' + literal),
        # A part of a text that is one: name.substr(0, 3) == "opt".
        re.compile(r'substr\([^()]*(?:\(\))?\) *[=!]= *' + literal),
        # What is called like a name: opName(op) == "micro_batch".
        re.compile(NAMED + r'(?:\(\w*\)|\[\w+\])?(?:\.str\(\)|\.getValue\(\))? *[=!]= *' + literal),
    ]


SPELT = deciding('"') + [re.compile(r'"[^"]*" *[=!]= *[\w.>()-]*' + NAMED + r'\b')]

# Where text is what is read. Each with its reason; a path, or a path and what the line has in it.
ALLOWED = [
    ("tools/opc/cli/", "", "reads the command line and the settings"),
    ("compiler/codegen/CodeCache.cpp", "", "names of its own files, and how they begin"),
    ("compiler/fusion/RegionWriter.cpp", "kGradientOfAttr", "the name of an attribute of the dialect, and no op's"),
    ("compiler/schedule/UpdateBatches.cpp", "kShardingAttr", "the name of an attribute of the dialect, and no op's"),
    ("runtime/session/Session.cpp", "kPartsAttr", "looks up a number of a task by its key: the name that the definition of the op gives it"),
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
    ("tools/opc/commands/Check.cpp", "kGit", "reads a revision that the user has typed"),
    ("tools/opc/graph/FactsInput.cpp", "kStart", "tells kinds of files by their bytes"),
    ("tools/opc/graph/GitFiles.cpp", "kOfCommit", "a revision that the user has typed"),
    ("tools/opc/graph/GitFiles.cpp", "kScheme", "a path that the user has typed"),
    ("tools/opc/commands/Quantize.cpp", '", or opc run --input "', "a help is shortened, and nothing else"),
    ("tools/opc/graph/OnnxOutput.cpp", "kDigits", "names of its own files"),
    ("tools/opc/graph/Reproducer.cpp", "kByteOrderMark", "how a file begins"),
    ("tools/opc/training/CheckpointKeeper.cpp", "kStep", "names of its own files"),
    ("tools/opc/training/RunIdentity.cpp", "kContent", "keys of a file's metadata"),
    ("compiler/emitter/PlanEmitter.cpp", '": node "', "a place's file without its folder: of what is shown, and nothing else"),
    ("compiler/pipeline/DiagnosticHandler.cpp", '": node "', "how a place is worded: of what is shown, and nothing else"),
    ("tools/opc/main.cpp", "", "reads the command line"),
    ("tools/opc/crash/CrashRecord.cpp", "", "reads the environment"),
    ("tools/opc/debug/", "", "reads command lines of bundles"),
    ("tools/opc/commands/Complete.cpp", "", "completes what the user has typed"),
    ("tools/python/core/PythonWords.cpp", "", "says the command's messages in Python's words"),
    ("tools/opc/values/", "", "reads values that the user has typed"),
    ("tools/opc/text/", "", "reads numbers and modes that the user has typed"),
    ("tools/opc/graph/GitFiles.cpp", "why.find", "git says in words alone what is wrong; the help follows, and nothing else"),
    ("tools/opc/graph/GitFiles.cpp", '".."', "a range that the user has typed"),
    ("tools/opc/graph/GraphSelection.cpp", '".."', "reads A..B"),
    ("tools/opc/graph/ShapeFlags.cpp", "", "reads shapes that the user has typed"),
    ("tools/opc/training/TrainingFlags.cpp", "", "reads settings that the user has typed"),
    ("tools/opc/training/TrainingOptions.cpp", '"=@"', "reads NAME=@FILE"),
    ("tools/opc/training/TrainingRun.cpp", "metadata", "a key of a file's metadata"),
    ("tools/opc/check/GraphCheck.cpp", "plain.rfind", "reads a pattern that the user has typed"),
    ("tools/opc/reports/GraphDrawing.cpp", '"->"', "a signature's text gives an op its colour, and nothing else"),
    ("tools/opc/reports/MachineReport.cpp", "library", "file names of shared libraries"),
    ("tools/opc/reports/OpReport.cpp", "origin.file", "a path of the sources is shown shorter"),
    ("tools/opc/run/RunRanks.cpp", '"-C"', "an option of the command line is handed on"),
    ("tools/opc-bench/", "", "its own notation for networks"),
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
    ("tools/opc/check/GraphCheck.cpp", '"*"', "reads which rules the user leaves out"),
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
    return deciding(r"(?:\w+::)*(?:" + "|".join(sorted(constants)) + r")\b(?!\[)") if constants else []


def decides(line, patterns):
    code = re.sub(r'(?<!:)//.*', "", line) if '"' not in line.split("//")[0] else line
    return any(p.search(code) for p in patterns)


def findings(root):
    """(path, line number, line) of every place that nothing allows, and the entries of ALLOWED that allow nothing."""
    found, used, files = [], set(), list(sources(root))
    constants = {path: set(CONSTANT.findall("\n".join(lines))) for path, lines in files}
    everywhere = set().union(*(names for path, names in constants.items() if path.endswith(".h")))
    for path, lines in files:
        text = "\n".join(lines)
        own = constants[path] | {name for name in everywhere if name in text}
        for number, line in enumerate(lines, 1):
            if not decides(line, SPELT + named(own)):
                continue
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
                   'isLoss = names[i] == kLossName;']
        harmless = ['error("the name is \'x\'");', 'if (name.empty()) return;', '// a name == "x" in prose',
                    'json["name"] = name;', 'if (tensor.producer == kNobody) return;', 'word = kKinds[kind];', 'for (auto &n : names) text += n + ", ";']
        with tempfile.TemporaryDirectory() as root:
            os.makedirs(os.path.join(root, "compiler", "sbp"))
            constants = ['constexpr StringRef kTag = "pass_tag: \\"gradient_of:";', 'constexpr char kLossName[] = "loss";',
                         'constexpr llvm::StringLiteral kSuffix("_grad");', "constexpr int kNobody = -1;"]
            with open(os.path.join(root, "compiler", "sbp", "Planted.cpp"), "w") as f:
                f.write("\n".join(constants + planted + harmless) + "\n")
            with open(os.path.join(root, "compiler", "sbp", "Planted.h"), "w") as f:
                f.write('constexpr std::string_view kPrefix{"opt"};\n')
            with open(os.path.join(root, "compiler", "sbp", "Other.cpp"), "w") as f: # whose constant is a number
                f.write("constexpr int kTag = 3;\nif (place.producer == kTag) return;\n")
            found, _ = findings(root)
            self.assertEqual([f.split(": ", 1)[1] for f in found], planted)


if __name__ == "__main__":
    unittest.main()
