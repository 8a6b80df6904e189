#!/bin/sh
# The picture of the page in the README: the demonstration incident, replayed to its end.
# `make pictures` makes it smaller, and draws the dashboards.
set -eu
root=$(dirname "$0")/../..
port=9451
"${GPUDIAG:-gpudiag}" agent --replay "$root/tests/incidents/demo.yaml" --speed 400 \
  --listen "127.0.0.1:$port" &
agent=$!
trap 'kill $agent' EXIT
sleep 8
chromium --headless --no-sandbox --disable-gpu --no-first-run --disable-background-networking \
  --hide-scrollbars --user-data-dir="$(mktemp -d)" --window-size=1280,1800 \
  --screenshot="$root/runbooks/pictures/page.png" "http://127.0.0.1:$port/" 2>/dev/null
