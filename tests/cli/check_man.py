"""Renders the manual pages in a folder with man, which says what roff does not understand; without man, reads them."""
# SPDX-License-Identifier: Apache-2.0
import glob
import os
import shutil
import subprocess
import sys

pages = sorted(glob.glob(os.path.join(sys.argv[1], "*.1")))
assert len(pages) >= 10, pages
if not shutil.which("man"):
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
    from run_script import skip

    if skip("man", "man is not installed: the pages are not rendered"):
        sys.exit(1)
for page in pages:
    with open(page, encoding="utf-8") as f:
        text = f.read()
    for section in ("NAME", "SYNOPSIS", "EXIT STATUS", "SEE ALSO"):
        assert f".SH {section}\n" in text, f"{page}: no {section}"
    if shutil.which("man"):
        env = dict(os.environ, LC_ALL="C.UTF-8", MANWIDTH="100", MANROFFOPT="-wall")
        done = subprocess.run(["man", "--warnings", "-E", "UTF-8", "-P", "cat", "-l", page], capture_output=True, text=True, env=env)
        assert done.returncode == 0 and not done.stderr.strip(), f"{page}: {done.stderr}"
        assert "opc" in done.stdout
        if page.endswith("opc-run.1"):
            assert "--fill rand|zeros|ones|iota" in done.stdout, done.stdout
