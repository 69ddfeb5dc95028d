(function () {
  "use strict";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const print = matchMedia("print");
  const narrow = 480;
  const config = {displayModeBar: false, responsive: true};
  // Where fingers scroll, a chart must not take the drag for itself.
  const dragmode = matchMedia("(pointer: coarse)").matches ? false : "zoom";
  const plots = [];

  function ink() {
    return print.matches || !dark.matches ? "#1d1f23" : "#e7e9ec";
  }

  function onNarrow(layout) {
    if (innerWidth > narrow) return layout;
    return Object.assign({}, layout, {font: Object.assign({}, layout.font, {size: 11})});
  }

  function draw(script) {
    const place = document.getElementById(script.dataset.for);
    const chart = JSON.parse(script.textContent);
    const layout = Object.assign({dragmode: dragmode}, onNarrow(chart.layout));
    layout.font = Object.assign({}, layout.font, {color: ink()});
    Plotly.newPlot(place, chart.data, layout, config);
    plots.push(place);
  }

  function recolour() {
    for (const place of plots) Plotly.relayout(place, {"font.color": ink()});
  }

  function fit() {
    for (const place of plots) if (place.offsetParent) Plotly.Plots.resize(place);
  }

  function centre() {
    document.querySelectorAll("[data-middle]").forEach(function (one) {
      one.scrollLeft = Number(one.dataset.middle) - one.clientWidth / 2;
    });
  }

  let unfolded = [];

  function unfold() {
    unfolded = [...document.querySelectorAll("details:not([open])")];
    for (const one of unfolded) one.open = true;
  }

  function fold() {
    for (const one of unfolded) one.open = false;
  }

  document.querySelectorAll("script[data-for]").forEach(draw);
  centre();
  dark.addEventListener("change", recolour);
  print.addEventListener("change", function () { recolour(); fit(); });
  addEventListener("beforeprint", unfold);
  addEventListener("afterprint", fold);
  document.querySelectorAll("details").forEach(function (one) {
    one.addEventListener("toggle", function () { fit(); centre(); });
  });
})();
