"""What tests that look at pages share: chromium without a window, and the pixels of what it drew. Standard library only."""
import re
import shutil
import struct
import subprocess
import sys
import zlib

import tool

BROWSERS = ("chromium", "chromium-browser", "google-chrome")


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


class Browser:
    """Ends the test as one that is skipped where there is none, or it does not start."""

    def __init__(self, scratch, width, height):
        self.scratch, self.size = scratch, (width, height)
        self.program = next(filter(None, map(shutil.which, BROWSERS)), None)
        if not self.program:
            print("skipped: no browser (chromium) to look at a page with")
            sys.exit(77)
        try:
            self.start("about:blank", "--dump-dom")
        except (tool.Failure, subprocess.TimeoutExpired) as problem:
            print(f"skipped: {self.program} does not start here: {str(problem)[:300]}")
            sys.exit(77)

    def start(self, address, *options):
        """It runs as root in some places, where it has no sandbox."""
        command = [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                   f"--window-size={self.size[0]},{self.size[1]}", f"--user-data-dir={self.scratch.path}/profile",
                   "--enable-logging=stderr", "--v=0", *options, address]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120)
        if done.returncode != 0:
            raise tool.Failure(f"{self.program}: exit {done.returncode}: {done.stderr[-1000:]}")
        return done

    def content(self, page):
        """The page as its scripts have left it, and what they said to the console."""
        done = self.start(page.as_uri(), "--dump-dom")
        return done.stdout, re.findall(r"CONSOLE.*", done.stderr)

    def colours(self, page, *options):
        """colour -> pixels of it."""
        self.start(page.as_uri(), f"--screenshot={self.scratch / 'page.png'}", *options)
        seen = {}
        for row in pixels((self.scratch / "page.png").read_bytes()):
            for pixel in row:
                seen[pixel] = seen.get(pixel, 0) + 1
        return seen
