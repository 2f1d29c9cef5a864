/* Space-time diagrams of a publication, a node or a range of rounds, beside the story. */
"use strict";
(() => {
  const { data, element, text, nameOf, rowsOf, picture, command, word, pages, publicationName, kindColours } = globalThis.roundtable;
  const byId = (id) => document.getElementById(id);
  const ROW = 34;
  const NARROWEST = 8;
  const EDGE = 130;
  const MOST = 600;
  let at = null;

  const angle = (x, y) => (Math.atan2(y, x) * 180) / Math.PI + 90;

  /** The messages that match all selected conditions: publication, node, rounds. */
  const chosen = (replay, asked) => rowsOf(replay.message).filter((one) =>
    (asked.publication === null || (one.source === asked.publication[0] && one.source_seq === asked.publication[1]))
    && (asked.node === null || one.src === asked.node || one.dst === asked.node)
    && (asked.first === null || one.due_round >= asked.first) && (asked.last === null || one.sent_round <= asked.last));

  /** The messages of a story: copies on the path, and contacts around failed nodes. */
  const ofStory = (replay, step) => {
    if (step === null) return [];
    const id = (name) => replay.nodes.name.indexOf(name);
    const own = ["copy", "contact"].includes(step.event) ? [{ src: id(step.from), dst: id(step.to), sent_round: step.round, due_round: step.due_round,
      kind: replay.texts.kind.indexOf(step.kind), fate: step.fate }] : [];
    return [...own, ...step.steps.flatMap((below) => ofStory(replay, below))];
  };

  /** The deliveries of a story; their rounds may be outside the rounds of the page. */
  const deliveriesOf = (replay, step) => (step === null ? [] : [
    ...(step.event === "delivery" ? [{ subscriber: replay.nodes.name.indexOf(step.node), round: step.round }] : []),
    ...step.steps.flatMap((below) => deliveriesOf(replay, below))]);

  /** The calls of a story: the publication, and a late subscription with its confirmation. */
  const callsOf = (step) => {
    if (step === null || step === undefined) return [];
    const own = { published: [[step.round, "publish"]], subscription: [[step.round, "subscribe"], [step.confirmed_round, "confirmed"]] }[step.event] ?? [];
    return own.filter(([round]) => round !== null).map(([round, what]) => ({ node: step.node, round, what }));
  };

  const roundsOf = (first, end) => (end === null ? `from round ${first} on` : end === first + 1 ? `round ${first}` : `rounds ${first} to ${end - 1}`);

  const downs = (replay, first, last, rows) => {
    const events = rowsOf(replay.fault).filter((one) => one.node_id !== null && rows.has(one.node_id));
    return events.filter((one) => one.kind === "crash").map((one) => {
      const back = events.filter((other) => other.kind === "recovery" && other.node_id === one.node_id && other.round >= one.round).map((other) => other.round);
      const end = back.length ? Math.min(...back) : null;
      return { row: rows.get(one.node_id), from: Math.max(one.round, first), to: end === null ? last : Math.min(end, last),
        text: `${nameOf(replay, one.node_id)}, ${roundsOf(one.round, end)}` };
    }).filter((one) => one.from <= one.to);
  };

  const diagram = (replay, asked, messages) => {
    const way = (asked.story?.path ?? []).map((name) => replay.nodes.name.indexOf(name));
    const ends = new Set([...way, ...messages.flatMap((one) => [one.src, one.dst])]);
    const own = asked.story === null ? rowsOf(replay.delivery).filter((one) => ends.has(one.subscriber) && (asked.node === null || one.subscriber === asked.node)
      && (asked.publication === null || (one.source === asked.publication[0] && one.source_seq === asked.publication[1]))) : deliveriesOf(replay, asked.story.steps);
    const calls = asked.story === null ? [] : [...callsOf(asked.story.steps), ...callsOf(asked.story.subscription)];
    const rounds = [...messages.flatMap((one) => [one.sent_round, one.due_round]), ...calls.map((one) => one.round)];
    const first = Math.min(...rounds);
    const last = Math.max(...rounds) + 1;
    const start = asked.publication === null ? [] : [asked.publication[0]].filter((id) => ends.has(id));
    const order = [...new Set([...way, ...start, ...[...ends].sort((a, b) => a - b)])];
    const rows = new Map(order.map((id, row) => [id, row]));
    const fitting = (byId("st-picture").clientWidth - EDGE) / (last - first);
    const width = (last - first) * Math.max(NARROWEST, fitting);
    const height = Math.max(1, order.length - 1) * ROW;
    const [wide, high] = [width / (last - first), height / Math.max(1, order.length - 1)];
    const rowOf = (one) => {
      const [kind, fate] = [replay.texts.kind[one.kind], typeof one.fate === "string" ? one.fate : replay.texts.fate[one.fate]];
      return { sent: one.sent_round, due: one.due_round, from_row: rows.get(one.src), to_row: rows.get(one.dst), kind, is_lost: fate.startsWith("lost"),
        angle: angle((one.due_round - one.sent_round) * wide, (rows.get(one.dst) - rows.get(one.src)) * high),
        text: `${kind}, ${nameOf(replay, one.src)} to ${nameOf(replay, one.dst)}, round ${one.sent_round} to ${one.due_round}: ${fate}` };
    };
    const drawn = messages.map(rowOf);
    return { width, height, datasets: {
      nodes: order.map((id, row) => ({ name: nameOf(replay, id), row, first, last })),
      messages: drawn, arrived: drawn.filter((one) => !one.is_lost), lost: drawn.filter((one) => one.is_lost),
      downs: downs(replay, first, last, rows),
      deliveries: own.filter((one) => one.round >= first && one.round <= last).map((one) => ({ row: rows.get(one.subscriber), round: one.round,
        text: `${nameOf(replay, one.subscriber)} in round ${one.round}` })),
      calls: calls.map((one) => ({ row: rows.get(replay.nodes.name.indexOf(one.node)), round: one.round, what: one.what, text: `${one.what}: ${one.node} in round ${one.round}` })),
    } };
  };

  const steps = (step) => element("li", { class: step.event === "crash" || String(step.fate ?? "").startsWith("lost") ? "bad" : step.event === "delivery" ? "good" : null },
    step.text, step.steps.length ? element("ul", {}, step.steps.map(steps)) : null);
  const tree = (story) => element("div", { class: "tree" }, element("p", {}, `Way: ${story.path.join(" - ")}`),
    story.steps === null ? null : element("ul", {}, steps(story.steps)), element("p", {}, element("strong", {}, story.verdict)));

  const asked = () => {
    const number = (id) => (byId(id).value === "" ? null : Number(byId(id).value));
    const publication = byId("st-publication").value;
    const found = publication === "" ? null : publication.split(",").map(Number);
    const named = byId("st-node").value;
    const node = named === "" ? null : at.nodes.name.indexOf(named);
    const story = found === null ? null : told(found).find((one) => one.subscriber === byId("st-subscriber").value) ?? null;
    return { publication: found, node, first: number("st-first"), last: number("st-last"), story };
  };
  const told = ([source, call]) => at.losses.stories.filter((one) => one.source === nameOf(at, source) && one.call === call);

  const draw = async () => {
    const wanted = asked();
    const messages = wanted.story === null ? chosen(at, wanted) : [...ofStory(at, wanted.story.steps), ...ofStory(at, wanted.story.subscription)];
    const isFine = (messages.length > 0 || (wanted.story?.steps ?? null) !== null) && messages.length <= MOST;
    const among = wanted.story === null && at.is_cut ? ` among those of rounds ${at.first} to ${at.last}, which are in this page` : "";
    byId("st-said").textContent = isFine ? `${text(messages.length)} ${messages.length === 1 ? "message" : "messages"}${among}.`
      : `${text(messages.length)} messages${among}; a diagram shows 1 to ${MOST}: choose a publication, a node, or other rounds.`;
    showStory(wanted);
    byId("st-picture").replaceChildren();
    if (!isFine) return;
    const { datasets, ...size } = diagram(at, wanted, messages);
    const spec = zoomed(structuredClone(data.specifications.space_time), datasets.nodes.map((one) => one.name));
    for (const layer of spec.layer) if (layer.encoding.color?.field === "kind") layer.encoding.color.scale = usedColours(at, messages);
    await picture("#st-picture", { ...spec, ...size }, datasets, `run-${at.run.run_id}-space-time`);
  };

  /** A diagram with zoom and pan along the time axis; the node names do not move. */
  const zoomed = (spec, names) => {
    spec.layer = spec.layer.filter((one) => one.mark.type !== "text" || one.data.name !== "nodes");
    for (const one of spec.layer) one.mark.clip = one.mark.type !== "point" && one.mark.type !== "text";
    spec.encoding.y.axis = { values: names.map((_, row) => row), labelExpr: `${JSON.stringify(names)}[datum.value]`, title: null, ticks: false, labelPadding: 8, domain: false, grid: false, labelLimit: 140, labelOverlap: false };
    spec.layer[0].params = [{ name: "zoom", select: { type: "interval", encodings: ["x"], zoom: "wheel![event.ctrlKey || event.metaKey]" }, bind: "scales" }];
    return spec;
  };

  /** The colours of the displayed message kinds, equal to those in the replay. */
  const usedColours = (replay, messages) => {
    const [used, all] = [new Set(messages.map((one) => replay.texts.kind[one.kind])), kindColours(replay)];
    const places = all.domain.map((kind, place) => (used.has(kind) ? place : -1)).filter((place) => place >= 0);
    return { domain: places.map((place) => all.domain[place]), range: places.map((place) => all.range[place]) };
  };

  const showStory = ({ publication, story }) => {
    const target = byId("st-story");
    if (story !== null) { target.replaceChildren(element("h2", {}, `${publicationName(at, ...publication)} for ${story.subscriber}`), tree(story)); return; }
    const options = publication === null ? null : `--source ${word(nameOf(at, publication[0]))} --call ${publication[1]}`;
    target.replaceChildren(...(publication === null ? [] : [element("h2", {}, publicationName(at, ...publication)),
      element("p", {}, "The story of a delivery that went as it should is not in this page: "), command("why", `--run ${at.run.run_id} --subscriber NODE ${options}`)]));
  };

  const subscribers = () => {
    const { publication } = asked();
    const names = publication === null ? [] : told(publication).map((one) => one.subscriber);
    byId("st-subscriber").replaceChildren(element("option", { value: "" }, "all"), ...names.map((name) => element("option", { value: name }, name)));
  };

  const fill = (replay) => {
    const publications = rowsOf(replay.publication).map((one) => element("option", { value: `${one.source},${one.source_seq}` },
      `${publicationName(replay, one.source, one.source_seq)}, round ${one.issued_round}`));
    byId("st-publication").replaceChildren(element("option", { value: "" }, "any"), ...publications);
    byId("st-names").replaceChildren(...replay.nodes.name.map((name) => element("option", { value: name })));
    for (const id of ["st-node", "st-first", "st-last"]) byId(id).value = "";
  };

  const start = () => {
    addEventListener("resize", () => { if (!byId("space-time").hidden) draw(); });
    byId("st-publication").addEventListener("change", () => { subscribers(); draw(); });
    for (const id of ["st-subscriber", "st-node", "st-first", "st-last"]) byId(id).addEventListener("change", draw);
  };

  pages["space-time"] = {
    title: "Space-time",
    needsRun: true,
    tree,
    show: (_, values, replay) => {
      if (at === null) start();
      if (at !== replay || values.size > 1) {
        at = replay;
        fill(replay);
        const [first] = replay.losses.stories;
        const call = values.get("call") ?? (values.get("node") === null && values.get("first") === null && first ? String(first.call) : null);
        const source = values.get("source") ?? (call === null ? null : first.source);
        if (call !== null) byId("st-publication").value = `${replay.nodes.name.indexOf(source)},${call}`;
        subscribers();
        if (call !== null) byId("st-subscriber").value = values.get("subscriber") ?? (values.get("call") === null ? first.subscriber : "");
        if (values.get("node") !== null) {
          byId("st-node").value = values.get("node");
          byId("st-first").value = values.get("first") ?? "";
          byId("st-last").value = values.get("last") ?? "";
        }
      }
      return draw();
    },
  };
})();
