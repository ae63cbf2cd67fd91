#!/usr/bin/env bash
# Installs what the tests need, a browser too, and runs every check: format, lint, types, tests.
# The same for a person and for CI. Uses the active virtual environment, or makes .venv.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ -z "${VIRTUAL_ENV:-}" ]; then
  [ -d .venv ] || python3 -m venv .venv
  . .venv/bin/activate
fi
python -m pip install --quiet --requirement requirements.txt --requirement tests/requirements.txt

if ! command -v chromium >/dev/null && ! command -v chromium-browser >/dev/null && [ -z "${CHROMIUM:-}" ]; then
  if command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
    apt-get update --quiet=2
    DEBIAN_FRONTEND=noninteractive apt-get install --quiet=2 --yes chromium >/dev/null
  else
    python -m playwright install chromium
  fi
fi

# For the test of several processes behind nginx. The program alone: its package starts a server on port 80.
PATH="$PATH:/usr/sbin:$VIRTUAL_ENV/usr/sbin"
if ! command -v nginx >/dev/null && command -v apt-get >/dev/null && [ "$(id -u)" = 0 ]; then
  apt-get update --quiet=2
  (cd "$VIRTUAL_ENV" && apt-get download --quiet=2 nginx && dpkg-deb --extract nginx_*.deb .)
fi

ruff format --check .
ruff check .
mypy
python -m tests.verdict_table
# Two files at once, but those of the browser: there the server and the page want both cores.
python -m pytest --numprocesses 2 --dist loadfile --ignore tests/browser "$@"
python -m pytest tests/browser
