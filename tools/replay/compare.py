#!/usr/bin/env python3
"""What the decoder mode and bounded replay change: the tables of docs/replay.md.

    compare.py --seekline PROGRAM [--documents FILE.jsonl] MODEL..

With --documents (lines {"tokens": [..], "prompt_tokens": n}): KL, top-1 agreement and perplexity of the tokens behind the
prompt, means over documents with half a 95 % interval of 1,000 draws of whole documents. Without: the models are golden ones
(random weights), and the distance of their logits behind the longest case is shown, root mean square and in units of
the logits' own standard deviation. Needs numpy.
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


def log_softmax(x):
    x = x.astype(np.float64)
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def mean_pm(values):
    values = np.array(values)
    draws = np.random.default_rng(1).integers(0, len(values), (1000, len(values)))
    low, high = np.quantile(values[draws].mean(1), (0.025, 0.975))
    return values.mean(), (high - low) / 2


def trained(program, model, documents):
    cases = [{"id": str(i), "tokens": d["tokens"], "prompt": d["prompt_tokens"]} for i, d in enumerate(documents)]
    exact = {k: log_softmax(v) for k, v in logits_of(program, model, cases, "--decoder", "exact").items()}
    targets = {c["id"]: np.array(c["tokens"][c["prompt"]:]) for c in cases}

    def nll(lp, id):
        return -np.take_along_axis(lp[:-1], targets[id][:, None], 1).mean()

    base = {id: nll(lp, id) for id, lp in exact.items()}
    print(f"\n{pathlib.Path(model).name}: {len(cases)} documents, {sum(map(len, targets.values())):,} tokens behind their prompts; "
          f"perplexity exact {np.exp(np.mean(list(base.values()))):.4f}\n")
    print("| against exact | KL, nats | KL of the first token | top-1 agreement | perplexity, change |")
    print("| --- | --- | --- | --- | --- |")
    for name, flags, new in settings():
        some = with_hit(cases, new)
        kl, first, agree, change = [], [], [], []
        for id, logits in logits_of(program, model, some, *flags).items():
            p, q = exact[id], log_softmax(logits)
            each = (np.exp(p) * (p - q)).sum(-1)
            kl.append(each.mean())
            first.append(each[0])
            agree.append((p.argmax(-1) == q.argmax(-1)).mean())
            change.append(nll(q, id) - base[id])
        change = mean_pm(change)
        cells = [f"{m:.5f} ± {pm:.5f}" for m, pm in (mean_pm(kl), mean_pm(first))]
        cells += ["{:.4f} ± {:.4f}".format(*mean_pm(agree)), f"{100 * change[0]:+.3f} % ± {100 * change[1]:.3f} %"]
        print(f"| {name}{'' if len(some) == len(cases) else f' ({len(some)} documents)'} | " + " | ".join(cells) + " |", flush=True)


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
    parser.add_argument("--documents")
    parser.add_argument("models", nargs="+")
    options = parser.parse_args()
    if not options.documents:
        return golden(options.seekline, options.models)
    documents = [json.loads(line) for line in pathlib.Path(options.documents).read_text().splitlines()]
    for model in options.models:
        trained(options.seekline, model, documents)


if __name__ == "__main__":
    main()
