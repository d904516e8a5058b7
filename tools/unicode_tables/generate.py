#!/usr/bin/env python3
"""Writes src/text/unicode_classes.cc from tests/golden/data/text/tokenizer/unicode-classes.json.

Run it after the JSON file changed (a newer Unicode in the tokenizer library); a test compares the two.
"""
import json
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[2]
SOURCE = ROOT / "tests/golden/data/text/tokenizer/unicode-classes.json"
TARGET = ROOT / "src/text/unicode_classes.cc"
NAMES = {
    "L": "kLetter",
    "M": "kMark",
    "N": "kNumber",
    "P": "kPunctuation",
    "S": "kSymbol",
    "space": "kSpace",
    "engram_dropped": "kEngramDropped",
    "engram_strip": "kEngramStripped",
}
COLUMNS = 110


def rows(ranges):
    """The ranges as initialisers, packed into lines of at most COLUMNS characters."""
    line = "   "
    for first, last in ranges:
        item = f" {{0x{first:X}, 0x{last:X}}},"
        if len(line) + len(item) > COLUMNS:
            yield line
            line = "   "
        line += item
    yield line


def main():
    classes = json.loads(SOURCE.read_text())
    out = [
        "// Written by tools/unicode_tables/generate.py; do not edit.",
        "// clang-format off",
        '#include "text/unicode_classes.h"',
        "",
        "namespace seekline::unicode {",
        "namespace {",
    ]
    for key, name in NAMES.items():
        out += ["", f"constexpr CharRange {name}Ranges[] = {{", *rows(classes[key]), "};"]
    out += ["", "}  // namespace", ""]
    out += [f"const std::span<const CharRange> {name} = {name}Ranges;" for name in NAMES.values()]
    out += ["", "}  // namespace seekline::unicode", ""]
    TARGET.write_text("\n".join(out))


if __name__ == "__main__":
    main()
