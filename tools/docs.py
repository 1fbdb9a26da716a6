#!/usr/bin/env python3
"""Pages and tables of reference that no other tool writes; tools/docs.sh calls it.

    tools/docs.py nn DUMP.json HEADER.md > nn.md        a row for each operation, from llvm-tblgen --dump-json
    tools/docs.py operators PAGE.md                     prints the page with its table of ONNX operators as the sources have it
"""
import json
import pathlib
import re
import sys

ATTRIBUTES = {"I64Attr": "integer", "F64Attr": "real", "BoolAttr": "flag", "StrAttr": "name", "DenseI64ArrayAttr": "integers",
              "UnitAttr": "flag", "ElementsAttr": "values", "DenseF64ArrayAttr": "reals", "TypeAttr": "type"}
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
    families["Control"] |= {"If (on shapes and constants)", "Loop (of a known trip count)", "Scan"}
    return [(name.lower(), sorted(names)) for name, names in families.items() if names] + [("com.microsoft", sorted(contrib))]


def operators_page(page):
    table = "| family | operators |\n| --- | --- |\n" + "".join(f"| {family} | {' '.join(names)} |\n" for family, names in operators())
    begin, end = page.index(BEGIN), page.index(END)
    return page[:page.index("\n", begin) + 1] + "\n" + table + "\n" + page[end:]


if sys.argv[1] == "nn":
    sys.stdout.write(nn_page(Dump(sys.argv[2]), pathlib.Path(sys.argv[3]).read_text()))
else:
    sys.stdout.write(operators_page(pathlib.Path(sys.argv[2]).read_text()))
