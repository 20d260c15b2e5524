# The command line that was asked for, held against the one that is there: every command, option and value of the page
# that describes it either exists or stands below with the reason why it does not. A reason for what exists is wrong, too.
# The page itself, ../shared/CLI.md beside the repository, is compared with the table here where it lies there.
# SPDX-License-Identifier: Apache-2.0
import json
import os
import re
import subprocess
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]
OPC = os.path.join(os.environ["OPC_BUILD_DIR"], "bin", "opc")
PAGE = os.path.join(SOURCE, "..", "shared", "CLI.md")

PHASES = "import|shape|grad|sbp|boxing|tasks|memory|plan"

# By command: options, and after '=' the words that they take. "" has what all commands share.
TABLE = {
    "": "-C --config --plugin --device=cpu|gpu|gpu:1|cpu:0-3 -j --deterministic -q -v --log --json"
    " --color=auto|always|never --progress=auto|plain|none|json --trace --timing --no-cache --mlir --version -h"
    " --help=all --no-input",
    "compile": f"-o --to={PHASES}|help --from={PHASES} --emit=plan|mlir|mlirbc|pbtxt|json --mode=infer|train --placement --mesh --sbp"
    " --shape --dump=changed --dump-filter --stats=json --device-memory --Werror --reproducer --max-errors",
    "run": "--input --inputs --weights --fill=rand|zeros|ones|iota --seed --output --outputs --print=none|summary|all --expect"
    " --expects --rtol --atol --metric --nan=equal --reference=cpu --until --feed --only --capture --capture-stats"
    " --trap=nan|inf|denormal --observe=sync|access|profile --ranks --repeat --warmup --stats --report --trace --cast"
    " --cast-ops --place --exit-zero",
    "grad": "--loss --wrt -o --emit=joint|backward --check --eps --samples --explain",
    "quantize": "--calibrate --keep -o",
    "check": "--against --update --use=INTERFACE|SEMANTIC|PARALLEL|COST|EXACT --except --ignore --no-run"
    " --format=text|json|jsonl|github|gitlab|junit|sarif|markdown --report --unreferenced=error|warn|delete --twice"
    " --list-rules --update-in-ci --all --exit-zero --device-memory",
    "diff": "--quiet --stat --full --ignore=sbp|cost|names --as=text|json|html|svg|model-explorer",
    "show": "--what=summary|ops|tensors|sbp|boxing|tasks|memory|cost|phases"
    " --as=text|json|csv|svg|dot|html|onnx|model-explorer --op --around --depth --paths",
    "bench": "--baseline",
    "debug": "--device --inputs --chain --check --reference",
    "ops": "--missing=grad|gpu|sbp",
    "plugin": "",
    "explain": "",
    "doctor": "",
    "completion": "",
    "cache": "",
    "config": "",
    "report": "-o",
    "help": "",
    "version": "",
}

# What a command takes as its first argument.
WORDS = {"debug": "first-diff|reduce|replay", "plugin": "check", "completion": "bash|zsh|fish", "explain": "exit-codes"}

SETTINGS = "check.paths check.use check.except check.ignore check.cost target.devices target.plugins"

# Where an item has another name here.
OTHER_NAMES = {
    "compile --emit json": ("show", "--as", "json"),  # the graph as JSON
    "compile --placement": ("compile", "--mesh"),  # a Job's own placement is in the graph; --mesh, --stage and --sbp say the rest
    "compile --dump changed": ("compile", "--dump-changed"),  # --dump takes a folder, which may be called so
}

# Options of other programs, which the page compares with.
OTHERS_OPTIONS = {"--jobs", "--html"}

NOT_BUILT = {
    "--device gpu:1": "is taken: the help names the kinds of devices",
    "--device cpu:0-3": "several devices of a kind are a mesh: --mesh 4 and --ranks 4",
    "--trace": "opc run and opc compile have it; what other commands do is no compilation or run of its own",
}


def described():
    done = subprocess.run([OPC, "__commands"], capture_output=True, text=True, timeout=60, check=True)
    return json.loads(done.stdout)


def complete(*words):
    done = subprocess.run([OPC, "__complete", "--", *words], capture_output=True, text=True, timeout=60, check=True)
    return {line.split("\t")[0] for line in done.stdout.splitlines()}


def options_of(text):
    """(option, words) of a row of the table."""
    for part in text.split():
        option, _, words = part.partition("=")
        yield option, [w for w in words.split("|") if w]


def asked():
    """Every item of the table as the words of a command line: "run", "run --fill", "run --fill rand"."""
    for command, row in TABLE.items():
        if command:
            yield (command,)
        for option, words in options_of(row):
            yield (command, option)
            yield from ((command, option, word) for word in words)
        yield from ((command, word) for word in WORDS.get(command, "").split("|") if word)
    yield from (("config", name) for name in SETTINGS.split())


class Program:
    """What the program says that it has."""

    def __init__(self):
        document = described()
        self.commands = {c["name"]: c for c in document["commands"] if not c["hidden"]}
        self.common = document["common_options"]

    def find(self, command, name):
        own = self.commands[command]["options"] if command else []
        for option in own + self.common:
            if name in (option["name"], "-" + option["letter"]):
                return option
        return None

    def has(self, command, name="", word=""):
        if command and command not in self.commands:
            return False
        if not name or (command, name) in (("", "--version"), ("", "-h")):
            return True
        if not name.startswith("-"):
            return name in complete(command, "")
        option = self.find(command, name)
        if option is None:
            return False
        if not word:
            return True
        if word in option.get("choices", []) or f"[={word}]" == option["value"]:
            return True
        return word in complete(*filter(None, [command]), *["net.pbtxt"] * bool(command), name, "")


class Page(unittest.TestCase):
    """What the page itself names."""

    @classmethod
    def setUpClass(cls):
        with open(PAGE, encoding="utf-8") as f:
            text = f.read()
        cls.parts = {}
        for part in re.split(r"\n(?=#{2,3} )", text):
            cls.parts[part.split("\n", 1)[0]] = part
        cls.commands = next(part for head, part in cls.parts.items() if "6.2" in head)

    def test_every_option_is_in_the_table(self):
        known = {option for row in TABLE.values() for option, _ in options_of(row)}
        named = set()
        for head, part in self.parts.items():
            if "What users ask for" not in head and "formats" not in head.lower():
                named |= set(re.findall(r"(?<![-\w])--[a-z][-a-z]*[a-z]|(?<![-\w])--Werror", part))
        self.assertEqual(named - known - OTHERS_OPTIONS, set())

    def test_words_of_commands(self):
        """`--what summary|ops|...` in the paragraph of a command is what the command's row has."""
        for command, row in TABLE.items():
            part = re.search(rf"\*\*{command or 'Common'}\*\*(.*?)(?=\n\*\*|\Z)", self.commands, re.S)
            if not part:
                continue
            rows = dict(options_of(row))
            for option, words in re.findall(r"(--[a-z-]+) ((?:[a-z-]+\|)+[a-z-]+)", part.group(1)):
                missing = [w for w in words.split("|") if w not in rows[option]]
                self.assertEqual(missing, [], f"{command} {option}")

    def test_commands(self):
        block = self.commands.split("```")[1]
        named = set(re.findall(r"^  ([a-z]+) ", block, re.M)) | set(re.findall(r"also: (.*)\)", block)[0].split(", "))
        self.assertEqual(named - set(TABLE), set())


class EveryItem(unittest.TestCase):
    def test_exists_or_has_a_reason(self):
        program, wrong = Program(), []
        for item in asked():
            text = " ".join(item).strip()
            if program.has(*OTHER_NAMES.get(text, item)) == (text in NOT_BUILT):
                wrong.append(text + (": exists, and has a reason why not" if text in NOT_BUILT else ": missing"))
        self.assertEqual(wrong, [], "\n" + "\n".join(wrong))

    def test_reasons(self):
        items = {" ".join(item).strip() for item in asked()}
        for text, reason in NOT_BUILT.items():
            self.assertIn(text, items)
            self.assertGreater(len(reason), 30, text)
        for text in OTHER_NAMES:
            self.assertIn(text, items)


if not os.path.exists(PAGE):
    del Page


if __name__ == "__main__":
    unittest.main()
