// The game: what is on the table, and what happens when somebody plays.

import { drawBudget, drawChart, drawGrid, drawResult, drawSchema, drawStep, el, signed } from "./draw.js";
import { paintSql } from "./highlight.js";
import { Session } from "./session.js";
import { Stage } from "./watch.js";

const byId = (id) => document.getElementById(id);
const session = new Session();
const stage = new Stage(() => game?.metadata.question_id, takeOver);
let game = null; // the running or finished episode
let busy = false;

// -- talking to the server -----------------------------------------------------------------------

async function begin(options) {
  if (busy) return;
  await whileBusy(async () => {
    const data = await session.reset({ ...options, details: true });
    open(data.observation);
    if (stage.isOpen) stage.open();
  });
  focusEditor();
}

/** Go on in a person's place from where a policy stands: the server plays the same moves again. */
async function takeOver(opening, moves) {
  if (busy) return;
  await whileBusy(async () => {
    const actions = moves.map(({ kind, argument }) => ({ action_type: kind, argument }));
    await session.reset({ question_id: opening.metadata.question_id, actions, details: true });
    stage.close();
    open(opening);
    for (const { kind, argument, data } of moves) take(kind, argument, data);
  });
  focusEditor();
}

function open(observation) {
  const { metadata, budget_remaining: budget } = observation;
  game = { budget, steps: [], done: false, schemas: new Map(), hasResult: false, metadata };
  history.replaceState(null, "", `#${encodeURIComponent(metadata.question_id)}`);
  showQuestion(observation);
  byId("editor").value = "";
  byId("answer").value = "";
  repaint();
  fitAnswer();
}

function focusEditor() {
  if (game && !stage.isOpen && matchMedia("(pointer: fine)").matches) byId("editor").focus({ preventScroll: true });
}

function beginChosen() {
  const options = {};
  if (byId("database").value) options.database = byId("database").value;
  if (byId("difficulty").value) options.difficulty = byId("difficulty").value;
  return begin(options);
}

function play(kind, argument) {
  if (!game || game.done || busy) return;
  return whileBusy(async () => take(kind, argument, await session.step(kind, argument)));
}

/** Take in what came of an action. */
function take(kind, argument, { observation, reward, done }) {
  const { reward_parts: parts, details } = observation.metadata;
  const failed = observation.error !== "";
  game.steps.push({ kind, argument, reward, parts, failed });
  game.done = done;
  for (const schema of details.schemas ?? []) game.schemas.set(schema.table, schema);
  if (kind === "QUERY" && !failed) game.hasResult = true;
  showResult(kind, argument, observation);
  showTables(observation.table_names);
  showScore(observation.budget_remaining);
  if (done) showVerdict(observation);
}

async function whileBusy(work) {
  busy = true;
  byId("board").setAttribute("aria-busy", "true");
  byId("notice").hidden = true;
  try {
    await work();
  } catch (error) {
    showNotice(error);
  } finally {
    busy = false;
    byId("board").setAttribute("aria-busy", "false");
    enable();
  }
}

// -- showing -------------------------------------------------------------------------------------

function showQuestion(observation) {
  const { metadata } = observation;
  byId("question").textContent = observation.question;
  byId("question").classList.toggle("long", observation.question.length > 200);
  byId("tags").replaceChildren(
    el("span", "tag", metadata.database_name),
    el("span", `tag ${metadata.difficulty}`, metadata.difficulty),
    el("span", "tag plain", metadata.question_id),
  );
  byId("hint").hidden = !metadata.hint;
  byId("hint").textContent = metadata.hint ?? "";
  byId("verdict").hidden = true;
  byId("result-note").textContent = "";
  byId("result").replaceChildren(
    el("p", "empty", "Describe a table to see its columns, sample it to see some rows, then write a query."),
  );
  byId("history").replaceChildren();
  showTables(observation.table_names);
  showScore(observation.budget_remaining);
}

function showTables(names) {
  const open = document.activeElement?.dataset?.look;
  byId("tables").replaceChildren(
    ...names.map((name) => {
      const schema = game.schemas.get(name);
      const chip = el("div", "chip", el("span", "table-name", name));
      const looks = el("span", "looks");
      for (const [kind, label] of [["DESCRIBE", "describe"], ["SAMPLE", "sample"]]) {
        const button = el("button", "look", label);
        button.type = "button";
        button.dataset.look = `${kind} ${name}`;
        button.setAttribute("aria-label", `${label} ${name}`);
        button.addEventListener("click", () => play(kind, name));
        looks.append(button);
      }
      chip.append(looks);
      return el("li", "", chip, ...(schema ? [drawSchema(schema, insert)] : []));
    }),
  );
  enable();
  if (open) document.querySelector(`[data-look="${CSS.escape(open)}"]`)?.focus({ preventScroll: true });
}

function showResult(kind, argument, observation) {
  const { details } = observation.metadata;
  byId("result-note").textContent = kind === "ANSWER" ? "" : `${kind} ${shorten(argument)}`;
  if (!observation.error && details.grid) {
    const rows = details.grid.row_count;
    byId("result-note").prepend(`${rows.toLocaleString("en")} ${rows === 1 ? "row" : "rows"} · `);
  }
  byId("result").replaceChildren(drawResult(observation));
  if (kind === "SAMPLE" || kind === "QUERY") bringIntoView(byId("result").parentElement);
}

// On a phone the result lies below the fold.
function bringIntoView(card) {
  const { top, bottom } = card.getBoundingClientRect();
  if (top > innerHeight - 120 || bottom < 60) card.scrollIntoView({ block: "center" });
}

function showScore(remaining) {
  const used = game.budget - remaining;
  byId("budget-text").textContent = `${remaining} of ${game.budget} left`;
  drawBudget(byId("budget"), used, game.budget);
  drawChart(byId("chart"), game.steps, game.budget);
  const total = game.steps.reduce((sum, step) => sum + step.reward, 0);
  byId("total").textContent = signed(total);
  byId("history").replaceChildren(...game.steps.map((step) => drawStep(step, reuse)));
  byId("history").scrollTop = byId("history").scrollHeight;
}

function showVerdict(observation) {
  const { correct, verdict, stop_reason: reason, details } = observation.metadata;
  const steps = game.steps.length;
  const panel = byId("verdict");
  panel.className = `verdict card ${correct ? "right" : "wrong"}`;
  byId("verdict-title").textContent = correct
    ? `Correct, in ${steps} ${steps === 1 ? "step" : "steps"}`
    : reason === "out_of_budget"
      ? "Out of steps"
      : "Not correct";
  byId("verdict-reason").textContent = verdict ?? "The budget ended before an answer was given.";
  byId("gold").hidden = !details.gold;
  if (details.gold) {
    paintSql(byId("gold-sql"), details.gold.sql);
    byId("gold-grid").replaceChildren(drawGrid(details.gold));
  }
  panel.hidden = false;
  byId("verdict-title").focus();
}

function showNotice(error) {
  const notice = byId("notice");
  notice.replaceChildren(error.message);
  if (error.sessionLost && game && !game.done) {
    const again = el("button", "", "Begin this question again");
    again.type = "button";
    again.addEventListener("click", () => begin({ question_id: game.metadata.question_id }));
    notice.append(" ", again);
  }
  notice.hidden = false;
}

// A button that is switched off loses the focus, so none is while the server thinks: see `play`.
function enable() {
  const playing = game !== null && !game.done;
  for (const button of document.querySelectorAll("#tables .look, #run, #submit")) {
    button.disabled = !playing;
  }
  byId("use-last").disabled = !(playing && game.hasResult && game.metadata.allow_last);
}

// -- the editor ----------------------------------------------------------------------------------

function repaint() {
  paintSql(byId("paint"), byId("editor").value);
}

function insert(text) {
  const editor = byId("editor");
  editor.setRangeText(text, editor.selectionStart, editor.selectionEnd, "end");
  editor.focus();
  repaint();
}

function reuse(sql) {
  byId("editor").value = sql;
  byId("editor").focus();
  repaint();
}

function fitAnswer() {
  const answer = byId("answer");
  answer.rows = Math.min(6, answer.value.split("\n").length);
}

function shorten(text, length = 60) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length)}…` : line;
}

// -- events --------------------------------------------------------------------------------------

function run() {
  const sql = byId("editor").value.trim();
  if (sql) play("QUERY", sql);
}

function answer() {
  const text = byId("answer").value.trim();
  if (text) play("ANSWER", text);
}

byId("query").addEventListener("submit", (event) => (event.preventDefault(), run()));
byId("answer-form").addEventListener("submit", (event) => (event.preventDefault(), answer()));
byId("choose").addEventListener("submit", (event) => (event.preventDefault(), beginChosen()));
byId("again").addEventListener("click", beginChosen);
byId("use-last").addEventListener("click", () => play("ANSWER", "@last"));
byId("editor").addEventListener("input", repaint);
byId("editor").addEventListener("scroll", () => {
  byId("paint").scrollTop = byId("editor").scrollTop;
  byId("paint").scrollLeft = byId("editor").scrollLeft;
});
byId("answer").addEventListener("input", fitAnswer);
byId("answer").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
    event.preventDefault();
    answer();
  }
});
window.addEventListener("hashchange", beginLinked);
document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault(); // the address names the question
  byId(stage.isOpen ? "play" : "editor").focus();
});
byId("help").addEventListener("click", () => byId("help-dialog").showModal());
byId("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme
    ? root.dataset.theme === "dark"
    : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("sql-env-theme", root.dataset.theme);
});
document.addEventListener("keydown", (event) => {
  const typing = event.target.matches("input, textarea, select");
  if ((event.ctrlKey || event.metaKey) && event.key === "Enter") {
    event.preventDefault();
    run();
  } else if (event.altKey && !event.ctrlKey) {
    const act = {
      KeyQ: () => byId("editor").focus(),
      KeyA: () => byId("answer").focus(),
      KeyL: () => byId("use-last").click(),
      KeyN: () => byId("next").click(),
      KeyP: () => byId("play").click(),
    }[event.code];
    if (act) event.preventDefault();
    act?.();
  } else if (event.key === "?" && !typing) {
    byId("help-dialog").showModal();
  }
});

// -- the start -----------------------------------------------------------------------------------

async function start() {
  const catalogue = await (await fetch("/web/catalogue")).json();
  const fill = (id, items) => {
    for (const [value, count] of items) {
      const option = el("option", "", count === undefined ? value : `${value} (${count})`);
      option.value = value;
      byId(id).append(option);
    }
  };
  const sum = (counts) => Object.values(counts).reduce((total, count) => total + count, 0);
  fill("database", catalogue.databases.map(({ name, questions }) => [name, sum(questions)]));
  fill("difficulty", catalogue.difficulties.map((name) => [name]));
  stage.offer(catalogue.policies, catalogue.more_policies);
  byId("reward-note").hidden = !catalogue.pays_at_the_end;
  await beginLinked();
  if (game) return;
  const refused = byId("notice").textContent;
  await beginChosen();
  if (game && refused) showNotice(new Error(`${refused}. Here is another one.`));
}

/** The question that the address names. */
async function beginLinked() {
  const asked = decodeURIComponent(location.hash.slice(1));
  if (asked && asked === game?.metadata.question_id) byId("notice").hidden = true;
  else if (asked) await begin({ question_id: asked });
}

start().catch(showNotice);
