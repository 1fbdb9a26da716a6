"""Runs what stands in README.md, docs/ and examples/ in blocks fenced as ```sh, so that what people copy works: the blocks of a page in
order, as scripts in one scratch folder that has models and examples as here. Blocks fenced otherwise are not run.

    PATH=build/bin:$PATH python3 tests/e2e/page_commands.py SOURCE [PAGE ...]
"""
import pathlib
import re
import sys
import textwrap

import tool

SOURCE = pathlib.Path(sys.argv[1]).resolve()
MUST_HAVE = ["README.md", "docs/checkpoints.md", "docs/importing.md", "docs/models.md", "docs/tokenizers.md", "docs/training.md"]


def blocks(page):
    """Those in lists too, which are indented."""
    found = re.findall(r"^( *)```sh\n(.*?)^\1```", (SOURCE / page).read_text(), re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(text) for _, text in found]


def run_page(page):
    with tool.Scratch() as scratch:
        for folder in ("examples", "models"):
            (scratch / folder).symlink_to(SOURCE / folder)
        (scratch / "build").mkdir()
        (scratch / "build/bin").symlink_to(pathlib.Path(scratch.run(["bash", "-c", "command -v mtrun"]).strip()).parent)
        for block in blocks(page):
            scratch.run(["bash", "-euo", "pipefail", "-c", block])
            print(f"ok: {page}: {block.splitlines()[0]}", flush=True)


def test():
    all_pages = [str(path.relative_to(SOURCE)) for part in ("*.md", "docs/*.md", "examples/*/*.md") for path in sorted(SOURCE.glob(part))]
    runnable = [page for page in all_pages if blocks(page)]
    tool.expect(set(MUST_HAVE) <= set(runnable), f"no ```sh blocks, which this test runs: {sorted(set(MUST_HAVE) - set(runnable))}")
    for page in sys.argv[2:] or runnable:
        run_page(page)


tool.main(test)
