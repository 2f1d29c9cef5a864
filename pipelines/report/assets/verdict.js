/* Page Verdict: the outcome of all runs. */
"use strict";
(() => {
  const { data, element, text, table, title, address, replayOf, runLink } = globalThis.roundtable;
  const found = data.summary;
  const MOST_TOLD = 10;
  const STEP = 200;

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

  const inTime = (value, one) => (value === null ? "-" : `${text(value)} ${value === 1 ? "round" : "rounds"} (${text(one)} ms)`);
  /** Columns of the table of runs: title, value for sorting and filtering, and displayed value if it differs. */
  const columns = [
    ["run", (run) => run.run_id, (run) => runLink(run.run_id)], ["seed", (run) => run.seed],
    ...found.varied.map((name) => [name, (run) => run.parameters[name] ?? null]),
    ["publications", (run) => run.n_publications], ["deliveries", (run) => run.n_deliveries],
    ["wanted deliveries missing", (run) => run.n_wanted - run.n_wanted_delivered, missingOf], ["messages", (run) => run.n_messages],
    ["median latency", (run) => run.latency_rounds_median, (run) => inTime(run.latency_rounds_median, run.latency_ms_median)],
    ["largest latency", (run) => run.latency_rounds_max, (run) => inTime(run.latency_rounds_max, run.latency_ms_max)],
    ["verdict", (run) => verdictOf(run).textContent, verdictOf],
  ];
  const ordered = (a, b) => (a === null || b === null ? (a === null) - (b === null) : typeof a === "number" && typeof b === "number" ? a - b : String(text(a)).localeCompare(text(b), "en", { numeric: true }));
  const OPERATORS = { "=": (a, b) => a === b, "<": (a, b) => a < b, ">": (a, b) => a > b, "<=": (a, b) => a <= b, ">=": (a, b) => a >= b };

  /** Whether the row of a run contains all words of a filter; a word such as messages>100 compares a column. */
  const passes = (run, words) => words.every((one) => {
    const [, name, sign, value] = /^([\w.]+)(<=|>=|=|<|>)(.+)$/.exec(one) ?? [];
    const column = name === undefined ? undefined : columns.find(([titled]) => titled.toLowerCase().startsWith(name) || titled.toLowerCase().endsWith(`.${name}`));
    if (column === undefined) return columns.some(([titled, key]) => (titled === "run" ? `run ${key(run)}` : String(text(key(run)))).toLowerCase().includes(one));
    const own = column[1](run);
    const isNumber = typeof own === "number" && !Number.isNaN(Number(value));
    return OPERATORS[sign](isNumber ? own : String(text(own)).toLowerCase(), isNumber ? Number(value) : value);
  });

  const runTable = () => {
    const state = { by: 0, isDown: false, most: STEP };
    const filter = element("input", { type: "search", id: "run-filter", placeholder: "words, or messages>100", autocomplete: "off", input: () => { state.most = STEP; fill(); } });
    const said = element("span", { class: "faint", id: "run-count", "aria-live": "polite" });
    const more = element("button", { type: "button", id: "more-runs", click: () => { state.most += 10 * STEP; fill(); } }, "More");
    const isNumber = columns.map(([, key]) => found.runs.every((run) => key(run) === null || typeof key(run) === "number"));
    const heads = columns.map(([name], place) => element("th", { scope: "col", class: isNumber[place] ? "number" : null },
      element("button", { type: "button", class: "row", click: () => { Object.assign(state, state.by === place ? { isDown: !state.isDown } : { by: place, isDown: false }); fill(); } }, title(name))));
    const body = element("tbody");
    const fill = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const key = columns[state.by][1];
      const kept = found.runs.filter((run) => passes(run, words)).sort((a, b) => ordered(key(a), key(b)) * (state.isDown && key(a) !== null && key(b) !== null ? -1 : 1));
      body.replaceChildren(...kept.slice(0, state.most).map((run) => element("tr", {}, columns.map(([, value, shown], place) =>
        element("td", { class: isNumber[place] ? "number" : null }, shown ? shown(run) : text(value(run)))))));
      heads.forEach((head, place) => { if (place === state.by) head.setAttribute("aria-sort", state.isDown ? "descending" : "ascending"); else head.removeAttribute("aria-sort"); });
      said.textContent = `${text(kept.length)} of ${text(found.n_runs)} runs${kept.length > state.most ? `, the first ${text(state.most)} shown` : ""}`;
      more.hidden = kept.length <= state.most;
    };
    fill();
    return [element("div", { class: "bar" }, element("label", {}, "Filter ", filter), said, more),
      element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": "Runs" }, element("table", {},
        element("thead", {}, element("tr", {}, heads)), body))];
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

  const parameters = () => table(["parameter", "value"],
    [...Object.entries(found.common).map(([name, value]) => [name, text(value)]), ...found.varied.map((name) => [name, "differs between runs"])]);

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
        element("div", { class: "high", id: "runs" }, runTable()),
        element("h2", {}, "Parameters"), parameters(),
        element("details", {}, element("summary", {}, "Scenario"), element("pre", {}, data.text),
          ...data.overrides.map((one) => element("p", {}, element("code", {}, `--set ${one}`)))));
    },
  };
})();
