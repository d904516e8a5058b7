#!/usr/bin/env python3
"""Random schemas: what the grammar writes must validate by PyPI's jsonschema, and what a generator of instances makes
of a schema, written in the grammar's style, must be read by the grammar.

    python3 compare.py GRAMMAR_ORACLE TOKENIZER.json [--schemas N] [--seed S]"""

import argparse
import json
import random
import subprocess
import sys

import jsonschema

NAMES = ["a", "ab", "abc", "é", "x\"y", "", "two words", "中文", "\n", "$ref", "B", "naïve", "\\", "type"]
LITERALS = [0, 1, 12, -1.5, 1e3, True, None, "", "a", "ab", "中\n\"", [], {"a": [1, {"b": None}]}, ["x", 2], False]
TYPES = ["null", "boolean", "integer", "number", "string"]


class Schemas:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def document(self):
        root = self.schema(3)
        root["$defs"] = {name: self.schema(2) for name in "abc"}
        return root

    def schema(self, depth):
        r = self.r
        kind = r.choice(["type", "types", "enum", "const", "ref", "any"] +
                        ["anyOf", "array", "array", "object", "object", "object"] * (depth > 0))
        if kind == "type":
            return {"type": r.choice(TYPES)}
        if kind == "types":
            return {"type": r.sample(TYPES, 2)}
        if kind == "enum":
            return {"enum": r.sample(LITERALS, r.randint(1, 5)), **({"type": ["string", "array"]} if r.random() < .2 else {})}
        if kind == "const":
            return {"const": r.choice(LITERALS)}
        if kind == "ref":
            return {"$ref": "#/$defs/" + r.choice("abc")}
        if kind == "any":
            return {"description": "anything"}
        if kind == "anyOf":
            return {"anyOf": [self.schema(depth - 1) for _ in range(r.randint(1, 3))]}
        if kind == "array":
            return {"type": "array", "items": r.choice([True, False]) if r.random() < .1 else self.schema(depth - 1)}
        schema = {"type": "object" if r.random() < .7 else ["object", "string"]}
        if r.random() < .9:
            schema["properties"] = {name: self.schema(depth - 1) if r.random() < .9 else r.random() < .7
                                    for name in r.sample(NAMES, r.randint(0, 5))}
        if r.random() < .7:
            known = list(schema.get("properties", {}))
            schema["required"] = list(dict.fromkeys(r.sample(known, r.randint(0, len(known))) + r.sample(NAMES, int(r.random() < .2))))
        if r.random() < .5:
            schema["additionalProperties"] = r.choice([True, False, self.schema(depth - 1)])
        return schema


class NoInstance(Exception):
    pass


class Instances:
    """Instances of a schema as text, in the order and with the white space that the grammar writes."""

    def __init__(self, root, seed):
        self.root, self.r = root, random.Random(seed)

    def gap(self):
        return self.r.choice(["", "", " ", "\n" + " " * self.r.randint(0, 8), "\n\t"])

    def literal(self, value):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    def of_type(self, schema, kind, depth):
        r = self.r
        if kind == "null":
            return "null"
        if kind == "boolean":
            return r.choice(["true", "false"])
        if kind == "integer":
            return str(r.randint(-10 ** r.randint(0, 17), 10 ** r.randint(0, 17)))
        if kind == "number":
            return r.choice(["0.5", "-12.25e-7", "3", "1E+9", "-0"])
        if kind == "string":
            return json.dumps("".join(r.choice("abc \"\\\né中😀/\u2028\x7f") for _ in range(r.randint(0, 9))),
                              ensure_ascii=r.random() < .5)
        if kind == "array":
            items = schema.get("items", True)
            many = 0 if items is False or depth > 12 else r.randint(0, 2)
            return self.joined("[", [self.value(items, depth + 1) for _ in range(many)], "]")
        parts = []
        properties = schema.get("properties", {})
        required = list(dict.fromkeys(schema.get("required", [])))
        others = schema.get("additionalProperties", "properties" not in schema)
        for name in list(properties) + [name for name in required if name not in properties]:
            inner = properties.get(name, schema.get("additionalProperties", True))
            if name not in required and (inner is False or depth > 6 or r.random() < .5):
                continue
            parts.append(self.literal(name) + ":" + r.choice(["", " "]) + self.value(inner, depth + 1))
        if others is not False and depth < 6 and r.random() < .5:
            parts.append('"other' + r.choice(["é", "", " x"]) + '":' + self.value(others, depth + 1))
        return self.joined("{", parts, "}")

    def joined(self, begin, parts, end):
        text = begin + self.gap()
        if not parts:
            return text + end
        return text + ("," + "\0").join(parts).replace("\0", self.gap()) + self.gap() + end

    def value(self, schema, depth=0):
        if schema is False or depth > 40:
            raise NoInstance
        if schema is True:
            schema = {}
        if "$ref" in schema:
            return self.value(self.root["$defs"][schema["$ref"][-1]], depth + 1)
        if "anyOf" in schema:
            return self.value(self.r.choice(schema["anyOf"]), depth + 1)
        if "const" in schema or "enum" in schema:
            value = self.r.choice(schema["enum"]) if "enum" in schema else schema["const"]
            if "type" in schema and not isinstance(value, (str, list)):
                raise NoInstance
            return self.literal(value)
        kinds = schema.get("type", TYPES + (["array", "object"] if depth < 4 else []))
        return self.of_type(schema, self.r.choice([kinds] if isinstance(kinds, str) else kinds), depth)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("oracle")
    parser.add_argument("tokenizer")
    parser.add_argument("--schemas", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    oracle = subprocess.Popen([options.oracle, options.tokenizer], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(**question):
        oracle.stdin.write(json.dumps(question).encode() + b"\n")
        oracle.stdin.flush()
        return json.loads(oracle.stdout.readline())

    schemas, written, read, impossible = Schemas(options.seed), 0, 0, 0
    for i in range(options.schemas):
        schema = schemas.document()
        validator = jsonschema.Draft202012Validator(schema)
        validator.check_schema(schema)
        for k in range(3):
            answer = ask(schema=schema, seed=i * 3 + k, budget=2 ** (k * 3))
            if "error" in answer:
                if "allows no" not in answer["error"] and "leads back to itself" not in answer["error"]:
                    sys.exit(f"{answer['error']}\n{json.dumps(schema)}")
                impossible += 1
                break
            try:
                value = json.loads(answer["text"])
            except ValueError as error:
                sys.exit(f"not JSON ({error}): {answer['text']}\n{json.dumps(schema)}")
            problem = next(validator.iter_errors(value), None)
            if problem:
                sys.exit(f"{problem.message}: {answer['text']}\n{json.dumps(schema)}")
            written += 1
            try:
                text = Instances(schema, i * 3 + k).value(schema)
            except (NoInstance, RecursionError):
                continue
            if next(validator.iter_errors(json.loads(text)), None):
                continue  # such as a property that another part of the schema forbids
            if (found := ask(schema=schema, text=text)["reads"]) != "whole":
                sys.exit(f"read as {found!r}: {text}\n{json.dumps(schema)}")
            read += 1
    print(f"{options.schemas} schemas ({impossible} that allow nothing): {written} texts validate, {read} instances are read")


if __name__ == "__main__":
    main()
