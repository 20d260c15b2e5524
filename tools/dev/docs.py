#!/usr/bin/env python3
"""Writes the parts of the documentation that follow from the code, or with --check says which are stale.

usage: tools/dev/docs.py [--check | --write] [--build DIR] [PAGE...]

A part stands between `<!-- generated: NAME -->` and `<!-- /generated -->`; NAME is a generator of docs_parts.py or docs_numbers.py.
Pages of docs/ops are generated as a whole. Needs a built opc and ctest's files, and no network."""
# SPDX-License-Identifier: Apache-2.0
import argparse
import difflib
import os
import re
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import docs_numbers
import docs_ops
import docs_parts

ROOT = docs_parts.ROOT
PARTS = docs_parts.PARTS | docs_numbers.PARTS
PART = re.compile(r"^(<!-- generated: ([a-z-]+)(?: ([^\n]*?))? -->\n).*?^(<!-- /generated -->)", re.S | re.M)
START = re.compile(r"^<!-- generated: ", re.M)


def pages():
    """Every page that may have generated parts, relative to the root."""
    found = [n for n in os.listdir(ROOT) if n.endswith(".md")]
    for folder, _, names in os.walk(os.path.join(ROOT, "docs")):
        found += [os.path.relpath(os.path.join(folder, n), ROOT) for n in names if n.endswith(".md")]
    return sorted(found)


def read(page):
    try:
        with open(os.path.join(ROOT, page), encoding="utf-8") as f:
            return f.read()
    except FileNotFoundError:
        return None


def fill(page, text, build):
    """The page with every generated part made anew."""

    def part(match):
        name = match.group(2)
        if name not in PARTS:
            raise ValueError(f"{page}: there is no generator '{name}'; there are {', '.join(sorted(PARTS))}")
        arguments = (match.group(3) or "").split()
        return match.group(1) + PARTS[name](build, *arguments).rstrip("\n") + "\n" + match.group(4)

    if len(START.findall(text)) != len(PART.findall(text)):
        raise ValueError(f"{page}: a generated part without its end, '<!-- /generated -->'")
    return PART.sub(part, text)


def wanted(build):
    """page -> text, of every page with something generated; None: the page must not exist."""
    made = docs_ops.pages(build)
    for page in pages():
        text = read(page)
        if page.startswith("docs/ops/"):
            made.setdefault(page, None)
        elif START.search(text):
            made[page] = fill(page, text, build)
    return made


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="say what is stale; exit code 1 when something is")
    parser.add_argument("--write", action="store_true", help="bring the pages up to date (default)")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("page", nargs="*", help="these pages only")
    options = parser.parse_args()
    stale = 0
    for page, text in sorted(wanted(docs_parts.Build(os.path.abspath(options.build))).items()):
        old = read(page)
        if old == text or (options.page and page not in options.page):
            continue
        stale += 1
        if not options.check:
            print(f"docs: {'writing' if text is not None else 'removing'} {page}")
            path = os.path.join(ROOT, page)
            if text is None:
                os.remove(path)
                continue
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as f:
                f.write(text)
            continue
        print(f"docs: {page} is stale; tools/dev/docs.py --write brings it up to date")
        diff = list(difflib.unified_diff((old or "").split("\n"), (text or "").split("\n"), page, "generated", lineterm="", n=0))
        print("\n".join(diff[:20] + (["..."] if len(diff) > 20 else [])))
    return 1 if stale and options.check else 0


if __name__ == "__main__":
    sys.exit(main())
