"use strict";

/* Everything that comes from the server or the reader is shown as text, never as HTML. */
const byId = (id) => document.getElementById(id);
const MOST_FEATURES = 5;
let model = null;
let asked = 0; // a late answer to an earlier question is dropped

function element(kind, className, text) {
  const made = document.createElement(kind);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function number(value, signed = false) {
  const text = Math.abs(value).toFixed(3);
  const sign = value < 0 && Number(text) !== 0 ? "−" : signed ? "+" : "";
  return sign + text;
}

const percent = (share) => `${(100 * share).toFixed(1)} %`;

async function ask(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw new Error("The server does not answer. Is it still running?");
  }
  const answer = await response.json().catch(() => ({ error: `The server answered with status ${response.status}.` }));
  if (!response.ok) throw new Error(answer.error);
  return answer;
}

function question() {
  const request = { k: Number(byId("k").value) };
  if (model.takes === "texts") {
    request.texts = [byId("given").value];
    if (model.explains) request.explain = MOST_FEATURES;
    return request;
  }
  try {
    request.rows = JSON.parse(byId("given").value);
  } catch (error) {
    throw new Error(`Rows must be JSON: ${error.message}.`);
  }
  return request;
}

function shownFeature({ feature, contribution }, kind = contribution < 0 ? "against" : "for") {
  const item = element("li", kind);
  item.append(element("span", "", feature), element("span", "", number(contribution, true)));
  return item;
}

/* Contributions, and what is missing from them to the score: other words, and the constant of the tag. */
function shownSum(tag) {
  const list = element("ul", "features");
  list.setAttribute("aria-label", `What spoke for ${tag.tag}, or against it`);
  list.append(...tag.features.map((one) => shownFeature(one)));
  const others = tag.features.reduce((rest, one) => rest - one.contribution, tag.score - tag.constant);
  if (tag.features.length === MOST_FEATURES) list.append(shownFeature({ feature: "other words", contribution: others }, "rest"));
  list.append(shownFeature({ feature: "constant", contribution: tag.constant }, "rest"));
  return list;
}

function shownTag(tag, low, high) {
  const item = element("li", tag.assigned ? "" : "below");
  const line = element("div", "line");
  const value = tag.probability === undefined ? number(tag.score) : percent(tag.probability);
  line.append(element("span", "name", tag.tag), element("span", "score", value));
  const bar = element("div", "bar");
  const filled = element("span");
  const share = tag.probability === undefined ? (tag.score - low) / (high - low || 1) : tag.probability;
  filled.style.width = `${100 * Math.min(1, Math.max(0, share))}%`;
  bar.append(filled);
  item.append(line, bar);
  if (!tag.assigned) line.append(element("span", "unseen", "below the threshold"));
  if (tag.features) item.append(shownSum(tag));
  return item;
}

function show(predictions) {
  const results = byId("results");
  results.replaceChildren();
  predictions.forEach(({ tags, note }, place) => {
    if (predictions.length > 1) results.append(element("h2", "", `Row ${place + 1}`));
    if (note) results.append(element("p", "muted note", `${note[0].toUpperCase()}${note.slice(1)}.`));
    const scores = tags.map((tag) => tag.score);
    const low = Math.min(0, ...scores);
    const high = Math.max(1, ...scores);
    const list = element("ol", "tags");
    list.append(...tags.map((tag) => shownTag(tag, low, high)));
    results.append(list);
  });
  if (predictions.some(({ tags }) => tags.some((tag) => !tag.assigned))) {
    const cut = model.threshold;
    const shown = model.loss === "logistic" ? percent(1 / (1 + Math.exp(-cut))) : number(cut);
    const legend = "In grey: tags that the model does not assign, because they are below its threshold";
    results.append(element("p", "muted legend", cut === null ? `${legend} for the tag.` : `${legend} of ${shown}.`));
  }
  if (model.explains) {
    const sum = "Below a tag: the words that spoke for it (+) or against it (−) most. Its score is the sum of all words and of a constant, which is the same for all texts.";
    results.append(element("p", "muted", sum));
  }
  results.hidden = false;
}

function complain(error) {
  byId("trouble").textContent = error.message;
  byId("trouble").hidden = false;
}

async function send(event) {
  event.preventDefault();
  const mine = ++asked;
  byId("trouble").hidden = true;
  byId("status").textContent = "…";
  try {
    const body = JSON.stringify(question());
    const answer = await ask("/predict", { method: "POST", headers: { "Content-Type": "application/json" }, body });
    if (mine === asked) show(answer.predictions);
  } catch (error) {
    if (mine !== asked) return;
    byId("results").hidden = true;
    complain(error);
  } finally {
    if (mine === asked) byId("status").textContent = "";
  }
}

function exampleRow() {
  const names = model.features || ["0", "1"];
  return JSON.stringify([Object.fromEntries(names.slice(0, 2).map((name) => [name, 1.0]))]);
}

function introduce() {
  const texts = model.takes === "texts";
  const count = (n, word) => `${n.toLocaleString("en")} ${word}${n === 1 ? "" : "s"}`;
  const kind = model.model ? `${model.kind} with ${model.model}` : model.kind;
  byId("about").textContent = [
    kind, count(model.n_labels, "tag"), count(model.n_features, "feature"), `rank ${model.rank}`, `lrml ${model.lrml_version}`,
  ].map((part) => part.replaceAll(" ", "\u00a0")).join(" · ");
  byId("title").textContent = texts ? "Tags for a text" : "Tags for rows of features";
  const most = Math.min(model.n_labels, model.limits.max_k);
  byId("k").max = most;
  byId("k").value = Math.min(5, most);
  const given = byId("given");
  if (texts) {
    given.maxLength = model.limits.max_text;
    given.spellcheck = true;
    given.placeholder = "Paste a text here";
  } else {
    byId("given-label").textContent = "Rows, as a JSON list: numbers of all features, or those that are not zero";
    given.className = "code";
    given.value = exampleRow();
  }
  const body = texts ? '{"texts": ["a text", "another"], "k": 3}' : `{"rows": ${exampleRow()}, "k": ${Math.min(3, most)}}`;
  byId("call").textContent = `curl ${location.origin}/predict -H 'Content-Type: application/json' \\\n  -d '${body.replaceAll("'", "'\\''")}'`;
}

byId("form").addEventListener("submit", send);
byId("given").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) byId("form").requestSubmit();
});
ask("/model").then((answer) => {
  model = answer;
  introduce();
}).catch(complain).finally(() => {
  byId("send").disabled = model === null;
});
