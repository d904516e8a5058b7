#!/usr/bin/env python3
"""clang-tidy over the tree, in groups of files, each file once for its content.

    tidy.py BUILD_FOLDER CACHE_FOLDER FILE..

Most of what clang-tidy does with a file is to read its headers. So many files are pasted into one source, with their
headers read once and the names that each keeps for itself made its own by a number; a file in which something is found is
checked again as it stands. A file that is clean leaves a stamp named by the hash of everything that counts for it (itself,
what it includes, its compile command, .clang-tidy) and is not looked at again until one of these changes.

Exit code 1 where a file is not clean.
"""
import concurrent.futures
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

import groups

TIDY = "clang-tidy-14"
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.M)
DIAGNOSTIC = re.compile(r"^(.*?):(\d+):(\d+): (warning|error): (.*)$")


def closure(path, folders, seen):
    """`path` and the files of the project that it includes, directly or not."""
    if path in seen:
        return seen
    seen.add(path)
    for name in INCLUDE.findall(path.read_text()):
        for folder in folders:
            found = folder / name
            if found.is_file():
                closure(found, folders, seen)
                break
    return seen


class Checked(groups.Source):
    def __init__(self, path, command, root, common):
        super().__init__(path)
        words = shlex.split(command)
        self.flags = [w for w in words[1:] if re.match(r"-(D|I|isystem|std=|m)", w)]
        folders = [pathlib.Path(w[2:]) for w in self.flags if w.startswith("-I")]
        digest = hashlib.sha256(common)
        digest.update(" ".join(self.flags).replace(str(root), "").encode())
        for part in sorted(closure(path, folders, set())):
            digest.update(str(part.relative_to(root)).encode() + b"\0" + part.read_bytes())
        self.stamp = digest.hexdigest()[:32]


def groups_of(sources, workers):
    """Files with the same flags, in a few groups for each worker."""
    most_lines = max(groups.MOST_LINES, sum(source.lines for source in sources) // (3 * workers))
    alike, found = {}, []
    for source in sorted(sources, key=lambda source: source.path):  # neighbours include the same headers
        same = alike.setdefault(tuple(source.flags), [])
        if not same or sum(s.lines for s in same[-1]) + source.lines > most_lines:
            same.append([])
        same[-1].append(source)
    for same in alike.values():
        found += same
    return sorted(found, key=lambda g: -sum(s.lines for s in g))


def pasted(group):
    """The text of each, line by line, where a name that it defines for itself and another mentions has a number."""
    texts = []
    for number, source in enumerate(group):
        shared = {name for name in source.own for other in group if other is not source and name in other.words}
        names = re.compile(r"(?<![\w.:>])(" + "|".join(sorted(shared)) + r")\b") if shared else None
        tests = re.compile(r"^(TEST\w*\(\w+, \w+)\)")
        lines = source.text.split("\n")
        for i, line in enumerate(lines):
            if names and not re.match(r"\s*#\s*include", line):
                line = names.sub(rf"\1_{number}", line)
            lines[i] = tests.sub(rf"\1_{number})", line)
        texts.append("\n".join(lines))
    return texts


def tidy(path, flags):
    """[(line, text)] of the diagnostics in `path`, and those of headers as (0, text)."""
    run = subprocess.run([TIDY, "--quiet", str(path), "--", *flags, "-Wall", "-Wextra"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True, errors="replace")
    found = []
    for line in run.stdout.splitlines():
        match = DIAGNOSTIC.match(line)
        if match and "NOLINT" not in line:
            here = os.path.realpath(match[1]) == os.path.realpath(path)
            found.append((int(match[2]) if here else 0, f"{match[4]}: {match[5]}" if here else line))
    if run.returncode != 0 and not found:
        found.append((0, f"{path}: {TIDY} ended with {run.returncode}: {run.stderr.strip()[-400:]}"))
    return found


def check(group, number, cache):
    """[(source, [message])] for every file of the group."""
    if len(group) == 1:
        source = group[0]
        found = tidy(source.path, source.flags)
        return [(source, [f"{source.path}:{line}: {text}" if line else text for line, text in found])]
    starts, at = [], 1
    for source in group:
        starts.append(at)
        at += source.lines
    path = cache / f"group_{number}.cc"
    path.write_text("".join(pasted(group)))
    own_folders = dict.fromkeys(f"-I{source.path.parent}" for source in group)
    found = tidy(path, [*group[0].flags, *own_folders])
    path.unlink()
    if any(line == 0 or "clang-diagnostic" in text for line, text in found):  # some two may not stand together
        half = len(group) // 2
        return check(group[:half], number, cache) + check(group[half:], number, cache)
    suspects = {max(i for i, start in enumerate(starts) if start <= line) for line, text in found}
    result = []
    for i, source in enumerate(group):
        result += check([source], number, cache) if i in suspects else [(source, [])]
    return result


def main():
    build, cache = pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve()
    root = pathlib.Path.cwd().resolve()
    cache.mkdir(parents=True, exist_ok=True)
    commands = {pathlib.Path(entry["file"]).resolve(): entry["command"]
                for entry in json.loads((build / "compile_commands.json").read_text())}
    version = subprocess.run([TIDY, "--version"], stdout=subprocess.PIPE, check=True).stdout
    common = version + b"".join(path.read_bytes() for path in (root / ".clang-tidy", pathlib.Path(__file__),
                                                               pathlib.Path(groups.__file__)))
    sources, failed = [], 0
    for name in sys.argv[3:]:
        path = (root / name).resolve()
        if path not in commands:
            print(f"{name}: no target compiles this file", file=sys.stderr)
            failed += 1
            continue
        sources.append(Checked(path, commands[path], root, common))
    stale = [source for source in sources if not (cache / source.stamp).exists()]
    workers = len(os.sched_getaffinity(0))
    pieces = groups_of(stale, workers)
    print(f"clang-tidy: {len(stale)} of {len(sources)} files have changed, {len(pieces)} groups", file=sys.stderr)
    with concurrent.futures.ThreadPoolExecutor(workers) as pool:
        done = [pool.submit(check, group, number, cache) for number, group in enumerate(pieces)]
        for future in concurrent.futures.as_completed(done):
            for source, messages in future.result():
                if messages:
                    failed += 1
                    print("\n".join(dict.fromkeys(messages)).replace(f"{root}/", ""), flush=True)
                else:
                    (cache / source.stamp).touch()
    current = {source.stamp for source in sources}
    for stamp in cache.iterdir():  # of contents that are gone
        if stamp.name not in current and not stamp.name.startswith("group_"):
            stamp.unlink()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
