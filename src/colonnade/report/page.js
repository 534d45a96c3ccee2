// Tables that can be sorted: a click on a column's name sorts by it, a second click the other way round.
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    const key = row => {
      const cell = row.cells[column];
      return "value" in cell.dataset ? Number(cell.dataset.value) : cell.textContent;
    };
    const compare = (a, b) => typeof a === "number" && typeof b === "number"
      ? a - b : typeof a === typeof b ? a.localeCompare(b, undefined, { numeric: true }) : typeof a === "number" ? -1 : 1;
    head.querySelector("button")?.addEventListener("click", () => {
      const up = head.getAttribute("aria-sort") !== "ascending";
      heads.forEach(other => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", up ? "ascending" : "descending");
      body.append(...[...body.rows].sort((a, b) => (up ? 1 : -1) * compare(key(a), key(b))));
    });
  });
}
