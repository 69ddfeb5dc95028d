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
    document.querySelectorAll("[data-middle]").forEach(function (box) {
      box.scrollLeft = Number(box.dataset.middle) - box.clientWidth / 2;
    });
  }

  // The table of trials: a click on a header sorts, words in the field filter its rows.

  function cellOf(row, column) {
    return row.cells[column].textContent.trim();
  }

  // Numbers before words and empty cells, whichever way they are sorted.
  function compare(left, right, sign) {
    const a = parseFloat(left), b = parseFloat(right);
    if (isNaN(a) !== isNaN(b)) return isNaN(a) ? 1 : -1;
    return sign * (isNaN(a) ? left.localeCompare(right) : a - b);
  }

  function sortBy(header, column, body) {
    const sign = header.getAttribute("aria-sort") === "ascending" ? -1 : 1;
    for (const other of header.parentNode.cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
    const rows = [...body.rows];
    rows.sort((a, b) => compare(cellOf(a, column), cellOf(b, column), sign));
    body.append(...rows);
  }

  function filterBy(text, body) {
    const words = text.toLowerCase().split(/\s+/);
    for (const row of body.rows) {
      const cells = [...row.cells].map((cell) => cell.textContent).join(" ").toLowerCase();
      row.hidden = !words.every((word) => cells.includes(word));
    }
  }

  function makeSortable(box) {
    const body = box.querySelector("tbody");
    [...box.querySelectorAll("thead th")].forEach(function (header, column) {
      header.tabIndex = 0;
      header.addEventListener("click", function () { sortBy(header, column, body); });
      header.addEventListener("keydown", function (event) {
        if (event.key === "Enter") sortBy(header, column, body);
      });
    });
    const field = document.createElement("input");
    field.type = "search";
    field.placeholder = "filter: finished 0.94";
    field.setAttribute("aria-label", "show the trials that hold these words");
    field.addEventListener("input", function () { filterBy(field.value, body); });
    box.prepend(field);
  }

  // A click on a point whose text is "trial 7" leads to that row of the table.

  function goTo(trial) {
    const box = document.querySelector(".sortable");
    const rows = box ? [...box.querySelectorAll("tbody tr")] : [];
    const chosen = rows.find((row) => cellOf(row, 0) === trial);
    if (!chosen) return;
    box.closest("details").open = true;
    for (const row of rows) row.classList.toggle("chosen", row === chosen);
    chosen.hidden = false;
    chosen.scrollIntoView({block: "center"});
  }

  function linkTrials(place) {
    place.on("plotly_click", function (event) {
      const point = event.points[0];
      const said = /^trial (\d+)$/.exec(point.text || point.data.name || "");
      if (said) goTo(said[1]);
    });
  }

  // The program that draws the charts is packed, because it is most of the page.
  async function unpack(packed) {
    const bytes = Uint8Array.from(atob(packed.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    const program = document.createElement("script");
    program.textContent = await new Response(stream).text();
    document.head.append(program);
  }

  function drawAll() {
    document.querySelectorAll("script[data-for]").forEach(draw);
    plots.forEach(linkTrials);
  }

  function tellWhy(error) {
    const why = document.createElement("p");
    why.className = "missing";
    why.textContent = "The charts cannot be drawn; open the page in a newer browser. " + error;
    document.querySelector("header").append(why);
  }

  unpack(document.querySelector("script[data-packed]")).then(drawAll, tellWhy);
  document.querySelectorAll(".sortable").forEach(makeSortable);
  centre();
  dark.addEventListener("change", recolour);
  print.addEventListener("change", function () { recolour(); fit(); });
  document.querySelectorAll("details").forEach(function (details) {
    details.addEventListener("toggle", function () { fit(); centre(); });
  });
})();
