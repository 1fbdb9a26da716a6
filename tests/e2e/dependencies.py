"""The dependency rule of docs/overview.md: which part may include which, and what the runtime's program links.

    python3 tests/e2e/dependencies.py SOURCE BUILD
"""
import pathlib
import re
import subprocess
import sys

import tool

SOURCE, BUILD = map(pathlib.Path, sys.argv[1:3])

# A file belongs to the longest prefix here, and may include its own part and those named. runtime/base (errors, files,
# sizes) lies below everything. "kernels:Catalogue" is the header that compiler and runtime share, and its library.
BASE = "runtime/base"
CATALOGUE = "kernels"
RUNTIME = ["runtime/jinja", "runtime/tokenizer", "runtime/plan", "runtime/network", "runtime/device", "runtime/host", "runtime/executor", "runtime/probe", "runtime/train"]
MAY = {
    BASE: [],
    CATALOGUE: [BASE],
    "kernels/cpu": [BASE, CATALOGUE],
    "kernels/cuda": [BASE, CATALOGUE],
    "runtime/jinja": [BASE],
    "runtime/tokenizer": [BASE],
    "runtime/plan": [BASE, CATALOGUE],
    "runtime/network": [BASE, CATALOGUE],
    "runtime/host": [BASE, CATALOGUE, "runtime/plan"],
    "runtime/device": [BASE, CATALOGUE, "kernels/cpu", "kernels/cuda", "runtime/plan", "runtime/host", "runtime/network"],
    "runtime/executor": [BASE, CATALOGUE, "runtime/plan", "runtime/host", "runtime/device", "runtime/network"],
    "runtime/probe": [BASE, CATALOGUE, "runtime/plan", "runtime/host", "runtime/device", "runtime/network"],
    "runtime/train": [BASE, CATALOGUE, *RUNTIME],
    "compiler/nn": [BASE, CATALOGUE],
    "compiler/schedule": [BASE, CATALOGUE, "compiler/nn"],
    "compiler/onnx": [BASE, CATALOGUE, "compiler/nn", "third_party/onnx"],
    "compiler/target": [BASE, CATALOGUE, "compiler/nn"],
    "compiler/planner": [BASE, CATALOGUE, "compiler/target", "runtime/plan"],
    # The passes share with the runtime how a command's accesses are listed and verified: plain structs, no messages.
    "passes/algorithms": [BASE, CATALOGUE, "runtime/plan"],
    "passes": [BASE, CATALOGUE, "compiler/nn", "compiler/schedule", "compiler/target", "compiler/planner", "passes/algorithms", "runtime/plan"],
    "compiler/plan": [BASE, CATALOGUE, "compiler/nn", "compiler/schedule", "compiler/target", "runtime/plan", "passes"],
    "compiler/pipeline": [BASE, CATALOGUE, "compiler/nn", "compiler/schedule", "compiler/onnx", "compiler/target", "compiler/planner",
                          "compiler/plan", "passes", "runtime/plan", "models"],
    # Made-up weights are the runtime's own generator, so that the numbers agree; checkpoints, its own reader.
    "models": [BASE, CATALOGUE, "runtime/host", "runtime/train", "third_party/onnx"],
}
PARTS = sorted(MAY, key=len, reverse=True)
OURS = ("kernels/", "runtime/", "compiler/", "passes/", "models/", "third_party/", "tools/", "tests/")
MLIR_FREE = ("compiler/target", "compiler/planner", "passes/algorithms")
FORBIDDEN_IN_RUNTIME = ("mlir/", "llvm/", "third_party/onnx")
FORBIDDEN_LIBRARIES = re.compile(r"libMLIR|libLLVM|onnx|libmpi", re.IGNORECASE) # MPI is loaded where there are ranks


def part_of(path):
    return next((p for p in PARTS if path == p or path.startswith(p + "/")), None)


def included_part(header):
    return "third_party/onnx" if header.startswith("third_party/onnx/") else part_of(header)


def check_file(path, wrong):
    name = path.relative_to(SOURCE).as_posix()
    part = part_of(name)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'\s*#\s*include\s*["<]([^">]+)[">]', line)
        if not found:
            continue
        header = found.group(1)
        if part in MLIR_FREE and header.startswith(("mlir/", "llvm/")):
            wrong.append(f"{name}:{number}: {part} is free of MLIR and includes {header}")
        if part.startswith(("runtime", "kernels")) and header.startswith(FORBIDDEN_IN_RUNTIME):
            wrong.append(f"{name}:{number}: {part} includes {header}")
        if not header.startswith(OURS):
            continue
        target = included_part(header)
        if target != part and target not in MAY[part]:
            wrong.append(f"{name}:{number}: {part} may not include {header}; it may use {', '.join(MAY[part]) or 'nothing of ours'}")


def check_messages(wrong):
    """The one place that knows the plan's messages."""
    for path in sources("compiler", "passes"):
        text, name = path.read_text(), path.relative_to(SOURCE).as_posix()
        if "plan.pb.h" in text:
            wrong.append(f"{name}: only runtime/plan knows the plan's messages")


def sources(*folders):
    for folder in folders:
        yield from (p for p in sorted((SOURCE / folder).rglob("*")) if p.suffix in (".h", ".cpp"))


def check_links(wrong):
    """What mtrun needs at run time, and every library on its link line."""
    program = BUILD / "bin/mtrun"
    listed = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    wrong += [f"ldd mtrun: {line.strip()}" for line in listed.splitlines() if FORBIDDEN_LIBRARIES.search(line)]
    if (BUILD / "build.ninja").exists():
        commands = subprocess.run(["ninja", "-C", BUILD, "-t", "commands", "bin/mtrun"], capture_output=True, text=True, check=True).stdout
        link = commands.strip().splitlines()[-1]
        wrong += [f"mtrun's link line: {word}" for word in link.split() if FORBIDDEN_LIBRARIES.search(word) or re.search(r"libmt_(nn|schedule|passes|pipeline|onnx)", word)]


def test():
    wrong = []
    for path in sources("kernels", "runtime", "compiler", "passes", "models"):
        check_file(path, wrong)
    check_messages(wrong)
    check_links(wrong)
    if wrong:
        raise tool.Failure("the dependency rule is broken:\n" + "\n".join(wrong))


tool.main(test)
