"use strict";
(() => {
  const words = new Intl.Collator(undefined, { numeric: true, sensitivity: "base" });

  // a cell's key: its data-v if it has one (empty = undefined), else its text
  const key = (row, column) => row.cells[column].dataset.v ?? row.cells[column].textContent.trim();

  function sort(table, column, descending, numeric) {
    const body = table.tBodies[0];
    const rows = [...body.rows].map((row) => [row, key(row, column)]);
    const sign = descending ? -1 : 1;
    rows.sort(([, a], [, b]) => {
      if (a === "" || b === "") return (a === "") - (b === "");
      return sign * (numeric ? a - b : words.compare(a, b));
    });
    body.append(...rows.map(([row]) => row));
  }

  for (const table of document.querySelectorAll("table[data-sortable]")) {
    const heads = [...table.tHead.rows[table.tHead.rows.length - 1].cells]; // above may stand groups
    heads.forEach((head, column) => {
      head.querySelector("button")?.addEventListener("click", () => {
        const descending = head.getAttribute("aria-sort") === "ascending";
        heads.forEach((other) => other.removeAttribute("aria-sort"));
        head.setAttribute("aria-sort", descending ? "descending" : "ascending");
        sort(table, column, descending, head.dataset.type === "number");
      });
    });
  }

  const tools = document.getElementById("tools");
  if (tools) {
    const find = document.getElementById("find");
    const group = document.getElementById("group");
    const undefinedOnly = document.getElementById("undefined");
    const count = document.getElementById("count");
    const rows = [...document.getElementById("table").tBodies[0].rows];
    const searched = ".id, .group, .control, .text summary, .whole";
    const texts = new Map(rows.map((row) => [
      row, [...row.querySelectorAll(searched)].map((e) => e.textContent).join("\n").toLocaleLowerCase(),
    ]));

    const filter = () => {
      const wanted = find.value.trim().toLocaleLowerCase();
      let shown = 0;
      for (const row of rows) {
        row.hidden = !(texts.get(row).includes(wanted)
          && (!group.value || row.dataset.group === group.value)
          && (!undefinedOnly.checked || "undefined" in row.dataset));
        shown += !row.hidden;
      }
      const all = `${rows.length.toLocaleString("en")} sample${rows.length === 1 ? "" : "s"}`;
      count.value = shown === rows.length ? all : `${shown.toLocaleString("en")} of ${all}`;
    };
    tools.addEventListener("input", filter);
    tools.addEventListener("submit", (event) => event.preventDefault());
    filter(); // a browser may have kept the fields of an earlier visit

    const toggle = document.getElementById("toggle");
    toggle.addEventListener("click", () => {
      const open = toggle.getAttribute("aria-pressed") === "false";
      for (const row of rows) if (!row.hidden) row.querySelector("details").open = open;
      toggle.setAttribute("aria-pressed", String(open));
      toggle.textContent = open ? "Close all" : "Open all";
    });
  }

  for (const button of document.querySelectorAll("button.copy")) {
    const code = button.previousElementSibling;
    button.addEventListener("click", async () => {
      getSelection().selectAllChildren(code);
      let copied = false;
      try {
        await navigator.clipboard.writeText(code.textContent);
        copied = true;
      } catch {
        copied = document.execCommand("copy");
      }
      button.textContent = copied ? "Copied" : "Selected";
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
})();
