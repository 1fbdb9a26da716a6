"""Makes runtime/jinja/CharacterTables.cpp: what Python's str knows of characters beyond ASCII.

    python tests/jinja/characters.py > runtime/jinja/CharacterTables.cpp
"""
import sys
import unicodedata

ALL = [c for c in range(0x80, 0x110000) if not 0xd800 <= c < 0xe000]
CLASSES = {
    "kUpperCase": str.isupper, "kLowerCase": str.islower, "kTitleCase": lambda c: unicodedata.category(c) == "Lt",
    "kLetters": str.isalpha, "kDecimals": str.isdecimal, "kDigits": str.isdigit, "kNumbers": str.isnumeric,
    "kUnprintable": lambda c: not c.isprintable(),
    # What a final sigma does not see: Unicode's Case_Ignorable, as str.lower shows it.
    "kIgnoringCase": lambda c: ("A" + c + "Σ").lower()[-1] == "ς" and ("A" + "Σ" + c + "A").lower()[1] == "σ" and not (c.isupper() or c.islower())
                               and ("-" + c + "Σ").lower()[-1] == "σ",
}
CASES = {"kUpper": str.upper, "kLower": str.lower, "kTitle": str.title}


def ranges(members):
    """Members as (first, last), where runs of equal distance two count as one with a step."""
    found = []
    for c in members:
        if found and c == found[-1][1] + 1:
            found[-1][1] = c
        else:
            found.append([c, c])
    return found


def runs(changes):
    """(first, last, step, distance) of characters that change by the same distance."""
    found = []
    for c, to in changes:
        for run in reversed(found[-2:]):
            step = c - run[1]
            if run[3] == to - c and (step == run[2] or (run[0] == run[1] and step in (1, 2))):
                run[1], run[2] = c, step
                break
        else:
            found.append([c, c, 1, to - c])
    return sorted(found)


def rows(texts):
    line = "   "
    for text in texts:
        if len(line) + len(text) > 117:
            print(line)
            line = "   "
        line += " " + text
    print(line)


def text_of(text):
    return "".join(f"\\U{ord(c):08x}" for c in text)


def main():
    print("// Made by tests/jinja/characters.py of Unicode " + unicodedata.unidata_version + ", as Python's str sees it; not edited.")
    print('#include "runtime/jinja/Characters.h"\n\nnamespace mt::jinja::tables {\n\n// clang-format off')
    for name, member in CLASSES.items():
        all_of_them = ranges([c for c in ALL if member(chr(c))])
        print(f"const Range {name}Rows[] = {{")
        rows(f"{{{first:#x}, {last:#x}}}," for first, last in all_of_them)
        print(f"}};\nconst std::span<const Range> {name} = {name}Rows;\n")
    for name, change in CASES.items():
        changed = [(c, change(chr(c))) for c in ALL if change(chr(c)) != chr(c)]
        print(f"const Run {name}Rows[] = {{")
        rows(f"{{{first:#x}, {last:#x}, {step}, {distance}}}," for first, last, step, distance in runs([(c, ord(to)) for c, to in changed if len(to) == 1]))
        print(f"}};\nconst std::span<const Run> {name} = {name}Rows;\n")
        print(f"const Expansion {name}ExpansionRows[] = {{")
        rows(f'{{{c:#x}, U"{text_of(to)}"}},' for c, to in changed if len(to) > 1)
        print(f"}};\nconst std::span<const Expansion> {name}Expansions = {name}ExpansionRows;\n")
    print("// clang-format on\n\n} // namespace mt::jinja::tables")


if __name__ == "__main__":
    sys.exit(main())
