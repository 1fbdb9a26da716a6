"""Conversations with the tokens that transformers makes of them and its masks of the assistant's: records cases.json, which
tests/train/ChatsTest.cpp holds mt against. Tokenizers are those of tests/tokenizer/cases, templates of the manner of
well-known ones.

    pip install transformers==5.23.0
    python tests/train/chats/make.py tests/train/chats/cases.json 8
"""
import datetime
import json
import pathlib
import random
import sys

import transformers.utils.chat_template_utils as templates
from transformers import PreTrainedTokenizerFast

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests" / "jinja"))
import conversations  # noqa: E402


class FixedDay(datetime.datetime):
    """The day that mt's templates have."""
    @classmethod
    def now(cls, tz=None):
        return cls(2024, 7, 26)


MARKED = {
    "qwen2.json": """{%- for message in messages %}{{ '<|im_start|>' + message.role + '\n' }}{% if message.role == 'assistant' %}"""
                  """{% generation %}{{ message.content }}<|endoftext|>{% endgeneration %}{{ '\n' }}{% else %}{{ message.content + '<|endoftext|>\n' }}{% endif %}{%- endfor %}""",
    "llama3.json": """{{- bos_token }}{{ 'Today: ' + strftime_now('%d %b %Y') }}{% for message in messages %}
{{ '[' + message.role + ']\n\n' }}{%- if message.role == 'assistant' %}{% generation %}{{ message['content'] | trim }}<|end_of_text|>{% endgeneration %}
{% else %}{{ message['content'] | trim + '<|end_of_text|>' }}
{% endif %}{% endfor %}""",
    "gemma.json": """{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"""
                  """{% if m.role == 'assistant' %}{% generation %}{{ m.content | trim }}{{ '</s>\n' }}{% endgeneration %}{% else %}{{ m.content | trim }}{{ '</s>\n' }}{% endif %}{% endfor %}""",
    "llama2.json": """{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ ' ' + m.content + '</s>' }}{% endgeneration %}"""
                   """{% else %}{{ '[INST] ' + m.content + ' [/INST]' }}{% endif %}{% endfor %}""",
    "mistral.json": """{{ bos_token }}{% for m in messages %}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ eos_token }}{% endgeneration %}"""
                    """{% else %}[INST]{{ m.content }}[/INST]{% endif %}{% endfor %}""",
    "phi3.json": """{% for m in messages %}{{ '<|' + m.role + '|>\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{{ '<|end|>' }}{% endgeneration %}{{ '\n' }}"""
                 """{% else %}{{ m.content + '<|end|>\n' }}{% endif %}{% endfor %}""",
}


def dialogue(source):
    """Some turns of plain text."""
    made = [{"role": "system", "content": source.text()}] if source.chance(0.4) else []
    for _ in range(source.random.randrange(1, 5)):
        made += [{"role": "user", "content": source.text()}, {"role": "assistant", "content": source.text() + source.random.choice(["", " ok", "."])}]
    return made if source.chance(0.8) else made[:-1] + [{"role": "assistant", "content": "x"}, {"role": "user", "content": "and?"}]


def case(name, template, count):
    tokenizer = PreTrainedTokenizerFast(tokenizer_file=str(ROOT / "tests" / "tokenizer" / "cases" / name))
    known = tokenizer.get_vocab()
    special = {k: next((t for t in choices if t in known), None) for k, choices in
               {"bos_token": ("<s>", "<|begin_of_text|>"), "eos_token": ("</s>", "<|end_of_text|>", "<|endoftext|>")}.items()}
    special = {k: v for k, v in special.items() if v}
    tokenizer.add_special_tokens(special)
    source = conversations.Conversations(name)
    chats = []
    while len(chats) < count:
        messages = dialogue(source)
        out = tokenizer.apply_chat_template(messages, chat_template=template, return_assistant_tokens_mask=True, return_dict=True)
        chats.append({"messages": messages, "ids": out["input_ids"], "mask": "".join(map(str, out["assistant_masks"]))})
    return {"tokenizer": name, "template": template, "special": special, "chats": chats}


def main():
    templates.datetime = FixedDay
    made = [case(name, template, int(sys.argv[2])) for name, template in MARKED.items()]
    pathlib.Path(sys.argv[1]).write_text(json.dumps(made, ensure_ascii=False, separators=(",", ":")) + "\n")
    print(f"{sys.argv[1]}: {sum(len(c['chats']) for c in made)} conversations, {sum(c['mask'].count('1') for m in made for c in m['chats'])} tokens that count")


if __name__ == "__main__":
    main()
