"use strict";
// Everything is drawn with textContent and setAttribute on names we choose: data never becomes markup.

const data = JSON.parse(document.getElementById("data").textContent);
const runs = data.runs;
const byId = new Map(data.questions.map((question) => [question.id, question]));
const PAGE_OF_QUESTIONS = 150;
const DIFFICULTIES = ["easy", "medium", "hard", "extra"];
const $ = (id) => document.getElementById(id);

function put(parent, children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined) continue;
    parent.append(typeof child === "object" ? child : document.createTextNode(String(child)));
  }
  return parent;
}

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "onclick") element.addEventListener("click", value);
    else if (name === "run") element.style.setProperty("--run", `var(--run-${value})`);
    else if (value !== false && value !== null) element.setAttribute(name, value === true ? "" : value);
  }
  return put(element, children);
}

function s(tag, attributes = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return put(element, children);
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;
const signed = (value) => (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3).replace(/0$/, "");
const colour = (index) => `var(--run-${index})`;
// A setting as text: a list or a table of settings in one line.
const plain = (value) => {
  if (value === null || value === undefined) return "–";
  if (Array.isArray(value)) return value.join(", ");
  return typeof value === "object" ? Object.entries(value).map((entry) => entry.join(" ")).join(", ") : String(value);
};
const words = (name) => name.replaceAll("_", " ");
const range = (count) => Array.from({ length: count }, (_, index) => index);

// -- headline --------------------------------------------------------------------------------

function whisker(rate, index) {
  const x = (share) => 4 + 152 * share;
  return s("svg", { viewBox: "0 0 160 26", role: "img", "aria-label": `${percent(rate.low)} to ${percent(rate.high)}` },
    s("line", { class: "grid", x1: x(0), x2: x(1), y1: 13, y2: 13 }),
    ...[0, 0.5, 1].map((share) => s("line", { class: "grid", x1: x(share), x2: x(share), y1: 9, y2: 17 })),
    s("line", { x1: x(rate.low), x2: x(rate.high), y1: 13, y2: 13, stroke: colour(index), "stroke-width": 6, "stroke-linecap": "round", opacity: 0.4 }),
    s("circle", { cx: x(rate.rate), cy: 13, r: 5.5, fill: colour(index) }));
}

function headline() {
  const most = Math.max(...runs.map((run) => Object.keys(run.summary.pass_at_k).length));
  const figures = [
    ...(most > 1 ? [[`pass@${most}`, (m) => (most in m.pass_at_k ? percent(m.pass_at_k[most]) : "–")]] : []),
    ["Reward", (m) => m.avg_reward.toFixed(3)],
    ["Steps", (m) => m.avg_steps.toFixed(1)],
    ["Queries", (m) => m.avg_queries.toFixed(1)],
    ["Use SAMPLE", (m) => percent(m.sample_share.rate)],
    ["Recovery", (m) => (m.recovery.n ? `${percent(m.recovery.rate)} of ${m.recovery.n}` : "–")],
    ...(runs.some((run) => run.summary.extra_tokens) ? [["Replaced", (m) => `${percent(m.replaced.rate)}, ${m.extra_tokens} tokens`]] : []),
    ...(runs.some((run) => run.summary.parse_rate !== null) ? [["Parsed", (m) => (m.parse_rate === null ? "–" : percent(m.parse_rate))]] : []),
  ];
  put($("headline"), [
    h("thead", {}, h("tr", {}, h("th", {}, "Policy"), h("th", {}, "Success"), h("th", {}, "0 to 100 %"),
      h("th", { class: "figure" }, "Episodes"), figures.map(([name]) => h("th", { class: "figure" }, name)))),
    h("tbody", {}, runs.map((run, index) => h("tr", {},
      h("td", { class: "policy", title: run.policy }, h("span", { class: "swatch", run: index }), run.policy,
        run.name === run.policy ? null : h("div", { class: "muted small" }, run.name)),
      h("td", {}, h("span", { class: "big" }, percent(run.summary.success.rate)),
        h("span", { class: "interval" }, `${percent(run.summary.success.low)} to ${percent(run.summary.success.high)}`)),
      h("td", { class: "whisker-cell" }, whisker(run.summary.success, index)),
      h("td", { class: "figure" }, run.summary.n_played),
      figures.map(([, show]) => h("td", { class: "figure" }, show(run.summary)))))),
  ]);
  const datasets = [...new Set(runs.map((run) => `${run.config.dataset.split("/").pop()}, ${run.config.split}`))];
  $("subtitle").textContent = `${data.questions.length} questions (${datasets.join("; ")})`;
}

// -- charts ----------------------------------------------------------------------------------

// Drawn to the width that there is, and drawn again when it changes, so that text keeps its size.
const drawings = [];

function card(title, legend, draw, { wide = false, control = null } = {}) {
  const holder = h("div", { class: "drawing" });
  const head = h("div", { class: "chart-head" }, h("h3", {}, title), control);
  $("charts").append(h("div", { class: wide ? "card wide" : "card" }, head, h("div", { class: "legend" }, legend), holder));
  const redraw = () => holder.replaceChildren(draw(Math.max(240, Math.round(holder.clientWidth))));
  drawings.push(redraw);
  return redraw;
}

const runLegend = () => runs.map((run, index) => h("span", {}, h("span", { class: "swatch", run: index }), run.policy));

function drawing(width, height, label, ...children) {
  return s("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label }, ...children);
}

function axes(width, height, left, bottom, ticks, label) {
  const y = (value) => height - bottom - value * (height - bottom - 12);
  return { y, lines: ticks.map(([at, text]) => [
    s("line", { class: "grid", x1: left, x2: width, y1: y(at), y2: y(at) }),
    s("text", { x: left - 6, y: y(at) + 4, "text-anchor": "end" }, text)]).flat().concat(
    label ? [s("text", { x: (left + width) / 2, y: height - 2, "text-anchor": "middle" }, label)] : []) };
}

function successByDifficulty() {
  const groups = ["all", ...DIFFICULTIES.filter((name) => runs.some((run) => name in run.summary.by_difficulty))];
  card("Success by difficulty", runLegend(), (width) => {
    const [height, left] = [250, 44];
    const { y, lines } = axes(width, height, left, 26, [0, 0.25, 0.5, 0.75, 1].map((at) => [at, `${100 * at} %`]));
    const span = (width - left) / groups.length;
    const bar = Math.min(64, (span * 0.85) / runs.length);
    const bars = groups.flatMap((group, place) => {
      const middle = left + span * (place + 0.5);
      const rates = runs.map((run) => (group === "all" ? run.summary.success : run.summary.by_difficulty[group]));
      const size = Math.max(...rates.map((rate) => (rate ? rate.n : 0)));
      const label = s("text", { x: middle, y: height - 8, "text-anchor": "middle", class: group === "all" ? "value" : "" }, span > 90 ? `${group} (${size})` : group);
      return [label, ...rates.flatMap((rate, index) => {
        if (!rate) return [];
        const x = middle + bar * (index - runs.length / 2);
        const centre = x + bar / 2;
        return [
          s("rect", { x: x + 1, y: y(rate.rate), width: bar - 2, height: Math.max(1, y(0) - y(rate.rate)), rx: 3, fill: colour(index), opacity: 0.85 },
            s("title", {}, `${runs[index].policy}, ${group}: ${percent(rate.rate)} [${percent(rate.low)}, ${percent(rate.high)}] of ${rate.n}`)),
          s("line", { class: "whisker", x1: centre, x2: centre, y1: y(rate.low), y2: y(rate.high) }),
          ...[rate.low, rate.high].map((end) => s("line", { class: "whisker", x1: centre - 4, x2: centre + 4, y1: y(end), y2: y(end) })),
          ...(bar >= 24 ? [s("text", { class: "value", x: centre, y: y(rate.high) - 5, "text-anchor": "middle" }, Math.round(100 * rate.rate))] : []),
        ];
      })];
    });
    return drawing(width, height, "Success by difficulty", ...lines, ...bars);
  }, { wide: true });
}

// Bars of all runs side by side in each bin: shares, so that runs of different sizes can be compared.
function histogram(title, label, values, bins) {
  const shares = values.map((list) => bins.map((bin) => list.filter(bin.holds).length / Math.max(1, list.length)));
  const top = Math.max(0.05, ...shares.flat());
  card(title, runLegend(), (width) => {
    const [height, left] = [200, 38];
    const { y, lines } = axes(width, height, left, 40, [0, 0.5, 1].map((at) => [at, `${Math.round(100 * at * top)} %`]), label);
    const span = (width - left) / bins.length;
    const bar = (span * 0.82) / runs.length;
    const every = Math.ceil(bins.length / (width / 36));
    const marks = bins.flatMap((bin, place) => [
      ...(place % every === 0 ? [s("text", { x: left + span * (place + 0.5), y: height - 24, "text-anchor": "middle" }, bin.name)] : []),
      ...shares.map((list, index) => s("rect", {
        x: left + span * (place + 0.5) + bar * (index - runs.length / 2), width: Math.max(1, bar - 0.8),
        y: y(list[place] / top), height: y(0) - y(list[place] / top), rx: Math.min(2, bar / 3), fill: colour(index), opacity: 0.85,
      }, s("title", {}, `${runs[index].policy}: ${percent(list[place])} at ${bin.name}`))),
    ]);
    return drawing(width, height, title, ...lines, ...marks);
  });
}

function distributions() {
  const episodes = runs.map((run) => Object.values(run.episodes).flat());
  const rewards = episodes.map((list) => list.map((episode) => episode.reward));
  if (!rewards.flat().length) return;
  const bin = (value) => Math.floor(value * 10 + 1e-9);
  const first = bin(Math.min(...rewards.map((list) => Math.min(...list))));
  const last = bin(Math.max(...rewards.map((list) => Math.max(...list))));
  histogram("Reward of an episode", "operational + progress + terminal", rewards,
    range(last - first + 1).map((place) => ({ name: ((first + place) / 10).toFixed(1), holds: (value) => bin(value) === first + place })));
  const steps = episodes.map((list) => list.map((episode) => episode.steps.length));
  histogram("Steps of an episode", "actions, the answer included", steps,
    range(Math.max(1, ...steps.map((list) => Math.max(...list)))).map((place) => ({ name: place + 1, holds: (value) => value === place + 1 })));
}

function stopReasons() {
  const reasons = [...new Set(["correct", ...runs.flatMap((run) => Object.keys(run.summary.stop_reasons))])];
  const fill = (reason) => `var(--stop-${/^[a-z_]+$/.test(reason) ? reason : "other"}, var(--muted))`;
  const legend = reasons.map((reason) => {
    const swatch = h("span", { class: "swatch" });
    swatch.style.background = fill(reason);
    return h("span", {}, swatch, words(reason));
  });
  card("How episodes end", legend, (width) => drawing(width, 46 * runs.length, "How episodes end", ...runs.map((run, index) => {
    let x = 0;
    const top = 46 * index;
    const longest = Math.floor(width / 7);
    return s("g", {}, s("text", { x: 0, y: top + 13 }, run.policy.length > longest ? `…${run.policy.slice(1 - longest)}` : run.policy),
      ...reasons.flatMap((reason) => {
        const count = run.summary.stop_reasons[reason] || 0;
        const span = (width * count) / Math.max(1, run.summary.n_played);
        if (!count) return [];
        const box = s("rect", { x, y: top + 19, width: Math.max(1, span - 1.5), height: 20, rx: 3, fill: fill(reason) },
          s("title", {}, `${words(reason)}: ${count} of ${run.summary.n_played}`));
        const number = span > 30 ? [s("text", { x: x + span / 2, y: top + 33, "text-anchor": "middle", class: "inside" }, count)] : [];
        x += span;
        return [box, ...number];
      }));
  })));
}

function learningCurves() {
  const curves = data.curves.filter((curve) => curve.points.length > 1);
  const numeric = (row, key) => typeof row[key] === "number" && Number.isFinite(row[key]);
  const keys = [...new Set(curves.flatMap((curve) => curve.points.flatMap((row) => Object.keys(row).filter((key) => key !== "step" && numeric(row, key)))))];
  if (!keys.length) return;
  const choice = h("select", { "aria-label": "What the curve shows", id: "curve" }, keys.map((key) => h("option", { value: key }, key)));
  choice.value = keys.includes("reward") ? "reward" : keys[0];
  const redraw = card("Learning curve", curves.map((curve) => h("span", {}, h("span", { class: "swatch", run: curve.colour }), curve.name)), (width) => {
    const [height, left, key] = [230, 52, choice.value];
    const lines = curves.map((curve) => ({ ...curve, points: curve.points.filter((row) => numeric(row, "step") && numeric(row, key)) }));
    const points = lines.flatMap((line) => line.points);
    const ends = (values) => [Math.min(...values), Math.max(...values)];
    const [x0, x1] = ends(points.map((row) => row.step));
    let [y0, y1] = ends(points.map((row) => row[key]));
    if (y0 === y1) [y0, y1] = [y0 - 0.5, y1 + 0.5];
    const { y, lines: grid } = axes(width, height, left, 40, [0, 0.25, 0.5, 0.75, 1].map((at) => [at, Number((y0 + at * (y1 - y0)).toPrecision(3))]), "training step");
    const x = (step) => left + ((step - x0) / Math.max(1, x1 - x0)) * (width - left - 8);
    const at = (row) => `${x(row.step).toFixed(1)},${y((row[key] - y0) / (y1 - y0)).toFixed(1)}`;
    return drawing(width, height, `Learning curve: ${key}`, ...grid,
      s("text", { x: left, y: height - 24 }, x0), s("text", { x: width - 8, y: height - 24, "text-anchor": "end" }, x1),
      ...lines.map((line) => s("polyline", { points: line.points.map(at).join(" "), fill: "none", stroke: colour(line.colour), "stroke-width": 2, "stroke-linejoin": "round" })));
  }, { wide: true, control: choice });
  choice.addEventListener("change", redraw);
}

// Success on the way, with the band of its 95 % intervals.
function successInTraining() {
  const curves = data.success.map((curve, index) => ({ ...curve, colour: index % 8 })).filter((curve) => curve.points.length > 1);
  if (!curves.length) return;
  card("Success during training", curves.map((curve) => h("span", {}, h("span", { class: "swatch", run: curve.colour }), `${curve.name} (${curve.points[0].n} questions)`)), (width) => {
    const [height, left] = [230, 52];
    const points = curves.flatMap((curve) => curve.points);
    const steps = points.map((point) => point.step);
    const [x0, x1] = [Math.min(...steps), Math.max(...steps)];
    const top = Math.min(1, Math.ceil(10 * Math.max(...points.map((point) => point.high))) / 10);
    const { y, lines: grid } = axes(width, height, left, 40, range(5).map((at) => [at / 4, `${Math.round(25 * at * top)} %`]), "training step");
    const x = (step) => left + ((step - x0) / Math.max(1, x1 - x0)) * (width - left - 8);
    const at = (key) => (point) => `${x(point.step).toFixed(1)},${y(point[key] / top).toFixed(1)}`;
    return drawing(width, height, "Success during training", ...grid,
      s("text", { x: left, y: height - 24 }, x0), s("text", { x: width - 8, y: height - 24, "text-anchor": "end" }, x1),
      ...curves.flatMap((curve) => [
        s("polygon", { points: [...curve.points.map(at("low")), ...curve.points.map(at("high")).reverse()].join(" "), fill: colour(curve.colour), opacity: 0.18 }),
        s("polyline", { points: curve.points.map(at("rate")).join(" "), fill: "none", stroke: colour(curve.colour), "stroke-width": 2, "stroke-linejoin": "round" }),
        ...curve.points.map((point) => s("circle", { cx: x(point.step), cy: y(point.rate / top), r: 3.5, fill: colour(curve.colour) },
          s("title", {}, `step ${point.step}: ${percent(point.rate)} [${percent(point.low)}, ${percent(point.high)}]`))),
      ]));
  }, { wide: true });
}

// -- what changed ----------------------------------------------------------------------------

const view = { pair: null, outcome: "", difficulty: "", database: "", search: "", selected: null, shown: PAGE_OF_QUESTIONS, samples: {} };

function notes(pair) {
  const alone = pair.only_before + pair.only_after;
  const settings = Object.entries(pair.differences).filter(([name]) => name !== "policy");
  return [
    "Paired by question. The interval is Newcombe's, of samples a bootstrap; p is an exact permutation test (McNemar's where a question is played once)",
    data.comparisons.length > 1 ? `, corrected by Holm's method for ${data.comparisons.length} pairs (${pair.p_value.toPrecision(3)} alone)` : "",
    alone ? `; ${alone} questions were played in one of the runs only` : "",
    settings.length ? `. Other settings: ${settings.map(([name, [old, now]]) => `${words(name)} ${plain(old)} → ${plain(now)}`).join(", ")}` : "", ".",
  ].join("");
}

function changes() {
  if (!data.comparisons.length) return;
  $("changes").hidden = false;
  const pick = h("select", { id: "pair", "aria-label": "Which runs" }, data.comparisons.map((pair, index) =>
    h("option", { value: index }, `${runs[pair.before].policy} (${pair.before + 1}) → ${runs[pair.after].policy} (${pair.after + 1})`)));
  const body = h("div");
  const show = (index) => {
    view.pair = data.comparisons[index];
    const pair = view.pair;
    const parts = [["both_right", pair.both_right, "right both times"], ["won", pair.won.length, "won"], ["lost", pair.lost.length, "lost"], ["both_wrong", pair.both_wrong, "wrong both times"]];
    body.replaceChildren(h("p", { class: "sentence", id: "sentence" }, pair.sentence),
      h("div", { class: "flow" }, parts.filter(([, count]) => count).map(([name, count, label]) => {
        const box = h("button", { type: "button", class: name, title: `${count} ${label}: show them`, onclick: () => choose("outcome", name) }, h("b", {}, count), h("span", {}, label));
        box.style.flex = `${count} 1 0`;
        return box;
      })),
      h("p", { class: "note" }, notes(pair)));
    $("filters").replaceChildren();
    filters();
  };
  pick.addEventListener("change", () => { view.outcome = ""; show(pick.value); refresh(); });
  pick.selectedIndex = data.comparisons.length - 1;
  const stages = data.comparisons.filter((pair) => pair.after === pair.before + 1);
  put($("changes-card"), [
    stages.length > 1 ? h("ol", { class: "stages", id: "stages" }, stages.map((pair) => h("li", {}, h("b", {}, `${runs[pair.before].policy} → ${runs[pair.after].policy}`), `: ${pair.sentence}`))) : null,
    data.comparisons.length > 1 ? h("p", { class: "tags" }, pick) : null, body]);
  show(pick.value);
  const won = data.questions.find((question) => view.pair.won.includes(question.id));
  if (won) view.selected = won.id;
}

// -- episodes --------------------------------------------------------------------------------

const sides = () => (view.pair ? [view.pair.before, view.pair.after] : runs.length ? [0] : []);
const played = (run, id) => runs[run].episodes[id] || [];
const share = (run, id) => { const list = played(run, id); return list.length ? list.filter((episode) => episode.correct).length / list.length : null; };

function outcomes(id) {
  if (view.pair) {
    const [before, after] = sides().map((run) => share(run, id));
    if (before === null || after === null) return ["unpaired"];
    return [after > before ? "won" : after < before ? "lost" : before > 0 ? "both_right" : "both_wrong"];
  }
  return played(0, id).map((episode) => episode.stop);
}

function filters() {
  const form = $("filters");
  const select = (name, title, options) => {
    const control = h("select", { id: `filter-${name}` }, h("option", { value: "" }, "all"), options.map(([value, text]) => h("option", { value }, text)));
    control.value = view[name];
    control.addEventListener("change", () => choose(name, control.value));
    return h("label", {}, title, control);
  };
  const count = (items) => { const found = new Map(); for (const item of items) found.set(item, (found.get(item) || 0) + 1); return found; };
  const list = (items, order) => [...count(items)].sort((a, b) => (order ? order.indexOf(a[0]) - order.indexOf(b[0]) : a[0] < b[0] ? -1 : 1)).map(([value, number]) => [value, `${words(value)} (${number})`]);
  const search = h("input", { id: "filter-search", type: "search", placeholder: "question, SQL, answer, error" });
  search.value = view.search;
  search.addEventListener("input", () => choose("search", search.value));
  put(form, [
    select("outcome", "Outcome", list(data.questions.flatMap((question) => [...new Set(outcomes(question.id))]))),
    select("difficulty", "Difficulty", list(data.questions.map((question) => question.difficulty), DIFFICULTIES)),
    select("database", "Database", list(data.questions.map((question) => question.database))),
    h("label", { class: "search" }, "Search", search),
    h("span", { class: "count", id: "count", "aria-live": "polite" }),
  ]);
}
$("filters").addEventListener("submit", (event) => event.preventDefault());

const haystacks = new Map();
function haystack(question) {
  if (!haystacks.has(question.id)) {
    const said = runs.flatMap((run) => (run.episodes[question.id] || []).flatMap((episode) =>
      [episode.verdict, episode.error, ...episode.steps.flatMap((step) => [step.argument, step.error, step.result])]));
    haystacks.set(question.id, [question.id, question.text, question.gold_sql, ...said].filter(Boolean).join("\n").toLowerCase());
  }
  return haystacks.get(question.id);
}

function matching() {
  const terms = view.search.toLowerCase().split(/\s+/).filter(Boolean);
  return data.questions.filter((question) =>
    (!view.difficulty || question.difficulty === view.difficulty) &&
    (!view.database || question.database === view.database) &&
    (!view.outcome || outcomes(question.id).includes(view.outcome)) &&
    terms.every((term) => haystack(question).includes(term)));
}

function choose(name, value) {
  view[name] = value;
  view.shown = PAGE_OF_QUESTIONS;
  const control = $(`filter-${name}`);
  if (control && control.value !== value) control.value = value;
  refresh();
}

function mark(run, id) {
  const right = share(run, id);
  if (right === null) return h("span", { class: "muted" }, "·");
  const text = played(run, id).length > 1 ? percent(right) : right ? "✓" : "✗";
  return h("span", { class: `mark ${right ? "yes" : "no"}` }, text);
}

function refresh() {
  const found = matching();
  $("count").textContent = `${found.length} of ${data.questions.length} questions`;
  if (!found.some((question) => question.id === view.selected)) view.selected = found.length ? found[0].id : null;
  $("list").replaceChildren(...found.slice(0, view.shown).map((question) => h("li", {},
    h("button", { type: "button", "data-id": question.id, "aria-current": String(question.id === view.selected), onclick: () => open(question.id) },
      h("span", { class: "line" }, sides().map((run) => mark(run, question.id)), h("span", {}, question.difficulty), h("span", {}, question.database)),
      h("span", { class: "question" }, question.text)))));
  $("more").hidden = found.length <= view.shown;
  detail();
}
$("more").addEventListener("click", () => { view.shown += PAGE_OF_QUESTIONS; refresh(); });

function open(id) {
  view.selected = id;
  for (const button of $("list").querySelectorAll("button")) button.setAttribute("aria-current", String(button.dataset.id === id));
  detail();
}

$("list").addEventListener("keydown", (event) => {
  const move = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
  const target = move && event.target.closest("li")[move];
  if (!target) return;
  event.preventDefault();
  target.firstChild.focus();
  target.firstChild.click();
});

function rewardParts(parts) {
  const names = ["operational", "progress", "terminal"];
  return h("span", { class: "parts", title: "reward" }, parts.map((part, index) => (part ? h("span", { class: part > 0 ? "up" : "down" }, `${names[index]} ${signed(part)}`) : null)));
}

function step(item, number) {
  const kind = (item.type || "").trim().toUpperCase();
  const long = kind === "QUERY" || (item.argument || "").length > 60 || (item.argument || "").includes("\n");
  const judged = kind === "ANSWER" && !item.error;
  const right = judged && item.reward[2] > 0;
  return h("div", { class: `step${item.error || (judged && !right) ? " failed" : right ? " right" : ""}` },
    h("div", { class: "head" }, h("span", { class: "muted small" }, number), h("span", { class: "kind" }, kind || "(nothing)"),
      long ? null : h("code", {}, item.argument || ""), item.parsed === false ? h("span", { class: "tag no" }, "no action found in the model's text") : null, rewardParts(item.reward)),
    long ? h("pre", { class: "sql" }, item.argument) : null,
    item.replaced ? h("div", { class: "replaced" },
      h("span", { class: "tag" }, `drawn again: ${item.replaced.reason}, ${item.replaced.extra_tokens} extra tokens`),
      h("details", {}, h("summary", {}, "the turn it replaced"), h("pre", { class: "wrap" }, item.replaced.original))) : null,
    item.error ? h("pre", { class: "failed" }, item.error) : null,
    item.result && !judged ? h("pre", { class: "wrap" }, item.result) : null,
    item.raw && item.raw.trim() !== `${kind}: ${item.argument || ""}`.trim() ? h("details", {}, h("summary", {}, "what the model wrote"), h("pre", { class: "wrap" }, item.raw)) : null);
}

function side(run, id) {
  const list = played(run, id);
  const head = h("header", {}, h("div", { class: "who" }, h("span", { class: "swatch", run }), runs[run].policy), runs[run].name === runs[run].policy ? null : h("div", { class: "muted small" }, runs[run].name));
  if (!list.length) return h("div", { class: "side", run }, head, h("p", { class: "muted" }, "not played in this run"));
  const place = Math.min(view.samples[run] || 0, list.length - 1);
  const episode = list[place];
  if (list.length > 1) head.append(h("div", { class: "samples" }, list.map((one, index) => h("button", { type: "button", "aria-pressed": String(index === place), onclick: () => { view.samples[run] = index; detail(); } }, `${one.correct ? "✓" : "✗"} ${index + 1}`))));
  const total = episode.steps.reduce((sum, item) => item.reward.map((part, index) => part + sum[index]), [0, 0, 0]);
  head.append(h("div", { class: "tags" }, h("span", { class: `tag ${episode.correct ? "yes" : "no"}` }, words(episode.stop)), h("span", { class: "tag" }, `${episode.steps.length} steps`), h("span", { class: "tag" }, `reward ${episode.reward.toFixed(3)}`)));
  const reason = episode.error || episode.verdict || (episode.stop === "out_of_budget" ? "the steps ran out before an answer" : "");
  return h("div", { class: "side", run }, head, episode.steps.map((item, index) => step(item, index + 1)),
    reason ? h("p", { class: `verdict ${episode.correct ? "yes" : ""}` }, reason) : null,
    h("p", { class: "note" }, `operational ${signed(total[0])}, progress ${signed(total[1])}, terminal ${signed(total[2])}`));
}

function detail() {
  const question = byId.get(view.selected);
  if (!question) { $("detail").replaceChildren(h("p", { class: "muted" }, "No question matches these filters.")); return; }
  $("detail").replaceChildren(
    h("div", { class: "ask" }, question.text),
    h("div", { class: "tags" }, [question.id, question.database, question.difficulty, question.answer_type].map((text) => h("span", { class: "tag" }, text))),
    h("details", {}, h("summary", {}, "gold query and answer (the policy does not see them)"), h("pre", { class: "sql" }, question.gold_sql), h("pre", { class: "wrap" }, question.gold_answer)),
    h("div", { class: "sides" }, sides().map((run) => side(run, question.id))));
}

// -- how the numbers were made ---------------------------------------------------------------

function config() {
  const keys = [...new Set(runs.flatMap((run) => Object.keys(run.config)))];
  put($("config"), [
    h("thead", {}, h("tr", {}, h("th"), runs.map((run, index) => h("th", {}, h("span", { class: "swatch", run: index }), run.name)))),
    h("tbody", {}, keys.map((key) => h("tr", {}, h("td", { class: "muted" }, words(key)), runs.map((run) => h("td", {}, plain(run.config[key])))))),
  ]);
}

function theme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
}
$("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme !== "dark"));
theme(window.matchMedia("(prefers-color-scheme: dark)").matches);

headline();
successByDifficulty();
distributions();
stopReasons();
successInTraining();
learningCurves();
const drawCharts = () => drawings.forEach((redraw) => redraw());
drawCharts();
let drawnAt = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth === drawnAt) return;
  drawnAt = window.innerWidth;
  window.requestAnimationFrame(drawCharts);
});
changes();
if (!$("filters").childElementCount) filters();
config();
refresh();
