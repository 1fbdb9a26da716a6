"""An example of examples/ does what its README says: run.sh succeeds, the loss of its last line is below what the page says, and
every file that the page names is there.

    PATH=build/bin:$PATH python3 tests/e2e/examples.py SOURCE NAME
"""
import pathlib
import re
import sys

import tool

SOURCE, NAME = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2]


def test():
    page = (SOURCE / "examples" / NAME / "README.md").read_text()
    with tool.Scratch() as scratch:
        for folder in ("examples", "models"):
            (scratch / folder).symlink_to(SOURCE / folder)
        (scratch / "bin").mkdir()
        (scratch / "bin/python3").symlink_to(sys.executable)  # the one that has numpy
        out = scratch.run(["bash", "-c", f"PATH=$PWD/bin:$PATH examples/{NAME}/run.sh"])
        last = out.splitlines()[-1]
        (most,) = re.findall(r"below\s+(\d+\.\d+)", page)
        losses = re.findall(r"loss (\d+\.\d+)", last)
        tool.expect(last.startswith(f"{NAME}: ") and losses, f"the last line says no loss: {last}")
        tool.expect(float(losses[-1]) < float(most), f"{last}: the page says below {most}")
        named = re.findall(r"`(runs/[^`]+)`", page)
        tool.expect(named and all((scratch / path).exists() for path in named), f"not all there: {named}")


tool.main(test)
