#!/usr/bin/env python3
"""Rows of .parquet files as .jsonl that mtrun reads: the columns that it knows - text; prompt and completion; messages with
tools - or others under these names. Reads a row group at a time. Needs pyarrow (pip install pyarrow).

    tools/from_parquet.py data/*.parquet -o chats.jsonl
    tools/from_parquet.py qa.parquet -o qa.jsonl --column prompt=question --column completion=answer
"""
import argparse
import json
import os
import sys

KNOWN = [("messages",), ("prompt", "completion"), ("text",)]
BESIDE = {"messages": ("tools", "documents", "chat_template_kwargs")}


def fail(text):
    sys.exit(f"error: {text}")


def arguments():
    parser = argparse.ArgumentParser(description="Rows of .parquet files as .jsonl that mtrun reads.",
                                     epilog="Example: tools/from_parquet.py qa.parquet -o qa.jsonl --column prompt=question --column completion=answer")
    parser.add_argument("files", nargs="+", metavar="FILE.parquet")
    parser.add_argument("-o", "--output", required=True, metavar="FILE.jsonl")
    parser.add_argument("--column", action="append", default=[], metavar="NAME=COLUMN", help="text, prompt, completion, messages or tools from another column; repeatable")
    return parser.parse_args()


def renamed(pairs):
    names = {}
    for pair in pairs:
        name, equals, column = pair.partition("=")
        if not equals or not column or name not in {n for group in KNOWN for n in group} | {n for group in BESIDE.values() for n in group}:
            fail(f"--column {pair}: must be NAME=COLUMN, NAME one of text, prompt, completion, messages, tools, documents")
        names[name] = column
    return names


def chosen(columns, names, path):
    """The names that every row must have, and which column is taken under which name."""
    has = lambda name: names.get(name, name) in columns
    for group in KNOWN:
        if all(map(has, group)):
            return group, {name: names.get(name, name) for name in group + tuple(n for n in BESIDE.get(group[0], ()) if has(n))}
    fail(f"{path}: it has the columns {', '.join(columns)}, and neither messages nor prompt and completion nor text: say which with --column")


def plain(value):
    """Without what is null in it: Arrow gives every field of a struct to each row. A text that holds JSON of a list is that list."""
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items() if v is not None}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value


def rows_of(path, names, parquet):
    try:
        file = parquet.ParquetFile(path)
    except Exception as problem:  # of many kinds
        fail(f"{path}: {problem}")
    needed, columns = chosen(file.schema_arrow.names, names, path)
    number = 0
    for batch in file.iter_batches(batch_size=1024, columns=list(columns.values())):
        for row in batch.to_pylist():
            number += 1
            made = {name: plain(row[column]) for name, column in columns.items() if row[column] is not None}
            for name in ("messages", "tools", "documents"):
                if isinstance(made.get(name), str):
                    try:
                        made[name] = json.loads(made[name])
                    except ValueError as problem:
                        fail(f"{path}: row {number}: column {columns[name]}: {problem}")
            if all(name in made for name in needed):
                yield made


def main():
    options = arguments()
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        fail("pyarrow is not there: pip install pyarrow")
    names, count = renamed(options.column), 0
    aside = f"{options.output}.tmp.{os.getpid()}"
    try:
        with open(aside, "w", encoding="utf-8") as out:
            for path in options.files:
                for row in rows_of(path, names, parquet):
                    out.write(json.dumps(row, ensure_ascii=False) + "\n")
                    count += 1
        os.replace(aside, options.output)
    except OSError as problem:
        fail(f"{options.output}: {problem.strerror}")
    finally:
        if os.path.exists(aside):
            os.remove(aside)
    print(f"{options.output}: {count} rows of {len(options.files)} files")


if __name__ == "__main__":
    main()
