/* The charts of a run. */
"use strict";
(() => {
  const { data, element, text, picture, pages, kindColours } = globalThis.roundtable;
  const OTHER = "#888888";
  let shown = null;

  /** Message kinds have their colours in the replay; the sum of the other kinds is grey. */
  const coloured = (spec, replay) => {
    const { domain, range } = kindColours(replay);
    const shown = [...new Set(replay.measures.kinds.map((row) => row.kind))].sort();
    const scale = { domain: shown, range: shown.map((kind) => range[domain.indexOf(kind)] ?? OTHER) };
    return { ...spec, encoding: { ...spec.encoding, color: { ...spec.encoding.color, scale } } };
  };

  /** Adds the duration of a round to titles. */
  const timed = (spec, replay) => JSON.parse(JSON.stringify(spec).replaceAll("(rounds)", `(rounds of ${text(replay.run.round_ms)} ms)`));

  pages.measures = {
    title: "Measures",
    needsRun: true,
    show: async (_, asked, replay) => {
      if (shown === replay) return;
      shown = replay;
      const drawn = Object.entries(data.specifications.measures).filter(([name]) => replay.measures[name].length > 0);
      const places = drawn.map(([name, spec]) => element("div", { class: "picture", id: `measure-${name}`, role: "group", tabindex: 0, "aria-label": spec.title }));
      document.getElementById("measure-pictures").replaceChildren(...places);
      for (const [name, spec] of drawn) await picture(`#measure-${name}`, name === "kinds" ? coloured(spec, replay) : timed(spec, replay), { rows: replay.measures[name] }, `run-${replay.run.run_id}-${name}`);
    },
  };
})();
