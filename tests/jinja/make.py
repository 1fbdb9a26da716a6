"""Makes the recorded cases of the tests: what the package transformers renders of the snippets of snippets.py and of the
templates in templates/, with random conversations.

    pip install transformers==5.23.0 jinja2==3.1.6
    python tests/jinja/make.py tests/jinja/cases.json
"""
import json
import pathlib
import sys

from transformers.utils.chat_template_utils import _compile_jinja_template

from conversations import Conversations
from snippets import EXPRESSIONS, SNIPPETS, VARIABLES

HERE = pathlib.Path(__file__).resolve().parent
CONVERSATIONS = 30


def render(source, variables):
    """[text], [text, spans] where there are any, in bytes of UTF-8, or [] of an error."""
    try:
        template = _compile_jinja_template(source)
        blocks, spans = [], []
        with template.environment.activate_tracker(blocks, spans):
            for block in template.generate(**variables):
                blocks.append(block)
        text = "".join(blocks)
        text.encode()
    except Exception: # whatever a template may do wrong
        return []
    assert " at 0x" not in text, source
    in_bytes = [len(text[:place].encode()) for span in spans for place in span]
    return [text, in_bytes] if spans else [text]


def main():
    compact = {"ensure_ascii": False, "separators": (",", ":")}
    sources = [f"{{{{ {expression} }}}}" for expression in EXPRESSIONS] + SNIPPETS
    lines = [json.dumps([source, *render(source, VARIABLES)], **compact) for source in sources]
    chats = []
    for path in sorted((HERE / "templates").glob("*.jinja")):
        source, random = path.read_text(), Conversations(path.stem)
        cases = []
        for _ in range(CONVERSATIONS):
            variables = {**random.variables(), "date_string": "26 Jul 2024"}
            cases.append(json.dumps([variables, *render(source, variables)], **compact))
        chats.append(json.dumps(path.name) + ":[\n" + ",\n".join(cases) + "]")
    pathlib.Path(sys.argv[1]).write_text("{\"variables\":" + json.dumps(VARIABLES, **compact) + ",\n\"snippets\":[\n" + ",\n".join(lines) + "],\n\"chats\":{\n"
                                         + ",\n".join(chats) + "}}\n")


if __name__ == "__main__":
    main()
