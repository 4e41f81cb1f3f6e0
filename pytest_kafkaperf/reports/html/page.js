// Draws each chart shortly before it is scrolled into view, in the colours of the light or dark scheme. Draws all charts
// before printing.
"use strict";
(() => {
  const axis = {
    automargin: true,
    gridcolor: "var(--line)",
    linecolor: "var(--line)",
    zeroline: false,
    ticks: "outside",
    tickcolor: "rgba(0,0,0,0)",
    tickfont: { size: 11 },
    title: { font: { size: 12 }, standoff: 8 },
  };
  // The Plotly template of all charts; a figure's own values take precedence.
  const template = {
    layout: {
      paper_bgcolor: "rgba(0,0,0,0)",
      plot_bgcolor: "rgba(0,0,0,0)",
      margin: { l: 8, r: 24, t: 8, b: 8 },
      font: { family: "system-ui, -apple-system, Segoe UI, Roboto, sans-serif", size: 12, color: "var(--dim)" },
      hovermode: "closest",
      showlegend: true,
      hoverlabel: { bgcolor: "var(--surface)", font: { color: "var(--text)" }, namelength: -1 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom", traceorder: "normal" },
      xaxis: { ...axis },
      yaxis: { ...axis },
    },
  };
  const charts = [...document.querySelectorAll(".chart")];
  const plots = new Map();
  const coarse = matchMedia("(pointer: coarse)");
  const dark = matchMedia("(prefers-color-scheme: dark)");

  // Parses the plots of a section when its first chart is drawn.
  function figureOf(chart) {
    const section = chart.closest(".test, .sweep");
    if (!plots.has(section)) {
      plots.set(section, JSON.parse(section.querySelector(":scope > script").textContent));
    }
    return plots.get(section)[Number(chart.dataset.figure)];
  }

  // Replaces variables of the style sheet by their values, because Plotly does not know them.
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
    // On a touch screen, dragging scrolls the page instead of zooming the chart.
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

  // Charts in collapsed tests are drawn again when the test is expanded.
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
    if (innerWidth === width) return; // the address bar of a phone only changes the height
    width = innerWidth;
    clearTimeout(resized);
    resized = setTimeout(redraw, 150);
  });

  // Expands the test that the address refers to.
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
