"""Random conversations for chat templates: roles in order and out of it, tools and their calls, thoughts, parts, documents."""
import random

SENTENCES = [
    "Hello!", "How are you?", "  leading and trailing  ", "Größe in Köln", "日本語のテキスト", "two\nlines", "tab\there", "", "emoji 😀 here", "It's \"quoted\" & <b>bold</b>",
    "<think>\nhidden thoughts\n</think>\n\nvisible", "<|im_start|>fake", "{{ not a template }}", "back\\slash", "a" * 60, "1 + 1 = 2", "def f(x):\n    return x\n", "[INST] hi [/INST]",
    "</think>", "\n\nnewlines around\n\n", "ünïcödé\u00a0space", "What is the weather in Paris?",
]
NAMES = ["get_weather", "search", "run-code"]
SCHEMAS = [
    {"type": "object", "properties": {"city": {"type": "string", "description": "Name of the city"}, "unit": {"type": "string", "enum": ["C", "F"], "default": "C"}}, "required": ["city"]},
    {"type": "object", "properties": {"q": {"type": ["string", "null"]}, "n": {"type": "integer", "minimum": 1}, "tags": {"type": "array", "items": {"type": "string"}}}, "required": ["q"]},
    {"type": "object", "properties": {}},
    {"type": "object", "properties": {"where": {"type": "object", "properties": {"lat": {"type": "number"}, "lon": {"type": "number"}}, "description": "A \"place\""}, "ok": {"type": "boolean"},
                                      "one": {"anyOf": [{"type": "string"}, {"type": "number"}]}}},
]


class Conversations:
    def __init__(self, seed):
        self.random = random.Random(seed)

    def chance(self, p):
        return self.random.random() < p

    def text(self):
        return " ".join(self.random.choice(SENTENCES) for _ in range(self.random.choice([1, 1, 1, 2, 3])))

    def content(self, parts):
        if self.chance(parts):
            made = [{"type": "text", "text": self.text()} for _ in range(self.random.choice([1, 2]))]
            if self.chance(0.2):
                made.insert(0, {"type": "image"})
            return made
        return self.text()

    def value(self, depth=0):
        kind = self.random.randrange(8 if depth < 2 else 6)
        if kind == 6:
            return [self.value(depth + 1) for _ in range(self.random.randrange(3))]
        if kind == 7:
            return {self.random.choice("abcxyz"): self.value(depth + 1) for _ in range(self.random.randrange(3))}
        return [self.text(), self.random.randrange(-5, 1000), self.random.choice([0.5, 1.0, -2.25, 1e-7, 3e20]), True, None, False][kind]

    def tool(self):
        function = {"name": self.random.choice(NAMES), "description": self.text(), "parameters": self.random.choice(SCHEMAS)}
        if self.chance(0.2):
            function["return"] = {"type": "string", "description": "result"}
        return {"type": "function", "function": function}

    def call(self, number):
        arguments = {name: self.value() for name in self.random.sample(["city", "q", "n", "where"], self.random.randrange(4))}
        made = {"function": {"name": self.random.choice(NAMES), "arguments": arguments}}
        if self.chance(0.8):
            made = {"type": "function", "id": f"call{number:05d}", **made}
        return made

    def assistant(self, parts, tools, number):
        message = {"role": "assistant", "content": self.content(parts)}
        if self.chance(0.3):
            message["reasoning_content"] = self.text()
            message["thinking"] = message["reasoning_content"]
        if tools and self.chance(0.5):
            message["tool_calls"] = [self.call(number + i) for i in range(self.random.choice([1, 1, 2]))]
            if self.chance(0.6):
                message["content"] = self.random.choice(["", None])
                if self.chance(0.3):
                    del message["content"]
        return message

    def turns(self, parts, tools):
        messages = []
        for turn in range(self.random.choice([1, 1, 2, 3])):
            messages.append({"role": "user", "content": self.content(parts)})
            if turn > 0 or self.chance(0.8):
                message = self.assistant(parts, tools, 10 * turn)
                messages.append(message)
                for call in message.get("tool_calls", []):
                    result = {"role": "tool", "name": call["function"]["name"], "content": self.text()}
                    if "id" in call:
                        result["tool_call_id"] = call["id"]
                    messages.append(result)
                if "tool_calls" in message and self.chance(0.7):
                    messages.append({"role": "assistant", "content": self.text()})
        return messages

    def spoil(self, messages):
        """Now and then what a template may refuse."""
        kind = self.random.randrange(12)
        if kind == 0:
            messages.insert(self.random.randrange(len(messages) + 1), {"role": self.random.choice(["user", "assistant", "system", "critic"]), "content": self.text()})
        elif kind == 1 and len(messages) > 1:
            del messages[0]
        elif kind == 2:
            messages.clear()
        return messages

    def variables(self):
        parts, with_tools = self.random.choice([0, 0, 0.3]), self.chance(0.35)
        messages = self.spoil(self.turns(parts, with_tools))
        if self.chance(0.45):
            messages.insert(0, {"role": self.random.choice(["system"] * 4 + ["developer"]), "content": self.content(parts / 2)})
        made = {"messages": messages, "tools": [self.tool() for _ in range(self.random.choice([1, 2]))] if with_tools else None,
                "documents": [{"title": self.text(), "text": self.text()} for _ in range(2)] if self.chance(0.15) else None,
                "add_generation_prompt": self.chance(0.5), "bos_token": "<s>", "eos_token": "</s>"}
        if self.chance(0.3):
            made["enable_thinking"] = self.chance(0.5)
        if self.chance(0.2):
            made["date_string"] = "26 Jul 2024"
        if self.chance(0.1):
            made["reasoning_effort"] = self.random.choice(["low", "high"])
        return made
