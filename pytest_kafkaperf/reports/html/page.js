// Expands tests: the one that the address refers to, and all of them before printing.
"use strict";
(() => {
  function reveal() {
    const target = document.getElementById(location.hash.slice(1));
    if (!(target instanceof HTMLDetailsElement)) return;
    target.open = true;
    target.scrollIntoView();
  }
  addEventListener("hashchange", reveal);
  reveal();
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.hash === location.hash) reveal(); // there is no hashchange event if the address stays the same
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
  });
  addEventListener("afterprint", () => closed.forEach((details) => (details.open = false)));
})();
