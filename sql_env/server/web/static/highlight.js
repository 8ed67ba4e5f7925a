// Paints SQL: text in, <span> elements out. The text is never parsed as HTML.

const KEYWORDS = new Set(
  `select from where and or not in is null like glob between exists case when then else end as
  distinct all group by having order asc desc limit offset join inner left right full outer cross
  natural on using union intersect except with recursive values collate cast over partition rows
  range preceding following current row unbounded filter nulls first last escape`.split(/\s+/),
);
const TOKENS = new RegExp(
  [
    String.raw`(?<comment>--[^\n]*|/\*[\s\S]*?(?:\*/|$))`,
    String.raw`(?<string>'(?:[^']|'')*'?)`,
    String.raw`(?<name>"(?:[^"]|"")*"?|\x60[^\x60]*\x60?|\[[^\]\n]*\]?)`,
    String.raw`(?<number>\b\d+(?:\.\d+)?(?:[eE][+-]?\d+)?\b)`,
    String.raw`(?<word>[A-Za-z_][\w$]*)`,
  ].join("|"),
  "g",
);

/** Fill `element` with `sql`, one span per token that has a colour. */
export function paintSql(element, sql) {
  const painted = document.createDocumentFragment();
  let end = 0;
  for (const match of sql.matchAll(TOKENS)) {
    painted.append(sql.slice(end, match.index));
    end = match.index + match[0].length;
    painted.append(token(match, sql[end] === "("));
  }
  // A last line that is empty would not be drawn, and the caret would stand below the paint.
  painted.append(sql.slice(end), "\n");
  element.replaceChildren(painted);
}

function token(match, isCall) {
  const text = match[0];
  let kind = Object.keys(match.groups).find((name) => match.groups[name] !== undefined);
  if (kind === "word") {
    if (KEYWORDS.has(text.toLowerCase())) kind = "keyword";
    else if (isCall) kind = "function";
    else return text;
  }
  const span = document.createElement("span");
  span.className = `t-${kind}`;
  span.textContent = text;
  return span;
}
