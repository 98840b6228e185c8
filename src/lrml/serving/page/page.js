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
  if (model.explains && request.rows.length === 1) request.explain = MOST_FEATURES;
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
  if (tag.features.length === MOST_FEATURES) list.append(shownFeature({ feature: model.takes === "texts" ? "other words" : "other features", contribution: others }, "rest"));
  list.append(shownFeature({ feature: "constant", contribution: tag.constant }, "rest"));
  return list;
}

/* Where a score lies on a bar, from 0 to 1: the same for every request, so that two texts can be compared. */
const SCALES = {
  squared: { share: (score) => score, ends: "0 to 1" },
  squared_hinge: { share: (score) => (1 + score) / 2, ends: "−1 to 1" },
  logistic: { share: (score) => 1 / (1 + Math.exp(-score)), ends: "a probability of 0 to one of 1" },
};

const place = (score) => `${100 * Math.min(1, Math.max(0, SCALES[model.fitted.params.loss].share(score)))}%`;

function shownTag(tag) {
  const item = element("li", tag.assigned ? "" : "below");
  const line = element("div", "line");
  line.append(element("span", "name", tag.tag));
  if (!tag.assigned) line.append(element("span", "unseen", "below the threshold"));
  if (tag.probability !== undefined) line.append(element("span", "probability", percent(tag.probability)));
  line.append(element("span", "score", number(tag.score)));
  const bar = element("div", "bar");
  const filled = element("span", "filled");
  filled.style.width = place(tag.score);
  const cut = element("span", "cut");
  cut.style.left = place(tag.threshold);
  bar.append(filled, cut);
  item.append(line, bar);
  if (tag.features) item.append(shownSum(tag));
  return item;
}

function show(predictions) {
  const results = byId("results");
  results.replaceChildren();
  predictions.forEach(({ tags, note }, row) => {
    if (predictions.length > 1) results.append(element("h2", "", `Row ${row + 1}`));
    if (note) results.append(element("p", "muted note", `${note[0].toUpperCase()}${note.slice(1)}.`));
    const list = element("ol", "tags");
    list.append(...tags.map(shownTag));
    results.append(list);
  });
  const cut = model.threshold === null ? "the threshold of the tag" : `the threshold, ${number(model.threshold)}`;
  const legend = `Bars show scores, always from ${SCALES[model.fitted.params.loss].ends}. The tick is ${cut}: the model does not assign tags in grey, whose scores are below it.`;
  results.append(element("p", "muted legend", legend));
  if (predictions[0].tags[0].features) {
    const what = model.takes === "texts" ? ["words", "texts"] : ["features", "rows"];
    const sum = `Below a tag: the ${what[0]} that spoke for it (+) or against it (−) most. Its score is the sum of all ${what[0]} and of a constant, which is the same for all ${what[1]}.`;
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
  const parts = [model.kind, ...model.in_words.slice(0, 2), `lrml ${model.lrml_version}`];
  byId("about").textContent = parts.join(" · ");
  byId("title").textContent = texts ? "Tags for a text" : "Tags for rows of features";
  const most = Math.min(model.n_labels, model.limits.max_k);
  byId("k").max = most;
  byId("k").value = Math.min(5, most);
  const given = byId("given");
  if (texts) {
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
