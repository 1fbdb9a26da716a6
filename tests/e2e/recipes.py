"""Recipe files: what a run used is written beside it, and mtrun --recipe repeats it to the bit.

    PATH=build/bin:$PATH python3 tests/e2e/recipes.py [NAME ...]
"""
import tomllib

import tool

case = tool.Cases()
GROUPS = "--group *.bias:lr=2e-3 --group *.mlp.*:optimizer=sgd,momentum=0.5"


class Bench:
    """A folder with a tiny model of language, a plan with groups, texts, and a recipe."""

    def __init__(self, scratch):
        self.scratch = scratch
        scratch.run("mtmodel gpt2 --layers 1 --hidden 16 --heads 2 --vocab 256 --seq 16 -o model.onnx")
        scratch.run(f"mtc compile model.onnx -o plan.bin --batch 4 --seq 16 --target cpu --clip {GROUPS}")
        (scratch / "a.txt").write_text("what is trained on is not looked at here. " * 60)
        (scratch / "b.txt").write_text("another text of another kind, for a mixture. " * 40)
        (scratch / "r.toml").write_text("""
plan = "plan.bin"
data = ["a.txt:0.7", "b.txt:0.3"]
lr = 1e-2
lr-schedule = "cosine"
warmup = 2
group = ['*.ln_1.*:decay=0', '*.mlp.*:momentum=0.9']
eval-split = 0.2
eval-every = 4
seed = 7
epochs = 1
sample-every = 4
prompt = ["what is", "two\\n'q' \\\\ \\""]
sample-tokens = 4
""")

    def same(self, one, other, step):
        for name in ("weight", "first_moment", "second_moment"):
            a, b = (tool.safetensors(self.scratch / f"{run}/step-{step}/{name}.safetensors") for run in (one, other))
            if difference := tool.different(a, b):
                raise tool.Failure(f"{name}: {difference}")
        tool.compare([tool.metrics(self.scratch / one / "metrics.jsonl")], [tool.metrics(self.scratch / other / "metrics.jsonl")],
                     f"{one} and {other}")

    def used(self, run):
        return tomllib.loads((self.scratch / run / "recipe.toml").read_text())


@case
def what_a_run_used_repeats_it(b):
    b.scratch.run("mtrun --recipe r.toml --clip-norm 0.5 --steps 12 --out run")
    b.scratch.run("mtrun --recipe run/recipe.toml --out again")
    b.same("run", "again", 12)
    used, again = b.used("run"), b.used("again")
    tool.expect(used.pop("out") == "run" and again.pop("out") == "again" and used == again, f"{used} became {again}")
    tool.expect(used["steps"] == 12 and used["clip-norm"] == 0.5 and used["data"] == ["a.txt:0.7", "b.txt:0.3"], str(used))
    tool.expect(used["beta1"] == 0.9 and used["min-lr"] == 0 and used["shuffle"] == "on", f"no defaults: {used}")
    tool.expect(used["group"] == ["*.ln_1.*:decay=0", "*.mlp.*:momentum=0.9"], f"groups: {used['group']}")


@case
def the_command_line_wins(b):
    words = ["mtrun", "plan.bin", "--data", "a.txt", *"--lr 1e-2 --lr-schedule cosine --warmup 2 --seed 7 --steps 3".split()]
    words += ["--group", "*.ln_1.*:decay=0", "--group", "*.mlp.*:momentum=0.9", "--eval-data", "b.txt", "--eval-every", "4"]
    b.scratch.run([*words, "--out", "said"])
    b.scratch.run("mtrun --recipe r.toml --data a.txt --eval-data b.txt --steps 3 --out won")
    b.same("said", "won", 3)


@case
def a_run_that_goes_on_says_so(b):
    b.scratch.run("mtrun --recipe r.toml --steps 6 --out longer")
    b.scratch.run("mtrun --recipe longer/recipe.toml --steps 10 --resume")
    used = b.used("longer")
    tool.expect(used["steps"] == 10 and used["out"] == "longer" and "resume" not in used, str(used))
    b.scratch.run("mtrun plan.bin --data a.txt --data b.txt --out longer --resume --steps 11 --lr 5e-3")
    used = b.used("longer")
    tool.expect((used["steps"], used["lr"], used["seed"]) == (11, 5e-3, 7), f"what the checkpoint has: {used}")
    tool.expect(used["data"] == ["a.txt:0.7", "b.txt:0.3"] and used["eval-split"] == 0.2, f"what the checkpoint has: {used}")


@case
def a_run_that_was_moved_goes_on_where_it_lies(b):
    b.scratch.run("mtrun --recipe r.toml --steps 8 --checkpoint-every 4 --keep 9 --out first --quiet")
    b.scratch.run("bash -c 'cp -r first moved && rm -r moved/step-8 && mv first whole'")
    said = b.scratch.run("mtrun --recipe moved/recipe.toml --resume")
    tool.expect("step 8/8" in said and not (b.scratch / "first").exists() and b.used("moved")["out"] == "moved", said)
    b.same("whole", "moved", 8)


@case
def every_schedule_is_said_again(b):
    for schedule in ("constant", "linear --min-lr 1e-5", "cosine --lr-cycles 2", "wsd --decay-steps 2 --decay-shape 1-sqrt",
                     "wsd", "inverse-sqrt"):
        out = schedule.split()[0]
        b.scratch.run(f"mtrun plan.bin --data a.txt --steps 5 --overwrite --lr-schedule {schedule} --out {out}")
        b.scratch.run(f"mtrun --recipe {out}/recipe.toml --out {out}-again --overwrite")
        b.same(out, f"{out}-again", 5)


@case
def what_is_repeated_leaves_other_files_alone(b):
    b.scratch.run("mtrun --recipe r.toml --steps 2 --out files --metrics m.jsonl --trace t.json --tensorboard board --save-gradients g.npz")
    tool.expect(not {"metrics", "trace", "tensorboard", "save-gradients"} & b.used("files").keys(), str(b.used("files")))


@case
def a_bad_recipe_changes_nothing(b):
    (b.scratch / "bad.toml").write_text('plan = "plan.bin"\ndata = "a.txt"\nlr_schedule = "cosine"\nout = "never"\n')
    done = b.scratch.attempt("mtrun --recipe bad.toml")
    tool.expect(done.returncode == 2 and "bad.toml: 'lr_schedule' is no option of training" in done.stderr, done.stderr)
    tool.expect(not (b.scratch / "never").exists(), "a folder was made")


tool.main(lambda: case.run(Bench, "properties of recipes hold"))
