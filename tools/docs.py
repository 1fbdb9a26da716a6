#!/usr/bin/env python3
"""Pages and tables of reference that no other tool writes; tools/docs.sh calls it.

    tools/docs.py nn DUMP.json HEADER.md > nn.md        a row for each operation, from llvm-tblgen --dump-json
    tools/docs.py operators PAGE.md                     prints the page with its table of ONNX operators as the sources have it
    tools/docs.py standard > operators.md               every operator of ONNX: tests/onnx/operators.opsets and .lowered, and the sources
"""
import json
import pathlib
import re
import sys

ATTRIBUTES = {"I64Attr": "integer", "F64Attr": "real", "BoolAttr": "flag", "StrAttr": "name", "DenseI64ArrayAttr": "integers",
              "UnitAttr": "flag", "ElementsAttr": "values", "DenseF64ArrayAttr": "reals", "TypeAttr": "type"}
UNSUPPORTED = {  # why, of operators that no converter takes
    "text, or an encoded image": "ImageDecoder RegexFullMatch StringConcat StringNormalizer StringSplit TfIdfVectorizer",
    "the number of results depends on the data": "NonMaxSuppression Unique",
    "needs a kernel": "BitCast ConvInteger MaxRoiPool QLinearConv",
    "random numbers": "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
}
FLOWS = {"carried": "yes", "stopped": "no", "none": "none"}
BEGIN, END = "<!-- operators: tools/docs.sh writes from here", "<!-- to here -->"


class Dump:
    """Records of a dialect by name."""

    def __init__(self, path):
        self.records = json.load(open(path))

    def operations(self):
        found = [self.records[name] for name in self.records["!instanceof"]["Op"] if not name.startswith("anonymous")]
        return sorted(found, key=lambda op: op["opName"])

    def isa(self, name, kind):
        return name in self.records["!instanceof"].get(kind, [])

    def values(self, op, field):
        """Names of operands or results: `?` may be absent, `*` any number."""
        for reference, name in op[field]["args"]:
            kind = reference["def"]
            if not self.isa(kind, "AttrConstraint"):
                yield name + ("?" if self.isa(kind, "Optional") else "*" if self.isa(kind, "Variadic") else "")

    def attributes(self, op):
        for reference, name in op["arguments"]["args"]:
            record = self.records[reference["def"]]
            if not self.isa(reference["def"], "AttrConstraint"):
                continue
            base, default, optional = reference["def"], "", ""
            while base not in ATTRIBUTES and record.get("baseAttr"):
                default = default or (record.get("defaultValue") or "").strip('\\"')
                optional = "?" if self.isa(base, "OptionalAttr") else optional
                base = record["baseAttr"]["def"]
                record = self.records[base]
            yield f"{name}{optional}: {ATTRIBUTES.get(base, base)}" + (f" = {default}" if default else "")


def cell(text):
    return re.sub(r"\s+", " ", text).strip().replace("|", "\\|")


def nn_page(dump, header):
    lines = [header.rstrip().replace("\n[TOC]", "").rstrip(), "", "## Operations", "",
             "`?` may be absent, `*` is any number. A gradient is what `buildGradient` builds.", "",
             "| operation | operands -> results | attributes | gradient | computes |", "| --- | --- | --- | --- | --- |"]
    said = []
    for op in dump.operations():
        traits = {trait["def"] for trait in op["traits"]}
        lines.append("| `{}` | {} -> {} | {} | {} | {} |".format(
            op["opName"], ", ".join(dump.values(op, "arguments")), ", ".join(dump.values(op, "results")),
            cell(", ".join(dump.attributes(op))), "yes" if "Differentiable" in traits else "", cell(op["summary"])))
        if op["description"].strip():
            text = "\n".join(line.strip() for line in op["description"].strip().splitlines())
            said += ["", f"### `nn.{op['opName']}`", "", text]
    return "\n".join(lines + said) + "\n"


def operators():
    """(family, operators) in the order in which the table of converters is put together; the fused ones last."""
    folder = pathlib.Path(__file__).parents[1] / "compiler/onnx"
    order = re.findall(r"void add(\w+)\(Converters &table\);", (folder / "Converters.h").read_text())
    families, contrib = {name: set() for name in order}, set()
    for path in folder.glob("Convert*.cpp"):
        text = path.read_text()
        for family, body in re.findall(r"void add(\w+)\(Converters &table\) \{(.*?)\n\}", text, re.DOTALL):
            for where, name, converter, note in re.findall(r'table\.add(Contrib)?\("(\w+)", ([^;]*)\);(?: // (.*))?', body):
                if not converter.startswith("unsupported"):
                    (contrib if where else families[family]).add(name + (f" ({note})" if note else ""))
    # GraphImporter.cpp inlines these
    families["Control"] |= {"If (both branches, where data choose)", "Loop (of a known trip count)", "Scan", "SequenceMap"}
    return [(name.lower(), sorted(names)) for name, names in families.items() if names] + [("com.microsoft", sorted(contrib))]


def operators_page(page):
    table = "| family | operators |\n| --- | --- |\n" + "".join(f"| {family} | {' '.join(names)} |\n" for family, names in operators())
    begin, end = page.index(BEGIN), page.index(END)
    return page[:page.index("\n", begin) + 1] + "\n" + table + "\n" + page[end:]


def read_lines(name):
    return [line.split() for line in (pathlib.Path(__file__).parents[1] / "tests/onnx" / name).read_text().splitlines()]


def standard_page():
    notes = {}
    for family, names in operators():
        if family != "com.microsoft":
            notes.update((name.split(" ", 1) + [""])[:2] for name in names if not name.startswith("Simplified"))
    lowered = {line[0]: line[1:] for line in read_lines("operators.lowered")}
    reasons = {name: reason for reason, names in UNSUPPORTED.items() for name in names.split()}
    rows, supported = [], 0
    for name, *opsets in read_lines("operators.opsets"):
        deprecated = " (deprecated)" if opsets[-1] == "deprecated" else ""
        sets = " ".join(number for number in opsets if number.isdigit()) + deprecated
        if name not in notes:
            rows.append(f"| {name} | {sets} | no | {reasons.get(name, '')} | | |")
            continue
        supported += 1
        cases, flow, *becomes = lowered.get(name, ["", ""])
        note = "yes" + (" " + notes[name] if notes[name] else "")
        text = " ".join(f"`{operation}`" for operation in becomes) or ("nothing: known when compiling, or the input itself" if flow else "")
        rows.append(f"| {name} | {sets} | {note} | {text} | {FLOWS.get(flow, '')} | {cases} |")
    head = f"""# Operators of ONNX

{supported} of the {len(rows)} operators of the standard's default domain are supported, as of operator set 28 (package onnx
1.23.2); those of other domains stand in [importing](importing.md#operators). The second column has the operator sets that changed
an operator. *Becomes* are the operations of [nn](nn.md) in what the importer makes of its node cases, before anything is
recognized or fused. *Gradient*: whether one reaches real inputs; `none` where there is none to have. *Cases* are the node cases of the package that pass of all it
has for this operator; those that do not stand in tests/onnx/conformance.exceptions, each with its reason: types without kernels, mostly.

| operator | operator sets | supported | becomes; or why not | gradient | cases |
| --- | --- | --- | --- | --- | --- |
"""
    return head + "\n".join(rows) + "\n"


if sys.argv[1] == "nn":
    sys.stdout.write(nn_page(Dump(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()))
elif sys.argv[1] == "standard":
    sys.stdout.write(standard_page())
else:
    sys.stdout.write(operators_page(pathlib.Path(sys.argv[2]).read_text()))
