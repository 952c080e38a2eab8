"use strict";
(() => {
  const root = document.documentElement;
  const themes = ["auto", "light", "dark"];
  const remember = (value) => { try { localStorage.setItem("hami-plugins-theme", value); } catch { /* a file has no storage */ } };
  const recall = () => { try { return localStorage.getItem("hami-plugins-theme"); } catch { return null; } };
  const themeButton = document.getElementById("theme");
  const showTheme = (name) => {
    if (name === "auto") { root.removeAttribute("data-theme"); } else { root.dataset.theme = name; }
    themeButton.textContent = "Theme: " + name;
    themeButton.dataset.now = name;
  };
  showTheme(themes.includes(recall()) ? recall() : "auto");
  themeButton.hidden = false;
  themeButton.addEventListener("click", () => {
    const next = themes[(themes.indexOf(themeButton.dataset.now) + 1) % themes.length];
    showTheme(next);
    remember(next);
  });
})();
