"use strict";
// The list of cases. Text is inserted with textContent only, so that a model's output is never parsed as HTML.
(() => {
  const PAGE = 25;
  const SIGNS = { right: "✓ right", wrong: "✗ wrong", "pre-edit": "↺ pre-edit answer", unsure: "? unsure", measured: "measured", none: "not judged" };
  const KEPT = 4;  // blocks of cases in memory
  const FIELDS = ["after", "before", "aspect", "style", "tag", "ended", "run"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filters");
  const list = document.getElementById("list");
  const state = { q: "", page: 0 };
  let found = [];  // numbers of cases
  let searches = 0;
  let shows = 0;

  const make = (tag, kind, ...inner) => {
    const node = document.createElement(tag);
    if (kind) node.className = kind;
    node.append(...inner.filter((one) => one !== null && one !== ""));
    return node;
  };
  const quoted = (text, tag, kind) => {
    const node = make(tag, kind, ...marked(text));
    node.dir = "auto";
    return node;
  };
  const marked = (text) => {  // the text, with matches of the search marked
    const parts = [];
    const wanted = state.q.toLowerCase();
    const low = text.toLowerCase();
    let from = 0;
    if (wanted && low.length === text.length) {
      for (let at = low.indexOf(wanted); at >= 0; at = low.indexOf(wanted, from)) {
        parts.push(text.slice(from, at), make("mark", "", text.slice(at, at + wanted.length)));
        from = at + wanted.length;
      }
    }
    return [...parts, text.slice(from)];
  };
  const verdict = (reply) => (reply ? reply.verdict || "none" : "");
  const ending = (reply) => (reply ? reply.ended || "answered" : "");
  const fold = (summary, build, kind) => {  // the content is built when it is first opened
    const node = make("details", kind || "", make("summary", "", summary));
    node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(build()); });
    return node;
  };

  // --- the cases, in the page or in compressed blocks ------------------------------------------------

  const unpacked = async (id) => {
    const bytes = Uint8Array.from(atob(document.getElementById(id).textContent), (one) => one.charCodeAt(0));
    return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).text();
  };
  const opened = new Map();  // the last blocks, by number
  const parsed = async (text) => {
    data.facts = data.facts || JSON.parse(await unpacked("facts"));
    const block = JSON.parse(await text);
    for (const one of block.cases) for (const query of one.queries) query.texts = block.texts;
    return block.cases;
  };
  const block = (number, text) => {  // the cases of a block; `text`: its JSON, if it is known
    const cases = opened.get(number) || parsed(text || unpacked(`cases-${number + 1}`));
    opened.delete(number);
    opened.set(number, cases);
    if (opened.size > KEPT) opened.delete(opened.keys().next().value);
    return cases;
  };
  const blockOf = (at) => Math.floor(at / data.size);
  const caseAt = async (at) => (await block(blockOf(at)))[at % data.size];
  if (data.cases) {
    for (const one of data.cases) for (const query of one.queries) query.texts = data.texts;
    opened.set(0, Promise.resolve(data.cases));
  }

  // --- search and filters ---------------------------------------------------------------------------------

  const texts = function* (one) {
    yield one.id;
    for (const edit of one.edits) { yield edit.text; yield edit.was; }
    for (const query of one.queries) { yield query.text; yield query.gold || ""; yield query.pre_edit || ""; }
    for (const answer of one.answers) {
      for (const reply of [answer.before, answer.after]) {
        if (!reply) continue;
        yield reply.text || "";
        yield reply.raw || "";
        for (const step of reply.steps || []) { yield step.text; yield step.answer; }
      }
    }
  };
  const holds = (one, wanted) => {
    for (const text of texts(one)) if (text.toLowerCase().includes(wanted)) return true;
    return false;
  };
  const kindOf = (one, answer) => ({
    after: verdict(answer.after), before: verdict(answer.before), aspects: one.queries[answer.query].aspects,
    style: answer.style, ended: ending(answer.after || answer.before), run: answer.run });
  const fits = (kind) =>
    (!state.after || kind.after === state.after) &&
    (!state.before || kind.before === state.before) &&
    (!state.aspect || kind.aspects.includes(state.aspect)) &&
    (!state.style || kind.style === state.style) &&
    (!state.ended || kind.ended === state.ended) &&
    (!state.run || data.runs[kind.run] === state.run);
  const narrowed = () => FIELDS.some((name) => name !== "tag" && state[name]);
  const tagged = (tags) => {
    const [name, value] = JSON.parse(state.tag);
    return tags[name] === value;
  };
  const filtered = () => {  // the numbers of the cases that fit the filters, without the words of the search
    const { kinds, tags, profiles, order } = data.index;
    const fitting = kinds.map(fits);
    const good = profiles.map((one) =>
      (!state.tag || tagged(tags[one.tags])) && (!narrowed() || one.kinds.some((kind) => fitting[kind])));
    return [...order.keys()].filter((at) => good[order[at]]);
  };
  const holding = async (numbers, wanted, mine) => {  // those of `numbers` with the words, block by block
    const kept = [];
    const escaped = JSON.stringify(wanted).slice(1, -1);
    for (let from = 0, to = 0; from < numbers.length && mine === searches; from = to) {
      document.getElementById("count").textContent = `searching: ${Math.floor(100 * from / numbers.length)}%`;
      const at = blockOf(numbers[from]);
      while (to < numbers.length && blockOf(numbers[to]) === at) to += 1;
      let text;
      if (!opened.has(at)) {
        text = await unpacked(`cases-${at + 1}`);
        if (!text.toLowerCase().includes(escaped)) continue;
      }
      const cases = await block(at, text);
      kept.push(...numbers.slice(from, to).filter((number) => holds(cases[number % data.size], wanted)));
    }
    return kept;
  };
  const search = async () => {  // false if another search has started since
    const mine = ++searches;
    const numbers = filtered();
    const kept = state.q ? await holding(numbers, state.q.toLowerCase(), mine) : numbers;
    if (mine !== searches) return false;
    found = kept;
    return true;
  };

  // --- one case --------------------------------------------------------------------------------------

  const explained = (node, words) => { if (words) node.title = words; return node; };
  const badge = (reply) => explained(
    make("span", `verdict ${verdict(reply)}`, SIGNS[verdict(reply)] || verdict(reply)), data.terms.verdicts[verdict(reply)]);
  const named = (style) => (style === "own" ? "method's own" : style);
  const tally = (one) => data.runs.flatMap((label, run) => {  // verdicts on the edited models' answers, by run
    const own = one.answers.filter((answer) => answer.run === run && answer.after && fits(kindOf(one, answer)));
    const counted = Object.keys(SIGNS).map((name) => [name, own.filter((answer) => verdict(answer.after) === name).length]);
    const badges = counted.filter(([, n]) => n).flatMap(([name, n]) => [make("span", `verdict ${name}`, `${n} ${SIGNS[name]}`), " "]);
    return badges.length && data.runs.length > 1 ? [make("small", "", `${label} `), ...badges] : badges;
  });
  const step = (one) => {
    const node = make("li", "", make("span", "chip", one.kind), " ", quoted(one.text, "span", "text"));
    if (one.retrieved.length) {
      node.append(make("ul", "", ...one.retrieved.map((name, at) => make("li", "",
        "retrieved: ", quoted(data.facts[name] || name.slice(name.indexOf(" ") + 1), "span", "text"),
        one.scores[at] === undefined ? "" : make("small", "", ` ${one.scores[at]}`)))));
    }
    if (one.answer) node.append(make("p", "", "answer: ", quoted(one.answer, "span", "text")));
    return node;
  };
  const reason = (reply) => reply.why.map(([label, item, note]) => [label === "pre-edit" ? "pre-edit answer" : label, item, note].filter(Boolean).join(": ")).join("; ");
  const reply = (who, one, query) => {
    const node = make("div", `answer is-${verdict(one)}`);
    node.append(make("p", "", badge(one), " ", make("small", "", who)));
    if (one.logprobs) {
      const ends = query.continuations || [];
      node.append(make("ul", "steps", ...one.logprobs.map((value, at) =>
        make("li", "", `log-probability ${value.toFixed(2)} `, quoted(ends[at] || "", "span", "text")))));
    } else {
      node.append(one.text ? quoted(one.text, "p", "text") : make("p", "", make("small", "", "(empty answer)")));
    }
    if (one.ended && one.ended !== "scored") node.append(make("p", "", make("span", "chip", `outcome: ${one.ended}`)));
    if (one.why && one.why.length) node.append(make("p", "", make("small", "", "judge: ", ...marked(reason(one)))));
    if (one.steps) node.append(fold(`${one.steps.length} steps`, () => make("ol", "steps", ...one.steps.map(step))));
    if (one.raw) node.append(fold("raw answer", () => quoted(one.raw, "pre", "")));
    if (one.prompt) node.append(fold("full prompt", () => quoted(one.prompt.map((at) => query.texts[at]).join(""), "pre", "")));
    if (one.cost) {
      const [calls, read, written] = one.cost.map((value) => value.toLocaleString("en"));
      node.append(make("p", "", make("small", "", `${calls} model ${calls === "1" ? "call" : "calls"}, ${read} prompt tokens, ${written} generated tokens`)));
    }
    return node;
  };
  const asked = (query, style, some) => {
    const node = make("div", "style");
    const shown = new Set();
    for (const answer of some) {  // runs of one model share the unedited model's answer
      if (!answer.before || shown.has(JSON.stringify(answer.before))) continue;
      shown.add(JSON.stringify(answer.before));
      const alike = some.every((other) => !other.before || JSON.stringify(other.before) === JSON.stringify(answer.before));
      node.append(reply(alike ? "before editing" : `before editing, ${data.runs[answer.run]}`, answer.before, query));
    }
    for (const answer of some) {
      if (answer.after) node.append(reply(`after editing, ${data.runs[answer.run]}`, answer.after, query));
    }
    const chip = explained(make("span", "chip", `prompt: ${named(style)}`), data.terms.styles[named(style)]);
    return make("div", "", make("p", "", chip, style === "own" ? make("small", "", " (not recorded)") : ""), node);
  };
  const queried = (one, query, some) => {
    const node = make("div", "query", make("p", "", ...query.aspects.flatMap((name) => [make("span", "chip", name), " "])));
    node.append(query.text ? quoted(query.text, "p", "question") : make("p", "question", query.id));
    if (query.gold) {
      node.append(make("p", "", make("small", "", query.pre_edit ? "gold answer after the edit: " : "gold answer: "), quoted(query.gold, "span", "text")));
    }
    if (query.pre_edit) node.append(make("p", "", make("small", "", "pre-edit answer: "), quoted(query.pre_edit, "span", "text")));
    for (const style of new Set(some.map((answer) => answer.style))) {
      node.append(asked(query, style, some.filter((answer) => answer.style === style)));
    }
    return node;
  };
  const body = (one) => {
    const node = make("div");
    for (const edit of one.edits) {
      node.append(make("p", "edit", make("small", "", "edit: "), quoted(edit.text, "span", "text"),
        edit.was ? make("small", "", " old object: ", edit.was) : ""));
    }
    for (const [run, note] of one.notes) node.append(make("p", "warning", `${data.runs[run]}: ${note}`));
    one.queries.forEach((query, at) => {
      const some = one.answers.filter((answer) => answer.query === at && fits(kindOf(one, answer)));
      if (some.length) node.append(queried(one, query, some));
    });
    return node;
  };
  const card = (one) => {
    const node = make("details", "case");
    const what = one.edits.map((edit) => edit.text).join(" · ");
    node.append(make("summary", "", make("span", "id", `case ${one.id}`), " ",
      ...Object.entries(one.tags).flatMap(([name, value]) => [make("span", "chip", `${name} ${value}`), " "]),
      ...tally(one), what ? quoted(what.length > 160 ? `${what.slice(0, 157)}...` : what, "div", "preview") : ""));
    node.addEventListener("toggle", () => { if (node.open && node.children.length === 1) node.append(body(one)); });
    return node;
  };

  // --- the page of cases -----------------------------------------------------------------------------

  const show = async () => {
    const mine = ++shows;
    const total = data.index.order.length;
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const from = state.page * PAGE;
    const all = total.toLocaleString("en");
    document.getElementById("count").textContent = found.length === total
      ? `${all} ${total === 1 ? "case" : "cases"}`
      : `${found.length.toLocaleString("en")} of ${all} cases${narrowed() ? "; only matching answers are shown" : ""}`;
    document.getElementById("where").textContent = `page ${state.page + 1} of ${pages}`;
    document.getElementById("earlier").disabled = state.page === 0;
    document.getElementById("later").disabled = state.page === pages - 1;
    document.getElementById("pager").hidden = pages === 1;
    const cases = await Promise.all(found.slice(from, from + PAGE).map(caseAt));
    if (mine !== shows) return;
    list.replaceChildren(...cases.map(card));
    if (found.length === 1) list.firstChild.open = true;
  };
  const list_cases = async () => {
    try {
      if (await search()) await show();
    } catch (error) {  // a browser from before 2023 has no DecompressionStream
      document.getElementById("count").textContent = `The cases cannot be opened: ${error.message}. Use a current browser.`;
    }
  };
  const remember = () => {
    const kept = new URLSearchParams(Object.entries(state).filter(([, value]) => value).map(([name, value]) => [name, String(value)]));
    history.replaceState(null, "", kept.size ? `#${kept}` : location.pathname + location.search);
  };
  const recall = () => {  // "#scores" names a section, "#q=Rome" a state of the filters
    const kept = new URLSearchParams(location.hash.includes("=") ? location.hash.slice(1) : "");
    for (const name of ["q", ...FIELDS]) {
      form.elements[name].value = kept.get(name) || "";
      state[name] = form.elements[name].value;  // empty if there is no such choice
    }
    state.page = Number.parseInt(kept.get("page"), 10) || 0;
  };
  const renew = () => {
    for (const name of ["q", ...FIELDS]) state[name] = form.elements[name].value;
    state.page = 0;
    remember();
    return list_cases();
  };
  const turn = async (by) => {
    const before = state.page;
    state.page += by;
    const shown = show();
    if (state.page === before) return;
    remember();
    await shown;
    document.getElementById("cases").scrollIntoView();
    list.querySelector("summary").focus({ preventScroll: true });
  };
  const choices = (name, values) => {
    const select = form.elements[name];
    select.append(new Option("any", ""), ...[...values].map(([value, words]) => new Option(words, value)));
    select.parentElement.hidden = select.options.length < 3;  // only one choice
  };
  const fill = () => {
    const seen = { after: new Set(), before: new Set(), aspect: new Set(), style: new Set(), tag: new Set(), ended: new Set() };
    for (const kind of data.index.kinds) {
      kind.aspects.forEach((name) => seen.aspect.add(name));
      if (kind.after) seen.after.add(kind.after);
      if (kind.before) seen.before.add(kind.before);
      seen.style.add(kind.style);
      seen.ended.add(kind.ended);
    }
    for (const tags of data.index.tags) Object.entries(tags).forEach((tag) => seen.tag.add(JSON.stringify(tag)));
    const same = (values) => [...values].map((value) => [value, value]);
    for (const name of ["after", "before"]) choices(name, Object.entries(SIGNS).filter(([value]) => seen[name].has(value)));
    for (const name of ["aspect", "ended"]) choices(name, same(seen[name]));
    choices("style", [...seen.style].map((style) => [style, named(style)]));
    const tags = [...seen.tag].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
    choices("tag", tags.map((tag) => [tag, JSON.parse(tag).join(" ")]));
    choices("run", same(data.runs));
  };
  const step_to = (by) => {
    const all = [...list.querySelectorAll(".case > summary")];
    const at = all.findIndex((summary) => summary.parentElement.contains(document.activeElement));
    const next = all[at < 0 ? 0 : at + by];
    if (next) next.focus();
  };
  const keys = { "/": () => form.elements.q.focus(), j: () => step_to(1), k: () => step_to(-1), "[": () => turn(-1), "]": () => turn(1) };

  fill();
  form.hidden = false;
  recall();
  document.getElementById("narrow").open = matchMedia("(min-width: 40rem)").matches || narrowed() || Boolean(state.tag);
  list_cases();
  let waiting = 0;
  form.elements.q.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(renew, 150); });
  form.addEventListener("change", (event) => { if (event.target.name !== "q") renew(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); renew(); });
  form.addEventListener("reset", () => setTimeout(renew));
  document.getElementById("earlier").addEventListener("click", () => turn(-1));
  document.getElementById("later").addEventListener("click", () => turn(1));
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) { recall(); list_cases(); } });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
