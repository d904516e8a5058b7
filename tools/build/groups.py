#!/usr/bin/env python3
"""Which sources can be compiled as one: prints "GROUP<TAB>FILE" for every FILE.

    groups.py FILE..

A compiler spends most of its time on headers, so files are compiled together that do not get into each other's way: none
mentions a name that another one defines for itself (in an unnamed namespace, or as a macro), and no two define the same
test. Used by the build (SEEKLINE_UNITY); tidy.py uses what is known of a source here.
"""
import pathlib
import re
import sys

MOST_LINES = 1500  # of one group: more would leave a processor idle at the end
UNNAMED = re.compile(r"^namespace \{$(.*?)^\}  // namespace$", re.M | re.S)
DEFINED = re.compile(
    r"^(?:template <[^>]*>\s*)?(?:(?:class|struct|union|enum class|enum) (\w+)(?=[^;()]*\{)|using (\w+) ="
    r"|(?!using )(?:\[\[\w+\]\] )?\w[\w:<>,*& ]*?[*& ](\w+)(?: = |\{|\(|\[|;))", re.M)
MACRO = re.compile(r"^#define (\w+)", re.M)
TEST = re.compile(r"^TEST\w*\((\w+), (\w+)\)", re.M)
NO_NAMES = {"for", "if", "return", "using", "namespace"}
NO_WORDS = re.compile(r'//[^\n]*|"(?:\\.|[^"\\\n])*"')


class Source:
    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.text = self.path.read_text()
        self.lines = self.text.count("\n")
        unnamed = "\n".join(UNNAMED.findall(self.text))
        self.own = {name for match in DEFINED.findall(unnamed) for name in match if name} - NO_NAMES
        self.own |= set(MACRO.findall(self.text))
        self.own |= {f"{suite}_{name}_Test" for suite, name in TEST.findall(self.text)}
        self.words = set(re.findall(r"\w+", NO_WORDS.sub(" ", self.text))) | self.own

    def disturbs(self, other):
        return bool(self.own & other.words or other.own & self.words)


def groups_of(sources):
    """Lists of sources, the largest first."""
    groups = []
    for source in sorted(sources, key=lambda s: (-s.lines, s.path)):
        for group in groups:
            if sum(s.lines for s in group) + source.lines <= MOST_LINES and not any(source.disturbs(s) for s in group):
                group.append(source)
                break
        else:
            groups.append([source])
    return sorted(groups, key=lambda g: -sum(s.lines for s in g))


if __name__ == "__main__":
    for number, group in enumerate(groups_of([Source(path) for path in sys.argv[1:]])):
        for source in group:
            print(f"{number}\t{source.path}")
