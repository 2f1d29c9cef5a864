/* Several runs in one chart: quantiles of latencies, and numbers of events in each round. */
"use strict";
(() => {
  const { data, element, text, picture, pages } = globalThis.roundtable;
  const byId = (id) => document.getElementById(id);
  const { quantiles, series, run_ids: known } = data.overlaid;
  const SHOWN = 8;
  const WHAT = { latency: ["Latency of deliveries", "quantile of deliveries", "latency (rounds)"], deliveries: ["Deliveries", "round", "deliveries"],
    "messages sent": ["Messages sent", "round", "messages"], "messages lost": ["Messages lost", "round", "messages"] };
  const byRun = new Map(data.summary.runs.map((run) => [run.run_id, run]));
  const said = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : text(value));

  /** Parses run ids such as "0, 3, 5 to 9". */
  const idsOf = (asked) => new Set([...asked.matchAll(/(\d+)(?:\s*(?:to|-|:)\s*(\d+))?/g)].flatMap(([, first, last]) => {
    const [from, to] = [Number(first), Number(last ?? first)];
    return known.filter((one) => one >= from && one <= to);
  }));

  const draw = async () => {
    const [what, colour, asked] = ["overlaid-what", "overlaid-colour", "overlaid-runs"].map((id) => byId(id).value);
    const ids = asked.trim() === "" ? new Set(known.slice(0, SHOWN)) : idsOf(asked);
    const [heading, x, y] = WHAT[what];
    const groupOf = (runId) => (colour === "" ? `run ${runId}` : said(byRun.get(runId)?.parameters[colour] ?? null));
    const rows = (what === "latency" ? quantiles : series.filter((one) => one.what === what)).filter((one) => ids.has(one.run_id))
      .map((one) => ({ x: one.x, mean: one.y, low: one.y, high: one.y, colour: groupOf(one.run_id), rest: one.run_id, run: one.run_id, text: `run ${one.run_id}, ${text(one.x)}: ${text(one.y)}` }));
    const shown = known.filter((one) => ids.has(one));
    if (rows.length === 0) byId("overlaid-picture").replaceChildren();
    else await picture("#overlaid-picture", globalThis.roundtable.lines(rows, x, y, colour, [...new Set(shown.map(groupOf))]), { rows }, `runs-${what.replace(" ", "-")}`);
    byId("overlaid-said").textContent = shown.length === 0 ? `No such run; the runs here are ${known.join(", ")}.`
      : `${heading} of ${shown.length === 1 ? "run" : "runs"} ${shown.join(", ")}, of ${text(data.summary.n_runs)} runs.${rows.length ? "" : " Nothing of it happened."}`;
  };

  if (data.summary.n_runs > 1) {
    pages.overlaid = {
      title: "Runs compared",
      show: (section) => {
        if (!section.dataset.ready) {
          section.dataset.ready = "yes";
          byId("overlaid-what").append(...Object.entries(WHAT).map(([name, [heading]]) => element("option", { value: name }, heading)));
          byId("overlaid-colour").append(element("option", { value: "" }, "run"), ...data.summary.varied.map((name) => element("option", { value: name }, name)));
          for (const id of ["overlaid-what", "overlaid-colour", "overlaid-runs"]) byId(id).addEventListener("input", draw);
        }
        return draw();
      },
    };
  }
})();
