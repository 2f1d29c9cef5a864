/* The replay of a run: its overlay round by round. */
"use strict";
(() => {
  const { element, drawn, text, table, rowsOf, nameOf, named, rounds, publicationName, address, command, COLOURS } = globalThis.roundtable;
  const byId = (id) => document.getElementById(id);
  const SHAPES = ["circle", "square", "triangle", "diamond"];
  const MOST_DRAWN = 1200;
  const MOST_LISTED = 12;
  const MOST_NAMED = 150;
  const AROUND = 15;
  const BEFORE = 3;
  const CLOSE = 4;
  const [NARROWEST, WIDEST] = [240, 1400];
  const [UP, ...OTHERS] = ["#0072B2", "#CC79A7", "#56B4E9", "#E69F00", "#8C7A00", "#888888"];
  const STRUCK = new Set(["lost_link", "lost_crash"]);
  let at = null;
  const view = globalThis.roundtable.zoomable(byId("overlay"), (shown) => drawLabels(shown));

  /** Indexes that are computed once for a run: messages by round, states of nodes, events. */
  const prepared = (replay) => {
    if (replay.made) return replay.made;
    const messages = rowsOf(replay.message).map((row) => ({ ...row, kind: replay.texts.kind[row.kind], fate: replay.texts.fate[row.fate],
      colour: row.kind, body: row.body === null ? null : replay.texts.body[row.body] }));
    const flying = new Map();
    for (const one of messages) {
      const end = one.fate === "in_flight" ? replay.last + 1 : one.due_round;
      for (let round = Math.max(one.sent_round, replay.first); round <= Math.min(end, replay.last); round += 1) {
        if (!flying.has(round)) flying.set(round, []);
        flying.get(round).push(one);
      }
    }
    const counts = new Map(rowsOf(replay.counts).map((one) => [one.round, one]));
    const [flyingSoFar, deliveredSoFar] = [[], []];
    let [flying_, delivered_] = [0, 0];
    for (let round = 0; round <= replay.end; round += 1) {
      const one = counts.get(round);
      flying_ += (one?.n_sent ?? 0) - (one?.n_ended ?? 0);
      delivered_ += one?.n_deliveries ?? 0;
      flyingSoFar.push(flying_);
      deliveredSoFar.push(delivered_);
    }
    const faults = rowsOf(replay.fault);
    const lost = messages.filter((one) => STRUCK.has(one.fate));
    const usual = new Set(replay.nodes.name.map((_, id) => replay.status.node_id.indexOf(id)).map((place) => replay.status.status[place] ?? "up"));
    const roundsOf = (rows) => [...new Set(rows)].filter((round) => round !== null && round >= 0 && round <= replay.end).sort((a, b) => a - b);
    replay.made = {
      messages, flying, counts, flyingSoFar, deliveredSoFar, faults, lost, edges: rowsOf(replay.edge ?? {}), usual: usual.size ? usual : new Set(["up"]), status: rowsOf(replay.status), deliveries: rowsOf(replay.delivery), violations: rowsOf(replay.violation),
      publications: rowsOf(replay.publication),
      jumps: {
        crash: roundsOf(faults.filter((one) => one.kind === "crash").map((one) => one.round)),
        recovery: roundsOf(faults.filter((one) => one.kind === "recovery").map((one) => one.round)),
        loss: roundsOf(rowsOf(replay.counts).filter((one) => one.n_lost > 0).map((one) => one.round)),
        violation: roundsOf(rowsOf(replay.violation).map((one) => one.round)),
      },
    };
    return replay.made;
  };

  /** The status of each node at the end of a round: down, paused, or the status that the protocol reports. */
  const statuses = (replay, round) => {
    const made = prepared(replay);
    const found = replay.nodes.name.map(() => ({ is_down: false, is_paused: false, status: null }));
    for (const one of made.status) if (one.round <= round) found[one.node_id].status = one.status;
    for (const one of made.faults) {
      if (one.round > round || one.node_id === null) continue;
      if (one.kind === "crash") Object.assign(found[one.node_id], { is_down: true, is_paused: false });
      if (one.kind === "recovery") found[one.node_id].is_down = false;
      if (one.kind === "pause" || one.kind === "pause_end") found[one.node_id].is_paused = one.kind === "pause";
    }
    return found;
  };
  const words = (state) => (state.is_down ? "down" : state.is_paused ? "paused" : state.status ?? "up");
  const colourOf = (replay, status) => {
    const { usual } = prepared(replay);
    if (usual.has(status) || status === "up") return UP;
    const others = [...new Set(replay.status.status)].filter((one) => !usual.has(one)).sort();
    return OTHERS[others.indexOf(status) % OTHERS.length] ?? UP;
  };
  /** Whether the page omits the messages of a round. */
  const isOutside = (replay, round) => round < replay.first || round > replay.last;
  const inFlight = (one, round) => one.sent_round <= round && (one.due_round > round || one.fate === "in_flight");

  const place = (replay, id) => {
    const [x, y] = replay.points[id];
    const edge = Math.min(60, at.wide * 0.09);
    return [edge + x * (at.wide - 2 * edge), edge + y * (at.high - 2 * edge)];
  };

  const mark = (kind, x, y, size, attributes) => {
    const shape = SHAPES[Math.floor(kind / COLOURS.length + kind) % SHAPES.length];
    const painted = { fill: COLOURS[kind % COLOURS.length], ...attributes };
    if (shape === "circle") return drawn("circle", { cx: x, cy: y, r: size, ...painted });
    if (shape === "square") return drawn("rect", { x: x - size, y: y - size, width: 2 * size, height: 2 * size, ...painted });
    const high = shape === "triangle" ? `${x},${y - size * 1.3} ${x + size * 1.2},${y + size} ${x - size * 1.2},${y + size}`
      : `${x},${y - size * 1.4} ${x + size * 1.4},${y} ${x},${y + size * 1.4} ${x - size * 1.4},${y}`;
    return drawn("polygon", { points: high, ...painted });
  };

  const drawOverlay = (replay) => {
    const n = replay.nodes.name.length;
    at.wide = Math.max(NARROWEST, Math.min(WIDEST, byId("overlay").parentElement.clientWidth));
    at.high = at.wide * 0.68;
    const size = Math.max(3.5, Math.min(11, (at.wide * 0.26) / Math.sqrt(n * 10)));
    const links = drawn("g", {});
    for (const one of rowsOf(replay.links)) {
      if (one.src > one.dst && replay.links.src.some((src, place_) => src === one.dst && replay.links.dst[place_] === one.src)) continue;
      const [[x1, y1], [x2, y2]] = [place(replay, one.src), place(replay, one.dst)];
      links.append(drawn("line", { class: "link", x1, y1, x2, y2 }, drawn("title", {}, `${nameOf(replay, one.src)} - ${nameOf(replay, one.dst)}: ${rounds(replay, one.latency_rounds)}`)));
    }
    at.marks = drawn("g", {});
    at.nodes = replay.nodes.name.map((name, id) => {
      const [x, y] = place(replay, id);
      const choose = () => chooseNode(id);
      return drawn("g", { class: "node", tabindex: 0, role: "button", click: choose, keydown: (event) => { if (event.key === "Enter") choose(); } },
        drawn("circle", { cx: x, cy: y, r: size }),
        drawn("path", { class: "cross", d: `M${x - size * 0.6},${y - size * 0.6}l${size * 1.2},${size * 1.2}m0,${-size * 1.2}l${-size * 1.2},${size * 1.2}` }),
        drawn("title", {}, name));
    });
    at.edges = drawn("g", {});
    at.size = size;
    at.labels = drawn("g", { class: "labels", "aria-hidden": "true" });
    at.hover = drawn("g", { class: "labels", "aria-hidden": "true" });
    byId("still").replaceChildren(links, at.edges, drawn("g", {}, at.nodes), at.labels, at.hover);
    byId("moving").replaceChildren(at.marks);
    at.shown = [];
    view.reset(at.wide, at.high);
    drawLegend(replay);
  };

  /** Shows the names of the visible nodes, if they are few enough to be legible. */
  const drawLabels = ({ x, y, scale }) => {
    if (at === null || at.labels === undefined) return;
    const [wide, high] = [at.wide / scale, at.high / scale];
    const seen = at.replay.nodes.name.map((_, id) => id).filter((id) => {
      const [left, top] = place(at.replay, id);
      return left >= x && left <= x + wide && top >= y && top <= y + high;
    });
    at.labels.replaceChildren(...(seen.length > MOST_NAMED ? [] : labels(at.replay, at.size, seen, 1 / scale)));
  };

  /** Shows the node or message under the pointer: its name beside it, and a description. */
  const hovered = (event) => {
    const mark_ = event.target.closest?.("g.node, .message");
    const id = mark_ === null ? -1 : at.nodes.indexOf(mark_);
    const message = at.moving?.find((one) => one.mark === mark_)?.message;
    byId("hovered").textContent = id >= 0 ? `${nameOf(at.replay, id)}: ${words(statuses(at.replay, at.round)[id])}`
      : message ? `${message.kind} of ${nameOf(at.replay, message.src)} to ${nameOf(at.replay, message.dst)}, round ${message.sent_round} to ${message.due_round}` : "";
    at.hover.replaceChildren(...(id < 0 || at.labels.childElementCount ? [] : labels(at.replay, at.size, [id], 1 / view.shown.scale)));
  };

  /** Selects and centres the node with this name, or the first node whose name contains it. */
  const find = (asked, isWhole) => {
    const names = at.replay.nodes.name;
    const exact = names.indexOf(asked);
    const id = exact >= 0 || !isWhole || asked === "" ? exact : names.findIndex((name) => name.toLowerCase().includes(asked.toLowerCase()));
    if (id < 0) return;
    view.to(...place(at.replay, id), names.length > MOST_NAMED ? CLOSE : 1);
    chooseNode(id);
  };

  /** Places names beside their nodes, on the side with the fewest overlaps. */
  const labels = (replay, size, ids, part) => {
    const taken = ids.map((id) => place(replay, id)).map(([x, y]) => [x - size, y - size, x + size, y + size]);
    const common = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
    return ids.map((id) => {
      const name = nameOf(replay, id);
      const [[x, y], wide] = [place(replay, id), 7.6 * part * [...name].length];
      const ways = [[x + size + 3 * part, y + 4 * part, "start", 0], [x - size - 3 * part, y + 4 * part, "end", -wide],
        [x, y - size - 4 * part, "middle", -wide / 2], [x, y + size + 13 * part, "middle", -wide / 2]];
      const box = ([left, base, , shift]) => [left + shift, base - 11 * part, left + shift + wide, base + 3 * part];
      const cost = (way) => {
        const at_ = box(way);
        const outside = Math.max(0, -at_[0]) + Math.max(0, at_[2] - at.wide);
        return outside * 100 + taken.reduce((sum, other) => sum + common(at_, other), 0);
      };
      const best = ways.map((way) => [cost(way), way]).reduce((a, b) => (b[0] < a[0] ? b : a))[1];
      taken.push(box(best));
      return drawn("text", { x: best[0], y: best[1], "text-anchor": best[2], style: `font-size:${13 * part}px;stroke-width:${3 * part}px` }, name);
    });
  };

  /** The edges that nodes hold in a round, if the protocol builds the overlay; a crashed node holds none. */
  const drawEdges = (replay, round, states) => {
    const held = prepared(replay).edges.filter((one) => !states[one.node_id].is_down && one.round <= round && (one.end_round === null || one.end_round > round));
    at.edges.replaceChildren(...held.map((one) => {
      const [[x1, y1], [x2, y2]] = [place(replay, one.node_id), place(replay, one.held_node_id)];
      return drawn("line", { class: one.is_shortcut ? "link shortcut" : "link", x1, y1, x2, y2 });
    }));
  };

  const drawLegend = (replay) => {
    const key = (picture, label) => element("span", { class: "key" }, drawn("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, picture), label);
    const node = (kind, extra = []) => drawn("g", { class: `node ${kind}` }, drawn("circle", { cx: 8, cy: 8, r: 6 }), extra);
    const colour = (status) => drawn("circle", { cx: 8, cy: 8, r: 6, fill: colourOf(replay, status), stroke: "currentColor" });
    const known = [...new Set([...prepared(replay).usual, ...replay.status.status])];
    const cross = () => drawn("path", { class: "cross", d: "M4,4l8,8m0,-8l-8,8" });
    const kinds = replay.texts.kind.map((kind, number) => {
      const box = element("input", { type: "checkbox", checked: !at.hidden.has(kind), change: () => { at.hidden[box.checked ? "delete" : "add"](kind); draw(); } });
      return element("label", { class: "key" }, box, drawn("svg", { viewBox: "0 0 16 16", "aria-hidden": "true" }, mark(number, 8, 8, 5, {})), kind);
    });
    byId("legend").replaceChildren(...known.map((status) => key(colour(status), status)), key(node("down", cross()), "down"),
      key(drawn("path", { class: "message lost", d: "M4,4l8,8m0,-8l-8,8" }), "message lost"), ...kinds,
      element("span", { class: "faint" }, replay.layout === "map" ? "Nodes are where they are on the map, those at one place set apart." : ""),
      element("span", { class: "faint" }, replay.edge ? "Lines are the edges that nodes hold, dashed ones shortcuts." : ""));
  };

  const drawMessages = (replay, round) => {
    const isStruckIn = (one) => STRUCK.has(one.fate) && one.due_round === round;
    const known = (prepared(replay).flying.get(round) ?? []).filter((one) => inFlight(one, round) || isStruckIn(one));
    const chosen_ = known.filter((one) => !at.hidden.has(one.kind));
    // Lost messages are drawn first, because they are few and the most important ones.
    const shown = [...chosen_.filter(isStruckIn), ...chosen_.filter((one) => !isStruckIn(one))].slice(0, MOST_DRAWN);
    at.moving = shown.map((one) => {
      const isStruck = isStruckIn(one);
      const chosen = { class: isStruck ? "message lost" : "message", click: () => chooseMessage(one) };
      return { message: one, from: place(replay, one.src), to: place(replay, one.dst), share: isStruck ? (one.fate === "lost_link" ? 0.5 : 0.9) : null,
        mark: isStruck ? drawn("path", { d: "M-6,-6l12,12m0,-12l-12,12", ...chosen }) : mark(one.colour, 0, 0, 5, chosen) };
    });
    moveMessages();
    at.marks.replaceChildren(...at.moving.map((one) => one.mark));
    const flies = (rows) => rows.filter((one) => inFlight(one, round)).length;
    return prepared(replay).flyingSoFar[round] - (flies(known) - flies(chosen_)) - flies(shown);
  };

  /** Moves the messages to their positions at the current fraction of the round; a frame changes nothing else. */
  const moveMessages = () => {
    for (const { message, from: [x1, y1], to: [x2, y2], share, mark: mark_ } of at.moving) {
      const part = share ?? Math.min(0.97, (at.round + at.part + 0.5 - message.sent_round) / Math.max(1, message.due_round - message.sent_round));
      mark_.setAttribute("transform", `translate(${x1 + part * (x2 - x1)},${y1 + part * (y2 - y1)})`);
    }
  };

  const draw = () => {
    const { replay, round } = at;
    const made = prepared(replay);
    const states = statuses(replay, round);
    const delivering = new Set(made.deliveries.filter((one) => one.round === round).map((one) => one.subscriber));
    at.nodes.forEach((mark_, id) => {
      const kind = states[id].is_down ? "down" : states[id].is_paused ? "paused" : "";
      // Most nodes are unchanged, and writing an attribute costs more than comparing a string.
      const shown = [words(states[id]), delivering.has(id), at.node === id].join();
      if (at.shown[id] === shown) return;
      at.shown[id] = shown;
      mark_.firstElementChild.style.fill = kind ? "" : colourOf(replay, words(states[id]));
      mark_.setAttribute("class", ["node", kind, delivering.has(id) ? "delivering" : "", at.node === id ? "chosen" : ""].join(" ").trim());
      mark_.setAttribute("aria-label", `${nameOf(replay, id)}, ${words(states[id])}`);
    });
    const n_hidden = drawMessages(replay, round);
    drawEdges(replay, round, states);
    const down = states.flatMap((state, id) => (state.is_down ? [nameOf(replay, id)] : []));
    const [flying, delivered] = [made.flyingSoFar[round], made.deliveredSoFar[round]];
    const count = (id, name, number, more = "") => [element("strong", { id }, text(number)), ` ${name}${more}; `];
    byId("counts").replaceChildren(...count("n-down", down.length === 1 ? "node down" : "nodes down", down.length, down.length ? ` (${down.join(", ")})` : ""),
      ...count("n-flying", flying === 1 ? "message in flight" : "messages in flight", flying, n_hidden ? `, ${text(n_hidden)} of them not drawn` : ""),
      element("strong", { id: "n-delivered" }, text(delivered)), delivered === 1 ? " delivery so far" : " deliveries so far");
    byId("round").value = round;
    byId("now").textContent = `${round} of ${replay.end}, ${text(round * replay.run.round_ms)} ms`;
    byId("round").setAttribute("aria-valuetext", `round ${round}`);
    listEvents(replay, round);
    if (at.node !== null) showNode();
  };

  const listEvents = (replay, round) => {
    const made = prepared(replay);
    const name = (id) => nameOf(replay, id);
    const of = (rows, told) => rows.filter((one) => one.round === round).map(told);
    const faulty = of(made.faults, (one) => (one.node_id === null
      ? `${one.kind} on ${one.src === null ? "all links" : `${name(one.src)} to ${one.dst === null ? "all" : name(one.dst)}`}` : `${name(one.node_id)}: ${one.kind}`));
    const status = of(made.status, (one) => `${name(one.node_id)} is ${one.status}`);
    const chooser = (one, said) => element("button", { type: "button", class: "row", click: () => chooseMessage(one) }, said);
    const between = (one) => `${one.kind} of ${name(one.src)} to ${name(one.dst)}`;
    const lost = made.lost.filter((one) => one.due_round === round).map((one) => chooser(one, `${between(one)} is lost`
      + (one.fate === "lost_crash" ? `: ${name(one.dst)} is down` : " on the link")));
    const flying = (made.flying.get(round) ?? []).filter((one) => inFlight(one, round)).map((one) => chooser(one, `${between(one)}, due in round ${one.due_round}`));
    const published = made.publications.filter((one) => one.issued_round === round).map((one) => `${name(one.source)} publishes ${one.topic ?? ""} ${one.content === "{}" ? "" : one.content ?? ""}`);
    const delivered = of(made.deliveries, (one) => `${name(one.subscriber)} delivers ${publicationName(replay, one.source, one.source_seq)}, ${rounds(replay, one.latency_rounds)} old`);
    const violated = of(made.violations, (one) => `${one.guarantee}${one.excused ? " (excused)" : ""}: ${one.node_id === null ? "" : `${name(one.node_id)}, `}${one.detail}`);
    const list = (title, kind, rows, number = rows.length) => (number === 0 ? [] : [element("h3", { class: kind }, `${title}: ${text(number)}`),
      element("ul", { class: "plain" }, rows.slice(0, MOST_LISTED).map((row) => element("li", {}, row)),
        number > MOST_LISTED || number > rows.length ? element("li", { class: "faint" }, `and ${text(number - Math.min(rows.length, MOST_LISTED))} more`) : null)]);
    const counted = made.counts.get(round);
    const outside = isOutside(replay, round) ? [element("p", { class: "faint", id: "outside" }, `Messages, deliveries and states of rounds ${replay.first} to ${replay.last} are in this page, as there are too many for all; of other rounds it has faults and counts. This brings those of round ${round}: `,
      command("report", `--run ${replay.run.run_id} --rounds ${Math.max(0, round - AROUND)}:${Math.min(replay.end, round + AROUND)}`))] : [];
    const all = [...list("Faults", "bad", faulty), ...list("Statuses", null, status), ...list("Violations", "excused", violated), ...list("Lost messages", "bad", lost, counted?.n_lost ?? 0),
      ...list("Publications", null, published), ...list("Deliveries", "good", delivered, counted?.n_deliveries ?? 0)];
    const ways = element("details", { id: "flying", open: byId("flying")?.open ?? false }, element("summary", {}, `Messages in flight: ${text(made.flyingSoFar[round])}`),
      ...list("Under way", null, flying, made.flyingSoFar[round]).slice(1));
    byId("events").replaceChildren(element("h2", {}, `Round ${round}`), ...outside, ...(all.length ? all : [element("p", { class: "faint" }, "Nothing but messages.")]), made.flyingSoFar[round] ? ways : "");
  };

  const chooseNode = (id) => { at.node = id; draw(); showNode(); remember(); };
  const showNode = () => {
    const { replay, round, node } = at;
    const own = Object.entries(replay.state.tables).map(([name, one]) => [name, one.columns, (one.nodes[node] ?? []).filter(([from]) => from <= round).at(-1)?.[1] ?? []]);
    const commit = replay.state.commits.filter((one) => one <= round).at(-1);
    const isAway = isOutside(replay, round);
    const when = isAway ? `States of rounds ${replay.first} to ${replay.last} are in this page.` : commit === undefined ? "No state was written by this round; run --commit-every 1 writes it in every round."
      : `State as of the end of round ${commit}, the last commit up to here.`;
    const [name, role] = [nameOf(replay, node), replay.nodes.role[node]];
    byId("detail").replaceChildren(element("h2", {}, `${name}, ${role}: ${words(statuses(replay, round)[node])} in round ${round}`),
      element("p", {}, element("a", { href: address("space-time", { run: replay.run.run_id, node: name, first: Math.max(0, round - AROUND), last: Math.min(replay.end, round + AROUND) }) }, `Space-time diagram of ${name}`)),
      element("p", { class: "faint" }, when),
      ...own.filter(([, , rows]) => !isAway && commit !== undefined && rows.length).map(([title, columns, rows]) => table(columns,
        rows.map((row) => row.map((value, place_) => named(replay, value, columns[place_]))), `${title}, ${text(rows.length)} rows`)));
  };

  const chooseMessage = (one) => {
    at.node = null;
    const { replay } = at;
    const serves = one.source === null ? "no call" : publicationName(replay, one.source, one.source_seq);
    const rows = [["kind", one.kind], ["from", nameOf(replay, one.src)], ["to", nameOf(replay, one.dst)], ["sent in round", text(one.sent_round)],
      ["due in round", text(one.due_round)], ["fate", one.fate], ["serves", serves],
      ...Object.entries(named(replay, one.body, "body") ?? {}).map(([name, value]) => [name, text(value)])];
    byId("detail").replaceChildren(element("h2", {}, `${one.kind} of ${nameOf(replay, one.src)} to ${nameOf(replay, one.dst)}`), table(["field", "value"], rows));
    draw();
  };

  /** The round that the page shows first. If messages are omitted, it is shortly before the first event. */
  const opening = (replay) => {
    const events = Object.values(prepared(replay).jumps).map((rounds_) => rounds_.find((one) => one >= replay.first)).filter((one) => one <= replay.last);
    return replay.is_cut && events.length ? Math.max(replay.first, Math.min(...events) - BEFORE) : replay.first;
  };
  const remember = () => globalThis.roundtable.remember(address("replay", { run: at.replay.run.run_id, round: at.round, node: at.node === null ? null : nameOf(at.replay, at.node) }));
  const pass = (round) => {
    at.round = Math.max(0, Math.min(at.replay.end, round));
    draw();
  };
  const go = (round) => {
    at.part = 0;
    pass(round);
    remember();
  };
  const jump = (kind, isBack) => {
    const events = prepared(at.replay).jumps[kind];
    const to = isBack ? events.filter((one) => one < at.round).at(-1) : events.find((one) => one > at.round);
    if (to !== undefined) go(to);
  };
  const stop = () => { at.playing = false; at.part = 0; byId("play").textContent = "Play"; byId("play").setAttribute("aria-pressed", "false"); };
  const play = () => {
    if (at.playing) { stop(); go(at.round); return; }
    if (at.round >= at.replay.end) go(at.replay.first);
    at.playing = true;
    byId("play").textContent = "Stop";
    byId("play").setAttribute("aria-pressed", "true");
    let before = performance.now();
    const frame = (now) => {
      if (!at.playing) return;
      at.part += ((now - before) / 1000) * Number(byId("speed").value);
      before = now;
      if (at.part >= 1) { const on = Math.floor(at.part); at.part %= 1; pass(at.round + on); } else moveMessages();
      if (at.round >= at.replay.end) stop(); else requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  };

  const JUMPS = [["crash", "c"], ["recovery", "r"], ["loss", "l"], ["violation", "v"]];
  const buttons = () => JUMPS.flatMap(([kind, key]) => {
    const number = prepared(at.replay).jumps[kind].length;
    const button = (isBack) => element("button", { type: "button", disabled: number === 0, "data-jump": isBack ? `-${kind}` : kind, click: () => jump(kind, isBack),
      title: `${isBack ? "Shift " : ""}${key.toUpperCase()}` }, isBack ? `◀ ${kind}` : `next ${kind} ▶`);
    return element("span", { class: "group" }, button(true), button(false));
  });

  const keyed = (event) => {
    if (byId("replay").hidden || event.ctrlKey || event.metaKey || event.altKey || ["SELECT", "TEXTAREA"].includes(event.target.tagName) || event.target.type === "search") return;
    const found = JUMPS.find(([, key]) => key === event.key.toLowerCase());
    if (found) jump(found[0], event.shiftKey);
    else if (event.key === "ArrowRight") go(at.round + 1);
    else if (event.key === "ArrowLeft") go(at.round - 1);
    else if (event.key === "Home") go(0);
    else if (event.key === "End") go(at.replay.end);
    else if (event.key === " " && event.target.tagName !== "BUTTON") play();
    else return;
    event.preventDefault();
  };

  const start = () => {
    byId("back").addEventListener("click", () => go(at.round - 1));
    byId("step").addEventListener("click", () => go(at.round + 1));
    byId("play").addEventListener("click", play);
    byId("round").addEventListener("input", (event) => go(Number(event.target.value)));
    byId("zoom-in").addEventListener("click", view.in);
    byId("zoom-out").addEventListener("click", view.out);
    byId("zoom-whole").addEventListener("click", () => view.reset());
    byId("find").addEventListener("input", (event) => find(event.target.value, false));
    byId("find").addEventListener("change", (event) => find(event.target.value, true));
    byId("overlay").addEventListener("pointerover", hovered);
    document.addEventListener("keydown", keyed);
    addEventListener("resize", () => { if (!byId("replay").hidden) { drawOverlay(at.replay); draw(); } });
  };

  globalThis.roundtable.pages.replay = {
    title: "Replay",
    needsRun: true,
    show: (_, asked, replay) => {
      if (at === null) start();
      if (at === null || at.replay !== replay) {
        at = { replay, round: opening(replay), part: 0, node: null, playing: false, hidden: new Set() };
        drawOverlay(replay);
        byId("find").value = "";
        byId("node-names").replaceChildren(...replay.nodes.name.map((name) => element("option", { value: name })));
        byId("jumps").replaceChildren(...buttons());
        Object.assign(byId("round"), { min: 0, max: replay.end });
        byId("detail").replaceChildren(element("p", { class: "faint" }, "Click on a node for its state, on a message for its row."));
      }
      const node = asked.get("node") === null ? -1 : replay.nodes.name.indexOf(asked.get("node"));
      if (node >= 0) at.node = node;
      go(asked.get("round") === null ? at.round : Number(asked.get("round")));
    },
    leave: () => { if (at?.playing) stop(); },
  };
})();
