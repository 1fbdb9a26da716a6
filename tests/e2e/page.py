"""The page that mtc dump --format html writes, in a browser: streams and memory are drawn in the colours of their kinds, and what
one points at is named.

    PATH=build/bin:$PATH python3 tests/e2e/page.py
"""
import re

import browser
import tool

COLOURS = {"prefetch, weights": (0x4c, 0x78, 0xa8), "compute, activations": (0x54, 0xa2, 0x4b), "offload, gradients": (0xf5, 0x85, 0x18),
           "update, state": (0xb2, 0x79, 0xa2), "wait": (0xf3, 0xd6, 0xd6)}


def test():
    with tool.Scratch() as scratch:
        chromium = browser.Browser(scratch, 1200, 900)
        scratch.run("mtmodel llama --layers 32 --hidden 4096 --intermediate 11008 --heads 32 --vocab 32000 -o big.onnx")
        scratch.run("mtc compile big.onnx -o big.bin --batch 8 --seq 1024 --precision bf16 --target h100")
        scratch.run("mtc dump big.bin --format html -o page.html")
        seen = chromium.colours(scratch / "page.html")
        missing = [what for what, colour in COLOURS.items() if seen.get(bytes(colour), 0) < 500]
        if missing:
            raise tool.Failure(f"not drawn: {', '.join(missing)}")
        # Pointed at: the bottom of the memory map, and the middle of the computing stream.
        page = (scratch / "page.html").read_text()
        for canvas, y, wanted in ((1, 318, r"(weight|state), bytes \[\d+, "), (0, 28 + 14, r"#\d+ (forward|loss|backward|norms|update) layer \d+")):
            (scratch / "pointed.html").write_text(page + f"""<script>
const c = document.querySelectorAll('canvas')[{canvas}];
c.onmousemove({{ buttons: 0, offsetX: c.clientWidth * 0.6, offsetY: {y} }});
</script>""")
            shown, _ = chromium.content(scratch / "pointed.html")
            about = re.search(r'<div id="about">(.*?)</div>', shown, re.DOTALL).group(1)
            if not re.match(wanted, about):
                raise tool.Failure(f"canvas {canvas} names {about!r}, not /{wanted}/")
            print(about.replace("\n", "; "))


tool.main(test)
