// Follows the registry: each event is a section of the page, rendered there.
"use strict";
(() => {
  const live = document.getElementById("live");
  const pause = document.createElement("button");
  const state = document.createElement("span");
  let paused = false;
  const waiting = new Map();

  const put = (id, html) => {
    const section = document.getElementById(id);
    if (!section) return;
    const open = new Set([...section.querySelectorAll("details[open]")].map((d) => d.id));
    const focused = section.contains(document.activeElement) ? place(section, document.activeElement) : null;
    const scrolled = [...section.querySelectorAll(".scroll")].map((s) => s.scrollLeft);
    section.innerHTML = html;
    for (const d of section.querySelectorAll("details")) d.open = open.has(d.id);
    [...section.querySelectorAll(".scroll")].forEach((s, i) => { s.scrollLeft = scrolled[i] || 0; });
    if (focused) focused()?.focus({ preventScroll: true });
  };

  // place remembers where the focus was, to find the same thing in new rows.
  const place = (section, e) => {
    const details = e.closest("details");
    if (details && e.tagName === "SUMMARY") return () => document.getElementById(details.id)?.querySelector("summary");
    if (e.classList.contains("scroll")) return () => section.querySelector(".scroll");
    return null;
  };

  const say = (text) => { if (state.textContent !== text) state.textContent = text; };

  pause.type = "button";
  pause.textContent = "Pause";
  pause.addEventListener("click", () => {
    paused = !paused;
    pause.textContent = paused ? "Go on" : "Pause";
    say(paused ? "Paused. " : "Live. ");
    if (!paused) { for (const [id, html] of waiting) put(id, html); waiting.clear(); }
  });
  live.replaceChildren(state, pause);
  say("Connecting… ");

  const source = new EventSource("events");
  source.addEventListener("open", () => { if (!paused) say("Live. "); });
  source.addEventListener("error", () => say("The registry does not answer; trying again. "));
  for (const id of ["registry", "groups", "swarms", "topics", "nodes"]) {
    source.addEventListener(id, (e) => paused ? waiting.set(id, e.data) : put(id, e.data));
  }
})();
