"""Every relative link of the documents leads to a file that exists.

    python3 tests/e2e/links.py SOURCE
"""
import pathlib
import re
import sys

import tool

SOURCE = pathlib.Path(sys.argv[1])


def test():
    broken = []
    for page in [*SOURCE.glob("*.md"), *SOURCE.glob("docs/*.md"), *SOURCE.glob("examples/*/*.md")]:
        for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text()):
            if "://" not in target and not (page.parent / target).exists():
                broken.append(f"{page.relative_to(SOURCE)}: {target}")
    if broken:
        raise tool.Failure("links that lead nowhere:\n" + "\n".join(broken))


tool.main(test)
