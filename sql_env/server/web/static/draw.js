// Turns data into elements. Text goes in as text: nothing that comes from a database, a question or
// the server is ever read as HTML.

export const PARTS = ["operational", "progress", "terminal"];

/** An element with a class and children. */
export function el(tag, className, ...children) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  element.append(...children);
  return element;
}

export function signed(value, digits = 3) {
  const text = Math.abs(value).toFixed(digits);
  if (Number(text) === 0) return (0).toFixed(digits);
  return (value < 0 ? "−" : "+") + text;
}

/** A result as a table with a head that stays and numbers to the right. */
export function drawGrid({ columns, rows, row_count }) {
  if (row_count === 0) {
    return el("p", "empty", `No rows. Columns: ${columns.join(", ")}`);
  }
  const head = el("tr", "", el("td", "row-number"));
  for (const name of columns) {
    const cell = el("th", "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const body = el("tbody");
  rows.forEach((row, index) => {
    const line = el("tr", "", el("td", "row-number", String(index + 1)));
    line.append(...row.map(drawCell));
    body.append(line);
  });
  const parts = [el("table", "", el("thead", "", head), body)];
  if (rows.length < row_count) {
    parts.push(el("p", "quiet more", `the first ${rows.length} of ${row_count.toLocaleString("en")} rows`));
  }
  const fragment = document.createDocumentFragment();
  fragment.append(...parts);
  return fragment;
}

function drawCell(value) {
  if (value === null) return el("td", "null", "NULL");
  if (typeof value === "number") return el("td", "number", String(value));
  return el("td", "", value);
}

/** The columns of a described table. */
export function drawSchema(schema, onColumn) {
  const rows = `${schema.row_count.toLocaleString("en")} ${schema.row_count === 1 ? "row" : "rows"}`;
  const list = el("ul", "columns", el("li", "rows", rows));
  for (const column of schema.columns) {
    const key = schema.foreign_keys.find((item) => item.column === column.name);
    const name = el("button", "column", column.name);
    name.type = "button";
    name.title = "Put it into the query";
    name.addEventListener("click", () => onColumn(column.sql));
    const item = el("li", "", name, el("span", "type", column.type || "any"));
    if (column.primary_key) item.append(el("span", "key", "key"));
    if (key) {
      const target = key.references ? `${key.table}.${key.references}` : key.table;
      item.append(el("span", "reference", `→ ${target}`));
    }
    list.append(item);
  }
  return list;
}

/** What came of an action; `label` says to a screen reader whose rows they are. */
export function drawResult({ error, result, metadata }, label = "Rows of the result") {
  if (error) return el("pre", "error", error);
  if (!metadata.details.grid) return el("pre", "plain", result);
  const shown = el("div", "grid", drawGrid(metadata.details.grid));
  shown.tabIndex = 0;
  shown.setAttribute("role", "region");
  shown.setAttribute("aria-label", label);
  return shown;
}

/** One segment per step: how many are gone. */
export function drawBudget(meter, used, budget) {
  meter.setAttribute("aria-valuemax", budget);
  meter.setAttribute("aria-valuenow", used);
  meter.setAttribute("aria-valuetext", `${used} of ${budget} steps used`);
  meter.classList.toggle("low", budget - used <= 3 && used > 0);
  meter.replaceChildren(
    ...Array.from({ length: budget }, (_, index) => el("i", index < used ? "used" : "")),
  );
}

/** Three bars a step. The height grows with the square root, so that 0.015 shows beside 1. */
export function drawChart(chart, steps, budget) {
  const slots = Array.from({ length: budget }, (_, index) => {
    const slot = el("div", "slot");
    const parts = steps[index]?.parts;
    for (const name of PARTS) {
      const value = parts?.[name] ?? 0;
      const bar = el("i", `${name} ${value < 0 ? "below" : "above"}`);
      bar.style.setProperty("--height", String(Math.min(1, Math.sqrt(Math.abs(value)))));
      slot.append(bar);
    }
    if (parts) {
      slot.title = PARTS.map((name) => `${name} ${signed(parts[name])}`).join("\n");
    }
    return slot;
  });
  chart.replaceChildren(...slots);
  chart.setAttribute(
    "aria-label",
    steps.length
      ? steps.map((step, index) => `step ${index + 1}: ${signed(step.reward)}`).join(", ")
      : "no steps yet",
  );
}

/** What an action is and what it earned; the name of a table has room beside it. */
export function drawStepHead(kind, table, reward) {
  const name = table ? [el("span", "argument", table)] : [];
  const earned = el("span", "sum", signed(reward));
  return el("div", "step-head", el("span", `kind ${kind.toLowerCase()}`, kind), ...name, earned);
}

/** One line of the history; a query can be taken back into the editor. */
export function drawStep(step, onReuse) {
  const kind = el("span", `kind ${step.kind.toLowerCase()}`, step.kind);
  const text = el(step.kind === "QUERY" ? "button" : "span", "argument", step.argument);
  text.title = step.argument;
  if (step.kind === "QUERY") {
    text.type = "button";
    text.addEventListener("click", () => onReuse(step.argument));
  }
  const numbers = el("span", "numbers");
  for (const name of PARTS) {
    if (step.parts[name] !== 0) numbers.append(el("b", name, `${name} ${signed(step.parts[name])}`));
  }
  const sum = el("span", "sum", signed(step.reward));
  return el("li", step.failed ? "failed" : "", kind, text, sum, numbers);
}
