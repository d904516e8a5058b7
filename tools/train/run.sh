#!/bin/bash
# Trains nano-v41 in the background at the lowest priority, or goes on from its last checkpoint.
#   tools/train/run.sh STATE_FOLDER [--tokens MILLIONS] [--from MODEL_FOLDER]
# STATE_FOLDER (outside the repository) gets a Python environment, the real text, checkpoints and the log.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
state=$(mkdir -p "${1:?state folder}" && cd "$1" && pwd)
shift
if [ ! -x "$state/venv/bin/python" ]; then
    python3 -m venv "$state/venv"
fi
"$state/venv/bin/python" -c 'import torch, safetensors, tokenizers, numpy' 2>/dev/null ||
    "$state/venv/bin/pip" install -q -r "$here/requirements.txt"
unset PYTHONDONTWRITEBYTECODE
export PYTHONPATH=$here PYTHONPYCACHEPREFIX=$state/pycache
if [ ! -s "$state/real.txt" ]; then
    "$state/venv/bin/python" -m nano.text "$state/real.txt"
fi
pid=$(cat "$state/train.pid" 2>/dev/null || echo none)
if grep -qs nano.train "/proc/$pid/cmdline"; then
    echo "already running: $pid"
    exit 0
fi
export TORCHINDUCTOR_CACHE_DIR=$state/inductor OMP_NUM_THREADS=1 TORCHINDUCTOR_COMPILE_THREADS=1
# Memory is kept, on huge pages: otherwise every large tensor is mapped and cleared anew, 5 % of the time.
export GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184:glibc.malloc.arena_max=1
nohup setsid nice -n 19 "$state/venv/bin/python" -m nano.train "$state" "$@" >>"$state/train.out" 2>&1 &
echo $! >"$state/train.pid"         # before it has loaded anything: a second start must see it
echo "started; log: $state/log.jsonl"
