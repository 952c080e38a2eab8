"use strict";
(() => {
  const mark = document.getElementById("refresh");
  if (!mark) { return; }
  const key = "hami-plugins-open:" + location.pathname + location.search;
  const groups = Array.from(document.querySelectorAll("details.group"));
  const name = (group) => group.querySelector("h3").textContent;
  try {
    const open = JSON.parse(sessionStorage.getItem(key));
    if (Array.isArray(open)) { groups.forEach((group) => { group.open = open.includes(name(group)); }); }
  } catch { /* nothing was kept */ }
  const search = document.getElementById("search");
  const show = document.getElementById("show");
  const busy = () => document.hidden || search.value !== "" || show.value !== "all" || String(getSelection()) !== "";
  setInterval(() => {
    if (busy()) { return; }
    try { sessionStorage.setItem(key, JSON.stringify(groups.filter((group) => group.open).map(name))); } catch { /* is closed again */ }
    location.reload();
  }, Number(mark.dataset.seconds) * 1000);
})();
