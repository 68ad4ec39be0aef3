#!/bin/sh
# A browser for the tests, in this order: Chromium or Chrome on the PATH; Debian's package when run as root;
# Playwright's own; else one sentence.
set -u
for name in chromium chromium-browser google-chrome google-chrome-stable; do
  command -v "$name" >/dev/null 2>&1 && exit 0
done
python=${VENV:-.venv}/bin/python
"$python" -c 'from playwright.sync_api import sync_playwright as p
with p() as w:
    import os, sys
    sys.exit(not os.path.exists(w.chromium.executable_path))' >/dev/null 2>&1 && exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
  echo "installing Debian's chromium for the browser tests"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium; } >/dev/null 2>&1 && exit 0
fi
"$python" -m playwright install chromium >/dev/null 2>&1 && exit 0
echo "The browser tests need Chromium or Chrome on the PATH: install one (apt-get install chromium) and run this again." >&2
exit 1
