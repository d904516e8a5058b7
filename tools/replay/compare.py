#!/usr/bin/env python3
"""What the decoder mode and bounded replay change on models of random weights: a table of docs/replay.md.

    compare.py [--seekline PROGRAM] MODEL..

MODEL is a folder with cases.json; the longest case without its last 8 tokens is the prompt, those are its answer. Shown are the
distances of the logits from exact ones, root mean square, and in units of the logits' own standard deviation. Needs numpy.
(A trained model is measured by tools/ablate.)
"""
import argparse
import json
import pathlib
import subprocess
import tempfile

import numpy as np

NEW = (1, 8, 32, 128, 512)  # tokens of the prompt behind the hit
ANSWER = 8                  # of a golden case


def read_safetensors(path):
    data = path.read_bytes()
    size = int.from_bytes(data[:8], "little")
    types = {"F32": np.float32, "I32": np.int32}
    out = {}
    for name, entry in json.loads(data[8:8 + size]).items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        out[name] = np.frombuffer(data[8 + size + begin:8 + size + end], types[entry["dtype"]]).reshape(entry["shape"])
    return out


def logits_of(program, model, cases, *flags):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "cases.json").write_text(json.dumps({"cases": cases}))
        subprocess.run([program, "logits", "--model", model, "--cases", folder / "cases.json", "--out", folder / "out.safetensors",
                        "--prompts", "--arithmetic", "f32", *flags], check=True)
        return {k.removesuffix("/logits"): v for k, v in read_safetensors(folder / "out.safetensors").items()
                if k.endswith("/logits")}


def settings():
    yield "ced", ["--decoder", "ced"], None
    for new in NEW:
        yield f"bounded replay, {new} new tokens", ["--decoder", "exact", "--replay", "bounded"], new
    yield "ced and bounded replay, 32 new tokens", ["--decoder", "ced", "--replay", "bounded"], 32


def with_hit(cases, new):
    """Hits of `new` tokens less than the prompt, where they leave something to replay."""
    return [c | {"hits": [c["prompt"] - new]} for c in cases if c["prompt"] - new > 0] if new else cases


def golden(program, models):
    print("| model | setting | rms distance of the prompt's logits | of the standard deviation | rms over the answer | top-1 agreement |")
    print("| --- | --- | --- | --- | --- | --- |")
    for model in models:
        longest = max(json.loads((pathlib.Path(model) / "cases.json").read_text())["cases"], key=lambda c: len(c["tokens"]))
        tokens = longest["tokens"]
        cases = [{"id": "longest", "tokens": tokens, "prompt": len(tokens) - ANSWER}]
        exact = logits_of(program, model, cases, "--decoder", "exact")["longest"].astype(np.float64)
        text = json.loads((pathlib.Path(model) / "config.json").read_text())
        for name, flags, new in settings():
            some = with_hit(cases, new)
            if not some or (name.startswith("ced") and "text_config" not in text):
                continue
            other = logits_of(program, model, some, *flags)["longest"].astype(np.float64)
            rms = np.sqrt(((exact - other) ** 2).mean(-1))
            print(f"| {pathlib.Path(model).name} ({len(tokens) - ANSWER} tokens) | {name} | {rms[0]:.3f} | {rms[0] / exact[0].std():.2f} | "
                  f"{np.sqrt((rms ** 2).mean()):.3f} | {(exact.argmax(-1) == other.argmax(-1)).mean():.2f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seekline", default="build/release/seekline")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    golden(options.seekline, options.models)


if __name__ == "__main__":
    main()
