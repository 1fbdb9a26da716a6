"""`mtrun probe`: what it writes is a target that plans are compiled for, unified or not, with the calls of the plans that it was
given; what cannot be probed is said."""
import json

import tool

MODEL = "mtmodel llama --layers 2 --hidden 64 --heads 4 --kv-heads 2 --vocab 256 -o m.onnx"
KINDS = ("upload", "compute", "download", "host")


def check(condition, message):
    if not condition:
        raise tool.Failure(message)


def test():
    with tool.Scratch() as scratch:
        scratch.run(MODEL)
        scratch.run("mtc compile m.onnx -o m.bin --seq 64 --batch 2 --micro-batch 2")
        said = scratch.run("mtrun probe --brief m.bin -o t.json")
        check("GFLOP/s" in said and "kernel calls" in said, said)
        target = json.loads((scratch / "t.json").read_text())
        pairs = [line.split()[:2] for line in target["contention"]]
        check(len(pairs) == 6 and all(a in KINDS and b in KINDS for a, b in pairs), f"contention: {pairs}")
        check(all(float(line.split()[2]) >= 0 for line in target["contention"]), f"contention: {target['contention']}")
        check(target["measured"]["links_beside_updates"] >= 1 and "both links and split updates at once" in said, said)
        kernels = {line.split(" ", 2)[2].split("{")[0].split(" ")[0] for line in target["calls"]}
        check({"matmul", "rms_norm", "attention_grad", "adamw", "linear_cross_entropy_grad"} <= kernels, f"measured: {kernels}")
        check(all(float(line.split()[1]) > 0 for line in target["calls"]), "a call takes no time")
        printed = json.loads(scratch.run("mtc target t.json"))
        check(printed == {k: v for k, v in target.items() if k != "measured"}, "mtc target prints another target")
        # Plans of this machine: as it is, and with a device apart. A saved schedule gives the same plan.
        scratch.run("mtc compile m.onnx -o a.bin --target t.json --seq 64 --batch 2")
        target.update(unified=False, device_memory=1 << 30)
        (scratch / "d.json").write_text(json.dumps(target))
        scratch.run("mtc compile m.onnx -o b.bin --target d.json --seq 64 --batch 2")
        dumped = json.loads(scratch.run("mtc dump b.bin --format json"))
        check(dumped["target"]["name"] == "probed", "the plan is for another target")
        scratch.run("mtc compile m.onnx --emit schedule -o b.mlir --target d.json --seq 64 --batch 2")
        scratch.run("mtc emit b.mlir -o c.bin")
        check((scratch / "b.bin").read_bytes() == (scratch / "c.bin").read_bytes(), "the target's numbers are lost in a saved schedule")
        table = scratch.run("mtrun probe m.bin --roofline").splitlines()
        check("of roof" in table[1] and any("linear_cross_entropy_grad" in line and float(line.split()[3]) > 0 for line in table[2:-1])
              and table[-1].startswith("all calls of a step: "), f"{table}")
        for command, message in (("mtrun probe --roofline", "--roofline: it is of the calls of plans: name one"), ("mtrun probe none.bin -o t.json", "none.bin"), ("mtrun probe m.onnx -o t.json", "m.onnx"),
                                 ("mtrun probe --device gpu", "there are cpu, cuda and cuda:N")):
            failed = scratch.attempt(command)
            check(failed.returncode == 1 and message in failed.stderr, f"{command}: {failed.returncode} {failed.stderr}")
        if tool.has_mpi():
            said = scratch.run([*tool.launcher(2), "mtrun", "probe", "--brief", "--threads", "1", "-o", "r.json"], environment=tool.MPI)
            measured = json.loads((scratch / "r.json").read_text())
            check(said.count("network ") == 1 and measured["network_bandwidth"] > 1e6 and measured["network_overhead_seconds"] > 0, f"network: {said}")
            scratch.run("mtc compile m.onnx -o r.bin --target r.json --seq 64 --batch 4 --ranks 2")


tool.main(test)
