/* What all pages share: the data, elements made of text only, names in place of ids. */
"use strict";
globalThis.roundtable = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodeFields = new Set(data.node_fields);
  const messageFields = new Set(data.message_fields);
  const COLOURS = data.specifications.config.range.category;
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_CELLS = 200;
  const DENSITY = 2;

  /** Fills an element: attributes by name (functions are listeners), children are elements or texts. */
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

  /** A title of a column, which may break behind an underscore and nowhere else within a word. */
  const title = (name) => name.split(/(?<=_)/).flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part]));

  /** A table that scrolls by itself where it is wide; numbers stand on the right. */
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

  /** Rows of a table that was sent as columns. */
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

  /** A value of a body or of a state, with names in place of ids. */
  const named = (replay, value, field) => {
    if (Array.isArray(value)) return value.map((one) => named(replay, one, field));
    if (value !== null && typeof value === "object") return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, named(replay, one, name)]));
    if (typeof value === "number" && nodeFields.has(field) && value >= 0) return nameOf(replay, value);
    if (typeof value === "number" && field === "subscription_id") return subscriptionOf(replay, value);
    if (typeof value === "number" && messageFields.has(field)) return messageOf(replay, value);
    return value;
  };

  const ms = (replay, rounds) => {
    const one = replay.run.round_ms;
    return one === null || rounds === null ? "" : ` (${text(rounds * one)} ms)`;
  };
  const rounds = (replay, number) => (number === null ? "-" : `${text(number)} ${number === 1 ? "round" : "rounds"}${ms(replay, number)}`);

  /** The name of a publication: its number among those that its source issued, and among all calls of the source. */
  const publicationName = (replay, source, call) => {
    replay.seqs ??= new Map(rowsOf(replay.publication).map((one) => [`${one.source} ${one.source_seq}`, one.seq]));
    const seq = replay.seqs.get(`${source} ${call}`);
    return `${seq === undefined ? `call ${call}` : `publication ${seq} (call ${call})`} of ${nameOf(replay, source)}`;
  };

  /** A link to a page of the report, with what it is to show; the / keeps browsers from scrolling to the section. */
  const address = (page, values = {}) => {
    const asked = new URLSearchParams(Object.entries(values).filter(([, value]) => value !== null && value !== undefined));
    return `#${page}/${asked}`;
  };
  const replayOf = (runId) => data.replays.find((one) => one.run.run_id === Number(runId));

  /** Kinds of messages and their colours, the same in all pictures of a run. */
  const kindColours = (replay) => ({ domain: replay.texts.kind, range: replay.texts.kind.map((_, place) => COLOURS[place % COLOURS.length]) });

  const saved = (blob, name) => {
    const link = element("a", { href: URL.createObjectURL(blob), download: name });
    link.click();
    URL.revokeObjectURL(link.href);
  };

  /** A picture as SVG, black on white: a file does not know the page around it. */
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

  /** The data of a picture; rows of several datasets have a column that names theirs. */
  const asCsv = (datasets) => {
    const several = Object.keys(datasets).length > 1;
    const rows = Object.entries(datasets).flatMap(([part, of]) => of.map((row) => (several ? { part, ...row } : row)));
    const names = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const cell = (value) => { const said = value === null || value === undefined ? "" : String(value); return /[",\n]/.test(said) ? `"${said.replaceAll('"', '""')}"` : said; };
    return [names, ...rows.map((row) => names.map((name) => row[name]))].map((row) => `${row.map(cell).join(",")}\n`).join("");
  };

  /** Buttons that save a picture as SVG and PNG, and its data. */
  const savers = (view, datasets, name) => {
    const button = (said, save) => element("button", { type: "button", class: "save", click: save }, said);
    return element("span", { class: "group" },
      button("Save as SVG", async () => saved(new Blob([await onPaper(view)], { type: "image/svg+xml" }), `${name}.svg`)),
      button("PNG", async () => saved(await asPng(await onPaper(view)), `${name}.png`)),
      button("Data", () => saved(new Blob([asCsv(datasets)], { type: "text/csv" }), `${name}.csv`)));
  };

  const draw = async (target, spec, datasets, name) => {
    // Vega warns of layers without rows.
    const layers = spec.layer?.filter((one) => one.data === undefined || datasets[one.data.name].length > 0);
    // Vega fits no picture whose height follows from the number of its bars.
    const bars = () => new Set(datasets[spec.data.name].map((row) => row[spec.encoding.y.field])).size;
    const fitted = spec.height?.step ? { height: spec.height.step * bars() } : {};
    const whole = { ...spec, ...fitted, ...(layers ? { layer: layers } : {}), datasets, config: data.specifications.config };
    const { view } = await globalThis.vegaEmbed(target, whole, { actions: false, renderer: "svg", tooltip: { theme: "custom" } });
    document.querySelector(target).append(savers(view, datasets, name));
    return view;
  };

  const drawing = new Map();
  /** Draws a Vega-Lite specification with rows as wide as its place, with buttons below that save it under a name.
      Pictures of one place are drawn one after the other. */
  const picture = (target, ...others) => {
    const next = (drawing.get(target) ?? Promise.resolve()).then(() => draw(target, ...others));
    drawing.set(target, next);
    return next;
  };

  /** A word for a shell. */
  const word = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\"'\"'")}'`);

  /** The command that does something with the store, for what is not in this page. */
  const command = (does, options) => element("code", {}, `roundtable ${does} ${word(data.store)} ${options}`);

  /** A run: a link to its replay, or a button that tells the command which makes one. */
  const runLink = (runId) => {
    if (replayOf(runId)) return element("a", { href: address("replay", { run: runId }) }, `run ${runId}`);
    const told = element("span", { class: "told" });
    const asked = element("button", { type: "button", class: "row", title: "Tell the command that makes its replay", click: () => {
      if (told.childElementCount) told.replaceChildren();
      else told.replaceChildren(" ", command("report", `--run ${runId}`));
    } }, `run ${runId}`);
    return element("span", {}, asked, told);
  };

  return { runLink, title, picture, command, word, data, element, drawn, text, table, rowsOf, nameOf, named, ms, rounds, publicationName, address, replayOf, kindColours, COLOURS, pages: {} };
})();
