"use strict";
// The list of cases. Text is inserted with textContent only, so that a model's output is never parsed as HTML.
(() => {
  const PAGE = 25;
  const SIGNS = { right: "✓ right", wrong: "✗ wrong", stale: "↺ pre-edit answer", unsure: "? unsure", measured: "measured", none: "not judged" };
  const FIELDS = ["after", "before", "aspect", "style", "tag", "ended", "run"];
  const data = JSON.parse(document.getElementById("data").textContent);
  const form = document.getElementById("filters");
  const list = document.getElementById("list");
  const state = { q: "", page: 0 };
  let found = [];

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

  // --- search and filters ---------------------------------------------------------------------------------

  const texts = function* (one) {
    yield one.id;
    for (const edit of one.edits) { yield edit.text; yield edit.was; }
    for (const query of one.queries) { yield query.text; yield query.gold || ""; yield query.stale || ""; }
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
  const fits = (one, answer) =>
    (!state.after || verdict(answer.after) === state.after) &&
    (!state.before || verdict(answer.before) === state.before) &&
    (!state.aspect || one.queries[answer.query].aspects.includes(state.aspect)) &&
    (!state.style || answer.style === state.style) &&
    (!state.ended || ending(answer.after || answer.before) === state.ended) &&
    (!state.run || data.runs[answer.run] === state.run);
  const narrowed = () => FIELDS.some((name) => name !== "tag" && state[name]);
  const tagged = (one) => {
    const [name, value] = JSON.parse(state.tag);
    return one.tags[name] === value;
  };
  const search = () => {
    const wanted = state.q.toLowerCase();
    found = data.cases.filter((one) =>
      (!state.tag || tagged(one)) &&
      (!narrowed() || one.answers.some((answer) => fits(one, answer))) &&
      (!wanted || holds(one, wanted)));
  };

  // --- one case --------------------------------------------------------------------------------------

  const explained = (node, words) => { if (words) node.title = words; return node; };
  const badge = (reply) => explained(
    make("span", `verdict ${verdict(reply)}`, SIGNS[verdict(reply)] || verdict(reply)), data.terms.verdicts[verdict(reply)]);
  const named = (style) => (style === "own" ? "method's own" : style);
  const tally = (one) => data.runs.flatMap((label, run) => {  // verdicts on the edited models' answers, by run
    const own = one.answers.filter((answer) => answer.run === run && answer.after && fits(one, answer));
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
  const reason = (reply) => reply.why.map(([label, item, note]) => [label === "stale" ? "pre-edit answer" : label, item, note].filter(Boolean).join(": ")).join("; ");
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
    if (one.prompt) node.append(fold("full prompt", () => quoted(one.prompt.map((at) => data.texts[at]).join(""), "pre", "")));
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
      node.append(make("p", "", make("small", "", query.stale ? "gold answer after the edit: " : "gold answer: "), quoted(query.gold, "span", "text")));
    }
    if (query.stale) node.append(make("p", "", make("small", "", "pre-edit answer: "), quoted(query.stale, "span", "text")));
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
      const some = one.answers.filter((answer) => answer.query === at && fits(one, answer));
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

  const show = () => {
    const pages = Math.max(1, Math.ceil(found.length / PAGE));
    state.page = Math.min(Math.max(state.page, 0), pages - 1);
    const from = state.page * PAGE;
    list.replaceChildren(...found.slice(from, from + PAGE).map(card));
    if (found.length === 1) list.firstChild.open = true;
    const all = data.cases.length.toLocaleString("en");
    document.getElementById("count").textContent = found.length === data.cases.length
      ? `${all} ${data.cases.length === 1 ? "case" : "cases"}`
      : `${found.length.toLocaleString("en")} of ${all} cases${narrowed() ? "; only matching answers are shown" : ""}`;
    document.getElementById("where").textContent = `page ${state.page + 1} of ${pages}`;
    document.getElementById("earlier").disabled = state.page === 0;
    document.getElementById("later").disabled = state.page === pages - 1;
    document.getElementById("pager").hidden = pages === 1;
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
    search();
    show();
    remember();
  };
  const turn = (by) => {
    const before = state.page;
    state.page += by;
    show();
    if (state.page === before) return;
    remember();
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
    for (const one of data.cases) {
      for (const query of one.queries) query.aspects.forEach((name) => seen.aspect.add(name));
      for (const tag of Object.entries(one.tags)) seen.tag.add(JSON.stringify(tag));
      for (const answer of one.answers) {
        if (answer.after) seen.after.add(verdict(answer.after));
        if (answer.before) seen.before.add(verdict(answer.before));
        seen.style.add(answer.style);
        seen.ended.add(ending(answer.after || answer.before));
      }
    }
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
  search();
  show();
  let waiting = 0;
  form.elements.q.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(renew, 150); });
  form.addEventListener("change", (event) => { if (event.target.name !== "q") renew(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); renew(); });
  form.addEventListener("reset", () => setTimeout(renew));
  document.getElementById("earlier").addEventListener("click", () => turn(-1));
  document.getElementById("later").addEventListener("click", () => turn(1));
  window.addEventListener("hashchange", () => { if (location.hash.includes("=")) { recall(); search(); show(); } });
  document.addEventListener("keydown", (event) => {
    const typing = event.target.closest("input, select, textarea");
    if (typing || event.ctrlKey || event.metaKey || event.altKey || !(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  });
})();
