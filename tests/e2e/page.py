"""The page that mtc dump --format html writes, in a browser: streams and memory are drawn in the colours of their kinds, and what
one points at is named.

    PATH=build/bin:$PATH python3 tests/e2e/page.py
"""
import re
import shutil
import struct
import subprocess
import sys
import zlib

import tool

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
COLOURS = {"prefetch, weights": (0x4c, 0x78, 0xa8), "compute, activations": (0x54, 0xa2, 0x4b), "offload, gradients": (0xf5, 0x85, 0x18),
           "update, state": (0xb2, 0x79, 0xa2), "wait": (0xf3, 0xd6, 0xd6)}
WIDTH, HEIGHT = 1200, 900


def pixels(data):
    """Rows of (red, green, blue) of a PNG of 8 bits a channel, not interlaced (RFC 2083)."""
    at, packed = 8, b""
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at:at + 8])
        body = data[at + 8:at + 8 + size]
        if kind == b"IHDR":
            width, height, _, colour = struct.unpack(">IIBB", body[:10])
        packed += body if kind == b"IDAT" else b""
        at += size + 12
    each = {2: 3, 6: 4}[colour]
    raw, before, rows = zlib.decompress(packed), bytes(width * each), []
    for y in range(height):
        line = bytearray(raw[y * (width * each + 1):(y + 1) * (width * each + 1)])
        how = line.pop(0)
        for i in range(len(line)):
            left, up, corner = line[i - each] if i >= each else 0, before[i], before[i - each] if i >= each else 0
            guess = left + up - corner
            paeth = min((left, up, corner), key=lambda one: abs(guess - one))
            line[i] = (line[i] + (0, left, up, (left + up) // 2, paeth)[how]) & 255
        before = bytes(line)
        rows.append([before[i:i + 3] for i in range(0, len(before), each)])
    return rows


def browse(scratch, browser, *options):
    """Its standard output. It runs as root in some places, where it has no sandbox."""
    command = [browser, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", f"--window-size={WIDTH},{HEIGHT}",
               f"--user-data-dir={scratch.path}/profile", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise tool.Failure(f"{browser}: exit {done.returncode}: {done.stderr[-1000:]}")
    return done.stdout


def test():
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if not browser:
        print("skipped: no browser (chromium) to look at a page with")
        sys.exit(77)
    with tool.Scratch() as scratch:
        try:
            browse(scratch, browser, "--dump-dom", "about:blank")
        except (tool.Failure, subprocess.TimeoutExpired) as problem:
            print(f"skipped: {browser} does not start here: {str(problem)[:300]}")
            sys.exit(77)
        scratch.run("mtmodel llama --layers 32 --hidden 4096 --intermediate 11008 --heads 32 --vocab 32000 -o big.onnx")
        scratch.run("mtc compile big.onnx -o big.bin --batch 8 --seq 1024 --precision bf16 --target h100")
        scratch.run("mtc dump big.bin --format html -o page.html")
        browse(scratch, browser, f"--screenshot={scratch / 'page.png'}", (scratch / "page.html").as_uri())
        seen = {}
        for row in pixels((scratch / "page.png").read_bytes()):
            for pixel in row:
                seen[pixel] = seen.get(pixel, 0) + 1
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
            shown = browse(scratch, browser, "--dump-dom", (scratch / "pointed.html").as_uri())
            about = re.search(r'<div id="about">(.*?)</div>', shown, re.DOTALL).group(1)
            if not re.match(wanted, about):
                raise tool.Failure(f"canvas {canvas} names {about!r}, not /{wanted}/")
            print(about.replace("\n", "; "))


tool.main(test)
