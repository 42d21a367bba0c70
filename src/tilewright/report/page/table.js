// Tables that sort by a click on a heading, and whose rows may open into further rows.
//
// columns: {title, hint, value(row), show(row), number}; show gives text or a node and falls back
// to value. Names longer than `wrap` get several lines. Empty values stay at the end whichever way the table is sorted.

function makeTable(place, { columns, rows, caption, sort, down, children, label, limit, ordered, wrap = 48 }) {
  let key = sort;
  let descending = down;
  let shown = limit || Infinity;
  const open = new Set();
  const head = el("tr", {}, columns.map((column, at) =>
    el("th", { scope: "col", class: column.number ? "number" : null, title: column.hint },
      el("button", { type: "button", onclick: () => {
        descending = key === at ? !descending : Boolean(column.number);
        key = at;
        draw();
      } }, column.title))));
  const body = el("tbody");
  place.replaceChildren(el("table", {}, caption ? el("caption", {}, caption) : null, el("thead", {}, head), body));

  function inOrder(list) {
    if (key === null || key === undefined) return list;
    const value = columns[key].value;
    const sign = descending ? -1 : 1;
    return [...list].sort((a, b) => {
      const [left, right] = [value(a), value(b)];
      if (left === null || right === null) return (left === null) - (right === null);
      if (typeof left === "string") return sign * left.localeCompare(right, "en", { numeric: true });
      return sign * (left - right);
    });
  }

  function line(row, child) {
    const below = !child && children ? children(row) : [];
    const tr = el("tr", { class: child ? "child" : null });
    columns.forEach((column, at) => {
      let content = column.show ? column.show(row) : column.value(row);
      if (content === null || content === undefined) content = "–";
      if (at === 0 && below.length) {
        content = el("button", { type: "button", class: "expand", "aria-expanded": String(open.has(row)), onclick: () => {
          if (!open.delete(row)) open.add(row);
          draw();
          [...body.querySelectorAll("button.expand")].find((button) => button.dataset.row === label(row))?.focus();
        } }, content);
        content.dataset.row = label(row);
      } else if (at === 0 && !child && children) content = el("span", { class: "leaf" }, content);
      const name = String(column.value(row)).length > wrap ? "name wrapped" : "name";
      tr.append(el("td", { class: at === 0 ? name : column.number ? "number" : column.long ? "long" : null }, content));
    });
    return open.has(row) ? [tr, ...inOrder(below).map((under) => line(under, true)).flat()] : [tr];
  }

  function draw() {
    [...head.children].forEach((th, at) => {
      if (at === key) th.setAttribute("aria-sort", descending ? "descending" : "ascending");
      else th.removeAttribute("aria-sort");
    });
    const sorted = inOrder(rows);
    body.replaceChildren(...sorted.slice(0, shown).map((row) => line(row, false)).flat());
    if (ordered) ordered(sorted);
  }
  draw();
  return {
    show(most) { shown = most; draw(); },
    replace(next) { rows = next; open.clear(); draw(); },
    openAll(all) { open.clear(); if (all) rows.forEach((row) => open.add(row)); draw(); },
  };
}

// "first 20" and "all" for long tables.
function lengthChoice(place, table, total, few, word) {
  if (total <= few) return;
  place.append(...choice("show", { few: `${word} ${few}`, all: `all ${count(total)}` }, "few",
    (key) => table.show(key === "few" ? few : Infinity)));
}
