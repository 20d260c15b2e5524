"""The generated parts of the pages are what the code gives today, and tools/dev/docs.py sees when they are not."""
# SPDX-License-Identifier: Apache-2.0
import os
import re
import sys
import unittest

SOURCE, BUILD = os.environ["OPC_SOURCE_DIR"], os.environ["OPC_BUILD_DIR"]
sys.path.insert(0, os.path.join(SOURCE, "tools", "dev"))
import docs
import docs_parts


class Fresh(unittest.TestCase):
    build = docs_parts.Build(os.path.abspath(BUILD))

    def test_pages(self):
        stale = [p for p, text in docs.wanted(self.build).items() if docs.read(p) != text]
        self.assertEqual(stale, [], "stale pages; tools/dev/docs.py --write brings them up to date")

    def test_every_option_is_on_a_page(self):
        """Each command's options stand in docs/cli.md, in a part of its own or among those of every command."""
        page = docs.read("docs/cli.md")
        self.assertIn("<!-- generated: common-options -->", page)
        for command in self.build.cli["commands"]:
            if command["options"] and not command["hidden"]:
                self.assertIn(f"<!-- generated: options {command['name']} -->", page)

    def test_options(self):
        """Names, values and bounds as a reader types them."""
        option = {"name": "--threads", "letter": "j", "value": "N", "doc": "threads | cores", "least": 1, "most": 4096}
        stats = {"name": "--stats", "letter": "", "value": "[=json]", "doc": "time", "above": 0}
        rows = docs_parts.option_table([option, stats]).split("\n")
        self.assertEqual(rows[2], "| `-j`, `--threads N` | threads \\| cores; from 1 to 4096 |")
        self.assertEqual(rows[3], "| `--stats[=json]` | time; above 0 |")

    def test_attribute_types(self):
        """The types that the pages promise are those of the SDK's table: what C++ takes, and the fields of graphs."""
        rows = re.findall(r"OPC_ATTR_TYPE\(([\w:<>]+), kAt(\w+)\)", docs.read("kernels/sdk/include/opc/Attr.h"))
        lists = {cpp[len("std::vector<"):-1] for cpp, _ in rows if cpp.startswith("std::vector<")}
        single = {cpp for cpp, _ in rows if not cpp.startswith("std::vector<")}
        said = re.search(r"\*\*Attributes\*\* are of types (.*?), and\s+vectors of (.*?)\s+\(of (.*?) there is none\)", docs.read("docs/writing-an-op.md"), re.S)
        self.assertIsNotNone(said)
        found = [set(re.findall(r"std::string|\b(?!and\b)\w+", part)) for part in said.groups()]
        self.assertEqual(found, [single, lists, single - lists])
        fields = re.search(r"An attribute has one of (.*?)\. One", docs.read("docs/graph-format.md"), re.S).group(1)
        snake = {"at" + re.sub(r"([A-Z])", lambda c: "_" + c.group(1).lower(), kind) for _, kind in rows}
        self.assertEqual(set(re.findall(r"`(\w+)`", fields)), snake)

    def test_staleness_is_seen(self):
        page = "x\n<!-- generated: exit-codes -->\nold\n<!-- /generated -->\ny\n"
        new = docs.fill("page", page, self.build)
        self.assertNotIn("old", new)
        self.assertRegex(new, r"\| 70 \|")
        self.assertTrue(new.startswith("x\n") and new.endswith("\ny\n"))
        self.assertEqual(docs.fill("page", new, self.build), new)
        self.assertRaises(ValueError, docs.fill, "page", "<!-- generated: moon -->\n<!-- /generated -->\n", self.build)
        self.assertRaises(ValueError, docs.fill, "page", "<!-- generated: exit-codes -->\n", self.build)


if __name__ == "__main__":
    unittest.main()
