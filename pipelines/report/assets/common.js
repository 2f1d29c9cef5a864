/* What all pages share: the data, elements made of text only, names in place of ids. */
"use strict";
globalThis.roundtable = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const nodeFields = new Set(data.node_fields);
  const messageFields = new Set(data.message_fields);
  const COLOURS = data.specifications.config.range.category;
  const SVG = "http://www.w3.org/2000/svg";
  const MOST_CELLS = 200;

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
        element("thead", {}, element("tr", {}, columns.map((name, place) => element("th", { scope: "col", class: kind(place) }, name)))),
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

  /** A button that saves a picture as an SVG file, whose text is black: a file does not know the page around it. */
  const saver = (view, name) => element("button", { type: "button", class: "save", click: async () => {
    const svg = (await view.toSVG()).replaceAll("currentColor", "#1b1b1b");
    const link = element("a", { href: URL.createObjectURL(new Blob([svg], { type: "image/svg+xml" })), download: `${name}.svg` });
    link.click();
    URL.revokeObjectURL(link.href);
  } }, "Save as SVG");

  /** Draws a Vega-Lite specification with rows, with a button below that saves it under a name. */
  const picture = async (target, spec, datasets, name) => {
    // Vega warns of layers without rows.
    const layers = spec.layer?.filter((one) => one.data === undefined || datasets[one.data.name].length > 0);
    const whole = { ...spec, ...(layers ? { layer: layers } : {}), datasets, config: data.specifications.config };
    const { view } = await globalThis.vegaEmbed(target, whole, { actions: false, renderer: "svg", tooltip: { theme: "custom" } });
    document.querySelector(target).append(saver(view, name));
    return view;
  };

  /** A word for a shell. */
  const word = (value) => (/^[\w@%+=:,./-]+$/.test(value) ? value : `'${value.replaceAll("'", "'\"'\"'")}'`);

  /** The command that does something with the store, for what is not in this page. */
  const command = (does, options) => element("code", {}, `roundtable ${does} ${word(data.store)} ${options}`);

  return { picture, command, word, data, element, drawn, text, table, rowsOf, nameOf, named, ms, rounds, publicationName, address, replayOf, kindColours, COLOURS, pages: {} };
})();
