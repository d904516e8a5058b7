"""Turns the GGUF file of SmolLM2-135M-Instruct into a folder in the layout that Hugging Face releases have.

    python convert.py MODEL.gguf OUT [--dtype bf16|f32]

Weights are dequantised by the `gguf` package to f32 and, for bf16, rounded to nearest, ties to even. Needs the
packages of requirements.txt; fetch.py runs it in an environment of its own. The safetensors file is written here,
one tensor in memory at a time (the safetensors package has no stable interface for bf16 without PyTorch).
"""
import argparse
import json
import math
import pathlib
import sys

import numpy as np
from gguf import GGUFReader
from gguf.quants import dequantize

CONTROL = 3  # tokenizer.ggml.token_type of tokens that are matched in the text before it is split

LAYER_TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
MODEL_TENSORS = {"token_embd": "model.embed_tokens", "output_norm": "model.norm"}


def hf_name(name):
    """`blk.7.attn_q.weight` -> `model.layers.7.self_attn.q_proj.weight`"""
    stem = name.removesuffix(".weight")
    if stem in MODEL_TENSORS:
        return MODEL_TENSORS[stem] + ".weight"
    _, layer, part = stem.split(".")
    return f"model.layers.{layer}.{LAYER_TENSORS[part]}.weight"


def unpermuted(rows, heads):
    """GGUF holds the two halves of a head that RoPE pairs row by row; Hugging Face holds them one after the other."""
    out_rows, columns = rows.shape
    pairs = rows.reshape(heads, out_rows // heads // 2, 2, columns)
    return pairs.swapaxes(1, 2).reshape(out_rows, columns)


def bf16_bits(values):
    """f32 -> bf16 as u16, to nearest, ties to even. The weights are finite."""
    bits = np.ascontiguousarray(values, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


class Metadata:
    def __init__(self, reader):
        self.fields = reader.fields

    def __getitem__(self, key):
        return self.fields[key].contents()


def config_of(metadata, dtype):
    llama = {key: metadata[f"llama.{key}"] for key in (
        "block_count", "embedding_length", "feed_forward_length", "context_length", "rope.freq_base",
        "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon")}
    hidden, heads = llama["embedding_length"], llama["attention.head_count"]
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": metadata["tokenizer.ggml.bos_token_id"],
        "eos_token_id": metadata["tokenizer.ggml.eos_token_id"],
        "head_dim": hidden // heads,
        "hidden_act": "silu",
        "hidden_size": hidden,
        "initializer_range": 0.041666666666666664,
        "intermediate_size": llama["feed_forward_length"],
        "max_position_embeddings": llama["context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": heads,
        "num_hidden_layers": llama["block_count"],
        "num_key_value_heads": llama["attention.head_count_kv"],
        "pad_token_id": metadata["tokenizer.ggml.padding_token_id"],
        "pretraining_tp": 1,
        # The file holds f32, 9.9999997e-06.
        "rms_norm_eps": float(f"{llama['attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_scaling": None,
        "rope_theta": float(llama["rope.freq_base"]),
        "tie_word_embeddings": True,
        "torch_dtype": {"bf16": "bfloat16", "f32": "float32"}[dtype],
        "use_cache": True,
        "vocab_size": len(metadata["tokenizer.ggml.tokens"]),
    }


def added_tokens(metadata):
    tokens, types = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.token_type"]
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    return [{"id": i, "content": token, **flags}
            for i, (token, kind) in enumerate(zip(tokens, types)) if kind == CONTROL]


def tokenizer_of(metadata):
    byte_level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": added_tokens(metadata),
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [{"type": "Digits", "individual_digits": True}, byte_level],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(metadata["tokenizer.ggml.tokens"])},
            "merges": metadata["tokenizer.ggml.merges"],
        },
    }


def tokenizer_config_of(metadata):
    tokens = metadata["tokenizer.ggml.tokens"]

    def token(role):
        return tokens[metadata[f"tokenizer.ggml.{role}_token_id"]]

    return {
        "add_bos_token": metadata["tokenizer.ggml.add_bos_token"],
        "add_prefix_space": metadata["tokenizer.ggml.add_space_prefix"],
        "bos_token": token("bos"),
        "chat_template": metadata["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": token("eos"),
        "model_max_length": metadata["llama.context_length"],
        "pad_token": token("padding"),
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": token("unknown"),
    }


def generation_config_of(metadata):
    return {key: metadata[f"tokenizer.ggml.{name}"] for key, name in (
        ("bos_token_id", "bos_token_id"), ("eos_token_id", "eos_token_id"), ("pad_token_id", "padding_token_id"))}


def tensors_of(reader, metadata, dtype):
    """Yields (name, values) in the order of the file, each as it will lie in model.safetensors."""
    heads = {"attn_q": metadata["llama.attention.head_count"], "attn_k": metadata["llama.attention.head_count_kv"]}
    for done, tensor in enumerate(reader.tensors, start=1):
        values = dequantize(tensor.data, tensor.tensor_type)
        part = tensor.name.split(".")[-2]
        if part in heads:
            values = unpermuted(values, heads[part])
        yield hf_name(tensor.name), bf16_bits(values) if dtype == "bf16" else np.ascontiguousarray(values, "<f4")
        if done % 34 == 0 or done == len(reader.tensors):
            print(f"  {done} of {len(reader.tensors)} tensors", file=sys.stderr, flush=True)


def write_safetensors(path, reader, metadata, dtype):
    """Header length as u64, JSON header padded to 8 bytes, then the tensors one after the other, one in memory."""
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in reader.tensors:
        shape = [int(n) for n in reversed(tensor.shape)]
        size = math.prod(shape) * {"bf16": 2, "f32": 4}[dtype]
        header[hf_name(tensor.name)] = {"dtype": dtype.upper(), "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(len(text).to_bytes(8, "little") + text)
        for name, values in tensors_of(reader, metadata, dtype):
            if header[name]["shape"] != list(values.shape):
                sys.exit(f"{name} has shape {list(values.shape)}, and the file says {header[name]['shape']}")
            file.write(values.tobytes())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gguf", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path, help="an existing or new folder")
    parser.add_argument("--dtype", choices=("bf16", "f32"), default="bf16")
    options = parser.parse_args()

    reader = GGUFReader(options.gguf)
    metadata = Metadata(reader)
    options.out.mkdir(parents=True, exist_ok=True)
    write_safetensors(options.out / "model.safetensors", reader, metadata, options.dtype)
    documents = {
        "config.json": config_of(metadata, options.dtype),
        "generation_config.json": generation_config_of(metadata),
        "tokenizer.json": tokenizer_of(metadata),
        "tokenizer_config.json": tokenizer_config_of(metadata),
    }
    for name, document in documents.items():
        text = json.dumps(document, ensure_ascii=False, indent=None if name == "tokenizer.json" else 2)
        (options.out / name).write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
