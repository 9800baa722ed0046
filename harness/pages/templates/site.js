// The pages' two conveniences: colours by choice, and filters whose choice stands in the address.
// Everything is in the page without it.
"use strict";
(() => {
  const root = document.documentElement;
  const KEY = "faultline-colours";
  const THEMES = { auto: "as the system", light: "light", dark: "dark" };
  const remembered = () => { try { return localStorage.getItem(KEY); } catch { return null; } };
  let theme = remembered() in THEMES ? remembered() : "auto";

  const wear = () => {
    if (theme === "auto") root.removeAttribute("data-theme");
    else root.dataset.theme = theme;
    const button = document.getElementById("theme");
    if (button) { button.textContent = `Colours: ${THEMES[theme]}`; button.hidden = false; }
  };
  wear(); // before the page is drawn

  const choice = () => new URLSearchParams(location.hash.startsWith("#?") ? location.hash.slice(2) : "");

  const show = (form) => {
    const now = [...choice()].filter(([, value]) => value);
    for (const select of form.querySelectorAll("select")) {
      select.value = (now.find(([name]) => name === select.name) || ["", ""])[1];
      if (select.selectedIndex < 0) select.value = "";
    }
    const items = [...document.querySelectorAll("[data-facets]")];
    for (const item of items) {
      const facets = JSON.parse(item.dataset.facets);
      item.hidden = now.some(([name, value]) => name in facets && !facets[name].includes(value));
    }
    for (const section of document.querySelectorAll("[data-section]"))
      section.hidden = ![...section.querySelectorAll("[data-facets]")].some((item) => !item.hidden);
    const status = document.getElementById("shown");
    const count = items.filter((item) => !item.hidden).length;
    status.textContent = `${count} of ${items.length} ${status.dataset.what}` +
      now.map(([name, value]) => ` · ${name}: ${value}`).join("");
    for (const link of document.querySelectorAll("a[data-carry]"))
      link.href = link.href.split("#")[0] + (now.length ? `#?${new URLSearchParams(now)}` : "");
  };

  const choose = (form) => {
    const now = choice();
    for (const { name, value } of form.querySelectorAll("select"))
      if (value) now.set(name, value); else now.delete(name);
    location.replace(`#?${now}`); // no entry in the history for each choice
    show(form);
  };

  document.addEventListener("DOMContentLoaded", () => {
    wear();
    document.getElementById("theme").addEventListener("click", () => {
      const names = Object.keys(THEMES);
      theme = names[(names.indexOf(theme) + 1) % names.length];
      try { localStorage.setItem(KEY, theme); } catch { /* a choice for this page alone */ }
      wear();
    });
    const form = document.getElementById("filters");
    if (!form) {
      if (location.hash.startsWith("#?"))
        for (const link of document.querySelectorAll("a[data-carry]")) link.href += location.hash;
      return;
    }
    form.hidden = false;
    form.addEventListener("change", () => choose(form));
    form.addEventListener("submit", (event) => event.preventDefault());
    form.addEventListener("reset", (event) => {
      event.preventDefault();
      location.replace("#?");
      show(form);
    });
    window.addEventListener("hashchange", () => { if (/^#(\?|$)/.test(location.hash)) show(form); });
    show(form);
  });
})();
