/* Page Losses: missing, repeated and late deliveries by cause with their stories, and all violations. */
"use strict";
(() => {
  const { element, text, table, nameOf, rowsOf, command, word, pages, address, publicationName } = globalThis.roundtable;
  const TITLES = { missing: "Missing deliveries", twice: "Delivered twice", late: "Late deliveries" };
  const MOST_VIOLATIONS = 100;

  const entry = (replay, story) => {
    const told = element("details", {}, element("summary", {}, `${publicationName(replay, replay.nodes.name.indexOf(story.source), story.call)} for ${story.subscriber}`));
    told.addEventListener("toggle", () => {
      if (told.childElementCount > 1) return;
      told.append(pages["space-time"].tree(story), element("p", {},
        element("a", { href: address("space-time", { run: story.run_id, source: story.source, call: story.call, subscriber: story.subscriber }) }, "Space-time diagram"), " ",
        command("why", story.options)));
    });
    return told;
  };

  const group = (replay, cause, number) => {
    const stories = replay.losses.stories.filter((one) => one.group === number);
    const more = cause.n - stories.length;
    return element("div", { class: "group-of" }, element("h3", {}, `${text(cause.n)}: ${cause.text} `,
      cause.round === null ? null : element("a", { href: address("replay", { run: replay.run.run_id, round: cause.round, node: cause.node }) }, `show round ${cause.round}`)),
    stories.map((story) => entry(replay, story)), more > 0 ? element("p", { class: "faint" }, `and ${text(more)} more`) : null);
  };

  /** The deliveries of a category: their number, and a table of those whose cause was found, by cause. */
  const kind = (replay, what, title) => {
    const { number: { [what]: number = 0 }, n_asked: { [what]: asked }, causes } = replay.losses;
    if (number === 0) return [];
    return [element("h2", {}, `${title}: ${text(number)}, by cause`),
      asked < number ? element("p", { class: "faint" }, `Causes are those of the first ${text(asked)}; the end of the page says how to find the others.`) : null,
      ...causes.map((one, place) => (one.what === what ? group(replay, one, place) : null))];
  };

  const violations = (replay) => {
    const rows = rowsOf(replay.violation);
    if (rows.length === 0) return [element("h2", {}, "Violations"), element("p", {}, "None.")];
    const link = (round) => (round === null ? "-" : element("a", { href: address("replay", { run: replay.run.run_id, round }) }, `round ${round}`));
    const story = (one) => replay.losses.stories.find((told) => told.call === one.source_seq && told.source === nameOf(replay, one.source) && told.subscriber === nameOf(replay, one.node_id));
    const why = (one) => {
      if (one.source === null || one.node_id === null) return "";
      const [run, source, call, subscriber] = [replay.run.run_id, nameOf(replay, one.source), one.source_seq, nameOf(replay, one.node_id)];
      return story(one) ? element("a", { href: address("space-time", { run, source, call, subscriber }) }, "why")
        : element("details", {}, element("summary", {}, "why"), command("why", `--run ${run} --subscriber ${word(subscriber)} --source ${word(source)} --call ${call}`));
    };
    return [element("h2", {}, `Violations: ${text(rows.length)}`), table(["guarantee", "when", "node", "publication", "what", "excused", "story"],
      rows.slice(0, MOST_VIOLATIONS).map((one) => [one.guarantee, link(one.round), one.node_id === null ? "-" : nameOf(replay, one.node_id),
        one.source === null ? "-" : publicationName(replay, one.source, one.source_seq), one.detail, one.excused ? "excused" : "broken", why(one)])),
    rows.length > MOST_VIOLATIONS ? element("p", { class: "faint" }, `${text(rows.length - MOST_VIOLATIONS)} more are in table violation.`) : null];
  };

  /** Explains why the verdict counts more missing deliveries than this page has stories. */
  const unexpected = (replay) => {
    const { n_wanted: wanted, n_wanted_delivered: delivered, n_missing: missing } = replay.run;
    const number = wanted - delivered - missing;
    return number <= 0 ? null : element("p", { class: "faint" }, `${text(wanted - delivered)} wanted deliveries did not happen. `
      + `${text(number)} of them were not expected: the subscription was not confirmed before the publication, or the subscriber or the publisher crashed. `,
    "For one of them: ", command("why", `--run ${replay.run.run_id} --subscriber NODE --source NODE --seq Q`));
  };

  pages.losses = {
    title: "Losses",
    needsRun: true,
    show: (section, asked, replay) => {
      const parts = Object.entries(TITLES).flatMap(([what, title]) => kind(replay, what, title));
      const nothing = parts.length ? [] : [element("p", {}, "Each expected delivery happened once, with the latency of the fastest path.")];
      section.replaceChildren(...[...parts, ...nothing, unexpected(replay), ...violations(replay)].filter((one) => one !== null));
    },
  };
})();
