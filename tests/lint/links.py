# Links between pages lead to files and headings that exist, and the layout on the architecture's page is that of the folders.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import unittest

SOURCE = os.environ["OPC_SOURCE_DIR"]


def pages():
    found = [n for n in os.listdir(SOURCE) if n.endswith(".md")]
    for top in ("docs", ".github", "tests"):
        for folder, folders, names in os.walk(os.path.join(SOURCE, top)):
            found += [os.path.relpath(os.path.join(folder, n), SOURCE) for n in names if n.endswith(".md")]
    return sorted(found)


def read(page):
    with open(os.path.join(SOURCE, page), encoding="utf-8") as f:
        return re.sub(r"^```.*?^```", "", f.read(), flags=re.M | re.S)


def anchors(text):
    """The anchors of a page's headings, as GitHub makes them."""
    found = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.M):
        plain = re.sub(r"[^\w\- ]", "", re.sub(r"\[(.*?)\]\(.*?\)", r"\1", heading).lower())
        found.add(plain.strip().replace(" ", "-"))
    return found


def broken(page, text):
    wrong = []
    for target in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text)):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
        if not os.path.exists(os.path.join(SOURCE, file)):
            wrong.append(f"{page}: ({target}): there is no {file}")
        elif anchor and file.endswith(".md") and anchor not in anchors(read(file)):
            wrong.append(f"{page}: ({target}): {file} has no heading '{anchor}'")
    return wrong


class Links(unittest.TestCase):
    def test_links(self):
        wrong = [w for page in pages() for w in broken(page, read(page))]
        self.assertEqual(wrong, [], "\n".join(wrong))

    def test_the_check_can_fail(self):
        self.assertTrue(broken("README.md", "[a](docs/nowhere.md)"))
        self.assertTrue(broken("README.md", "[a](docs/cli.md#nowhere)"))
        self.assertEqual(broken("README.md", "[a](docs/cli.md#exit-codes) [b](https://example.org/x) `[c](d)`"), [])


def layout(text):
    """top folder -> the folders that the layout names in it; for tests, in words."""
    block = re.search(r"^## Layout.*?^```text\n(.*?)^```", text, re.M | re.S).group(1)
    found, top = {}, None
    for line in block.split("\n"):
        if match := re.match(r"(\w+)/(\S*)", line):
            top = match.group(1)
            found.setdefault(top, set()).update({match.group(2).split("/")[0]} - {""})
            if top == "tests":
                found[top] |= set(re.findall(r"[a-z]+", line.split("(")[0])) - {"tests"}
        elif line.startswith("  ") and not line.startswith("   "):
            names = re.match(r"((?: *[\w<>-]+/[\w<>/-]*)+)", line[2:]).group(1)
            found[top] |= {n.split("/")[0] for n in names.split()}
    return found


class Layout(unittest.TestCase):
    def test_folders(self):
        with open(os.path.join(SOURCE, "docs", "architecture.md"), encoding="utf-8") as f:
            named = layout(f.read())
        for top in ("compiler", "runtime", "kernels", "tools", "tests", "proto"):
            folder = os.path.join(SOURCE, top)
            there = {n for n in os.listdir(folder) if os.path.isdir(os.path.join(folder, n)) and not n.startswith(("_", "."))}
            there = {n for n in there if any(files for _, _, files in os.walk(os.path.join(folder, n)))}
            self.assertEqual(named[top], there, f"docs/architecture.md, Layout: the folders of {top}/")

    def test_the_check_can_fail(self):
        text = "## Layout\n\n```text\na/   x\n  b/ c/d/   y\ntests/   unit, ir (page)\n```\n"
        self.assertEqual(layout(text), {"a": {"b", "c"}, "tests": {"unit", "ir"}})


if __name__ == "__main__":
    unittest.main()
