"use strict";
const MOST_FIELDS = 200;
const UNITS = { date: " (date)", time: " (time of day)", duration: " (seconds)" };
const form = document.querySelector("form");
const answer = document.getElementById("answer");

function add(parent, element, words, attributes = {}) {
  const made = document.createElement(element);
  if (words !== undefined) made.textContent = words;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  parent.append(made);
  return made;
}

function shown(value) {
  if (Array.isArray(value)) return value.map(shown).join(", ");
  return typeof value === "number" ? String(Number(value.toPrecision(6))) : value === null ? "∞" : String(value);
}

function describe(model) {
  document.title = model.file + " · squeak";
  document.querySelector("h1").textContent = model.file;
  const facts = { Model: model.model, Columns: model.columns.length, Answers: model.answers.join(", ") };
  for (const [name, value] of Object.entries(facts)) {
    const fact = add(document.querySelector("dl"), "div");
    add(fact, "dt", name);
    add(fact, "dd", value);
  }
  const named = model.rows === "objects";
  document.querySelector("pre").textContent =
    `curl ${location.origin}/predict -H 'Content-Type: application/json' -d '{"rows": [${named ? "{...}" : "[...]"}]}'\n` +
    `curl ${location.origin}/model     # the columns of a row, and what is answered\n` +
    `curl ${location.origin}/health`;
  if (model.columns.length > MOST_FIELDS) {
    form.replaceChildren("There are too many columns to type a row in.");
    return;
  }
  const button = form.lastElementChild;
  const fields = model.columns.map((column, place) => {
    const label = add(form, "label");
    add(label, "span", column.name + (UNITS[column.kind] || ""));
    const number = column.kind === "number" || column.kind === "duration";
    const field = add(label, "input", undefined, { name: column.name, autocomplete: "off", type: number ? "number" : "text" });
    if (number) field.step = "any";
    field.value = column.typical === undefined ? "" : shown(column.typical);
    if (column.values) {
      const list = add(label, "datalist", undefined, { id: "values-" + place });
      for (const value of column.values) add(list, "option", undefined, { value });
      field.setAttribute("list", list.id);
    }
    return () => (field.value.trim() === "" ? null : number ? Number(field.value) : field.value);
  });
  form.append(button);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const values = fields.map((read) => read());
    ask(named ? Object.fromEntries(model.columns.map((column, place) => [column.name, values[place]])) : values);
  });
}

async function ask(row) {
  answer.replaceChildren();
  try {
    const headers = { "Content-Type": "application/json" };
    const response = await fetch("predict", { method: "POST", headers, body: JSON.stringify({ rows: [row] }) });
    const found = await response.json();
    if (response.ok) tell(found);
    else add(answer, "p", found.error, { class: "error" });
  } catch (error) {
    add(answer, "p", "The server does not answer: " + error.message, { class: "error" });
  }
}

function tell(found) {
  add(answer, "p", "Prediction: " + shown(found.predictions[0]));
  if (found.low) {
    const interval = shown(found.low[0]) + " to " + shown(found.high[0]);
    add(answer, "p", Math.round(100 * found.coverage) + "% interval: " + interval);
  }
  if (found.probabilities) {
    const sorted = Object.entries(found.probabilities[0]).sort((one, other) => other[1] - one[1]).slice(0, 10);
    const words = sorted.map(([name, part]) => name + " " + (100 * part).toFixed(1) + "%");
    add(answer, "p", "Probabilities: " + words.join(", "));
  }
  for (const words of found.warnings || []) add(answer, "p", words, { class: "quiet" });
}

fetch("model").then((response) => response.json()).then(describe);
