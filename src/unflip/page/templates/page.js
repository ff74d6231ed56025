"use strict";
(() => {
  const CHUNK = 50; // rows that are drawn together when they come near the window; all others are empty room
  const NEAR = "1000px";
  const CELLS = 4; // of a row that are shown before it is opened
  // How a cell begins that a spreadsheet takes for a formula, unless it is a number; see guarded() in _output.py.
  const FORMULA = /^'*[=+\-@＝＋－＠\t\r\n]/;
  const NUMBER = /^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$/;
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent);
  const count = (n) => n.toLocaleString("en-GB");
  const reduced = matchMedia("(prefers-reduced-motion: reduce)");

  function percent(p, digits = 1) {
    const text = (100 * p).toFixed(digits);
    const step = 10 ** -digits;
    if (p > 0 && Number(text) === 0) return `<${step.toFixed(digits)}%`;
    if (p < 1 && Number(text) === 100) return `>${(100 - step).toFixed(digits)}%`;
    return `${text}%`;
  }

  let showPair = () => {}; // set where there are suspects
  heatMap();
  if (data.name.length) suspects();

  function heatMap() {
    const map = $("map");
    const cursor = $("cursor");
    const n = data.classes.length;
    let cell = null;
    let tapped = null;

    function point(i, j) {
      cell = [i, j];
      cursor.removeAttribute("hidden");
      cursor.setAttribute("x", j);
      cursor.setAttribute("y", i);
      const [from, to] = [data.classes[i], data.classes[j]];
      const share = percent(data.transition[i][j]);
      $("cell").textContent = i === j ? `${from} keeps its label: ${share}` : `${from} is labeled ${to}: ${share}`;
    }

    function under(event) {
      const box = map.getBoundingClientRect();
      const at = (offset, size) => Math.min(n - 1, Math.max(0, Math.floor((offset / size) * n)));
      point(at(event.clientY - box.top, box.height), at(event.clientX - box.left, box.width));
    }

    function leave() {
      cell = null;
      cursor.setAttribute("hidden", "");
      $("cell").textContent = "\u00a0";
    }

    // The suspects of T[i, j] were given j and should be i.
    const choose = () => cell && cell[0] !== cell[1] && showPair(cell[1], cell[0]);
    map.addEventListener("pointermove", under);
    map.addEventListener("pointerleave", () => document.activeElement !== map && leave());
    map.addEventListener("blur", leave);
    map.addEventListener("focus", () => cell || point(0, 0));
    map.addEventListener("click", (event) => {
      under(event);
      // A finger hides what it points at: the first tap reads the cell, the second chooses it.
      const again = String(cell) === tapped;
      tapped = String(cell);
      if (event.pointerType !== "touch" || again) choose();
    });
    map.addEventListener("keydown", (event) => {
      const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
      if (step && cell) {
        const inside = (k) => Math.min(n - 1, Math.max(0, k));
        point(inside(cell[0] + step[0]), inside(cell[1] + step[1]));
      } else if (event.key === "Enter") choose();
      else return;
      event.preventDefault();
    });
  }

  function suspects() {
    const { classes, name, given, suggested, probability, thumbnail, columns, cells, first, alike, examples } = data;
    const all = name.map((_, k) => k);
    const lowered = name.map((text, k) => [text, ...(cells[k] || [])].join("\n").toLowerCase());
    const table = $("table");
    const across = table.tHead.rows[0].cells.length;
    const drawn = () => table.querySelectorAll("tbody input");
    const collator = new Intl.Collator("en", { numeric: true });
    const rank = (values) => {
      // Places in the order of names, found once: comparing numbers is what keeps sorting quick.
      const order = values.map((_, k) => k).sort((a, b) => collator.compare(values[a], values[b]));
      const places = [];
      order.forEach((k, place) => {
        const tied = place > 0 && collator.compare(values[k], values[order[place - 1]]) === 0;
        places[k] = tied ? places[order[place - 1]] : place;
      });
      return places;
    };
    const byName = rank(name);
    const byClass = rank(classes);
    const keys = {
      name: byName,
      given: given.map((code) => byClass[code]),
      suggested: suggested.map((code) => byClass[code]),
      probability,
    };
    const ticked = new Set(remembered());
    let sort = { by: "probability", down: true };
    let shown = [];
    const opened = new Set();
    let allOpen = false;
    const observer = new IntersectionObserver(
      (entries) => entries.forEach((entry) => (entry.isIntersecting ? fill(entry.target) : drain(entry.target))),
      { rootMargin: `${NEAR} 0px` },
    );

    for (const [id, codes] of [["filter-given", given], ["filter-suggested", suggested]]) {
      const totals = new Map();
      for (const code of codes) totals.set(code, (totals.get(code) || 0) + 1);
      for (const code of [...totals.keys()].sort((a, b) => byClass[a] - byClass[b])) {
        $(id).add(new Option(`${classes[code]} (${count(totals.get(code))})`, code));
      }
    }

    function remembered() {
      try {
        return JSON.parse(localStorage.getItem(data.key) || "[]").filter((k) => k in name);
      } catch {
        return []; // a browser may refuse to keep anything for a file
      }
    }

    function remember() {
      try {
        if (ticked.size) localStorage.setItem(data.key, JSON.stringify([...ticked]));
        else localStorage.removeItem(data.key);
      } catch {
        // then the ticks last only as long as the page is open
      }
    }

    function select() {
      const text = $("filter-name").value.toLowerCase();
      const wanted = (id) => ($(id).value === "" ? null : Number($(id).value));
      const [from, to] = [wanted("filter-given"), wanted("filter-suggested")];
      const least = Number($("filter-probability").value) / 100;
      const state = $("filter-ticked").value;
      shown = all.filter(
        (k) =>
          probability[k] >= least &&
          (from === null || given[k] === from) &&
          (to === null || suggested[k] === to) &&
          (state === "" || ticked.has(k) === (state === "yes")) &&
          lowered[k].includes(text),
      );
      const key = keys[sort.by];
      const sign = sort.down ? -1 : 1;
      shown.sort((a, b) => sign * (key[a] - key[b]) || a - b);
      $("filter-probability-text").textContent = `${$("filter-probability").value}%`;
      for (const button of document.querySelectorAll("[data-sort]")) {
        const own = button.dataset.sort === sort.by;
        button.parentElement.setAttribute("aria-sort", own ? (sort.down ? "descending" : "ascending") : "none");
      }
      draw();
    }

    function draw() {
      observer.disconnect();
      for (const body of [...table.tBodies]) body.remove();
      let height = 0;
      for (let start = 0; start < shown.length; start += CHUNK) {
        const body = document.createElement("tbody");
        body.setAttribute("role", "rowgroup");
        body.start = start;
        body.size = Math.min(CHUNK, shown.length - start);
        table.append(body);
        if (start === 0) {
          fill(body);
          height = body.getBoundingClientRect().height / body.size; // the others are about as high
        } else empty(body, height * body.size);
      }
      for (const body of table.tBodies) observer.observe(body);
      table.setAttribute("aria-rowcount", shown.length + 1);
      $("none").hidden = shown.length > 0;
      table.hidden = shown.length === 0;
      tally();
    }

    function fill(body) {
      if (body.filled) return;
      body.filled = true;
      const part = shown.slice(body.start, body.start + CHUNK);
      body.replaceChildren(...part.flatMap((k, place) => row(k, body.start + place + 2)));
    }

    function drain(body) {
      // The first rows stay, and those in which somebody works.
      if (body.filled && body.start && !body.contains(document.activeElement)) empty(body, body.getBoundingClientRect().height);
    }

    function empty(body, height) {
      const room = document.createElement("tr");
      const cell = document.createElement("td");
      room.className = "room";
      cell.style.height = `${height}px`;
      cell.colSpan = across;
      room.append(cell);
      body.replaceChildren(room);
      body.filled = false;
    }

    function enable(id, on) {
      $(id).setAttribute("aria-disabled", !on); // not disabled, which would take the focus away from who pressed it
    }

    function row(k, place) {
      const line = $("row").content.firstElementChild.cloneNode(true);
      line.setAttribute("aria-rowindex", place);
      const put = (selector, text) => {
        const place = line.querySelector(selector);
        place.textContent = text;
        place.title = text;
      };
      const box = line.querySelector("input");
      box.value = k;
      box.checked = ticked.has(k);
      box.setAttribute("aria-label", `Accept ${classes[suggested[k]]} for ${name[k]}, given ${classes[given[k]]}`);
      line.classList.toggle("accepted", box.checked);
      put(".called .name", name[k]);
      put(".given .name", classes[given[k]]);
      put(".suggested .name", classes[suggested[k]]);
      line.querySelector(".meter i").style.width = `${100 * probability[k]}%`;
      line.querySelector(".value").textContent = percent(probability[k]);
      if (thumbnail[k]) line.querySelector(".picture").append(picture(thumbnail[k], ""));
      const similar = line.querySelector("td.alike");
      if (similar) {
        for (const number of alike[k]) {
          const [called, code, , image] = examples[number];
          if (image) similar.append(picture(image, `${called}, labeled ${classes[code]}`));
        }
      }
      if (!columns.length) return [line];
      line.classList.add("with-contents");
      return [line, contents(k)];
    }

    function picture(image, text) {
      const found = new Image();
      found.src = `data:image/png;base64,${image}`;
      found.alt = found.title = text;
      return found;
    }

    // The cells of a row, the most telling first; opened, all of them next to those of rows that look like it.
    function contents(k) {
      const line = $("contents").content.firstElementChild.cloneNode(true);
      line.firstElementChild.colSpan = across;
      const order = [...new Set([...first[k], ...columns.keys()])];
      const is_open = allOpen !== opened.has(k);
      for (const j of order.filter((j) => cells[k][j] !== "").slice(0, CELLS)) {
        const pair = document.createElement("div");
        pair.append(element("dt", columns[j]), element("dd", cells[k][j]));
        line.querySelector(".cells").append(pair);
      }
      const button = line.querySelector(".more");
      button.textContent = is_open ? "Less" : "More";
      button.setAttribute("aria-expanded", is_open);
      button.setAttribute("aria-label", `${button.textContent} of ${name[k]}`);
      button.addEventListener("click", () => {
        opened.has(k) ? opened.delete(k) : opened.add(k);
        const again = contents(k);
        line.replaceWith(again);
        again.querySelector(".more").focus();
      });
      if (is_open) line.querySelector(".inside").append(compared(k, order));
      return line;
    }

    function compared(k, order) {
      const box = document.createElement("div");
      const grid = document.createElement("table");
      const head = grid.createTHead().insertRow();
      const body = grid.createTBody();
      const similar = (alike[k] || []).map((number) => examples[number]);
      box.className = "compared";
      box.tabIndex = 0;
      box.setAttribute("role", "region");
      box.setAttribute("aria-label", `Contents of ${name[k]}`);
      head.append(element("th", ""), element("th", `${name[k]}: ${classes[given[k]]}?`));
      for (const [called, code] of similar) head.append(element("th", `${called}: ${classes[code]}`));
      for (const j of order) {
        const values = [cells[k][j], ...similar.map((example) => example[2][j])];
        const cellsOf = values.map((value) => element("td", value));
        const title = element("th", columns[j]);
        title.scope = "row";
        body.insertRow().append(title, ...cellsOf);
      }
      if (similar.length) {
        box.append(element("p", `Looks like these, which are confidently labeled ${classes[suggested[k]]}.`));
      }
      box.append(grid);
      return box;
    }

    function element(tag, text) {
      const found = document.createElement(tag);
      found.className = "name";
      found.textContent = text;
      found.title = text;
      return found;
    }

    function tally() {
      const whole = shown.length === all.length;
      $("count").textContent = whole ? `${count(all.length)} shown` : `${count(shown.length)} of ${count(all.length)} shown`;
      $("tick-shown").textContent = `Tick all ${count(shown.length)} shown`;
      enable("tick-shown", !shown.every((k) => ticked.has(k)));
      enable("untick-shown", shown.some((k) => ticked.has(k)));
      $("ticked").textContent = `${count(ticked.size)} accepted`;
      enable("untick", ticked.size > 0);
      enable("download", ticked.size > 0);
      $("warning").hidden = true;
    }

    function tick(rows, on) {
      for (const k of rows) on ? ticked.add(k) : ticked.delete(k);
      remember();
      // The rows stay as they are, so that the focus does; a filter by ticks acts when it is next set.
      for (const box of drawn()) {
        box.checked = ticked.has(Number(box.value));
        box.closest("tr").classList.toggle("accepted", box.checked);
      }
      tally();
    }

    function field(text) {
      return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
    }

    function download() {
      const chosen = all.filter((k) => ticked.has(k));
      if (!chosen.length) return;
      let risky = 0;
      const guarded = (text) => {
        if (!FORMULA.test(text) || NUMBER.test(text)) return text;
        risky += 1;
        return `'${text}`;
      };
      const lines = [
        ["name", "given", "corrected"],
        ...chosen.map((k) => [name[k], classes[given[k]], classes[suggested[k]]].map(guarded)),
      ];
      const csv = lines.map((line) => line.map(field).join(",") + "\r\n").join("");
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([csv], { type: "text/csv;charset=utf-8" }));
      link.download = "corrected-labels.csv";
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
      $("warning").hidden = risky === 0;
      $("warning").textContent =
        `${count(risky)} ${risky === 1 ? "value begins" : "values begin"} like a formula and got an apostrophe, ` +
        "so that a spreadsheet runs nothing. unflip apply takes it away again.";
    }

    showPair = (from, to) => {
      $("filters").reset();
      for (const [id, code] of [["filter-given", from], ["filter-suggested", to]]) {
        // A flip without suspects still has its filter, which then finds none.
        if (![...$(id).options].some((option) => option.value === String(code))) {
          $(id).add(new Option(`${classes[code]} (0)`, code));
        }
        $(id).value = code;
      }
      select();
      $("suspects").scrollIntoView({ block: "start", behavior: reduced.matches ? "auto" : "smooth" });
      $("suspects").focus({ preventScroll: true });
    };

    for (const control of $("filters").querySelectorAll("input, select")) {
      control.addEventListener(control.tagName === "SELECT" ? "change" : "input", select);
    }
    $("filters").addEventListener("submit", (event) => event.preventDefault());
    $("filters").addEventListener("reset", () => setTimeout(select)); // after the fields are empty
    for (const button of document.querySelectorAll("[data-sort]")) {
      button.addEventListener("click", () => {
        const by = button.dataset.sort;
        sort = { by, down: by === sort.by ? !sort.down : by === "probability" };
        select();
      });
    }
    table.addEventListener("change", (event) => tick([Number(event.target.value)], event.target.checked));
    table.addEventListener("keydown", (event) => {
      const step = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (!step || event.target.type !== "checkbox") return;
      event.preventDefault();
      const boxes = [...drawn()];
      const next = boxes[boxes.indexOf(event.target) + step];
      if (next) next.focus();
    });
    $("tick-shown").addEventListener("click", () => tick(shown, true));
    $("untick-shown").addEventListener("click", () => tick(shown, false));
    $("untick").addEventListener("click", () => tick(all, false));
    $("download").addEventListener("click", download);
    if (columns.length) {
      $("open-all").addEventListener("click", (event) => {
        allOpen = !allOpen;
        opened.clear();
        event.target.textContent = allOpen ? "Close all" : "Open all";
        event.target.setAttribute("aria-pressed", allOpen);
        draw();
      });
    }
    select();
  }
})();
