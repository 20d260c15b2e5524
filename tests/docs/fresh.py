"""The generated parts of the pages are what the code gives today, and tools/dev/docs.py sees when they are not."""
# SPDX-License-Identifier: Apache-2.0
import os
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
        for name, command in self.build.commands.items():
            if command["options"]:
                part = f"<!-- generated: options {name} -->" if name else "<!-- generated: common-options -->"
                self.assertIn(part, page)

    def test_staleness_is_seen(self):
        page = "x\n<!-- generated: exit-codes -->\nold\n<!-- /generated -->\ny\n"
        new = docs.fill("page", page, self.build)
        self.assertNotIn("old", new)
        self.assertRegex(new, r"\| 70 \|")
        self.assertTrue(new.startswith("x\n") and new.endswith("\ny\n"))
        self.assertEqual(docs.fill("page", new, self.build), new)
        self.assertRaises(ValueError, docs.fill, "page", "<!-- generated: moon -->\n<!-- /generated -->\n", self.build)
        self.assertRaises(ValueError, docs.fill, "page", "<!-- generated: exit-codes -->\n", self.build)

    def test_manual_pages_are_understood(self):
        page = docs_parts.manual(
            '.TH OPC-X 1 "" "opc 1" "opc manual"\n.SH NAME\nopc\\-x \\- does x\n.SH SYNOPSIS\n\\fBopc x\\fR GRAPH [\\fIoptions\\fR]\n'
            ".SH OPTIONS\n.TP\n\\fB\\-o\\fR, \\fB\\-\\-output\\fR \\fIFILE\\fR\nwhere to write\n.TP\n\\fB\\-\\-stats\\fR\\fI[=json]\\fR\ntime\n.SH COMMON OPTIONS\n.TP\n\\fB\\-q\\fR\nno\n"
        )
        self.assertEqual(page["summary"], "does x")
        self.assertEqual(page["options"], [(["-o", "--output"], " FILE", "where to write"), (["--stats"], "[=json]", "time")])


if __name__ == "__main__":
    unittest.main()
