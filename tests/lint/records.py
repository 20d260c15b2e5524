# Decision records have one form, and the index lists them all: docs/adr/template.md is the form, docs/adr/README.md the index.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import unittest

FOLDER = os.path.join(os.environ["OPC_SOURCE_DIR"], "docs", "adr")
STATUS = re.compile(r"Status: (proposed|accepted|superseded by (\d{4})), \d{4}-\d\d-\d\d")


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as f:
        return f.read()


RECORDS = sorted(n for n in os.listdir(FOLDER) if re.match(r"\d{4}-.*\.md$", n))


def faults(name, text):
    """What is wrong with the form of one record."""
    lines, number = text.split("\n"), name[:4]
    found = []
    if not re.match(rf"# {number}: [A-Z`0-9]", lines[0]):
        found.append(f"the title is not '# {number}: A sentence'")
    status = STATUS.fullmatch(lines[2]) if len(lines) > 2 else None
    if not status:
        found.append("the third line is not 'Status: accepted, YYYY-MM-DD' (or proposed, or superseded by NNNN)")
    elif status.group(2) and not any(r.startswith(status.group(2)) for r in RECORDS):
        found.append(f"record {status.group(2)}, which supersedes it, does not exist")
    sections = re.findall(r"^## (.*)$", text, re.M)
    if [s for s in sections if s != "Alternatives"] != ["Context", "Decision", "Consequences"]:
        found.append(f"sections are {sections}, not Context, Decision, (Alternatives,) Consequences")
    return found


class Records(unittest.TestCase):
    def test_form(self):
        wrong = [f"docs/adr/{n}: {fault}" for n in RECORDS for fault in faults(n, read(n))]
        self.assertFalse(wrong, "\n".join(wrong))

    def test_numbers(self):
        self.assertEqual([n[:4] for n in RECORDS], [f"{i:04}" for i in range(1, len(RECORDS) + 1)], "numbers have gaps or repeat")

    def test_index(self):
        rows = re.findall(r"^\| \[(\d{4})\]\((.*?)\) \| (.*?) \| (.*?) \|$", read("README.md"), re.M)
        wanted = []
        for n in RECORDS:
            lines = read(n).split("\n")
            wanted.append((n[:4], n, lines[0][len("# 0000: ") :], lines[2][len("Status: ") :].split(",")[0]))
        self.assertEqual(rows, wanted, "docs/adr/README.md does not list the records as they are")

    def test_the_check_can_fail(self):
        good = read("template.md").replace("NNNN:", "0001:").replace("proposed | accepted | superseded by NNNN, YYYY-MM-DD", "accepted, 2026-01-01")
        self.assertEqual(faults("0001-x.md", good), [])
        self.assertTrue(faults("0002-x.md", good))
        self.assertTrue(faults("0001-x.md", good.replace("Status: accepted", "**Status**: accepted")))
        self.assertTrue(faults("0001-x.md", good.replace("## Consequences", "## Results")))


if __name__ == "__main__":
    unittest.main()
