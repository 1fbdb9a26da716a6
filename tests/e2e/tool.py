"""What the end-to-end tests share: running the programs in a scratch folder, reading what they write. Standard library
only. Every failure prints the command that reproduces it."""
import json
import os
import pathlib
import shlex
import shutil
import struct
import subprocess
import sys
import tempfile

GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"


class Failure(Exception):
    pass


class Scratch:
    """A temporary folder to run commands in; kept, and named, when KEEP is set."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="mt-e2e-"))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if os.environ.get("KEEP"):
            print(f"kept {self.path}")
            return
        shutil.rmtree(self.path, ignore_errors=True)

    def __truediv__(self, name):
        return self.path / name

    def attempt(self, command, environment=None, timeout=900):
        """Runs a command line or list; returns the completed process, never raises for its status."""
        words = shlex.split(command) if isinstance(command, str) else [str(w) for w in command]
        if not shutil.which(words[0]):
            raise Failure(f"{words[0]} is not on the path; put the build's bin folder there: PATH=build/bin:$PATH")
        return subprocess.run(words, cwd=self.path, capture_output=True, text=True, timeout=timeout,
                              env={**os.environ, **(environment or {})})

    def run(self, command, environment=None, timeout=900):
        """Runs a command that must succeed; returns its standard output."""
        done = self.attempt(command, environment, timeout)
        if done.returncode != 0:
            words = command if isinstance(command, str) else shlex.join(map(str, command))
            raise Failure(f"exit {done.returncode}: (cd {self.path} && {words})\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
        return done.stdout

    def link(self, case, *names):
        for name in names:
            (self.path / name).symlink_to(GOLDEN / case / name)


def case_commands(case):
    """The two command lines of a reference case, as lists of words."""
    return [shlex.split(c) for c in json.loads((GOLDEN / case / "case.json").read_text())["commands"]]


def metrics(path):
    """The steps of a metrics file: the text of loss and gradient norm, so that comparison is of bits."""
    rows = [json.loads(line, parse_float=str) for line in open(path)]
    return [(r["step"], r["loss"], r["grad_norm"]) for r in rows if "loss" in r and "step" in r]


def safetensors(path):
    """name -> (element type, shape, bytes)."""
    data = pathlib.Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    body = data[8 + length:]
    header = json.loads(data[8:8 + length])
    return {k: (v["dtype"], tuple(v["shape"]), body[slice(*v["data_offsets"])]) for k, v in header.items() if k != "__metadata__"}


def different(a, b):
    """The first difference of two lists of steps or two dictionaries of tensors, or None."""
    if isinstance(a, dict):
        if a.keys() != b.keys():
            return f"other tensors: {sorted(a.keys() ^ b.keys())}"
        wrong = [k for k in a if a[k] != b[k]]
        return f"{len(wrong)} tensors differ, first {wrong[0]}" if wrong else None
    if len(a) != len(b):
        return f"{len(a)} steps against {len(b)}"
    wrong = [(x, y) for x, y in zip(a, b) if x != y]
    return f"first difference {wrong[0][0]} against {wrong[0][1]}" if wrong else None


def expect(holds, message):
    if not holds:
        raise Failure(message)


def compare(want, got, what):
    """Results of lists of steps and dictionaries of tensors: all to the bit."""
    for a, b in zip(got, want):
        if difference := different(a, b):
            raise Failure(f"{what}: {difference}")


def without(words, *options):
    """A command line without those options and their values."""
    kept = list(words)
    for option in options:
        if option in kept:
            at = kept.index(option)
            kept = kept[:at] + kept[at + 2:]
    return kept


def plan(scratch, name):
    """A plan as mtc dumps it."""
    return json.loads(scratch.run(f"mtc dump {name} --format json"))


def commands_on(scratch, name, kind):
    """How many commands of a step run on streams of a kind."""
    dumped = plan(scratch, name)
    step = next(program for program in dumped["programs"] if program["kind"] == "step")
    return sum(dumped["streams"][command["stream"]]["kind"] == kind for command in step["commands"])


# As root, and with more processes than cores: test machines are both.
MPI = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
       "OMPI_MCA_btl_vader_single_copy_mechanism": "none",
       "OMPI_MCA_mpi_yield_when_idle": "1"}  # a rank that waits leaves its core to the other tests


def launcher(ranks):
    """What starts so many processes of the command that follows; with MPI in the environment."""
    return ["mpirun", "-n", str(ranks)]


def has_mpi():
    return (pathlib.Path(shutil.which("mtrun") or "/dev/null").parent / "libmt_mpi.so").exists()


def skip_without_mpi():
    """Ends a test as one that is skipped where mtrun is built without MPI."""
    if not has_mpi():
        print("skipped: mtrun is built without MPI")
        sys.exit(77)


def sanitized():
    """Whether mtrun is built with a sanitizer, which has memory of its own and calls of its own for the system's."""
    program = pathlib.Path(shutil.which("mtrun") or "/dev/null").read_bytes()
    return b"__asan_init" in program or b"__tsan_init" in program


def skip_if_sanitized(why):
    """Ends a test as one that is skipped where mtrun is built with a sanitizer; `why` says why."""
    if sanitized():
        print(f"skipped: mtrun is built with a sanitizer and {why}")
        sys.exit(77)


class Cases:
    """Functions of a bench, which share its folder: all of them, or those that the command line names."""

    def __init__(self):
        self.all = []

    def __call__(self, function):
        self.all.append(function)
        return function

    def unless_sanitized(self, why):
        """Of functions that are left out where mtrun is built with a sanitizer; `why` says why."""
        def add(function):
            if not sanitized():
                return self(function)
            print(f"left out, mtrun is built with a sanitizer and {why}: {function.__name__}")
            return function
        return add

    def run(self, make_bench, what):
        """Runs them on make_bench(scratch); `what` says in words what those that pass do. Every failure is named."""
        wanted = [c for c in self.all if len(sys.argv) < 2 or c.__name__ in sys.argv[1:]]
        failures = []
        with Scratch() as scratch:
            bench = make_bench(scratch)
            for one in wanted:
                try:
                    one(bench)
                except Failure as failure:
                    failures.append(f"{one.__name__}: {failure}")
        print(f"{len(wanted) - len(failures)} of {len(wanted)} {what}")
        if failures:
            raise Failure("\n".join(failures))


def main(test):
    """Runs a test function; exit status 1 and the message where it fails."""
    try:
        test()
    except Failure as failure:
        print(f"FAIL: {failure}")
        sys.exit(1)
    print("ok")
