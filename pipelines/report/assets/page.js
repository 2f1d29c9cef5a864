/* Selects the page by the fragment of the address, for example #replay/run=0&round=30. In a frame of a notebook the page
   has no address, and a link would open the notebook in the frame; a variable holds the fragment instead. */
"use strict";
(() => {
  const { data, element, pages, address } = globalThis.roundtable;
  const byId = (id) => document.getElementById(id);
  const choice = byId("run");
  const isFramed = location.protocol === "about:";
  let shown = "verdict";
  let kept = "";

  const asked = () => {
    const [name, values = ""] = (isFramed ? kept : location.hash).slice(1).split(/\/(.*)/s);
    return [Object.hasOwn(pages, name) ? name : data.start, new URLSearchParams(values)];
  };

  const show = () => {
    const [name, values] = asked();
    if (shown !== name) pages[shown].leave?.();
    shown = name;
    const replay = data.replays.find((one) => String(one.run.run_id) === (values.get("run") ?? choice.value)) ?? data.replays[0];
    choice.value = String(replay.run.run_id);
    byId("run-choice").hidden = !pages[name].needsRun || data.replays.length < 2;
    for (const section of document.querySelectorAll("section.page")) section.hidden = section.id !== name;
    for (const link of byId("pages").children) {
      if (link.dataset.page === name) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    }
    pages[name].show(byId(name), values, replay);
  };

  byId("title").textContent = `${data.scenario}, protocol ${data.protocol}`;
  byId("pages").append(...Object.entries(pages).map(([name, page]) => element("a", { href: address(name), "data-page": name }, page.title)));
  choice.append(...data.replays.map((one) => {
    const differs = data.summary.varied.map((name) => `${name} ${JSON.stringify(one.run.parameters[name])}`).join(", ");
    return element("option", { value: one.run.run_id }, [`${one.run.run_id}`, one.run.why, differs].filter(Boolean).join(": "));
  }));
  /** Navigates to a fragment. */
  const open = (to) => {
    if (!isFramed) { location.hash = to; return; }
    kept = to;
    show();
  };
  /** Sets the fragment to the current content without navigation. */
  globalThis.roundtable.remember = (to) => {
    if (isFramed) kept = to;
    else history.replaceState(null, "", to);
  };
  globalThis.roundtable.open = open;
  choice.addEventListener("change", () => open(address(shown, { run: choice.value })));
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (!isFramed || !link) return;
    event.preventDefault();
    open(link.getAttribute("href"));
  });
  byId("left-out").append(...data.left_out.map((one) => element("p", {}, `Left out: ${one}.`)), element("p", {}, `History in ${data.store}.`));
  addEventListener("hashchange", show);
  show();
})();
