// Policies at work: one lane for each, side by side on one question.

import { drawBudget, drawResult, drawStepHead, el, signed } from "./draw.js";
import { paintSql } from "./highlight.js";

const byId = (id) => document.getElementById(id);
const ABOUT = {
  random: "looks and guesses",
  oracle: "knows the answer",
  constant: "always answers 0",
};

/** One policy's episode, over a connection of its own. The server plays a step when it is asked. */
class Lane {
  moves = []; // { kind, argument, data }: what was played and what came of it
  over = false;
  opening = null; // the observation that the episode began with
  #resolve = null; // of the step that was asked for

  constructor(policy, question, onTakeOver) {
    this.policy = policy;
    this.onTakeOver = onTakeOver;
    this.total = el("output", "lane-total", "0.000");
    this.meter = el("div", "meter");
    this.meter.setAttribute("role", "meter");
    this.meter.setAttribute("aria-label", "Steps");
    this.steps = el("span", "");
    this.list = el("ol", "moves");
    this.list.setAttribute("aria-live", "polite");
    this.thought = el("pre", "writing");
    this.thought.hidden = true;
    const score = el("span", "lane-score", this.steps, " reward ", this.total);
    const head = el("div", "label-row", el("h2", "", policy), score);
    this.scroll = el("div", "lane-scroll", this.list, this.thought);
    this.scroll.tabIndex = 0;
    this.element = el("article", "lane card", head, this.meter, this.scroll);
    this.element.setAttribute("aria-label", policy);

    const scheme = location.protocol === "https:" ? "wss" : "ws";
    const asked = new URLSearchParams({ policy, question });
    this.socket = new WebSocket(`${scheme}://${location.host}/web/watch?${asked}`);
    this.began = new Promise((resolve) => (this.#resolve = resolve));
    this.socket.addEventListener("message", (event) => this.#receive(JSON.parse(event.data)));
    this.socket.addEventListener("close", () => this.#end("The connection to the server is gone."));
  }

  /** Ask for one step; resolves when it was played, or when there are no more. */
  async next() {
    await this.began;
    if (this.over || this.#resolve) return;
    this.#think("…");
    await new Promise((resolve) => {
      this.#resolve = resolve;
      this.socket.send("next");
    });
  }

  close() {
    this.over = true;
    this.socket.close();
    this.#answered();
  }

  #receive({ type, data }) {
    if (type === "observation") {
      this.opening = data.observation;
      this.#count(this.opening);
      this.#answered();
    } else if (type === "waiting") {
      this.#think(data.ahead === 1 ? "waiting: 1 turn before this one" : `waiting: ${data.ahead} turns before this one`);
    } else if (type === "writing") {
      this.#think(data.text);
    } else if (type === "step") {
      this.#show(data);
      this.#answered();
    } else {
      this.#end(data.message);
    }
  }

  #answered() {
    this.#resolve?.();
    this.#resolve = null;
  }

  #think(text) {
    this.thought.textContent = text;
    this.thought.hidden = false;
    this.#scrollDown();
  }

  #show(data) {
    const { action, said, observation, reward, done } = data;
    const { action_type: kind, argument } = action;
    const move = { kind, argument, data };
    this.moves.push(move);
    this.thought.hidden = true;
    this.over = done;
    const table = kind === "DESCRIBE" || kind === "SAMPLE" ? argument : "";
    const head = drawStepHead(kind, table, reward);
    const item = el("li", observation.error ? "move failed" : "move", head);
    if (!table) {
      const shown = el("pre", "sql");
      if (kind === "QUERY") paintSql(shown, argument);
      else shown.textContent = argument;
      item.append(shown);
    }
    if (said && said.trim() !== `${kind}: ${argument}`) {
      item.append(el("details", "said", el("summary", "", "What it wrote"), el("pre", "plain", said)));
    }
    const label = `Rows of step ${this.moves.length}, ${this.policy}`;
    item.append(done ? drawVerdict(observation) : drawResult(observation, label));
    if (!done) {
      const moves = [...this.moves];
      const button = el("button", "take-over", "Take over from here");
      button.type = "button";
      button.addEventListener("click", () => this.onTakeOver(this.opening, moves));
      item.append(button);
    }
    this.list.append(item);
    this.#count(observation);
    this.total.textContent = signed(this.moves.reduce((sum, { data }) => sum + data.reward, 0));
    this.#scrollDown();
  }

  #count({ budget_remaining: left }) {
    const { budget_remaining: budget } = this.opening;
    drawBudget(this.meter, budget - left, budget);
    this.steps.textContent = `${left} of ${budget} steps left ·`;
  }

  #end(message) {
    if (!this.over) {
      this.thought.hidden = true;
      this.list.append(el("li", "move", el("p", "error", message)));
      this.#scrollDown();
    }
    this.over = true;
    this.#answered();
  }

  #scrollDown() {
    this.scroll.scrollTop = this.scroll.scrollHeight;
  }
}

function drawVerdict(observation) {
  const { correct, verdict, stop_reason: reason, details } = observation.metadata;
  const said = correct ? "Correct" : reason === "out_of_budget" ? "Out of steps" : "Not correct";
  const panel = el("div", `lane-verdict ${correct ? "right" : "wrong"}`, el("strong", "", said));
  if (verdict) panel.append(el("p", "", verdict));
  if (details.gold && !correct) {
    const gold = el("pre", "sql");
    paintSql(gold, details.gold.sql);
    panel.append(el("details", "", el("summary", "", "The gold query"), gold));
  }
  return panel;
}

/** The bar with the choice of policies, and the lanes below it. */
export class Stage {
  #lanes = [];
  #playing = false;

  /**
   * @param question gives the id of the question on the board
   * @param onTakeOver is told where a person goes on: the first observation and the moves since
   */
  constructor(question, onTakeOver) {
    this.question = question;
    this.onTakeOver = onTakeOver;
    byId("watch").addEventListener("submit", (event) => (event.preventDefault(), this.toggle()));
    byId("step").addEventListener("click", () => this.step());
    byId("leave").addEventListener("click", () => (this.close(), byId("play").focus()));
    for (const id of ["policy", "beside"]) {
      byId(id).addEventListener("change", () => this.isOpen && this.open());
    }
  }

  get isOpen() {
    return this.#lanes.length > 0;
  }

  offer(policies, more) {
    for (const id of ["policy", "beside"]) {
      byId(id).append(
        ...policies.map((name) => new Option(ABOUT[name] ? `${name}: ${ABOUT[name]}` : name, name)),
      );
    }
    byId("more-policies").textContent = more;
    byId("more-policies").hidden = !more;
  }

  /** Begin the question on the board anew, with the policies that are chosen. */
  open() {
    this.close();
    const policies = [byId("policy").value, byId("beside").value].filter(Boolean);
    const question = this.question();
    if (!question) return;
    this.#lanes = policies.map((policy) => new Lane(policy, question, this.onTakeOver));
    byId("stage").replaceChildren(...this.#lanes.map((lane) => lane.element));
    byId("stage").hidden = false;
    byId("board").classList.add("watching");
    this.#update();
  }

  close() {
    for (const lane of this.#lanes) lane.close();
    this.#lanes = [];
    this.#playing = false;
    byId("stage").hidden = true;
    byId("board").classList.remove("watching");
    this.#update();
  }

  toggle() {
    if (this.#playing) {
      this.#playing = false;
    } else {
      this.#begin();
      this.#playing = this.isOpen;
      for (const lane of this.#lanes) this.#run(lane);
    }
    this.#update();
  }

  async step() {
    this.#playing = false;
    this.#begin();
    await Promise.all(this.#lanes.map((lane) => lane.next()));
    this.#update();
  }

  #begin() {
    if (!this.#lanes.every((lane) => lane.over)) return;
    this.open();
    // On a phone the lanes lie below the fold.
    if (matchMedia("(max-width: 700px)").matches) byId("speed").scrollIntoView();
  }

  async #run(lane) {
    if (lane.running) return; // it was paused and goes on before it had noticed
    lane.running = true;
    while (this.#playing && !lane.over) {
      await lane.next();
      if (lane.over) break;
      await new Promise((resolve) => setTimeout(resolve, Number(byId("speed").value)));
    }
    lane.running = false;
    if (this.#lanes.every((other) => other.over)) this.#playing = false;
    this.#update();
  }

  #update() {
    const over = this.isOpen && this.#lanes.every((lane) => lane.over);
    byId("play").textContent = this.#playing ? "Pause" : over ? "Play again" : "Play";
    byId("leave").hidden = !this.isOpen;
  }
}
