"""Breaks the compiler on purpose, one place at a time, and asks a test to find each: derivatives nn-gradients, the rows of a
batch passes-batches. Is the test worth its name? Not part of any suite, for it compiles a file for each mutant (some
minutes). Nothing in the working tree is touched: a changed copy of one file is compiled in a scratch folder with the build's
own commands and linked in front of the library.

    ninja -C build nn-gradients passes-batches && python3 tests/mutants.py build [NAME or TEST..]

`--check` asks no more than that every place is still there: the fast suite does.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
ELEMENTWISE, STRUCTURE, LOOKUPS, FUSED, RECURRENCE, COMMON = (
    f"compiler/nn/{name}.cpp" for name in ("GradientsElementwise", "GradientsStructure", "GradientsLookups", "GradientsFused", "GradientsRecurrence", "Nn"))
ROWS, FLOW, PART, SPLIT = "compiler/nn/NnRows.cpp", "passes/nn/BatchFlow.cpp", "passes/nn/PartOfBatch.cpp", "passes/nn/SplitBatch.cpp"
TESTS = {file: "nn-gradients" for file in (ELEMENTWISE, STRUCTURE, LOOKUPS, FUSED, RECURRENCE, COMMON)} | {file: "passes-batches" for file in (ROWS, FLOW, PART, SPLIT)}
LIBRARIES = {"compiler/nn": "compiler/nn/CMakeFiles/mt_nn.dir", "passes/nn": "passes/CMakeFiles/mt_passes.dir"}
# name, file, what stands there (once), what shall stand there
MUTANTS = [
    ("sign of sin's", ELEMENTWISE, "MT_UNARY(SinOp, e.mul(dy, e.make<CosOp>(x)))", "MT_UNARY(SinOp, e.neg(e.mul(dy, e.make<CosOp>(x))))"),
    ("sign of rsqrt's", ELEMENTWISE, "e.times(dy, -0.5)", "e.times(dy, 0.5)"),
    ("abs without sign", ELEMENTWISE, "MT_UNARY(AbsOp, e.mul(dy, e.make<SignOp>(x)))", "MT_UNARY(AbsOp, dy)"),
    ("erf's constant", ELEMENTWISE, "2 * std::numbers::inv_sqrtpi", "std::numbers::inv_sqrtpi"),
    ("sign of cos's", ELEMENTWISE, "e.neg(e.mul(dy, e.make<SinOp>(x)))", "e.mul(dy, e.make<SinOp>(x))"),
    ("sign of sub's right side", ELEMENTWISE, "addBroadcast(e, g, getRhs(), [&] { return e.neg(dy); })", "addBroadcast(e, g, getRhs(), [&] { return dy; })"),
    ("mul by the wrong operand", ELEMENTWISE, "addBroadcast(e, g, getLhs(), [&] { return e.mul(dy, getRhs()); })", "addBroadcast(e, g, getLhs(), [&] { return e.mul(dy, getLhs()); })"),
    ("div's right side not divided again", ELEMENTWISE, "e.neg(e.div(e.mul(dy, getResult()), getRhs()))", "e.neg(e.mul(dy, getResult()))"),
    ("pow's exponent not lessened", ELEMENTWISE, "e.sub(getRhs(), scalarLike(b, getRhs(), 1))", "getRhs()"),
    ("pow's logarithm of the exponent", ELEMENTWISE, "e.make<LogOp>(getLhs())", "e.make<LogOp>(getRhs())"),
    ("pow of zero to a positive power", ELEMENTWISE, 'scalarLike(b, getRhs(), 0), "ge")', 'scalarLike(b, getRhs(), 0), "lt")'),
    ("maximum to the smaller", ELEMENTWISE, 'extremum(*this, b, g, "gt")', 'extremum(*this, b, g, "lt")'),
    ("ties of maximum count twice", ELEMENTWISE, "e.times(dy, 0.5), false", "dy, false"),
    ("select's sides exchanged", ELEMENTWISE, "e.zeroWhere(getCondition(), dy, true)", "e.zeroWhere(getCondition(), dy, false)"),
    ("tanh without the square", ELEMENTWISE, "MT_UNARY(TanhOp, e.sub(dy, e.mul(dy, e.mul(y, y))))", "MT_UNARY(TanhOp, e.sub(dy, e.mul(dy, y)))"),
    ("sigmoid of its operand", ELEMENTWISE, "e.sub(y, e.mul(y, y))", "e.sub(x, e.mul(x, x))"),
    ("exp of its operand", ELEMENTWISE, "MT_UNARY(ExpOp, e.mul(dy, y))", "MT_UNARY(ExpOp, e.mul(dy, x))"),
    ("atan's one", ELEMENTWISE, "e.add(e.mul(x, x), scalarLike(b, x, 1))", "e.add(e.mul(x, x), scalarLike(b, x, 2))"),
    ("log multiplied", ELEMENTWISE, "MT_UNARY(LogOp, e.div(dy, x))", "MT_UNARY(LogOp, e.mul(dy, x))"),
    ("sqrt's half", ELEMENTWISE, "e.div(e.times(dy, 0.5), y)", "e.div(dy, y)"),
    ("sign of reciprocal's", ELEMENTWISE, "e.neg(e.mul(dy, e.mul(y, y)))", "e.mul(dy, e.mul(y, y))"),
    ("dropout's ratio forgotten backward", ELEMENTWISE, "getScalars(), getNode(), getRatio()", "getScalars(), getNode(), APFloat(0.0)"),
    ("dropout's rows forgotten backward", ELEMENTWISE, "g.lookup(getResult()), getRows(), getScalars()", "g.lookup(getResult()), Value(), getScalars()"),
    ("every gelu is exact", ELEMENTWISE, '("gelu_" + getForm()).str()', '"gelu_erf"'),
    ("sums around a mean of other dimensions", ELEMENTWISE, "return axes == summed;", "return true;"),
    ("sums around another's mean", ELEMENTWISE, "sourceOf(mean.getOperand()) != sourceOf(difference.getLhs())", "!mean.getOperand()"),
    ("sums of what has other factors", ELEMENTWISE, "if (summed[i] && i >= lead && shape[i - lead] != 1)", "if (summed[i] && i >= lead && shape[i - lead] > 3)"),
    ("sums of which one part is balanced", ELEMENTWISE, "return isOne(op->getOperand(0)) && isOne(op->getOperand(1));", "return isOne(op->getOperand(0)) || isOne(op->getOperand(1));"),
    ("broadcasts not summed", ELEMENTWISE, "sumTo(e.builder, each, shapeOf(operand))", "each"),
    ("transpose not inverted", STRUCTURE, "inverse[from] = i;", "inverse[i] = from;"),
    ("slice from the wrong end", STRUCTURE, "low.push_back(std::min(start, last))", "low.push_back(size - 1 - std::max(start, last))"),
    ("slice not turned back", STRUCTURE, "flip(b, g.lookup(getResult()), getStrides())", "g.lookup(getResult())"),
    ("pad's interior forgotten", STRUCTURE, "strides.push_back(interior + 1)", "strides.push_back(interior ? 1 : 1)"),
    ("concat's parts all the first", STRUCTURE, "starts[getAxis()] += shapeOf(input)[getAxis()];", ""),
    ("mean's count", STRUCTURE, "1.0 / count", "1.0 / (count + 1)"),
    ("winners do not share", STRUCTURE, "DivOp::create(b, getLoc(), dy, winners)", "dy"),
    ("zeros of a product not counted", STRUCTURE, "SubOp::create(b, where, zeros, isZero), zero", "SubOp::create(b, where, zeros, zeros), zero"),
    ("cumsum in the same direction", STRUCTURE, "getExclusive(), !getReverse()", "getExclusive(), getReverse()"),
    ("cumsum always inclusive", STRUCTURE, "getExclusive(), !getReverse()", "false, !getReverse()"),
    ("gather along the first axis", LOOKUPS, "getIndices(), g.lookup(getResult()), getAxis())", "getIndices(), g.lookup(getResult()), 0)"),
    ("product by an untransposed right side", FUSED, "product(b, where, dy, r, false, !tr)", "product(b, where, dy, r, false, tr)"),
    ("transposed left side not turned back", FUSED, "tl ? swapLastTwo(b, dl) : dl", "dl"),
    ("right side's factors exchanged", FUSED, "g.add(b, r, tr ? product(b, where, dy, l, true, tl)", "g.add(b, r, tr ? product(b, where, l, dy, true, tl)"),
    ("gelu of a product, the exact one", FUSED, 'g.lookup(getResult()), "gelu_tanh")', 'g.lookup(getResult()), "gelu_erf")'),
    ("a product beside its gelu forgotten", FUSED, "dy = AddOp::create(b, getLoc(), dy, beside)", "(void)beside"),
    ("layer norm's gain and bias exchanged", FUSED, "g.add(b, getBias(), grad.getDbias());\n  return success();\n}\n\nLogicalResult RmsNormOp", "g.add(b, getBias(), grad.getDgain());\n  return success();\n}\n\nLogicalResult RmsNormOp"),
    ("layer norm's statistics exchanged", FUSED, "getOperand(), getMean(), getRstd(), getGain()", "getOperand(), getRstd(), getMean(), getGain()"),
    ("rms norm without its gain", FUSED, "getOperand(), getRstd(), getGain(), /*addend=*/Value()", "getOperand(), getRstd(), Value(), /*addend=*/Value()"),
    ("softmax from its operand", FUSED, "SoftmaxGradOp::create(b, getLoc(), g.lookup(getResult()), getResult())", "SoftmaxGradOp::create(b, getLoc(), g.lookup(getResult()), getOperand())"),
    ("log softmax not exponentiated", FUSED, "ExpOp::create(b, getLoc(), getResult())", "getResult()"),
    ("gated product's sides exchanged", FUSED, "g.add(b, getGate(), grad.getDgate())", "g.add(b, getGate(), grad.getDup())"),
    ("attention's cap forgotten", FUSED, "getSegmentBiasAttr(), getSoftCapAttr());\n  g.add", "getSegmentBiasAttr(), b.getF64FloatAttr(0));\n  g.add"),
    ("attention's prefix forgotten", FUSED, "getOffsetAttr(), getPrefixAttr()", "getOffsetAttr(), b.getI64IntegerAttr(0)"),
    ("attention's key mask forgotten", FUSED, "getBias(), getKeyMask(),\n      getQuerySegment()", "getBias(), Value(),\n      getQuerySegment()"),
    ("attention's gradient for its output", FUSED, "getSink(), getResult(), getLogsumexp()", "getSink(), g.lookup(getResult()), getLogsumexp()"),
    ("rotary forwards", FUSED, "getInterleaved(), !getInverse()", "getInterleaved(), getInverse()"),
    ("a scaled loss's gradient not scaled", FUSED, "one && *one == 1", "!one || *one == 1"),
    ("the head's scale forgotten", FUSED, "getTransposedAttr(), getLogitScaleAttr()", "getTransposedAttr(), b.getF64FloatAttr(1)"),
    ("cross-entropy's label smoothing forgotten", FUSED, "getScalars(), getLabelSmoothingAttr()", "getScalars(), FloatAttr()"),
    ("the head's z-loss forgotten", FUSED, "getChunkAttr(), getLabelSmoothingAttr(), getZLossAttr()", "getChunkAttr(), getLabelSmoothingAttr(), FloatAttr()"),
    ("sign of the target's", FUSED, "NegOp::create(b, getLoc(), scaledBy(b, upstream, grad.getDprediction()))", "scaledBy(b, upstream, grad.getDprediction())"),
    ("a recurrence's states of the wrong end", RECURRENCE, "sliceOf(b, states, 0, op.getReverse() ? 1 : 0, steps - 1)", "sliceOf(b, states, 0, op.getReverse() ? 0 : 1, steps - 1)"),
    ("a recurrence's initial state last", RECURRENCE, "if (op.getReverse())\n      std::swap", "if (!op.getReverse())\n      std::swap"),
    ("a recurrence's weight by slopes of gates", RECURRENCE, "getLinearBeforeReset() ? grad.getDproducts() : grad.getDgates()", "grad.getDgates()"),
    ("a candidate's weight by the whole state", RECURRENCE, "weightGradient(sliceOf(b, slopes, 2, firsts, width), left)", "weightGradient(sliceOf(b, slopes, 2, firsts, width), before)"),
    ("a reset gate's clip forgotten", RECURRENCE, "clip > 0)", "clip > 1e9)"),
    ("a peephole's gates exchanged", RECURRENCE, "{1, op.getCell()}, {2, cellBefore}", "{2, op.getCell()}, {1, cellBefore}"),
    ("a recurrence's cells without gradient", RECURRENCE, "lstm ? g.lookup(getCell()) : Value(), left", "Value(), left"),
    ("a recurrence's lengths forgotten", RECURRENCE, "cellBefore, getLengths(), getPeephole()", "cellBefore, Value(), getPeephole()"),
    ("a second use of a value forgotten", COMMON, "sum = sum ? AddOp::create(builder, gradient.getLoc(), sum, gradient).getResult() : gradient;", "sum = gradient;"),
    ("sums along the wrong dimension", COMMON, "i < lead || (shape[i - lead] == 1", "i < lead || (shape[shape.size() - 1 - (i - lead)] == 1"),
    ("what meets rows need not be the same for all", ROWS, "return isSameAlong(op->getOperand(i), at);", "return true;"),
    ("rows of several places broadcast together", ROWS, "if (result.isEach() && !(result == aligned))", "if (false)"),
    ("terms of a sum not noted", ROWS, "  terms[i] = true;", ""),
    ("whole numbers have parts", ROWS, "  return isReal(op->getOperand(i));", "  return true;"),
    ("a quotient of whole numbers is linear", ROWS, "(isa<DivOp>(op) && real && !isTotal(1))", "(isa<DivOp>(op) && !isTotal(1))"),
    ("a product of sums is linear", ROWS, "isTotal(0) != isTotal(1)", "true"),
    ("a quotient by a sum is linear", ROWS, "real && !isTotal(1)", "real"),
    ("sums and rows together", ROWS, "if (total && each)", "if (false)"),
    ("along the last dimension", ROWS, "operands[0].dim == rankOf(operand) - 1 ? Rows::mixing(kOverRows) : operands[0];", "operands[0];"),
    ("reshapes cut rows", ROWS, "before % front == 0 && after % back == 0", "after % back == 0"),
    ("reshapes cut what is inside rows", ROWS, "before % front == 0 && after % back == 0", "before % front == 0"),
    ("positions along rows are the same", ROWS, "static_cast<int64_t>(iota.getDimension()) == at.dim ? std::nullopt : std::optional(Followed())", "std::optional(Followed())"),
    ("running sums are the same", ROWS, "sum && static_cast<int64_t>(sum.getAxis()) != at.dim", "sum"),
    ("what is joined is the same", ROWS, "concat ? static_cast<int64_t>(concat.getAxis()) == at.dim :", "concat ? false :"),
    ("transposes forget rows", ROWS, "operands[0].moved(at - getPermutation().begin())", "operands[0]"),
    ("slices of some rows", ROWS, "getSizes()[dim] == shapeOf(getOperand())[dim]", "true"),
    ("padded rows", ROWS, "getLow()[dim] == 0 &&", ""),
    ("rows joined", ROWS, "if (result.dim == static_cast<int64_t>(getAxis()))", "if (false)"),
    ("the largest of all rows", ROWS, 'getKind() == "sum" || (getKind() == "mean"', 'true || (getKind() == "mean"'),
    ("dimensions that go are not counted", ROWS, "gone += axis < operands[0].dim && !getKeepDims();", ""),
    ("running sums over rows", ROWS, "return operands[0].dim == static_cast<int64_t>(getAxis()) ? Rows::mixing(kOverRows) : operands[0];", "return operands[0];"),
    ("gathered rows", ROWS, "if (operands[0].dim == axis)", "if (false)"),
    ("tuples in tables that differ by row", ROWS, "indices.dim >= batched || operands.meets(0, indices)", "true"),
    ("elements picked along rows", ROWS, "data.isEach() && data.dim != axis && (data == indices", "data.isEach() && (data == indices"),
    ("products sum over rows", ROWS, "return rows.dim == own ? std::optional<int64_t>(to) : std::nullopt;", "return std::optional<int64_t>(to);"),
    ("products by what differs by row", ROWS, "return !operands[i].isNone() || operands.meets(i, result->moved(at));", "return true;"),
    ("means not scaled", FLOW, "flow.edits.push_back({BatchEdit::scaleResult, reduce});", ";"),
    ("sums of data not those of the step", FLOW, "flow.edits.push_back({BatchEdit::sumResult, reduce, 0, isMean});", ""),
    ("means of data not scaled", FLOW, "reduce, 0, isMean}", "reduce, 0, false}"),
    ("a loss of no rows counted for each part", FLOW, "flow.edits.push_back({BatchEdit::scaleOperand, exit});", ";"),
    ("terms not scaled", FLOW, "flow.edits.push_back({BatchEdit::scaleOperand, op, i});", ";"),
    ("what meets rows is not cut", FLOW, "flow.meetings.push_back({op, i, operands.met(i)});", ";"),
    ("the part's share turned over", SPLIT, "static_cast<double>(part) / static_cast<double>(whole)", "static_cast<double>(whole) / static_cast<double>(part)"),
    ("repeated values of the wrong size", PART, "    shape[dim] = shape[dim] / flow.batch * rows;", "    shape[dim] = rows;"),
]


def last_command(build, target):
    """The command that makes `target`, the last of those that lead to it."""
    return subprocess.run(["ninja", "-C", build, "-t", "commands", target], check=True, capture_output=True,
                          text=True).stdout.strip().splitlines()[-1]


def made_with(build, folder, mutant):
    """The test program with the mutant in it."""
    _, file, old, new = mutant
    text = (ROOT / file).read_text()
    test, place = TESTS[file], pathlib.Path(file)
    source, target, program = folder / place.name, folder / "mutant.o", folder / test
    source.write_text(text.replace(old, new))
    objects = LIBRARIES[str(place.parent)]
    compiled, stem = ROOT / file, f"{objects}/{place.name}.o"
    for together in (build / objects / "Unity").glob("*.cxx"):  # files that are compiled together
        if str(compiled) in (text := together.read_text()):
            (folder / together.name).write_text(text.replace(str(compiled), str(source)))
            compiled, source, stem = together, folder / together.name, f"{objects}/Unity/{together.name}.o"
            break
    compile_ = last_command(build, stem).replace(str(compiled), str(source)).replace(stem, str(target))
    subprocess.run(f"{compile_} -w", shell=True, check=True, cwd=build)  # what is left unused is no error
    link = last_command(build, test)
    link = re.sub(rf" -o bin/{test} ", f" -o {program} {target} ", link)
    subprocess.run(link, shell=True, check=True, cwd=build)
    return program


def found_by(program):
    """The first test that fails, those of attention last, which take longest; none if all pass."""
    for tests in ("-*attention*", "*attention*"):
        run = subprocess.run([program, "--gtest_fail_fast", "--gtest_brief=1", f"--gtest_filter={tests}"],
                             capture_output=True, text=True)
        if run.returncode:
            break
    else:
        return None
    failed = re.search(r"\[  FAILED  \] (\S+?),? ", run.stdout)
    return failed.group(1) if failed else f"the program's end ({run.returncode}): {(run.stderr + run.stdout).strip()[:80]}"


def main():
    for name, file, old, _ in MUTANTS:
        if (times := (ROOT / file).read_text().count(old)) != 1:
            sys.exit(f"{name}: '{old}' stands {times} times in {file}; correct the mutant")
    if sys.argv[1:] == ["--check"]:
        return 0
    build, chosen = pathlib.Path(sys.argv[1]).resolve(), sys.argv[2:]
    mutants = [mutant for mutant in MUTANTS if not chosen or mutant[0] in chosen or TESTS[mutant[1]] in chosen]
    for test in {TESTS[mutant[1]] for mutant in mutants}:
        if missing := found_by(build / "bin" / test):
            sys.exit(f"{test} fails without any mutant: {missing}")
    lost = 0
    for mutant in mutants:
        with tempfile.TemporaryDirectory() as folder:
            test = found_by(made_with(build, pathlib.Path(folder), mutant))
        lost += test is None
        print(f"{'LOST ' if test is None else 'found'}  {mutant[0]}: {test}", flush=True)
    print(f"{len(mutants) - lost} of {len(mutants)} found")
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
