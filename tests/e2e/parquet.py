"""tools/from_parquet.py: what mtrun reads of columns under their own or other names. Skipped (exit 77) without pyarrow.

    python3 tests/e2e/parquet.py
"""
import json
import pathlib
import sys

import tool

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "tools" / "from_parquet.py"
case = tool.Cases()


class Bench:
    def __init__(self, scratch):
        self.scratch = scratch

    def write(self, name, rows):
        import pyarrow
        import pyarrow.parquet
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), self.scratch / name, row_group_size=2)

    def convert(self, words):
        self.scratch.run([sys.executable, SCRIPT, *words.split(), "-o", "out.jsonl"])
        return [json.loads(line) for line in open(self.scratch / "out.jsonl")]

    def refuses(self, words, text):
        done = self.scratch.attempt([sys.executable, SCRIPT, *words.split(), "-o", "never.jsonl"])
        tool.expect(done.returncode == 1 and text in done.stderr, f"{words}: exit {done.returncode}, not '{text}': {done.stderr}")
        tool.expect(not list(self.scratch.path.glob("never*")), "something was left")


@case
def columns_become_fields(b):
    b.write("a.parquet", [{"text": f"line {i}\n\u00e9", "id": i} for i in range(5)])
    b.write("b.parquet", [{"text": "last", "id": 9}])
    tool.expect(b.convert("a.parquet b.parquet") == [{"text": f"line {i}\n\u00e9"} for i in range(5)] + [{"text": "last"}], "other texts")
    b.write("c.parquet", [{"question": "2+2", "answer": "4", "text": "not this"}])
    tool.expect(b.convert("c.parquet --column prompt=question --column completion=answer") == [{"prompt": "2+2", "completion": "4"}], "other prompts")
    talk = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b", "thoughts": "c"}]
    b.write("d.parquet", [{"messages": talk, "tools": None}, {"messages": talk[:1], "tools": json.dumps([{"name": "f"}])}])
    tool.expect(b.convert("d.parquet") == [{"messages": talk}, {"messages": talk[:1], "tools": [{"name": "f"}]}], "other messages")


@case
def what_is_refused(b):
    b.write("e.parquet", [{"title": "x"}])
    b.refuses("e.parquet", "e.parquet: it has the columns title, and neither messages nor prompt and completion nor text")
    b.refuses("e.parquet --column title=x", "--column title=x: must be NAME=COLUMN")
    b.refuses("none.parquet", "none.parquet: ")
    (b.scratch / "f.parquet").write_text("no parquet")
    b.refuses("f.parquet", "f.parquet: ")


def main():
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        print("skipped: pyarrow is not there")
        sys.exit(77)
    case.run(Bench, "properties of converted files hold")


tool.main(main)
