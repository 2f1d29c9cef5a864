/* Results of a sweep over its parameters, with selectable axes and a link to the worst run of each point. */
"use strict";
(() => {
  const { data, element, text, table, picture, pages, address, replayOf, runLink } = globalThis.roundtable;
  const byId = (id) => document.getElementById(id);
  const { parameters, measures, points } = data.study;
  const MOST_TICKS = 12;
  const [FEW, SMALL] = [200, 16];
  const EDGE = 90;
  const APART = 0.006;
  const FIRST = ["wanted_ratio", "delivery_ratio"];

  const said = (value) => (typeof value === "object" && value !== null ? JSON.stringify(value) : text(value));
  const worst = (point) => runLink(point.worst);

  const rows = (x, y, colour) => points.filter((point) => y in point.measures).map((point, number) => {
    const [mean, low, high] = point.measures[y];
    const values = parameters.map((name) => `${name} ${said(point.values[name])}`).join(", ");
    return { number, x: typeof point.values[x] === "number" ? point.values[x] : said(point.values[x] ?? "all"), colour: colour === "" ? "" : said(point.values[colour]), mean, low: low ?? mean, high: high ?? mean,
      worst: point.worst, rest: JSON.stringify(parameters.filter((name) => name !== x && name !== colour).map((name) => point.values[name])), text: `${values}; ${text(mean)}${low === null ? "" : ` (${text(low)} to ${text(high)})`}, ${text(point.n_runs)} runs` };
  });

  const inOrder = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : said(a) < said(b) ? -1 : 1);

  /** Places points with equal x side by side, so that their intervals do not overlap. */
  const setApart = (shown, values) => {
    const lines = [...new Set(shown.map((one) => `${one.colour} ${one.rest}`))];
    const wide = values.at(-1) - values[0];
    for (const one of shown) one.x += (lines.indexOf(`${one.colour} ${one.rest}`) - (lines.length - 1) / 2) * wide * Math.min(APART, 0.1 / lines.length);
  };

  /** Lines of rows with x, mean, low, high and colour; one legend shows colour, dash and shape. */
  const lines = (shown, x, y, colour, groups, values = [...new Set(shown.map((one) => one.x))].sort(inOrder)) => {
    const spec = structuredClone(data.specifications.study);
    const isNumber = values.every((one) => typeof one === "number");
    const ticks = { ...(values.length <= MOST_TICKS ? { values, format: "~r" } : {}), ...(values.every(Number.isInteger) ? { tickMinStep: 1 } : {}) };
    spec.encoding.x = { field: "x", title: x, ...(isNumber ? { type: "quantitative", scale: { zero: false, nice: false, padding: 12 }, axis: ticks } : { type: "nominal" }) };
    spec.encoding.y.title = y;
    const wide = 7 * Math.max(...groups.map((name) => name.length)) + 45;
    const legend = groups.length < 2 ? null : { columns: Math.max(1, Math.floor((document.querySelector("main").clientWidth - EDGE) / wide)), symbolLimit: 0 };
    const shared = { field: "colour", type: "nominal", title: colour || null, sort: groups, scale: { domain: groups }, legend };
    spec.encoding.color = shared;
    // Channels with equal field, title and domain share a legend.
    for (const { encoding } of spec.layer) for (const channel of ["shape", "strokeDash"]) if (encoding[channel]) encoding[channel] = shared;
    if (shown.length > FEW) spec.layer.at(-1).mark.size = SMALL;
    return spec;
  };
  globalThis.roundtable.lines = lines;

  const draw = async () => {
    const [x, y, colour] = ["study-x", "study-y", "study-colour"].map((id) => byId(id).value);
    const shown = rows(x, y, colour);
    const values = [...new Set(shown.map((one) => one.x))].sort(inOrder);
    if (values.every((one) => typeof one === "number")) setApart(shown, values);
    const groups = colour === "" ? [""] : [...new Set(points.map((point) => point.values[colour]))].sort(inOrder).map(said);
    const spec = lines(shown, x || "all runs", y, colour, groups, values);
    const view = await picture("#study-picture", spec, { rows: shown }, "study");
    view.addEventListener("click", (_, item) => { if (item?.datum?.worst !== undefined) open(item.datum.worst); });
    showTable(y);
  };

  const open = (run) => {
    if (replayOf(run)) globalThis.roundtable.open(address("replay", { run }));
    else byId("study-table").firstElementChild?.scrollIntoView();
  };

  const showTable = (y) => {
    byId("study-table").replaceChildren(table([...parameters, "runs", y, "from", "to", "worst run"], points.filter((point) => y in point.measures).map((point) =>
      [...parameters.map((name) => said(point.values[name])), point.n_runs, ...point.measures[y], worst(point)]), "From and to: the 95 % confidence interval of the mean; - with one value only"));
  };

  if (data.study.points.length && data.summary.n_runs > 1) {
    pages.studies = {
      title: "Studies",
      show: (section) => {
        if (!section.dataset.ready) {
          section.dataset.ready = "yes";
          const options = (names, none) => [...(none === null ? [] : [element("option", { value: "" }, none)]), ...names.map((name) => element("option", { value: name }, name))];
          byId("study-x").append(...options(parameters, parameters.length ? null : "nothing differs"));
          byId("study-y").append(...options(measures, null));
          byId("study-y").value = FIRST.find((name) => measures.includes(name)) ?? measures[0];
          byId("study-colour").append(...options(parameters, "none"));
          if (parameters.length > 1) byId("study-colour").value = parameters[1];
          for (const id of ["study-x", "study-y", "study-colour"]) byId(id).addEventListener("change", draw);
        }
        return draw();
      },
    };
  }
})();
