// Keeps the overview fresh; waits while somebody writes a reason or has a form open.
const live = document.querySelector("[data-live]");
const EVERY = 15_000;

function busy() {
  return document.hidden || live.contains(document.activeElement) || live.querySelector("details[open]") !== null;
}

async function refresh() {
  if (busy()) return;
  try {
    const answer = await fetch(live.dataset.live, { cache: "no-store", credentials: "same-origin" });
    if (!answer.ok || busy()) return;
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const fresh = page.querySelector("[data-live]");
    if (fresh) live.replaceChildren(...fresh.childNodes);
  } catch {
    // offline for a moment: what is shown says of when it is
  }
}

if (live) setInterval(refresh, EVERY);
