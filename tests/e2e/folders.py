"""Checkpoint folders as users have them: in the hub's cache, with other files beside, named in any way; and folders that are none.

    PATH=build/bin:$PATH python3 tests/e2e/folders.py
"""
import json
import re
import shutil

import tool

case = tool.Cases()
SIZES = "--batch 4 --seq 16"
PARTS = "config.json", "model.safetensors"


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch
        (scratch / "text.txt").write_text("the quick brown fox jumps over the lazy dog; " * 40)
        self.copy("llama")

    def copy(self, name):
        """A checkpoint folder of that name."""
        shutil.rmtree(self.scratch / name, ignore_errors=True)
        return shutil.copytree(tool.GOLDEN / "llama" / "hf", self.scratch / name)

    def cache(self):
        """The same as the hub's cache has it; the revision's path."""
        model = self.scratch / "hub" / "models--maker--tiny-llama"
        shutil.rmtree(model, ignore_errors=True)
        revision = model / "snapshots" / "0123456789abcdef"
        (model / "blobs").mkdir(parents=True)
        revision.mkdir(parents=True)
        for number, part in enumerate(PARTS):
            shutil.copy(self.scratch / "llama" / part, model / "blobs" / f"{number:040}")
            (revision / part).symlink_to(f"../../blobs/{number:040}")
        return revision

    def plan(self, folder, output="plan.bin"):
        self.scratch.run(f"mtc compile {folder} -o {output} {SIZES}")
        return tool.plan(self.scratch, output)

    def refuses(self, command, pattern):
        done = self.scratch.attempt(command)
        tool.expect(done.returncode == 1 and re.search(pattern, done.stderr), f"{command}: exit {done.returncode}, not '{pattern}': {done.stderr}")


def listing(folder):
    return {str(f.relative_to(folder)): f.read_bytes() for f in folder.rglob("*") if f.is_file()}


@case
def any_spelling_is_the_same_plan(b):
    want = b.plan("llama")["parameters"]
    folder = b.scratch / "llama"
    for spelling in ("llama/", "./llama", "llama/../llama//", folder, f"{folder}/"):
        tool.expect(b.plan(spelling)["parameters"] == want, f"{spelling}: another plan")
    b.scratch.run(["bash", "-c", f"cd llama && mtc compile . -o ../here.bin {SIZES}"])
    tool.expect(tool.plan(b.scratch, "here.bin")["parameters"] == want, "'.': another plan")
    tool.expect(all(p["initial"]["path"] == str((folder / "model.safetensors").resolve()) for p in want), f"weights lie elsewhere: {want[0]}")


@case
def a_folder_is_only_read(b):
    folder = b.copy("kept")
    (folder / "tokenizer.json").write_text("{}")
    (folder / "pytorch_model.bin").write_text("not looked at")
    (folder / "consolidated.safetensors").write_text("not looked at")
    before = listing(folder)
    for command in ("mtc check kept", "mtc compile kept -o out.bin", "mtc fit kept --device-memory 64MiB"):
        b.scratch.run(f"{command} {SIZES}")
    tool.expect(listing(folder) == before, "the folder changed")


@case
def a_plan_beside_the_checkpoint(b):
    folder = b.copy("beside")
    for _ in range(2):
        b.scratch.run(f"mtc compile beside -o beside/plan.bin {SIZES}")
    kept = listing(folder)
    for name in ("config.json", "model.safetensors"):
        b.refuses(f"mtc compile beside -o beside/{name} {SIZES}", rf"-o beside/{name}: this would overwrite a file of the model, beside/{name}")
    tool.expect(listing(folder) == kept, "the folder changed")


@case
def two_runs_in_one_folder(b):
    folder = b.copy("own")
    kept = listing(folder)
    for run in ("first", "second"):
        b.scratch.run(["bash", "-c", f"cd own && mtc compile . -o {run}.bin {SIZES} && mtrun {run}.bin --data ../text.txt --steps 3 --out {run} "
                                     f"--metrics {run}.jsonl"])
    tool.expect(tool.metrics(folder / "first.jsonl") == tool.metrics(folder / "second.jsonl"), "two runs differ")
    tool.expect(kept.items() <= listing(folder).items(), "the checkpoint changed")
    b.scratch.run("mtrun export own/first -o trained.safetensors")
    trained, stored = tool.safetensors(b.scratch / "trained.safetensors"), tool.safetensors(folder / "model.safetensors")
    tool.expect({n: t[1] for n, t in trained.items()} == {n: t[1] for n, t in stored.items()}, "other names or shapes are exported")
    b.refuses("mtrun export own/first -o trained.onnx", r"is the checkpoint folder '.*own': export to \.safetensors")


@case
def the_hubs_cache(b):
    revision = b.cache()
    plan = b.plan(revision)
    tool.expect(plan["model"]["name"] == "tiny-llama", f"the plan's model is {plan['model']}")
    tool.expect(all("/blobs/" in p["initial"]["path"] for p in plan["parameters"]), "weights are not where the links lead")
    b.refuses(f"mtc check {revision.parent.parent}", r"hub's cache of a model; name one of the folders in .*snapshots")
    for target in (b.scratch / "llama" / "model.safetensors", "../../../../llama/model.safetensors"):
        (revision / "model.safetensors").unlink()
        (revision / "model.safetensors").symlink_to(target)
        b.refuses(f"mtc check {revision}", r"model\.safetensors is a link out of the model's folder in the cache, .*tiny-llama")
    folder = b.copy("linked")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").symlink_to("../llama/model.safetensors")
    b.refuses("mtc check linked", r"model\.safetensors is a link out of the model's folder")


@case
def the_graph_as_a_file_is_the_same(b):
    b.scratch.run("mtmodel from-hf llama -o llama/model.onnx")
    tool.expect(b.plan("llama/model.onnx")["parameters"] == b.plan("llama")["parameters"], "from-hf gives another plan")
    (b.scratch / "llama/model.onnx").unlink()


@case
def what_is_no_checkpoint(b):
    b.refuses("mtc check llama/config.json", r"llama/config\.json: is a file of a checkpoint; name the folder")
    b.refuses("mtc check llama/model.safetensors", r"model\.safetensors: is a file of a checkpoint; name the folder")
    b.refuses("mtc check no-such-folder", r"no-such-folder: cannot be opened")
    (b.scratch / "empty").mkdir()
    b.refuses("mtc check empty", r"empty/config\.json: cannot be opened.*a checkpoint folder holds config\.json")
    folder = b.copy("old")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    b.refuses("mtc check old", r"holds pytorch_model\.bin and no \*\.safetensors file; load it with transformers")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | dict(architectures=["GemmaForStrangers"])))
    b.refuses("mtc check old", r"old/config\.json: 'architectures' is \[\"GemmaForStrangers\"\]; supported: GPT2LMHeadModel, .*torch\.onnx\.export")


@case
def what_does_not_fit(b):
    folder = b.copy("wrong")
    config = json.loads((folder / "config.json").read_text())
    for change, pattern in ((dict(vocab_size=255), r"model\.embed_tokens\.weight' is \[256, 64\], but config\.json makes it \[255, 64\]"),
                            (dict(num_hidden_layers=4), r"wrong: the checkpoint has no tensor 'model\.layers\.3\.input_layernorm\.weight'")):
        (folder / "config.json").write_text(json.dumps(config | change))
        b.refuses("mtc compile wrong -o wrong.bin", pattern)
    (folder / "config.json").write_text(json.dumps(config | dict(num_hidden_layers=2)))
    done = b.scratch.attempt(f"mtc check wrong {SIZES}")
    tool.expect(done.returncode == 0 and "does not use 9 of its tensors, which are left out: model.layers.2." in done.stderr, done.stderr)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(whole[:-100])
    b.refuses("mtc check wrong", r"model\.safetensors: tensor '.*': its bytes do not fit its shape or lie outside the file")


tool.main(lambda: case.run(Bench, "uses of checkpoint folders do what they should"))
