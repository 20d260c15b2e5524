# Links between pages lead somewhere: to a file of the repository, and to a heading of it.
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


if __name__ == "__main__":
    unittest.main()
