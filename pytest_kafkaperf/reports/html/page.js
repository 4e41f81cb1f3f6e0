// Draws each chart when it comes near the screen, in the colours of the scheme, and all of them before printing.
"use strict";
(() => {
  const template = JSON.parse(document.getElementById("template").textContent);
  const charts = [...document.querySelectorAll(".chart")];
  const figures = new Map();
  const coarse = matchMedia("(pointer: coarse)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // The figures of a section, read when the first of them is drawn.
  function figureOf(chart) {
    const section = chart.closest(".test, .sweep");
    if (!figures.has(section)) {
      figures.set(section, JSON.parse(section.querySelector(":scope > script").textContent));
    }
    return figures.get(section)[Number(chart.dataset.figure)];
  }

  function coloured(value, style) {
    if (typeof value === "string") {
      const name = /^var\((--[a-z0-9-]+)\)$/.exec(value);
      return name ? style.getPropertyValue(name[1]).trim() : value;
    }
    if (Array.isArray(value)) return value.map((each) => coloured(each, style));
    if (value === null || typeof value !== "object") return value;
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, coloured(each, style)]));
  }

  function draw(chart) {
    const figure = figureOf(chart);
    // On a touch screen a finger that moves scrolls the page.
    template.layout.dragmode = coarse.matches ? false : "zoom";
    template.layout.xaxis.fixedrange = template.layout.yaxis.fixedrange = coarse.matches;
    const layout = { ...figure.layout, template, width: chart.clientWidth, height: chart.clientHeight };
    const drawn = coloured({ data: figure.data, layout }, getComputedStyle(document.documentElement));
    Plotly.react(chart, drawn.data, drawn.layout, { displayModeBar: false });
    chart.dataset.drawn = "";
  }

  const observer = new IntersectionObserver(
    (entries) => {
      for (const { isIntersecting, target } of entries) {
        if (isIntersecting && !("drawn" in target.dataset)) draw(target);
      }
    },
    { rootMargin: "300px 0px" },
  );
  charts.forEach((chart) => observer.observe(chart));

  // What is closed is drawn again when it is opened.
  function redraw() {
    for (const chart of charts.filter((each) => "drawn" in each.dataset)) {
      if (chart.closest("details:not([open])")) delete chart.dataset.drawn;
      else draw(chart);
    }
  }
  dark.addEventListener("change", redraw);
  coarse.addEventListener("change", redraw);
  let width = innerWidth;
  let resized;
  addEventListener("resize", () => {
    if (innerWidth === width) return; // a phone's address bar that comes and goes
    width = innerWidth;
    clearTimeout(resized);
    resized = setTimeout(redraw, 150);
  });

  // A link to a test opens it.
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
    if (link && link.hash === location.hash) reveal(); // the address stays, and nothing would tell of it
  });

  let closed = [];
  addEventListener("beforeprint", () => {
    document.documentElement.classList.add("printing");
    closed = [...document.querySelectorAll("details:not([open])")];
    closed.forEach((details) => (details.open = true));
    charts.forEach(draw);
  });
  addEventListener("afterprint", () => {
    document.documentElement.classList.remove("printing");
    closed.forEach((details) => (details.open = false));
    redraw();
  });
})();
