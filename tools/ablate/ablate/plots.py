"""kl.svg, accuracy.svg, distance.svg from the rows of the report."""
import os

import matplotlib

matplotlib.use('Agg')
import matplotlib.pyplot as plt  # noqa: E402


def bars(rows, key, label, path, log=False):
    """One horizontal bar a setting with its interval; a value of zero has no place on a logarithmic axis and is left out."""
    rows = [r for r in rows if not log or r[key][0] > 0]
    fig, ax = plt.subplots(figsize=(7, 0.32 * len(rows) + 1))
    for i, r in enumerate(rows):
        value, low, high = r[key]
        ax.errorbar(value, -i, xerr=[[value - low], [high - value]], fmt='o', color='black', capsize=3, markersize=4)
    ax.set_yticks([-i for i in range(len(rows))], [r['name'] for r in rows])
    ax.set_xlabel(label)
    if log:
        ax.set_xscale('log')
    ax.grid(axis='x', alpha=0.3)
    fig.tight_layout()
    fig.savefig(path)
    plt.close(fig)


def by_distance(rows, names, path):
    fig, ax = plt.subplots(figsize=(6, 4))
    for r in rows:
        if r['name'] in names and r['distance']:
            x = list(r['distance'])
            y = [d['share'] for d in r['distance'].values()]
            error = [[d['share'] - d['low'] for d in r['distance'].values()], [d['high'] - d['share'] for d in r['distance'].values()]]
            ax.errorbar(x, y, yerr=error, marker='o', capsize=3, label=r['name'])
    ax.set_xscale('log')
    ax.set_ylim(0, 1)
    ax.set_xlabel('tokens between a fact and its answer')
    ax.set_ylabel('look-up accuracy')
    ax.legend()
    ax.grid(alpha=0.3)
    fig.tight_layout()
    fig.savefig(path)
    plt.close(fig)


def write(rows, folder):
    others = [r for r in rows if r['name'] != 'reference']
    bars(others, 'kl', 'KL to the reference, nats a token', os.path.join(folder, 'kl.svg'), log=True)
    bars(rows, 'accuracy', 'look-up accuracy', os.path.join(folder, 'accuracy.svg'))
    by_distance(rows, ('reference', 'select-all', 'top-k-1/4', 'window-1/2', 'engram-off', 'ced'), os.path.join(folder, 'distance.svg'))
