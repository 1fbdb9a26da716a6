"""Exports the models of models.py with PyTorch and checks that mt trains each with PyTorch's numbers.

    pip install torch==2.13.0 transformers==5.23.0 onnx==1.23.2 onnxscript==0.7.2 onnxruntime
    python zoo.py export OUT [NAME ...]
    python zoo.py train OUT [NAME ...] [--target cpu|cpu-discrete] [--rows one|all] [--smallest] [--precision fp32|bf16] [--extra "MTC OPTIONS"]
    python zoo.py prove OUT [NAME ...]
    python zoo.py pack OUT SMALL [NAME ...]

prove trains as mtc chooses on cpu; then a row at once on the bottom rung there, each operation alone (--fuse off); then so on cpu-discrete in
the smallest device memory that mtc names, operations fused, which has to give the same bits. pack writes cases of OUT as SMALL/NAME.tar.xz, which train takes as well and which needs nothing but numpy: of each gradient its norm and
eight products with vectors of random signs. A case is a folder OUT/NAME:
    model.onnx   X: exported with optimize=False, opset 20, batch and sequence dynamic; X-optimized, X-static, X-single (of one row); X-new: opset 23; X-old: the older
                 exporter, opset 17
    data.npz     inputs and labels; rows 4 s .. belong to step s + 1
    grads.npz    the gradient of step 1, in fp64, of every parameter that an initializer is found for
    case.json    options of mtc and mtrun; five losses of SGD with momentum in fp64 and fp32; the loss of step 1 by onnxruntime
    failed.txt   in place of these: what the exporter said
train prints a line a case: exact; drift (off, but no further than three times what PyTorch in fp32 is); folded (exact in step 1; after it
off, as the exporter computed with parameters and forgot them, and others are trained in their place); off; refused (by mtc, with the first
error); failed (by mtrun). Numbers are relative to fp64: loss of the first step, of all; the worst gradient, of the whole gradient; in
brackets the same of PyTorch in fp32. "whole batch": mtc found that rows see each other, and --rows one keeps its micro-batch. `mtc` and
`mtrun` are those of PATH.
"""
import argparse, collections, contextlib, copy, fnmatch, io, json, logging, math, os, pathlib, re, subprocess, sys, tarfile, tempfile, time, warnings, zlib

import numpy as np

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("TRANSFORMERS_DISABLE_TORCH_CHECK", "1")  # assertions on data, which the exporter cannot write
STEPS, BATCH, MOMENTUM = 5, 4, 0.9
FIXED = ("static", "single")  # forms whose batch the graph fixes


def all_cases():
    """Every name with its case and form, the main form first."""
    import models
    return {**{n: (c, "") for n, c in models.CASES.items()}, **{f"{n}-{f}": (c, f) for n, c in models.CASES.items() for f in c.forms.split()}}


def names_like(patterns, names):
    unknown = [p for p in patterns if not fnmatch.filter(names, p)]
    if unknown:
        sys.exit(f"no such case: {' '.join(unknown)}")
    return [n for n in names if not patterns or any(fnmatch.fnmatch(n, p) for p in patterns)]


# Export, and what PyTorch does.

def wide_mode():
    """Computes in fp64 what a model asks to be computed in fp32 (norms, rotary angles, softmax)."""
    import torch

    class Wide(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            widen = lambda v: torch.float64 if v is torch.float32 else v
            function = torch.Tensor.double if function is torch.Tensor.float else function
            return function(*map(widen, args), **{k: widen(v) for k, v in (kwargs or {}).items()})

    return Wide()


def loss_of(case, out, labels):
    from torch.nn import functional as F
    kind = case.loss
    if kind.startswith("output:"):
        return out
    out = out.movedim(case.batch.get("logits", 0), 0)
    return F.mse_loss(out, labels) if kind == "mse" else F.cross_entropy(out.reshape(-1, out.shape[-1]), labels.reshape(-1), ignore_index=-100)


def rows_of(case, inputs, rows):
    """Inputs as the model takes them, of some rows of data."""
    return {n: np.ascontiguousarray(np.moveaxis(v[rows], 0, case.batch.get(n, 0))) for n, v in inputs.items()}


def pytorch(model, case, inputs, labels, wide):
    """Losses of the steps, and the gradients of the first."""
    import torch
    from make import Drops
    model = copy.deepcopy(model)
    model = model.double() if wide else model
    kept, drops, losses, first = torch.nn.functional.dropout, Drops(case.drops), [], None
    torch.nn.functional.dropout = drops if case.train else kept
    torch.set_default_dtype(torch.float64 if wide else torch.float32)
    tensor = lambda v: torch.from_numpy(v).double() if wide and v.dtype == np.float32 else torch.from_numpy(v)
    optimizer = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=case.lr, momentum=MOMENTUM)
    try:
        for step in range(STEPS):
            drops.begin(step + 1)
            rows = slice(step * BATCH, (step + 1) * BATCH)
            with wide_mode() if wide else contextlib.nullcontext():
                loss = loss_of(case, model(*map(tensor, rows_of(case, inputs, rows).values())), None if labels is None else tensor(labels[rows]))
            optimizer.zero_grad()
            loss.backward()
            first = first or {n: p.grad.double().numpy().copy() for n, p in model.named_parameters() if p.grad is not None}
            optimizer.step()
            losses.append(loss.item())
    finally:
        torch.nn.functional.dropout = kept
        torch.set_default_dtype(torch.float32)
    return losses, first


class Gradient:
    """A tensor's gradient, or the norm and the signed sums of one: what a packed case keeps."""

    def __init__(self, name, values=None, packed=None):
        self.name, self.values = name, values
        self.shape = list(values.shape) if packed is None else packed["shape"]
        self.norm = float(np.linalg.norm(values)) if packed is None else packed["norm"]
        self.sums = None if packed is None else np.array(packed["sums"])

    def signed_sums(self):
        """Products with eight vectors of signs, which follow from the name."""
        signs = np.random.RandomState(zlib.crc32(self.name.encode())).randint(0, 2, (8, self.values.size)) * 2.0 - 1
        return signs @ self.values.reshape(-1)

    def packed(self):
        return dict(shape=self.shape, norm=self.norm, sums=list(self.signed_sums()))

    def away(self, values):
        """The norm of the difference, or the largest of those of its signed sums, which is about as large."""
        if self.sums is None:
            return float(np.linalg.norm(values - self.values))
        return float(np.abs(Gradient(self.name, values).signed_sums() - self.sums).max())


def worst_gradient(want, got):
    """The largest error of a tensor's gradient, relative to its norm or a thousandth of the whole one's, and its name."""
    total = math.sqrt(sum(g.norm**2 for g in want.values()))
    errors = {k: g.away(got[k]) / max(g.norm, 1e-3 * total) if k in got else math.inf for k, g in want.items()}
    errors = {k: math.inf if e != e else e for k, e in errors.items()}
    name = max(errors, key=errors.get, default="")
    return errors.get(name, 0.0), name


def few_bits(values, bits=7):
    """Rounded to so many bits below the largest: what is stored is small when packed."""
    largest = float(np.abs(values).max(initial=0)) or 1.0
    step = 2.0 ** (math.frexp(largest)[1] - bits)
    return np.asarray(np.round(values / step) * step, values.dtype)


@contextlib.contextmanager
def silent():
    """What exporters print goes nowhere, that of their C++ too."""
    sys.stdout.flush()
    kept, nowhere = [os.dup(1), os.dup(2)], os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in (1, 2):
            os.dup2(nowhere, fd)
        yield
    finally:
        sys.stdout.flush()
        for fd, old in zip((1, 2), kept):
            os.dup2(old, fd)
        for fd in (*kept, nowhere):
            os.close(fd)


def graph(model, inputs, case, form, axes, path):
    """Writes the ONNX file; dimensions that the exporter finds fixed are then left to it."""
    import torch
    from make import forget_paths
    example = tuple(map(torch.from_numpy, rows_of(case, inputs, slice(1 if form == "single" else BATCH if form else 2)).values()))
    more = dict(input_names=list(inputs), output_names=[case.loss[7:] if case.loss.startswith("output:") else "logits"], external_data=False)
    said = ""
    for dim in (torch.export.Dim.DYNAMIC, torch.export.Dim.AUTO):
        if form == "old":
            more |= dict(dynamo=False, opset_version=17, dynamic_axes={n: {a: f"{n}_{a}" if a != case.batch.get(n, 0) else "batch" for a in axes[n]} for n in inputs})
            more |= dict(training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False) if case.train else {}
        else:
            more |= dict(dynamo=True, opset_version=23 if form == "new" else 20, optimize=form == "optimized")
            more |= {} if form in FIXED else dict(dynamic_shapes=tuple({a: dim for a in axes[n]} for n in inputs))
        try:
            with silent():
                torch.onnx.export(model, example, str(path), **more)
            break
        except Exception as error:
            said = said or f"{type(error).__name__}: {error}".replace("\x1b[31m", "").replace("\x1b[0m", "")
            if form in ("old", *FIXED) or dim is torch.export.Dim.AUTO:
                raise RuntimeError(said) from error
    forget_paths(path)
    return dim is torch.export.Dim.DYNAMIC


def by_onnxruntime(path, case, inputs, labels):
    """The loss of the first step as another runtime computes it: where it is off, the export is."""
    import onnxruntime, torch
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    try:
        session = onnxruntime.InferenceSession(str(path), options)
        taken = {i.name for i in session.get_inputs()}
        out = torch.from_numpy(np.asarray(session.run(None, {n: v for n, v in rows_of(case, inputs, slice(BATCH)).items() if n in taken})[0])).double()
        return loss_of(case, out, None if labels is None else torch.from_numpy(labels[:BATCH])).item()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:200]


def sequence_options(inputs, axes):
    lengths = {n: v.shape[1] for n, v in inputs.items() if v.ndim == 2 and v.dtype == np.int64 and 1 in axes[n]}
    if not lengths:
        return []
    return ["--seq", str(*set(lengths.values()))] if len(set(lengths.values())) == 1 else [o for n, s in lengths.items() for o in ("--seq", f"{n}={s}")]


def export(name, case, form, folder):
    import onnx, torch
    from make import initializer_names
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.is_file():
            old.unlink()
    start = time.time()
    torch.manual_seed(0)
    model = case.build().train(case.train)
    with torch.no_grad():  # as after some training: no biases of zero, no gains of one, so a forgotten one shows
        met = set()
        for p in model.parameters() if case.perturb else ():
            same = p.detach().numpy().tobytes()
            if p.requires_grad and (p.ndim < 2 or bool((p == p.flatten()[0]).all()) or same in met):
                p += 0.05 * torch.randn_like(p)
            met.add(same)
        for p in model.parameters():
            if p.requires_grad:
                p.copy_(torch.from_numpy(few_bits(p.detach().numpy())))
        for n, b in model.named_buffers():
            if n.endswith(("running_mean", "running_var")):
                b += 0.1 * torch.randn_like(b) if n.endswith("mean") else 0.2 * torch.rand_like(b)
    for module in model.modules():  # the older exporter does not say that a table's row of padding is not trained
        if isinstance(module, torch.nn.Embedding) and form == "old":
            module.padding_idx = None
    data = {n: few_bits(v) if v.dtype.kind == "f" else v for n, v in case.data(np.random.default_rng(1), BATCH * STEPS).items()}
    labels = None if case.loss.startswith("output:") else data["labels"]
    inputs = {n: v for n, v in data.items() if labels is None or n != "labels"}
    axes = {n: case.axes.get(n, (0, 1) if v.ndim == 2 and v.dtype == np.int64 else (0,)) for n, v in inputs.items()}
    path = folder / "model.onnx"
    losses32, grads32 = pytorch(model, case, inputs, labels, False)
    losses, grads = pytorch(model, case, inputs, labels, True)
    dynamic = graph(model, inputs, case, form, axes, path)
    found = initializer_names(path, model)
    frozen = sorted({found[n][0] for n, p in model.named_parameters() if not p.requires_grad and n in found})
    np.savez_compressed(folder / "data.npz", **data)
    np.savez_compressed(folder / "grads.npz", **{found[n][0]: found[n][1](g).astype(np.float32) for n, g in grads.items() if n in found})
    info = dict(batch=BATCH, loss=case.loss, lr=case.lr, seed=case.drops, noise=case.noise, dynamic=dynamic or form in FIXED,
                mtc=["--batch", str(BATCH), "--loss", case.loss, "--optimizer", "sgd", *sequence_options(inputs, axes), *case.mtc.split(),
                *(o for n in frozen for o in ("--freeze", n))],
                mtrun=["--data", "data.npz", "--shuffle", "off", "--steps", str(STEPS), "--lr", str(case.lr), "--momentum", str(MOMENTUM), "--weight-decay",
                "0", "--seed", str(case.drops)],
                losses=losses, losses32=losses32, norm=math.sqrt(sum(float((g**2).sum()) for g in grads.values())),
                gradient32=worst_gradient({n: Gradient(n, g) for n, g in grads.items()}, grads32)[0],
                onnxruntime=None if case.train or case.noise or form == "single" else by_onnxruntime(path, case, inputs, labels), unmatched=[n for n in grads if n not in found],
                parameters=sum(p.numel() for p in model.parameters() if p.requires_grad), made_with=dict(torch=torch.__version__, onnx=onnx.__version__))
    (folder / "case.json").write_text(json.dumps(info, indent=1) + "\n")
    ort = info["onnxruntime"]
    odd = [] if dynamic or form in FIXED else ["not dynamic as asked"]
    odd += [] if ort is None or isinstance(ort, float) and abs(ort - losses[0]) < 1e-5 * abs(losses[0]) else [f"onnxruntime: {ort}"]
    odd += [f"no initializer of {len(info['unmatched'])}: {' '.join(info['unmatched'][:3])}"] if info["unmatched"] else []
    print(f"{name:28} {losses[0]:.5f} -> {losses[-1]:.5f}, fp32 {drift(losses, losses32)[1]:.1e} {info['gradient32']:.1e}; {info['parameters']} parameters; "
          f"{time.time() - start:.1f} s " + "; ".join(odd), flush=True)


def export_all(out, patterns):
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "e2e" / "golden"))
    import torch
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    cases, failures = all_cases(), 0
    from models import KNOWN
    for name in names_like(patterns, cases):
        folder = pathlib.Path(out) / name
        try:
            export(name, *cases[name], folder)
        except Exception as error:
            failures += 1
            text = f"{type(error).__name__}: {error}"
            (folder / "failed.txt").write_text(text + "\n")
            print(f"{name:28} {'known' if name in KNOWN else 'FAILED'}: {' '.join(text.split())[:300]}", flush=True)
    print(f"{failures} were not exported")


# Training with mt.

def drift(want, got):
    """Relative differences: of the first loss, of all."""
    off = [abs(a - b) / abs(a) if b == b else math.inf for a, b in zip(want, got)]
    return (off[0], max(off)) if off and len(want) == len(got) else (math.inf, math.inf)


def call(command, folder):
    """Exit status, and the first error or the last line."""
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return 124, f"{command[0]}: no end within 300 s", ""
    lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line.lower()] or lines[-1:] or [f"exit status {done.returncode}"]
    return done.returncode, errors[0], done.stderr


def compile_plan(info, folder, o):
    mtc = ["mtc", "compile", info.get("model", "model.onnx"), "-o", "plan.bin", "--target", o.target, "--precision", o.precision, *info["mtc"], *o.extra.split()]
    alone = [] if o.rows == "all" else ["--micro-batch", "1", "--saved-activations", "input", "--residency", "none"]
    rc, line, text = call(mtc + alone + (["--device-memory", "1KiB"] if o.smallest else []), folder)
    if rc and alone and "micro-batch" in text and "--device-memory" not in line:  # rows that see each other
        alone = alone[2:]
        rc, line, text = call(mtc + alone + (["--device-memory", "1KiB"] if o.smallest else []), folder)
    smallest = re.search(r"--device-memory (\d+)B", text)
    if o.smallest and smallest:
        rc, line, text = call(mtc + alone + ["--device-memory", smallest[1]], folder)
    return rc, line, text


def train(folder, o):
    """Status and what to say."""
    info = json.loads((folder / "case.json").read_text())
    rc, line, text = compile_plan(info, folder, o)
    (folder / "mtc.txt").write_text(text)
    whole = "rows of the batch see each other" in text
    if rc:
        return "refused" if rc == 1 else "failed", line
    for old in ("metrics.jsonl", "gradients.npz"):
        (folder / old).unlink(missing_ok=True)
    rc, line, text = call(["mtrun", "plan.bin", *info["mtrun"], "--metrics", "metrics.jsonl", "--save-gradients", "gradients.npz", "--keep", "0", "--out",
        "run", "--overwrite", "--quiet", "--threads", "1"], folder)
    if rc:
        return "failed", line
    losses = losses_of(folder)
    if info["noise"]:
        good = len(losses) == STEPS and all(map(math.isfinite, losses)) and losses[-1] < losses[0]
        return "exact" if good else "off", f"noise: {losses[0]:.4f} -> {losses[-1]:.4f}"
    want, got = gradients_of(folder), read(folder / "gradients.npz")
    got = {k: v for k, v in got.items() if k not in want or list(v.shape) == want[k].shape}
    known = {k: v for k, v in want.items() if k in got}
    gradient, worst = worst_gradient(known, got)
    off, own = drift(info["losses"], losses), drift(info["losses"], info["losses32"])
    missing, extra = sorted(set(want) - set(got)), sorted(set(got) - set(want))
    bounds = (2e-6, 2e-5, 1e-4) if o.precision == "fp32" else (2e-2, 5e-2, 1.0)
    values, owns = (*off, gradient), (*own, info["gradient32"])
    status = "exact" if all(v <= b for v, b in zip(values, bounds)) else "drift" if all(v <= max(b, 3 * w) for v, b, w in zip(values, bounds, owns)) else "off"
    if status == "off" and info["unmatched"] and off[0] <= bounds[0]:
        status = "folded"
    show = lambda v: " ".join(f"{x:.1e}" for x in v)
    said = f"{show(values)} [{show(owns)}]"
    said += f" worst {worst}" if gradient > bounds[2] else ""
    said += f"; not trained: {' '.join(missing[:4])}{' ...' if len(missing) > 4 else ''}" if missing else ""
    said += f"; trained besides: {' '.join(extra[:4])}{' ...' if len(extra) > 4 else ''}" if extra and not info["unmatched"] else ""
    said += "; whole batch" if whole else ""
    ort = info["onnxruntime"]
    said += f"; onnxruntime {abs(ort - info['losses'][0]) / abs(info['losses'][0]):.1e}" if status == "off" and isinstance(ort, float) else ""
    return status, said


def read(path):
    with np.load(path) as arrays:
        return {k: arrays[k].astype(np.float64) for k in arrays.files}


def gradients_of(folder):
    """Of step 1, by initializer: whole, or packed."""
    if (folder / "grads.json").exists():
        return {k: Gradient(k, packed=v) for k, v in json.loads((folder / "grads.json").read_text()).items()}
    return {k: Gradient(k, v) for k, v in read(folder / "grads.npz").items()}


def pack(out, small, patterns):
    """Archives of cases, the same bytes from the same case."""
    small.mkdir(parents=True, exist_ok=True)
    for name in names_like(patterns, sorted(f.name for f in out.iterdir() if (f / "case.json").exists())):
        members = {n: (out / name / n).read_bytes() for n in ("model.onnx", "data.npz", "case.json")}
        members["grads.json"] = json.dumps({k: g.packed() for k, g in gradients_of(out / name).items()}).encode()
        with tarfile.open(small / f"{name}.tar.xz", "w:xz", preset=9) as archive:
            for n, content in members.items():
                entry = tarfile.TarInfo(n)
                entry.size = len(content)
                archive.addfile(entry, io.BytesIO(content))
        print(f"{name:28} {(small / f'{name}.tar.xz').stat().st_size} bytes")


def losses_of(folder):
    return [r["loss"] for r in map(json.loads, open(folder / "metrics.jsonl")) if "loss" in r and "step" in r]


def prove(folder, o):
    """The first run that is not exact, or the first's numbers."""
    ways = [dict(target="cpu", rows="all", smallest=False), dict(target="cpu", rows="one", smallest=False, extra=f"{o.extra} --fuse off"),
            dict(target="cpu-discrete", rows="one", smallest=True)]
    first, losses = None, []
    for way in ways:
        status, said = train(folder, argparse.Namespace(**{**vars(o), **way}))
        first = first or said
        losses.append(losses_of(folder) if status in ("exact", "folded") else [])
        if not losses[-1]:
            return status, f"{way}: {said}"
    return ("exact", first) if losses[1] == losses[2] else ("off", f"cpu-discrete has other bits than cpu: {losses[1:]}")


def train_all(o):
    out, counts = pathlib.Path(o.out), collections.Counter()
    archives = {f.name[:-7]: f for f in out.glob("*.tar.xz")}
    for name in names_like(o.names, sorted([f.name for f in out.iterdir() if (f / "case.json").exists()] + [*archives])):
        start = time.time()
        try:
            with tempfile.TemporaryDirectory() if name in archives else contextlib.nullcontext(out / name) as folder:
                if name in archives:
                    with tarfile.open(archives[name]) as archive:
                        archive.extractall(folder)
                status, said = (prove if o.command == "prove" else train)(pathlib.Path(folder), o)
        except Exception as error:
            status, said = "failed", f"{type(error).__name__}: {error}"
        counts[status] += 1
        print(f"{status:8} {name:28} {said} ({time.time() - start:.1f} s)", flush=True)
    print(", ".join(f"{n} {s}" for s, n in counts.most_common()))
    return 0 if set(counts) <= {"exact", "drift", "folded"} else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("command", choices=("export", "train", "prove", "list", "pack"))
    p.add_argument("out")
    p.add_argument("names", nargs="*", help="names of cases, or globs over them")
    p.add_argument("--target", default="cpu-discrete")
    p.add_argument("--rows", choices=("one", "all"), default="all", help="one: the bottom rung, one row at once and nothing kept")
    p.add_argument("--smallest", action="store_true", help="in the smallest device memory that mtc names")
    p.add_argument("--precision", choices=("fp32", "bf16"), default="fp32")
    p.add_argument("--extra", default="", help="further options of mtc compile")
    o = p.parse_args()
    if o.command == "list":
        return print("\n".join(names_like(o.names, all_cases())))
    if o.command == "pack":
        return pack(pathlib.Path(o.out), pathlib.Path(o.names[0]), o.names[1:])
    return export_all(o.out, o.names) if o.command == "export" else train_all(o)


if __name__ == "__main__":
    raise SystemExit(main())
