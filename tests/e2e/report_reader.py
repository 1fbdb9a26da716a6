"""A run's report as a reader of HTML has it: its elements, its texts, the points of its curves. Shared by report.py and
report_looks.py. Standard library only."""
import base64
import hashlib
import html.parser
import json

import tool

ELEMENTS = {"html", "head", "meta", "title", "style", "body", "main", "h1", "h2", "p", "div", "dl", "dt", "dd", "small", "bdi", "i", "b", "section",
            "figure", "figcaption", "span", "svg", "path", "table", "tr", "th", "td", "pre", "script"}
ATTRIBUTES = {"lang", "charset", "http-equiv", "content", "name", "class", "style", "data-chart", "viewbox", "preserveaspectratio", "role",
              "aria-label", "d", "dir", "type", "id"}
EMPTY = {"meta", "path"}


class Report(html.parser.HTMLParser):
    """Of a file. A failure where it is not well formed, or has what a report has not."""

    def __init__(self, path):
        super().__init__(convert_charrefs=True)
        self.text, self.open, self.texts, self.scripts, self.values = path.read_text(), [], {}, [], []
        self.feed(self.text)
        self.close()
        tool.expect(not self.open, f"{path}: not closed: {self.open}")
        for word in ("http:", "https:", "url(", "@import", "import("):
            tool.expect(word not in "".join(self.texts["style"] + self.scripts[1:] + self.values), f"{path}: {word}")
        tool.expect(len(self.scripts) == 2, f"{path}: {len(self.scripts)} scripts")
        script = base64.b64encode(hashlib.sha256(self.scripts[1].encode()).digest()).decode()
        tool.expect(f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{script}'\"" in self.text,
                    f"the script's hash is {script}, and ReportTemplate.h has another")
        self.charts = json.loads(self.scripts[0])

    def handle_starttag(self, name, attributes):
        tool.expect(name in ELEMENTS, f"an element <{name}>")
        for key, value in attributes:
            tool.expect(key in ATTRIBUTES, f"<{name}> has {key}={value!r}")
            self.values.append(value)
        if name not in EMPTY:
            self.open.append(name)
        if name == "script":
            self.scripts.append("")

    def handle_startendtag(self, name, attributes):
        self.handle_starttag(name, attributes)
        if name not in EMPTY:
            self.open.pop()

    def handle_endtag(self, name):
        tool.expect(self.open and self.open[-1] == name, f"</{name}> where {self.open} are open")
        self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        elif self.open:
            self.texts.setdefault(self.open[-1], []).append(data)

    def handle_comment(self, data):
        raise tool.Failure(f"a comment: {data!r}")

    def curve(self, chart, name):
        """Its points, [step, value] each."""
        return next(curve["points"] for curve in self.charts[chart]["curves"] if curve["name"] == name)

    def says(self, element, text):
        return text in self.texts.get(element, [])
