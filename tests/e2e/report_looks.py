"""The report of a run in a browser: curves and bars are drawn, light and dark, nothing is wider than the window, what one points
at is named, the console stays silent, and no script runs but its own.

    PATH=build/bin:$PATH python3 tests/e2e/report_looks.py
"""
import re

import browser
import report_reader
import tool

LIGHT = {"paper": 0xffffff, "smoothed": 0x1667c7, "of the step": 0x84b3e8, "evaluation": 0xd9480f, "compute": 0x54a24b, "update": 0xb279a2}
DARK = {"paper": 0x14181d, "smoothed": 0x6aadf5, "of the step": 0x3d6fa6, "evaluation": 0xff9257, "compute": 0x6fbb67, "update": 0xc795b9}


def drawn(chromium, page, wanted, *options):
    seen = chromium.colours(page, *options)
    counts = {what: seen.get(colour.to_bytes(3, "big"), 0) for what, colour in wanted.items()}
    missing = [what for what, count in counts.items() if count < (100000 if what == "paper" else 20)]
    tool.expect(not missing, f"not drawn: {', '.join(missing)}; pixels: {counts}")
    print(f"pixels: {counts}")


def trusted(page):
    """The page without its policy, so that scripts of tests run on it."""
    text, count = re.subn(r"<meta http-equiv[^>]*>", "", page)
    tool.expect(count == 1, "its policy")
    return text


def test():
    with tool.Scratch() as scratch:
        chromium = browser.Browser(scratch, 900, 1600)
        scratch.run("mtmodel gpt2 --layers 2 --hidden 16 --heads 2 --vocab 256 --seq 16 -o lm.onnx")
        scratch.run("mtc compile lm.onnx -o lm.bin --batch 4 --seq 16 --target cpu-discrete")
        (scratch / "text.txt").write_text("what is trained on is not looked at here. " * 100)
        scratch.run("mtrun lm.bin --data text.txt --eval-data text.txt --eval-every 14 --steps 60 --lr 0.01 --out run")
        path = scratch / "run/report.html"
        drawn(chromium, path, LIGHT)
        drawn(chromium, path, DARK, "--blink-settings=preferredColorScheme=0")
        _, said = chromium.content(path)
        tool.expect(not said, f"the console: {said}")
        page, other = path.read_text(), scratch / "other.html"
        other.write_text(page + "<script>document.title = 'run'</script><p onclick='x()' id='p'></p>")
        shown, said = chromium.content(other)
        tool.expect("<title>run</title>" not in shown and any("Content Security Policy" in line for line in said), f"a script of others runs: {said}")
        # Pointed at: the middle of the curve of losses.
        other.write_text(trusted(page) + """<script>
const plot = document.querySelector('.plot'), box = plot.getBoundingClientRect();
plot.onpointermove({ clientX: box.left + box.width / 2, clientY: box.top + 9 });
</script>""")
        shown, said = chromium.content(other)
        losses = dict(report_reader.Report(path).curve(0, "of the step"))
        tip = re.search(r'<output class="tip"[^>]*>step (\d+)\nof the step  ([\d.]+)\nsmoothed  [\d.]+\nevaluation at 28  [\d.]+</output>', shown)
        tool.expect(tip and not said and abs(losses[int(tip.group(1))] - float(tip.group(2))) < 1e-4, f"what is pointed at: {tip}, {said}")
        for window, width in ((500, 400), (1600, 1600)):  # chromium has no narrower windows than the first
            chromium.size = (window, 1000)
            other.write_text(trusted(page) + f"""<script>
document.documentElement.style.width = '{width}px';
const reach = Math.max(...[...document.querySelectorAll('main *')].map(one => one.getBoundingClientRect().right));
document.title = innerWidth + ' ' + Math.ceil(reach);
</script>""")
            inner, reach = map(int, re.search(r"<title>(\d+) (\d+)</title>", chromium.content(other)[0]).groups())
            tool.expect(inner == window and width / 2 < reach <= width, f"{reach} pixels of {width}, in a window of {inner}")


tool.main(test)
