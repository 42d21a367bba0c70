// Searching the long texts: lines that match, with their numbers and two lines around each.

const AROUND = 2;

function searchable(id) {
  const input = byId(`${id}-search`), found = byId(`${id}-found`);
  if (!input) return;
  const texts = [...document.querySelectorAll(`#${id} details`)].map((details) => {
    const pre = details.querySelector("pre");
    return { details, pre, text: pre.textContent, open: details.open };
  });

  function marked(line, word) {
    const parts = [];
    const lower = line.toLowerCase();
    let from = 0;
    for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, from)) {
      parts.push(line.slice(from, at), el("mark", {}, line.slice(at, at + word.length)));
      from = at + word.length;
    }
    return [...parts, line.slice(from)];
  }

  function search() {
    const word = input.value.toLowerCase();
    let total = 0, places = 0;
    for (const item of texts) {
      if (!word) {
        item.pre.textContent = item.text;
        item.details.hidden = false;
        item.details.open = item.open;
        continue;
      }
      const lines = item.text.split("\n");
      const hits = lines.flatMap((line, at) => line.toLowerCase().includes(word) ? [at] : []);
      const title = item.details.querySelector("summary").textContent.toLowerCase().includes(word);
      total += hits.length;
      places += hits.length > 0;
      item.details.hidden = !hits.length && !title;
      item.details.open = hits.length > 0;
      const kept = new Set(hits.flatMap((at) => Array.from({ length: 2 * AROUND + 1 }, (_, k) => at + k - AROUND)));
      const shown = [];
      let before = -1;
      lines.forEach((line, at) => {
        if (!kept.has(at)) return;
        if (at > before + 1) shown.push(el("span", { class: "number" }, "      ⋮\n"));
        before = at;
        shown.push(el("span", { class: "number" }, String(at + 1).padStart(5) + "  "), ...marked(line, word), "\n");
      });
      item.pre.replaceChildren(...(hits.length ? shown : [item.text]));
    }
    found.textContent = word ? `${count(total)} ${total === 1 ? "line" : "lines"} in ${count(places)} of ${count(texts.length)} texts` : "";
  }
  input.addEventListener("input", search);
  byId(`${id}-open`)?.addEventListener("click", () => { for (const item of texts) item.details.open = true; });
  byId(`${id}-close`)?.addEventListener("click", () => { for (const item of texts) item.details.open = false; });
}
