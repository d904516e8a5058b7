#!/bin/bash
# Measures a model and puts the figures into docs/quality.md:
#   tools/ablate/run.sh MODEL STATE_FOLDER OUT [ARG..]
# STATE_FOLDER is that of tools/train (its Python environment and real.txt); OUT takes documents, figures and plots, and a run that
# was stopped goes on from there. ARG..: of python -m ablate, such as --arithmetic fast or --jobs 1.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
model=${1:?model folder} state=${2:?state folder} out=${3:?output folder}
shift 3
export PYTHONPATH=$here:$here/../train
python=$state/venv/bin/python
"$python" -c 'import matplotlib' 2>/dev/null || "$state/venv/bin/pip" install -q -r "$here/requirements.txt"
mkdir -p "$out"
[ -s "$out/documents.json" ] || "$python" -m ablate.documents "$model/tokenizer.json" "$state/real.txt" "$out/documents.json"
"$python" -m ablate "$model" "$out/documents.json" "$out" --seekline "$here/../../build/release/seekline" "$@"
"$python" -m ablate.publish "$out" "$model" "$here/../../docs/quality.md"
