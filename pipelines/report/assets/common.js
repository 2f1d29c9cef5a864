/* Functions that all pages share: access to the data, elements that contain only text, names instead of ids. */
"use strict";
globalThis.roundtable = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodeFields = new Set(data.node_fields);
  const messageFields = new Set(data.message_fields);
  const COLOURS = data.specifications.config.range.category;
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_CELLS = 200;
  const DENSITY = 2;

  /** Sets attributes (functions become listeners) and appends children (elements or strings). */
  const filled = (made, attributes, children) => {
    for (const [name, value] of Object.entries(attributes)) {
      if (typeof value === "function") made.addEventListener(name, value);
      else if (value !== null && value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : String(value));
    }
    made.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return made;
  };
  const element = (tag, attributes = {}, ...children) => filled(document.createElement(tag), attributes, children);
  const drawn = (tag, attributes = {}, ...children) => filled(document.createElementNS(SVG, tag), attributes, children);

  const text = (value) => {
    if (value === null || value === undefined) return "-";
    if (typeof value === "number") return Number.isInteger(value) ? value.toLocaleString("en") : String(Number(value.toPrecision(4)));
    if (Array.isArray(value) && value.every((one) => one === null || typeof one !== "object")) return value.map(text).join(", ");
    return typeof value === "object" ? JSON.stringify(value) : String(value);
  };

  /** A column title with line breaks only after underscores and between words. */
  const title = (name) => name.split(/(?<=_)/).flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));

  /** A table with a horizontal scroll bar if it is wide; numbers are right-aligned. */
  const table = (columns, rows, caption = null) => {
    const counts = (value) => value === null || typeof value === "number" || (value instanceof Node && /^[\d,.]+$/.test(value.textContent));
    const isNumber = columns.map((_, place) => rows.length > 0 && rows.every((row) => counts(row[place])));
    const kind = (place) => (isNumber[place] ? "number" : null);
    const cell = (value) => (value instanceof Node ? value : text(value));
    const shown = rows.slice(0, MOST_CELLS);
    const more = rows.length > shown.length ? element("p", { class: "faint" }, `${text(rows.length - shown.length)} more rows`) : null;
    return element("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": caption ?? columns.join(", ") },
      element("table", {}, caption === null ? null : element("caption", {}, caption),
        element("thead", {}, element("tr", {}, columns.map((name, place) => element("th", { scope: "col", class: kind(place) }, title(name))))),
        element("tbody", {}, shown.map((row) => element("tr", {}, row.map((value, place) => element("td", { class: kind(place) }, cell(value))))))),
      more);
  };

  /** Converts a table from columns to rows. */
  const rowsOf = (columns) => {
    const names = Object.keys(columns);
    return (columns[names[0]] ?? []).map((_, place) => Object.fromEntries(names.map((name) => [name, columns[name][place]])));
  };

  const nameOf = (replay, id) => replay.nodes.name[id] ?? text(id);
  const subscriptionOf = (replay, id) => {
    const place = replay.subscription.subscription_id.indexOf(id);
    return place < 0 ? text(id) : `${nameOf(replay, replay.subscription.subscriber[place])}: ${replay.subscription.predicate[place] ?? "?"}`;
  };

  const messageOf = (replay, id) => {
    const [rows, place] = [replay.message, replay.message.message_id.indexOf(id)];
    if (place < 0) return id < 0 ? "-" : text(id);
    return `${replay.texts.kind[rows.kind[place]]} of ${nameOf(replay, rows.src[place])} to ${nameOf(replay, rows.dst[place])}, round ${rows.sent_round[place]}`;
  };

  /** A value of a message body or a state row, with names instead of ids. */
  const named = (replay, value, field) => {
    if (Array.isArray(value)) return value.map((one) => named(replay, one, field));
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, named(replay, one, name)]));
    if (typeof value === "number" && nodeFields.has(field) && value >= 0) return nameOf(replay, value);
    if (typeof value === "number" && field === "subscription_id") return subscriptionOf(replay, value);
    if (typeof value === "number" && messageFields.has(field)) return messageOf(replay, value);
    return value;
  };

  const rounds = (replay, number) => (number === null ? "-" : `${text(number)} ${number === 1 ? "round" : "rounds"} (${text(number * replay.run.round_ms)} ms)`);

  /** The display name of a publication: its index among the publications and among all calls of its source. */
  const publicationName = (replay, source, call) => {
    replay.seqs ??= new Map(rowsOf(replay.publication).map((one) => [`${one.source} ${one.source_seq}`, one.seq]));
    const seq = replay.seqs.get(`${source} ${call}`);
    return `${seq === undefined ? `call ${call}` : `publication ${seq} (call ${call})`} of ${nameOf(replay, source)}`;
  };

  /** A link to a page of the report, with parameters. The slash keeps browsers from scrolling to the section. */
  const address = (page, values = {}) => {
    const asked = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
    return `#${page}/${asked}`;
  };
  const replayOf = (runId) => data.replays.find((one) => one.run.run_id === Number(runId));

  /** Message kinds and their colours, equal in all pictures of a run. */
  const kindColours = (replay) => ({ domain: replay.texts.kind, range: replay.texts.kind.map((_, place) => COLOURS[place % COLOURS.length]) });

  const saved = (blob, name) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  };

  /** A picture as SVG, black on white, because a file may be placed on any page. */
  const onPaper = async (view) => (await view.toSVG()).replaceAll("currentColor", "#1b1b1b").replace(/>/, '><rect width="100%" height="100%" fill="white"/>');

  const asPng = (svg) => new Promise((done) => {
    const image = new Image();
    image.addEventListener("load", () => {
      const canvas = element("canvas", { width: image.width * DENSITY, height: image.height * DENSITY });
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(done, "image/png");
    });
    image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svg)}`;
  });

  /** The data of a picture; with several datasets, column `part` names the dataset of a row. */
  const asCsv = (datasets) => {
    const several = Object.keys(datasets).length > 1;
    const rows = Object.entries(datasets).flatMap(([part, of]) => of.map((row) => (several ? { part, ...row } : row)));
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const cell = (value) => { const said = value === null || value === undefined ? "" : String(value); return /[",\n]/.test(said) ? `"${said.replaceAll('"', '""')}"` : said; };
    return [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => `${row.map(cell).join(",")}\n`).join("");
  };

  /** Buttons that save a picture as SVG or PNG, and its data as CSV. */
  const savers = (view, datasets, name) => {
    const button = (said, save) => element("button", { type: "button", class: "save", click: save }, said);
    return element("span", { class: "group" },
      button("Save as SVG", async () => saved(new Blob([await onPaper(view)], { type: "image/svg+xml" }), `${name}.svg`)),
      button("PNG", async () => saved(await asPng(await onPaper(view)), `${name}.png`)),
      button("Data", () => saved(new Blob([asCsv(datasets)], { type: "text/csv" }), `${name}.csv`)));
  };

  const draw = async (target, spec, datasets, name) => {
    // Vega warns about layers without rows, so they are removed.
    const layers = spec.layer?.filter((one) => one.data === undefined || datasets[one.data.name].length > 0);
    // Vega cannot fit a picture whose height depends on the number of bars.
    const bars = () => new Set(datasets[spec.data.name].map((row) => row[spec.encoding.y.field])).size;
    const fitted = spec.height?.step ? { height: spec.height.step * bars() } : {};
    const whole = { ...spec, ...fitted, ...(layers ? { layer: layers } : {}), datasets, config: data.specifications.config };
    const { view } = await globalThis.vegaEmbed(target, whole, { actions: false, renderer: "svg", tooltip: { theme: "custom" } });
    document.querySelector(target).append(savers(view, datasets, name));
    return view;
  };

  const drawing = new Map();
  /** Draws a Vega-Lite specification with rows in the width of its container, with buttons below that save it.
      Pictures of one container are drawn one after the other. */
  const picture = (target, ...others) => {
    const next = (drawing.get(target) ?? Promise.resolve()).then(() => draw(target, ...others));
    drawing.set(target, next);
    return next;
  };

  /** Quotes a word for a shell. */
  const word = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\"'\"'")}'`);

  /** A command line for the store, which shows content that this page omits. */
  const command = (does, options) => element("code", {}, `roundtable ${does} ${word(data.store)} ${options}`);

  /** A link to the replay of a run, or a button that shows the command that creates the replay. */
  const runLink = (runId) => {
    if (replayOf(runId)) return element("a", { href: address("replay", { run: runId }) }, `run ${runId}`);
    const told = element("span", { class: "told" });
    const asked = element("button", { type: "button", class: "row", title: "Tell the command that makes its replay", click: () => {
      if (told.childElementCount) told.replaceChildren();
      else told.replaceChildren(" ", command("report", `--run ${runId}`));
    } }, `run ${runId}`);
    return element("span", {}, asked, told);
  };

  return { runLink, title, picture, command, word, data, element, drawn, text, table, rowsOf, nameOf, named, rounds, publicationName, address, replayOf, kindColours, COLOURS, pages: {} };
})();
