"use strict";
// Fetches the live part every five seconds; what is unfolded and focused stays so.
const SECONDS = 5;
const live = document.getElementById("live");
const lost = document.getElementById("lost");
const pause = document.getElementById("pause");
let paused = false;
let lastGood = new Date();

function keepOpen(fresh) {
  for (const details of fresh.querySelectorAll("details[id]")) {
    const shown = document.getElementById(details.id);
    if (shown) details.open = shown.open;
  }
}

function focused() {
  const element = document.activeElement;
  if (!live.contains(element)) return null;
  const all = [...live.querySelectorAll("a, summary")];
  const text = element.textContent;
  const same = all.filter((other) => other.textContent === text);
  return { text, position: same.indexOf(element) };
}

function restoreFocus(was) {
  if (!was) return;
  const same = [...live.querySelectorAll("a, summary")].filter((e) => e.textContent === was.text);
  same[was.position]?.focus({ preventScroll: true });
}

async function update() {
  if (paused || document.hidden) return;
  try {
    const answer = await fetch("/fragment", { signal: AbortSignal.timeout(SECONDS * 1000) });
    if (!answer.ok) throw new Error(`HTTP ${answer.status}`);
    const fresh = document.createElement("main");
    fresh.innerHTML = await answer.text();
    keepOpen(fresh);
    const was = focused();
    live.replaceChildren(...fresh.childNodes);
    restoreFocus(was);
    lastGood = new Date();
    lost.hidden = true;
  } catch {
    lost.textContent = `The agent has not answered since ${lastGood.toLocaleTimeString()}: what you see is that old.`;
    lost.hidden = false;
  }
}

pause.hidden = false;
pause.addEventListener("click", () => {
  paused = !paused;
  pause.setAttribute("aria-pressed", String(paused));
  pause.textContent = paused ? "Resume updates" : "Pause updates";
  if (!paused) update();
});
setInterval(update, SECONDS * 1000);
