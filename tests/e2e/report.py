"""The report of a run, report.html: its numbers are those of the metrics, it stands alone, it goes on with the run, mtrun report
makes the same bytes, and what others wrote is text on it.

    PATH=build/bin:$PATH python3 tests/e2e/report.py [NAME ...]
"""
import json
import shlex
import signal
import subprocess

import report_reader
import tool

case = tool.Cases()
LOSS, RATE, NORM, PACE = range(4)
HOSTILE = "<img src=x onerror=alert(1)> & \"a\" 'b' </title><script>alert(2)</script>"


class Bench:
    """A folder with a tiny model of language, its plan and its data, all of hostile names, and a run that went on."""

    def __init__(self, scratch):
        self.scratch = scratch
        self.name = HOSTILE.replace("/", "\\")  # no name of a file has a slash
        scratch.run(["mtmodel", *"gpt2 --layers 1 --hidden 16 --heads 2 --vocab 256 --seq 16".split(), "-o", self.name + ".onnx"])
        scratch.run(["mtc", "compile", self.name + ".onnx", *"-o plan.bin --batch 4 --seq 16 --target cpu".split()])
        self.data = self.name + ".txt"
        (scratch / self.data).write_text("what is trained on is not looked at here. " * 100)
        self.train = ["mtrun", "plan.bin", "--data", self.data, "--eval-data", self.data, *"--eval-every 4 --checkpoint-every 3 --lr 0.01".split()]
        scratch.run([*self.train, "--steps", 6, "--out", "run"])
        self.first = self.page("run/report.html")
        scratch.run([*self.train, "--steps", 10, "--out", "run", "--resume"])

    def page(self, name):
        return report_reader.Report(self.scratch / name)

    def rows(self, name="run/metrics.jsonl"):
        return [json.loads(line) for line in (self.scratch / name).read_text().splitlines()]

    def killed(self, out, options, until):
        """The page that a run without end leaves that is killed when it has said a step."""
        words = tool.without(self.train, "--eval-every", "--checkpoint-every") + ["--steps", "1000000000", "--out", out, *options.split()]
        process = subprocess.Popen(words, cwd=self.scratch.path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while not process.stdout.readline().startswith(f"step {until}/"):
            tool.expect(process.poll() is None, f"{out}: exit {process.returncode}")
        process.send_signal(signal.SIGKILL)
        process.communicate()
        return self.page(f"{out}/report.html")

    def anew(self, lines, name="made"):
        """The page of a file of such metrics."""
        (self.scratch / f"{name}.jsonl").write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
        self.scratch.run(f"mtrun report {name}.jsonl -o {name}.html")
        return self.page(f"{name}.html")


@case
def numbers_are_those_of_the_metrics(b):
    page, rows = b.page("run/report.html"), b.rows()
    steps = [row for row in rows if "loss" in row]
    for chart, name, key in ((LOSS, "of the step", "loss"), (RATE, "learning rate", "lr"), (NORM, "of the step", "grad_norm"),
                             (PACE, "of the step", "tokens_per_s")):
        tool.expect(page.curve(chart, name) == [[row["step"], row[key]] for row in steps], f"the curve of {key}")
    evaluations = [[row["step"], row["eval_loss"]] for row in rows if "eval_loss" in row]
    tool.expect(page.curve(LOSS, "evaluation") == evaluations and len(evaluations) == 4, "the evaluations")
    tool.expect(page.says("dd", f"{evaluations[-1][1]:.4f}"), "the newest evaluation")
    tool.expect(page.says("small", f"{steps[-1]['loss']:.4f} in step 10"), "the newest loss")
    tool.expect(page.says("dd", str(sum(row["tokens"] for row in steps))), "the tokens")
    tool.expect(page.says("dd", "done"), "the time left")


@case
def facts_are_those_of_the_plan(b):
    page, plan = b.page("run/report.html"), tool.plan(b.scratch, "plan.bin")
    meta = json.loads((b.scratch / "run/step-10/meta.json").read_text())
    head = b.rows()[-1] if "resumed" in b.rows()[-1] else next(row["resumed"] for row in b.rows() if "resumed" in row)
    tool.expect(head["recipe"] == meta["recipe"] and head["plan"] == meta["plan"], "the recipe is not the checkpoint's")
    for text in (b.name, b.data, meta["plan"], meta["precision"], f"{head['parameters']:,}"):
        tool.expect(page.says("bdi", text), f"{text!r} is not there")
    for space in plan["spaces"]:
        tool.expect(page.says("bdi", space["name"]), f"no space {space['name']}")
    tool.expect(head["spaces"] == [{"name": s["name"], "kind": s["kind"], "bytes": s["bytes"]} for s in plan["spaces"]], "the spaces")
    step = next(program for program in plan["programs"] if program["kind"] == "step")
    used = {(plan["streams"][command["stream"]]["name"], command["role"]) for command in step["commands"] if command["predicted_seconds"] > 0}
    told = {(stream["name"], role) for stream in head["streams"] for role in stream["busy_ms"]}
    tool.expect(told == used, f"streams and roles: {told ^ used}")
    options, = (text for text in page.texts["pre"] if text.startswith("--"))
    b.scratch.run(["mtrun", "plan.bin", "--data", b.data, "--out", "said", *shlex.split(options)])
    said = json.loads((b.scratch / "said/step-10/meta.json").read_text())
    tool.expect(said["recipe"] == meta["recipe"], f"{options} is another recipe")


@case
def curves_go_on(b):
    tool.expect([step for step, _ in b.first.curve(LOSS, "of the step")] == list(range(1, 7)), "the first run's curve")
    page = b.page("run/report.html")
    tool.expect([step for step, _ in page.curve(LOSS, "of the step")] == list(range(1, 11)), "the curve of the run that went on")
    tool.expect(page.curve(LOSS, "of the step")[:6] == b.first.curve(LOSS, "of the step"), "its beginning")
    tool.expect(page.says("bdi", "went on with other settings: steps 6 → 10, recipe"), "a note of what is otherwise")


@case
def made_anew_it_is_the_same(b):
    want = (b.scratch / "run/report.html").read_bytes()
    b.scratch.run("mtrun report run -o again.html")
    tool.expect((b.scratch / "again.html").read_bytes() == want, "mtrun report makes another page")
    b.scratch.run("mkdir alone")
    b.scratch.run("cp run/metrics.jsonl alone/metrics.jsonl")
    b.scratch.run("mtrun report alone")
    tool.expect((b.scratch / "alone/report.html").read_bytes() == want, "metrics alone make another page")
    b.scratch.run([*b.train, *"--steps 3 --out bare --keep 0 --metrics elsewhere.jsonl".split()])
    b.scratch.run("mtrun report elsewhere.jsonl -o elsewhere.html")
    tool.expect((b.scratch / "elsewhere.html").read_bytes() == (b.scratch / "bare/report.html").read_bytes(), "metrics elsewhere make another page")


@case
def it_is_refreshed_on_the_way(b):
    """What is there after a step that follows the start, an evaluation or a checkpoint, whatever happens then."""
    b.scratch.run([*b.train, *"--steps 5 --out before".split()])
    tool.expect(b.killed("before", "--overwrite", 1).charts == [], "a new run has the page of the run before")
    for out, options, until in (("evaluated", "--eval-every 2", 3), ("saved", "--checkpoint-every 2", 4)):
        steps = b.killed(out, options, until).curve(LOSS, "of the step")
        tool.expect(len(steps) >= 2, f"{out}: {steps}")


@case
def what_others_wrote_is_text(b):
    head = {**b.rows()[0], "model": HOSTILE, "precision": HOSTILE, "data": HOSTILE, "target": HOSTILE, "bound": HOSTILE,
            "recipe": {"groups": [HOSTILE], "lr": 1.0}, "spaces": [{"name": HOSTILE, "kind": HOSTILE, "bytes": 5}],
            "streams": [{"name": HOSTILE, "busy_ms": {"compute": 1, HOSTILE: 2}}]}
    prompt, text = "</pre><script>alert(1)</script>", "<!-- \u0000 \u202e \U0001f600 &lt; ]]> <svg onload=alert(1)>"
    page = b.anew([head, *b.rows()[1:4], {"step": 3, "sample": {"prompt": prompt, "text": text}}, {"step": 3, "note": HOSTILE}])
    tool.expect(page.says("h1", "\n") or page.texts["bdi"].count(HOSTILE) >= 5, f"{page.texts['bdi']}")
    tool.expect(page.says("span", prompt) and page.says("pre", text.replace("\u0000", "\ufffd")), f"the sample: {page.texts['pre']}")
    tool.expect("".join(page.texts["title"]).startswith(HOSTILE), "the title")


@case
def samples_are_newest_first(b):
    page = b.anew([*b.rows(), *({"step": step, "sample": {"prompt": f"prompt {step}", "text": f" and text {step}"}} for step in (2, 4, 6))])
    tool.expect([text for text in page.texts["span"] if text.startswith("prompt")] == ["prompt 6", "prompt 4", "prompt 2"], "their order")


@case
def numbers_that_are_none(b):
    rows = b.rows()
    rows[2]["loss"] = rows[3]["grad_norm"] = None
    text = [json.dumps(row) + "\n" for row in rows]
    page = b.anew([*text[:4], text[4].replace('"lr": 0.01', '"lr": 1e999'), '{"step": 9, "loss": NaN}\n', "\x00\xff{\n", *text[5:], '{"step": 11, "lo'])
    tool.expect(len(page.curve(LOSS, "of the step")) == 8 and len(page.curve(NORM, "of the step")) == 8, "steps that are left")
    tool.expect(page.says("span", "1 of no finite number"), "it does not say so")
    tool.expect("nan" not in page.scripts[0].lower() and "inf" not in page.scripts[0].lower(), "no JSON")


@case
def no_steps(b):
    page = b.anew(b.rows()[:1])
    tool.expect(page.charts == [] and page.says("p", "No step has been reported yet."), "a run of no steps")
    page = b.anew([{"plan": "p"}])
    tool.expect(page.charts == [], "a run of which nothing is known")


@case
def what_cannot_be_read_or_written(b):
    for words, said in (("none", "none: No such file or directory: name a run's folder"), ("plan.bin", "plan.bin: no record of a run"),
                        ("run -o none/page.html", "none/page.html")):
        done = b.scratch.attempt(f"mtrun report {words}")
        tool.expect(done.returncode == 1 and done.stderr.startswith("error: ") and said in done.stderr, f"{words}: {done.stderr}")
    (b.scratch / "blocked/report.html").mkdir(parents=True)
    done = b.scratch.attempt([*b.train, *"--steps 6 --out blocked".split()])
    tool.expect(done.returncode == 0 and done.stderr.count("blocked/report.html") == 1 and "the run goes on, and mtrun report blocked makes" in done.stderr,
                f"a page that cannot be written: {done.stderr}")


tool.main(lambda: case.run(Bench, "properties of reports hold"))
