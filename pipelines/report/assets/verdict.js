/* The page that says how the runs ended. */
"use strict";
(() => {
  const { data, element, text, table, address, replayOf } = globalThis.roundtable;
  const found = data.summary;
  const MOST_TOLD = 10;

  const verdictOf = (run) => {
    const kind = { valid: "good", invalid: "bad" }[run.verdict] ?? "excused";
    const beyond = run.within_bound === false ? ", beyond the bound" : "";
    return element("span", { class: beyond ? "excused" : kind }, (run.verdict ?? "unknown") + beyond);
  };

  const missingOf = (run) => {
    const number = run.n_wanted - run.n_wanted_delivered;
    if (number === 0) return text(0);
    return replayOf(run.run_id) ? element("a", { href: address("losses", { run: run.run_id }) }, text(number)) : text(number);
  };

  const runTable = () => {
    const columns = ["run", "seed", ...found.varied, "publications", "deliveries", "wanted deliveries missing", "messages",
      "median latency", "largest latency", "verdict"];
    const inTime = (value, one) => (value === null ? "-" : `${text(value)} ${value === 1 ? "round" : "rounds"}${one === null ? "" : ` (${text(one)} ms)`}`);
    const rows = found.runs.map((run) => [
      replayOf(run.run_id) ? element("a", { href: address("replay", { run: run.run_id }) }, `run ${run.run_id}`) : `run ${run.run_id}`,
      run.seed, ...found.varied.map((name) => run.parameters[name] ?? null), run.n_publications, run.n_deliveries, missingOf(run),
      run.n_messages, inTime(run.latency_rounds_median, run.latency_ms_median), inTime(run.latency_rounds_max, run.latency_ms_max), verdictOf(run),
    ]);
    return table(columns, rows, "Those with a link can be replayed here");
  };

  const stateOf = (one) => {
    if (!one.is_checked) return element("span", { class: "excused" }, "not checked");
    const said = [];
    if (one.n_broken) said.push(element("span", { class: "bad" }, `broken ${text(one.n_broken)} times`));
    if (one.n_excused) said.push(element("span", { class: "excused" }, `excused ${text(one.n_excused)} times`));
    return element("span", {}, said.length ? said.flatMap((part, place) => (place ? [", ", part] : [part])) : element("span", { class: "good" }, "held"));
  };

  const went = found.runs.filter((run) => run.beyond !== null);
  const nMore = found.n_beyond - Math.min(went.length, MOST_TOLD);
  const beyond = () => went.slice(0, MOST_TOLD).map((run) => element("li", {},
    `Run ${run.run_id} went beyond the bound in `,
    replayOf(run.run_id) ? element("a", { href: address("replay", { run: run.run_id, round: run.beyond.round }) }, `round ${run.beyond.round}`) : `round ${run.beyond.round}`,
    `: ${run.beyond.reason}. What broke in it is excused.`))
    .concat(nMore > 0 ? [element("li", { class: "faint" }, `and ${text(nMore)} more runs`)] : []);

  const parameters = () => {
    const same = Object.entries(found.runs[0].parameters).filter(([name]) => !found.varied.includes(name));
    return table(["parameter", "value"], [...same.map(([name, value]) => [name, text(value)]), ...found.varied.map((name) => [name, "differs between runs"])]);
  };

  globalThis.roundtable.pages.verdict = {
    title: "Verdict",
    show: (section) => {
      if (section.childElementCount) return;
      const kind = { valid: "good", invalid: "bad" }[found.verdict] ?? "excused";
      const listed = beyond();
      section.append(
        element("h2", { id: "sentence" }, element("span", { class: kind }, found.verdict), `: ${found.sentence}`),
        ...(listed.length ? [element("ul", { class: "plain" }, listed)] : []),
        element("h2", {}, "Guarantees"),
        table(["guarantee", "result", "says"], found.guarantees.map((one) => [one.name, stateOf(one), one.summary])),
        element("h2", {}, "Runs"),
        element("div", { class: "high" }, runTable()),
        element("h2", {}, "Parameters"), parameters(),
        element("details", {}, element("summary", {}, "Scenario"), element("pre", {}, data.text),
          ...data.overrides.map((one) => element("p", {}, element("code", {}, `--set ${one}`)))));
    },
  };
})();
