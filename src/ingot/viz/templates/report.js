// SPDX-License-Identifier: Apache-2.0
// What a click does: choose kernels, show their code, sort a table.
"use strict";
const programs = JSON.parse(document.getElementById("data").textContent);
const STAGES = { hlo: "HLO", kernel_ir: "Kernel IR", schedule: "Schedule", llvm_ir: "LLVM IR" };
const MOST_LINKS = 12;
let stage = "hlo";

function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes || {})) {
    if (name === "onclick") made.addEventListener("click", value);
    else made.setAttribute(name, value);
  }
  made.append(...children);
  return made;
}

function numbersOf(node) { return node.dataset.kernels.split(",").map(Number); }

function choose(article, numbers, heading) {
  const program = programs[article.dataset.program];
  const chosen = new Set(numbers);
  for (const node of article.querySelectorAll("[data-kernels]")) {
    const isOn = numbersOf(node).some((number) => chosen.has(number));
    node.classList.toggle("on", isOn);
    if (node.getAttribute("role") === "button") node.setAttribute("aria-pressed", String(isOn));
  }
  const kernels = numbers.map((number) => program.kernels[number]);
  const target = article.querySelector(".chosen");
  target.replaceChildren();
  if (heading) target.append(element("p", {}, heading));
  if (kernels.length > 1) target.append(kernelLinks(article, numbers));
  else showKernel(article, program, kernels[0], target);
}

function kernelLinks(article, numbers) {
  const row = element("div", { class: "links" });
  const add = (more) => row.append(...more.map((number) => kernelLink(article, number)));
  add(numbers.slice(0, MOST_LINKS));
  const rest = numbers.slice(MOST_LINKS);
  if (!rest.length) return row;
  const open = element("button", { type: "button" }, `and ${rest.length} more`);
  open.addEventListener("click", () => { open.remove(); add(rest); row.children[MOST_LINKS].focus(); });
  row.append(open);
  return row;
}

function kernelLink(article, number) {
  const program = programs[article.dataset.program];
  const label = `#${number} ${program.kernels[number].instruction}`;
  return element("button", { type: "button", onclick: () => choose(article, [number]) }, label);
}

function showKernel(article, program, kernel, target) {
  target.append(element("p", {}, element("b", {}, `#${kernel.number} ${kernel.instruction}`),
    ` (${kernel.name}, ${kernel.kind})`));
  if (kernel.op_name) target.append(element("p", { class: "quiet" }, kernel.op_name));
  const lines = element("div", { class: "links" });
  for (const line of program.lines.filter((one) => kernel.lines.includes(one.location))) {
    const pick = () => choose(article, line.kernels, `Kernels of ${line.location}: ${line.text}`);
    lines.append(element("span", {},
      element("button", { type: "button", onclick: pick }, line.location), " ",
      element("code", {}, line.text)));
  }
  target.append(lines);
  const users = kernel.feeds, sources = program.kernels.filter((k) => k.feeds.includes(kernel.number));
  for (const [title, found] of [["Reads from", sources.map((k) => k.number)], ["Feeds", users]]) {
    if (!found.length) continue;
    const row = kernelLinks(article, found);
    row.prepend(element("span", { class: "quiet" }, title));
    target.append(row);
  }
  target.append(strategies(kernel));
  target.append(...codeTabs(program, kernel));
  const reasons = program.fusions.filter((one) => one.kernel === kernel.number);
  if (!reasons.length) return;
  const list = element("ul", { class: "quiet" });
  for (const one of reasons) {
    const verb = one.fused ? "fused into" : "not fused into";
    list.append(element("li", {}, `${one.producer} ${verb} ${one.consumer}: ${one.reason}`));
  }
  target.append(element("p", {}, element("b", {}, "Fusion")), list);
}

function strategies(kernel) {
  const list = element("ul", { class: "quiet" });
  for (const [name, reason] of kernel.refused) list.append(element("li", {}, `not ${name}: ${reason}`));
  const found = element("details", {}, element("summary", {}, `Strategy: ${kernel.strategy}`), list);
  return kernel.refused.length ? found : element("p", {}, `Strategy: ${kernel.strategy}`);
}

function codeTabs(program, kernel) {
  const code = element("pre", { tabindex: "0", role: "tabpanel", "aria-label": "Code" });
  const bar = element("div", { class: "tabs", role: "tablist", "aria-label": "Stages" });
  const show = (name) => {
    stage = name;
    code.textContent = program.texts[kernel[name]];
    for (const tab of bar.children) {
      const isOn = tab.dataset.stage === name;
      tab.setAttribute("aria-selected", String(isOn));
      tab.tabIndex = isOn ? 0 : -1;
    }
  };
  for (const [name, title] of Object.entries(STAGES)) {
    bar.append(element("button",
      { type: "button", role: "tab", "data-stage": name, onclick: () => show(name) }, title));
  }
  bar.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const tabs = [...bar.children];
    const next = tabs[(tabs.indexOf(event.target) + step + tabs.length) % tabs.length];
    show(next.dataset.stage);
    next.focus();
  });
  show(stage);
  return [bar, code];
}

function sort(header) {
  const row = header.parentElement, at = [...row.children].indexOf(header);
  const isUp = header.getAttribute("aria-sort") !== "ascending";
  for (const other of row.children) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", isUp ? "ascending" : "descending");
  const body = header.closest("table").tBodies[0];
  const value = (line) => line.cells[at].dataset.value ?? line.cells[at].textContent;
  const compare = (a, b) => a.localeCompare(b, "en", { numeric: true });
  const lines = [...body.rows].sort((a, b) => compare(value(a), value(b)) * (isUp ? 1 : -1));
  body.append(...lines);
}

for (const article of document.querySelectorAll("article")) {
  const pick = (node) => {
    const line = node.dataset.line;
    choose(article, numbersOf(node), line ? `Kernels of ${line}` : "");
    const detail = article.querySelector(".detail");
    detail.scrollIntoView({ block: "nearest" });
    detail.focus({ preventScroll: true });
  };
  for (const node of article.querySelectorAll("[data-kernels]")) {
    node.addEventListener("click", () => pick(node));
    node.addEventListener("keydown", (event) => {
      if (node.getAttribute("role") !== "button" || !["Enter", " "].includes(event.key)) return;
      event.preventDefault();
      pick(node);
    });
  }
  if (programs[article.dataset.program].kernels.length) choose(article, [0]);
}
for (const button of document.querySelectorAll(".sortable th button")) {
  button.addEventListener("click", () => sort(button.parentElement));
}
