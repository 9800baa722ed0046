#!/bin/sh
# Makes the engine's own environment, once: prepare.sh PYTHON DIRECTORY.
set -e
test -f "$2/made" && exit 0
"$1" -m venv --clear "$2"
"$2/bin/python" -m pip install --quiet --only-binary :all: -r "$(dirname "$0")/requirements.txt"
touch "$2/made"
