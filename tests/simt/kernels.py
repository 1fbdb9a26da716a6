"""The conformance suite of kernels on the GPU's kernels, run on the host in several orders of threads: all of it passes, and
every __global__ function of kernels/cuda is run. Prints how often each was launched.

    kernels.py PROGRAM FOLDER_OF_DEVICE_CODE [--brief] SEED...

--brief leaves out the largest cases, which take most of the time and launch no kernel that no other does.
"""
import collections
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LARGE = ("AttentionBlocks.Forward:Bf16.AttentionAndGradient:Bf16.Head:Bf16.Matmul:Bf16.RowsDoNotDependOnHowManyThereAre:"
         "CudaParts.GradientsOfAttentionAreThoseOfTheWhole:Elementwise.BinaryBroadcast:Expression.SameBitsAtRandom:"
         "Loss.CrossEntropyOfManyClasses:Loss.LinearCrossEntropyOfManyClasses:Matmul.ManyBlocks:"
         "Window.NarrowConvolutions")
NAMESPACE = "mt::kernels::cuda::"


def functions(folder):
    """How many __global__ functions of each name there are."""
    text = "".join(path.read_text() for path in sorted(pathlib.Path(folder).glob("*.cu*")))
    text = re.sub(r"__launch_bounds__\([^)]*\)", "", text)
    return collections.Counter(re.findall(r"__global__\s+void\s+(\w+)\(", text))


def name_of(symbol):
    return re.match(r"(?:void )?" + NAMESPACE + r"(\w+)", symbol.replace("(anonymous namespace)::", ""))


def signature_of(symbol):
    """Functions of one name in several files take different arguments."""
    return name_of(symbol)[1] + symbol[symbol.rindex("("):]


def run(program, seed, filter_):
    with tempfile.TemporaryDirectory() as scratch:
        record = pathlib.Path(scratch) / "launches"
        done = subprocess.run([program, f"--gtest_filter={filter_}"], env=dict(os.environ, MT_SIMT_SEED=seed, MT_SIMT_RECORD=str(record)), capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"seed {seed}:\n{done.stdout[-10000:]}{done.stderr[-4000:]}")
        return [(int(count), symbol) for count, symbol in (line.split(" ", 1) for line in record.read_text().splitlines())]


def main():
    program, folder, *seeds = [word for word in sys.argv[1:] if word != "--brief"]
    filter_ = f"-{LARGE}" if "--brief" in sys.argv else "*"
    wanted = functions(folder)
    with concurrent.futures.ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        launches = [launch for each in pool.map(lambda seed: run(program, seed, filter_), seeds) for launch in each]
    counts, variants = collections.Counter(), collections.defaultdict(set)
    for count, symbol in launches:
        counts[signature_of(symbol)] += count
        variants[signature_of(symbol)].add(symbol)
    for signature, count in sorted(counts.items()):
        print(f"{count:9} launches, {len(variants[signature]):3} variants  {signature.replace(NAMESPACE, '')}")
    ran = collections.Counter(re.match(r'\w+', signature)[0] for signature in variants)
    missing = [name for name, count in wanted.items() if ran[name] < count]
    total = sum(wanted.values())
    print(f"{total - len(missing)} of {total} kernels, {sum(len(each) for each in variants.values())} variants, {sum(counts.values())} launches, seeds {' '.join(seeds)}")
    if missing:
        sys.exit(f"never launched: {', '.join(missing)}")


main()
