// Zooming and panning one or two axes of a picture by mouse and keyboard.
//
// An axis is {low, high, from, to, least}: its limits, what is shown of it, and the shortest piece
// that may be shown.

function zoomAxis(axis, factor, at) {
  const span = Math.min(axis.high - axis.low, Math.max(axis.least, (axis.to - axis.from) * factor));
  const share = (at - axis.from) / (axis.to - axis.from || 1);
  axis.from = Math.max(axis.low, Math.min(at - share * span, axis.high - span));
  axis.to = axis.from + span;
}
function panAxis(axis, by) {
  const move = Math.max(axis.low - axis.from, Math.min(by, axis.high - axis.to));
  axis.from += move;
  axis.to += move;
}
function showAll(axis) { axis.from = axis.low; axis.to = axis.high; }
const middle = (axis) => (axis.from + axis.to) / 2;

// The wheel zooms only while the picture has the focus or Ctrl is held: a page must stay scrollable.
// toX and toY turn a place within the node, in pixels, into a value of the axis.
function interactive(node, { x, y, toX, toY, draw, keys }) {
  node.addEventListener("wheel", (event) => {
    if (!(event.ctrlKey || node === document.activeElement)) return;
    event.preventDefault();
    const box = node.getBoundingClientRect();
    const amount = Math.abs(event.deltaY) >= Math.abs(event.deltaX) ? event.deltaY : 0;
    if (!amount) panAxis(x, (event.deltaX / box.width) * (x.to - x.from));
    else if (y && !event.shiftKey) zoomAxis(y, 1.0015 ** amount, toY(event.clientY - box.top));
    else zoomAxis(x, 1.0015 ** amount, toX(event.clientX - box.left));
    hideTip();
    draw();
  }, { passive: false });

  let last = null;
  node.addEventListener("pointerdown", (event) => {
    if (event.button) return;
    node.focus({ preventScroll: true });
    last = { x: event.clientX, y: event.clientY, moved: false };
  });
  addEventListener("pointermove", (event) => {
    if (!last || !(event.buttons & 1)) { last = null; return; }
    if (!last.moved && Math.hypot(event.clientX - last.x, event.clientY - last.y) < 4) return;
    last.moved = true;
    panAxis(x, toX(last.x) - toX(event.clientX));
    if (y) panAxis(y, toY(last.y) - toY(event.clientY));
    [last.x, last.y] = [event.clientX, event.clientY];
    hideTip();
    draw();
  });
  addEventListener("pointerup", () => { last = null; });

  node.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const main = y || x;
    const actions = {
      "+": () => zoomAxis(main, 0.6, middle(main)),
      "=": () => zoomAxis(main, 0.6, middle(main)),
      "-": () => zoomAxis(main, 1 / 0.6, middle(main)),
      ArrowLeft: () => panAxis(x, -0.15 * (x.to - x.from)),
      ArrowRight: () => panAxis(x, 0.15 * (x.to - x.from)),
      Home: () => panAxis(x, x.low - x.from),
      End: () => panAxis(x, x.high - x.to),
      0: () => { showAll(x); if (y) showAll(y); },
      ...(y ? {
        ArrowUp: () => panAxis(y, 0.15 * (y.to - y.from)),
        ArrowDown: () => panAxis(y, -0.15 * (y.to - y.from)),
        "]": () => zoomAxis(x, 0.6, middle(x)),
        "[": () => zoomAxis(x, 1 / 0.6, middle(x)),
      } : {}),
      ...keys,
    };
    const action = actions[event.key];
    if (!action) return;
    event.preventDefault();
    action();
    draw();
  });
}

const zoomButtons = (axis, x, y, draw, what = "") => [
  ["+", "Zoom in" + what, () => zoomAxis(axis, 0.5, middle(axis))],
  ["−", "Zoom out" + what, () => zoomAxis(axis, 2, middle(axis))],
  ["all", "Show everything", () => { showAll(x); if (y) showAll(y); }],
].map(([text, title, action]) => el("button", { type: "button", title, "aria-label": title, onclick: () => { action(); draw(); } }, text));
