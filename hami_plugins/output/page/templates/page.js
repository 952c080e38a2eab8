"use strict";
(() => {
  const root = document.documentElement;
  const all = (selector, within = document) => Array.from(within.querySelectorAll(selector));
  const one = (id) => document.getElementById(id);

  const tip = one("tip");
  let marked = [];
  const part = (target) => (target instanceof Element ? target.closest(".bar > b[aria-label]") : null);
  let told = null;
  const leave = () => { tip.hidden = true; told = null; marked.forEach((each) => each.classList.remove("same")); marked = []; };
  const place = () => {
    if (told === null) { return; }
    const box = told.getBoundingClientRect();
    const own = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, box.left + box.width / 2 - own.width / 2), window.innerWidth - own.width - 8);
    const above = box.top - own.height - 6;
    tip.style.left = left + "px";
    tip.style.top = (above > 4 ? above : box.bottom + 6) + "px";
  };
  const enter = (element) => {
    leave();
    told = element;
    tip.textContent = element.getAttribute("aria-label");
    tip.hidden = false;
    place();
    const pod = element.dataset.p;
    if (pod !== undefined) { marked = all('.bar > b[data-p="' + pod + '"]'); marked.forEach((each) => each.classList.add("same")); }
  };
  document.addEventListener("mouseover", (event) => { const found = part(event.target); if (found) { enter(found); } else { leave(); } });
  document.addEventListener("focusin", (event) => { const found = part(event.target); if (found) { enter(found); } else { leave(); } });
  document.addEventListener("scroll", place, { passive: true });

  const nodes = all(".node");
  const groups = all(".group");
  nodes.forEach((node) => { const first = node.querySelector(".bar > b"); if (first) { first.tabIndex = 0; } });
  const focusOn = (element) => {
    if (!element) { return; }
    const node = element.closest(".node");
    all(".bar > b[tabindex='0']", node).forEach((each) => { each.tabIndex = -1; });
    element.tabIndex = 0;
    element.focus();
  };
  const rows = (node) => all(".card .bar", node);
  const move = (element, key) => {
    const bar = element.parentElement;
    const node = element.closest(".node");
    const siblings = Array.from(bar.children);
    const at = siblings.indexOf(element);
    const beside = rows(node);
    const after = beside[beside.indexOf(bar) + 1];
    const before = beside[beside.indexOf(bar) - 1];
    if (key === "ArrowRight") { return siblings[at + 1] || (after ? after.children[0] : element); }
    if (key === "ArrowLeft") { return siblings[at - 1] || (before ? before.children[before.children.length - 1] : element); }
    if (key === "Home") { return siblings[0]; }
    if (key === "End") { return siblings[siblings.length - 1]; }
    const line = element.closest(".card");
    const next = key === "ArrowDown" ? line.nextElementSibling : line.previousElementSibling;
    if (next) { return next.querySelector(".bar > b"); }
    const shown = nodes.filter((each) => each.offsetParent !== null);
    const other = shown[shown.indexOf(node) + (key === "ArrowDown" ? 1 : -1)];
    if (!other) { return element; }
    const otherBars = rows(other);
    const target = key === "ArrowDown" ? otherBars[0] : otherBars[otherBars.length - 1];
    return target ? target.children[0] : element;
  };

  const search = one("search");
  const show = one("show");
  const found = one("found");
  const ids = (node) => all(".ix", node).map((each) => each.title).join(" ");
  const nodeText = nodes.map((node) => (node.dataset.t + " " + ids(node)).toLowerCase());
  let labels = null;
  let hits = [];
  let current = -1;
  const labelled = () => {
    if (labels === null) {
      labels = nodes.map((node) => all(".bar > b[data-p]", node).map((element) => [element, element.getAttribute("aria-label").split("\n")[0].toLowerCase()]));
    }
    return labels;
  };
  const count = (number, word) => number.toLocaleString("en") + " " + word + (number === 1 ? "" : "s");
  const apply = () => {
    const words = search.value.trim().toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = show.value;
    hits.forEach((element) => element.classList.remove("hit"));
    hits = [];
    current = -1;
    const pods = new Set();
    let visible = 0;
    nodes.forEach((node, at) => {
      let keep = wanted === "all" || node.dataset.f.includes(wanted);
      if (keep && words.length) {
        const matching = labelled()[at].filter(([, text]) => words.every((word) => text.includes(word)));
        matching.forEach(([element]) => { element.classList.add("hit"); hits.push(element); pods.add(element.dataset.p); });
        keep = matching.length > 0 || words.every((word) => nodeText[at].includes(word));
      }
      node.hidden = !keep;
      visible += keep ? 1 : 0;
    });
    const filtering = words.length > 0 || wanted !== "all";
    root.classList.toggle("searching", hits.length > 0);
    groups.forEach((group) => {
      const some = all(".node:not([hidden])", group).length;
      group.hidden = filtering && some === 0;
      if (filtering && some > 0 && visible <= 200) { group.open = true; }
    });
    all("tr[data-t]").forEach((row) => { row.hidden = words.length > 0 && !words.every((word) => row.dataset.t.toLowerCase().includes(word)); });
    found.textContent = filtering ? (words.length && pods.size ? count(pods.size, "pod") + " on " : "") + count(visible, "node") : "";
    one("none").hidden = !(filtering && visible === 0);
  };
  let waiting = 0;
  search.addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(apply, 90); });
  show.addEventListener("change", apply);
  const step = (by) => {
    clearTimeout(waiting);
    if (current === -1) { apply(); }
    if (!hits.length) { return; }
    current = (current + by + hits.length) % hits.length;
    reveal(hits[current]);
    enter(hits[current]);
  };
  const reveal = (element) => {
    const group = element.closest("details.group");
    if (group) { group.open = true; }
    element.scrollIntoView({ block: "center" });
  };
  search.addEventListener("keydown", (event) => {
    if (event.key === "Enter") { event.preventDefault(); step(event.shiftKey ? -1 : 1); }
    if (event.key === "Escape") { search.value = ""; apply(); leave(); }
  });
  document.addEventListener("keydown", (event) => {
    if (event.altKey || event.ctrlKey || event.metaKey) { return; }
    const typing = event.target instanceof Element && event.target.closest("input, select, textarea");
    if (event.key === "/" && !typing) { event.preventDefault(); search.focus(); search.select(); return; }
    if (event.key === "Escape") { leave(); }
    const element = part(event.target);
    if (element && ["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) {
      event.preventDefault();
      focusOn(move(element, event.key));
    }
  });
  one("open").addEventListener("click", () => groups.forEach((group) => { group.open = true; }));
  one("close").addEventListener("click", () => groups.forEach((group) => { group.open = false; }));
  const follow = () => {
    const target = location.hash.length > 1 ? one(decodeURIComponent(location.hash.slice(1))) : null;
    if (target && target.matches(".node")) { target.hidden = false; reveal(target); }
  };
  window.addEventListener("hashchange", follow);
  follow();
  document.querySelectorAll(".needs-script").forEach((each) => { each.hidden = false; });
})();
