# Every error code in the sources has a section in docs/errors.md, and every section has a code in the sources.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys

root = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
used = {}
for folder in ("compiler", "kernels", "proto", "runtime", "tools"):
    for directory, _, names in os.walk(os.path.join(root, folder)):
        for name in sorted(names):
            if not name.endswith((".cpp", ".h", ".td", ".in", ".py")):
                continue
            path = os.path.join(directory, name)
            with open(path, encoding="utf-8") as f:
                for number, line in enumerate(f, 1):
                    # A code in a comment is talk about the code; in a string it is the code. Messages may begin with it.
                    for text in re.findall(r'"((?:[^"\\]|\\.)*)"', line.split(" // ")[0]):
                        for code in re.findall(r"\bOPC\d{4}\b", text):
                            used.setdefault(code, f"{os.path.relpath(path, root)}:{number}")

with open(os.path.join(root, "docs", "errors.md"), encoding="utf-8") as f:
    page = f.read()
sections = re.findall(r"^## (OPC\d{4}) — \S", page, re.M)

# A code that comes as a warning is in the list of those that --Werror takes, and is called one in its section.
WARNS = re.compile(r"DiagnosticSeverity::Warning\)|back\(\)\.severity = Severity::kWarning|(?:\.|->)warn\([^;]*?\"OPC\d{4}\"")
warnings = set()
for directory, _, names in os.walk(os.path.join(root, "compiler")):
    for name in (n for n in sorted(names) if n.endswith(".cpp")):
        with open(os.path.join(directory, name), encoding="utf-8") as f:
            text = f.read()
        warnings |= {re.findall(r'"(OPC\d{4})"', text[: m.end()])[-1] for m in WARNS.finditer(text)}
with open(os.path.join(root, "compiler", "diagnostics", "DiagnosticList.h"), encoding="utf-8") as f:
    listed = set(re.findall(r"OPC\d{4}", re.search(r"kWarningCodes\[\] = \{([^}]*)\}", f.read()).group(1)))
called = {code for code, body in re.findall(r"^## (OPC\d{4}) — (.*?)(?=^## |\Z)", page, re.M | re.S) if "warning" in body}

failures = [f"{where}: {code} has no section in docs/errors.md" for code, where in used.items() if code not in sections]
failures += [f"docs/errors.md: no source uses {code}" for code in sections if code not in used]
failures += [f"docs/errors.md: {code} has two sections" for code in sorted(set(sections)) if sections.count(code) > 1]
failures += [f"DiagnosticList.h: {code} is a warning, or in kWarningCodes, and not both" for code in warnings ^ listed]
failures += [f"docs/errors.md: {code} comes as a warning, and its section does not say so" for code in warnings - called]
failures += [f"docs/errors.md: the section of {code} speaks of a warning, which no source reports" for code in called - warnings]
failures += ["docs/errors.md: sections are not sorted"] if sections != sorted(sections) else []
for failure in sorted(failures):
    print(failure, file=sys.stderr)
sys.exit(1 if failures else 0)
