"""Derived model folders: links to a checkpoint's files, with numbers of config.json changed or weights set to zero."""
import json
import os


def derive(model, setting, folder):
    """-> the folder to give to the engine: `model` itself where the setting changes nothing in it"""
    if not setting.config and not setting.zero:
        return model
    out = os.path.join(folder, setting.name.replace('/', '_'))
    os.makedirs(out, exist_ok=True)
    for name in os.listdir(model):
        link = os.path.join(out, name)
        if os.path.lexists(link):
            os.remove(link)
        os.symlink(os.path.abspath(os.path.join(model, name)), link)
    if setting.config:
        change_config(model, out, setting.config)
    if setting.zero:
        zero_weights(model, out, setting.zero)
    return out


def change_config(model, out, changes):
    with open(os.path.join(model, 'config.json'), encoding='utf-8') as f:
        config = json.load(f)
    text = config['text_config']
    for change in changes:
        text.update(change(text))
    path = os.path.join(out, 'config.json')
    os.remove(path)
    with open(path, 'w', encoding='utf-8') as f:
        json.dump(config, f, indent=1)


def zero_weights(model, out, endings):
    """Weights are a file of bytes here: zero bytes are zero in every format they have (bf16, e4m3, e2m1)."""
    path = os.path.join(model, 'model.safetensors')
    header, data = read_raw(path)
    found = 0
    for name, t in header.items():
        if name != '__metadata__' and name.endswith(endings):
            a, b = t['data_offsets']
            data[a:b] = bytes(b - a)
            found += 1
    if not found:
        raise SystemExit(f'ablate: {path} has no weight that ends in {" or ".join(endings)}')
    link = os.path.join(out, 'model.safetensors')
    os.remove(link)
    write_raw(link, header, data)


def read_raw(path):
    with open(path, 'rb') as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), 'little')))
        return header, bytearray(f.read())


def write_raw(path, header, data):
    text = json.dumps(header, separators=(',', ':')).encode()
    text += b' ' * (-len(text) % 8)
    with open(path, 'wb') as f:
        f.write(len(text).to_bytes(8, 'little') + text + data)
