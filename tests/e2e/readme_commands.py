"""Runs every command of README.md that stands in a block fenced as ```sh, in order, in one scratch clone of the folder, so
that what people copy works. Blocks fenced otherwise are not run; the set-up scripts have tests of their own.

    PATH=build/bin:$PATH python3 tests/e2e/readme_commands.py SOURCE
"""
import pathlib
import re
import sys

import tool

SOURCE = pathlib.Path(sys.argv[1])
SCRIPTS = ("tools/demo.sh", "tools/test.sh", "tools/setup.sh", "cd ", "git clone")


def commands(text):
    """Lines of the sh blocks, continuation lines joined, comments dropped."""
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in re.sub(r"\\\n\s*", " ", block).splitlines():
            line = line.split(" #")[0].strip()
            if line and not line.startswith("#"):
                yield line


def test():
    listed = list(commands((SOURCE / "README.md").read_text()))
    own = [c for c in listed if not c.startswith(SCRIPTS)]
    for script in re.findall(r"tools/\w+\.sh", "\n".join(listed)):
        if not (SOURCE / script).exists():
            raise tool.Failure(f"README.md names {script}, which does not exist")
    if not own:
        raise tool.Failure("README.md has no commands in ```sh blocks; they are what this test runs")
    with tool.Scratch() as scratch:
        (scratch / "models").symlink_to(SOURCE / "models")
        for command in own:
            scratch.run(["bash", "-ec", command.replace("build/bin/", "")])
            print(f"ok: {command}", flush=True)


tool.main(test)
