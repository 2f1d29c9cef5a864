/* Zooms and pans SVG layers by their viewBox, with Ctrl and the mouse wheel, by dragging, or by buttons. */
"use strict";
globalThis.roundtable.zoomable = (box, changed) => {
  const layers = [...box.children];
  const MOST = 40;
  const STEP = 1.5;
  const STILL = 3;
  const whole = { wide: 1, high: 1 };
  const shown = { x: 0, y: 0, scale: 1 };
  let drag = null;

  const apply = () => {
    const [wide, high] = [whole.wide / shown.scale, whole.high / shown.scale];
    shown.x = Math.max(0, Math.min(whole.wide - wide, shown.x));
    shown.y = Math.max(0, Math.min(whole.high - high, shown.y));
    for (const layer of layers) layer.setAttribute("viewBox", `${shown.x} ${shown.y} ${wide} ${high}`);
    changed(shown);
  };
  /** Converts the position of the pointer to picture coordinates. */
  const under = (event) => {
    const { x, y } = new DOMPoint(event.clientX, event.clientY).matrixTransform(layers[0].getScreenCTM().inverse());
    return [x, y];
  };
  const by = (factor, [x, y] = [shown.x + whole.wide / shown.scale / 2, shown.y + whole.high / shown.scale / 2]) => {
    const scale = Math.max(1, Math.min(MOST, shown.scale * factor));
    shown.x = x - ((x - shown.x) * shown.scale) / scale;
    shown.y = y - ((y - shown.y) * shown.scale) / scale;
    shown.scale = scale;
    apply();
  };
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    by(event.deltaY < 0 ? STEP : 1 / STEP, under(event));
  }, { passive: false });
  box.addEventListener("pointerdown", (event) => { if (event.button === 0) drag = { from: under(event), at: [event.clientX, event.clientY], moved: false }; });
  box.addEventListener("pointermove", (event) => {
    if (drag === null || shown.scale === 1) return;
    if (!drag.moved && Math.hypot(event.clientX - drag.at[0], event.clientY - drag.at[1]) < STILL) return;
    if (!drag.moved) box.setPointerCapture(event.pointerId);
    drag.moved = true;
    const [x, y] = under(event);
    shown.x += drag.from[0] - x;
    shown.y += drag.from[1] - y;
    apply();
  });
  for (const name of ["pointerup", "pointercancel"]) box.addEventListener(name, () => { setTimeout(() => { drag = null; }); });
  // A drag that ends on a node does not select the node.
  box.addEventListener("click", (event) => { if (drag?.moved) event.stopPropagation(); }, true);
  return {
    shown,
    in: () => by(STEP),
    out: () => by(1 / STEP),
    /** Fits a picture of this size into the view. */
    reset: (wide = whole.wide, high = whole.high) => { Object.assign(whole, { wide, high }); Object.assign(shown, { x: 0, y: 0, scale: 1 }); apply(); },
    /** Centres a point, at this scale or a larger one. */
    to: (x, y, scale = shown.scale) => {
      shown.scale = Math.max(shown.scale, Math.min(MOST, scale));
      [shown.x, shown.y] = [x - whole.wide / shown.scale / 2, y - whole.high / shown.scale / 2];
      apply();
    },
  };
};
