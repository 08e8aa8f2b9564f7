// Keys, buttons, touch and the address; then the start.

let typed = ""; // a slide's number being typed, with a step's after a point

const ACTIONS = {
  ArrowRight: forward,
  ArrowDown: forward,
  PageDown: forward,
  ArrowLeft: back,
  ArrowUp: back,
  PageUp: back,
  Home: () => go(0),
  End: () => go(slides.length - 1, WHOLE),
  o: () => setOverview(!overview()),
  e: () => openDrawer(find("#drawer").hidden),
  n: openPresenter,
  f: fullScreen,
  v: () => presenting || setAlone(!alone()),
  z: () => overview() || toggleZoom(),
  b: () => setBlack(!black),
  ".": () => setBlack(!black),
  t: nextTheme,
  "?": () => find("#help").showModal(),
  Escape: () => {
    if (black) setBlack(false);
    else if (!find("#drawer").hidden) openDrawer(false);
    else if (overview()) setOverview(false);
    else if (zoom) zoomTo(null);
    else if (!root.classList.contains("full")) setAlone(false);
  },
};
if (presenting) Object.assign(ACTIONS, { p: () => pause(), r: restart });

// What a key means: its letter; where that is of another alphabet, or shifted away, what stands at its place.
function meaning({ key, code, shiftKey }) {
  const letter = key.length === 1 ? key.toLowerCase() : key;
  if (/^[a-z0-9 ]$/.test(letter) || Object.hasOwn(ACTIONS, letter)) return letter;
  if (code === "Slash" && shiftKey) return "?";
  if (code === "Period" && !shiftKey) return ".";
  return /^(?:Key|Digit|Numpad)([A-Z0-9])$/.exec(code)?.[1].toLowerCase() ?? letter;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || find("#help").open) return;
  const key = meaning(event);
  const onControl = event.target.closest?.("button, a");
  if (/^\d$/.test(key) || (key === "." && typed && !typed.includes("."))) {
    typed = (typed + key).slice(0, 6);
    say(`Go to ${typed} ⏎`, 4000);
  } else if (key === "Enter" && typed) {
    event.preventDefault();
    const [number, wanted] = typed.split(".").map(Number);
    say("");
    typed = "";
    setOverview(false);
    goToNumber(number, (wanted || 1) - 1);
  } else if (key === " " && !onControl) {
    event.preventDefault();
    typed = "";
    (event.shiftKey ? back : forward)();
  } else if (/^Arrow(Left|Right)/.test(key) && event.shiftKey && !overview()) {
    event.preventDefault();
    typed = "";
    go(at + (key === "ArrowRight" ? 1 : -1)); // over the steps
  } else if (/^(Arrow|Home|End)/.test(key) && overview()) {
    event.preventDefault();
    typed = "";
    moveInOverview(key);
  } else if (/^Arrow(Up|Down)/.test(key) && scrolls(event.target)) {
    return; // let it scroll
  } else if (Object.hasOwn(ACTIONS, key)) {
    event.preventDefault();
    typed = "";
    if (!overview() && /^(Arrow|Page|Home|End)/.test(key)) event.target.closest?.("#black")?.blur();
    ACTIONS[key]();
  }
});

// Up and down belong to whatever can be scrolled: long words that have the focus, the drawer, a page on a phone.
function scrolls(target) {
  const box = target.closest?.("#drawer, [tabindex='0']") ?? document.scrollingElement;
  return box.scrollHeight > box.clientHeight + 1;
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("[data-key]");
  const jump = event.target.closest(".jump");
  const figure = event.target.closest(".current figure");
  if (button) ACTIONS[button.dataset.key]();
  else if (jump) {
    event.preventDefault();
    setOverview(false);
    goToNumber(Number(jump.hash.slice(1)), WHOLE); // what was chosen is what was seen
  } else if (figure) toggleZoom(pointIn(figure, event));
});

let touch = null;
document.addEventListener("touchstart", ({ touches }) => (touch = touches.length === 1 ? touches[0] : null), { passive: true });
document.addEventListener("touchend", ({ changedTouches }) => {
  if (!touch || overview() || find("#help").open || window.visualViewport?.scale > 1.05) return;
  const across = changedTouches[0].clientX - touch.clientX;
  const down = changedTouches[0].clientY - touch.clientY;
  if (Math.abs(across) > 50 && Math.abs(across) > 1.5 * Math.abs(down)) (across < 0 ? forward : back)();
  touch = null;
});

window.addEventListener("hashchange", () => {
  const [index, wanted] = placeIn(location.hash);
  if (index >= 0 && location.hash !== place()) go(index, wanted);
  else if (/^#\d+$/.test(location.hash) && index < 0) goToNumber(Number(location.hash.slice(1)));
});
window.addEventListener("resize", () => fitWords(slides[at]));

// --- the start ---

const theme = storedTheme();
if (THEMES.includes(theme)) setTheme(theme);
root.classList.toggle("presenter", presenting); // before anything is measured
onFullScreen();
const stage = keptStage();
if (stage?.alone && !presenting) setAlone(true);
show(...placeIn(location.hash));
if (stage?.black) setBlack(true);
if (presenting) {
  find("#desk").hidden = false;
  if (stage) elapsed = stage.elapsed;
  if (stage && !stage.running) pause(stage.elapsed);
  tick();
  setInterval(tick, 500);
  hello(true);
  setInterval(() => hello(false), 1000); // finds the deck again after it was reloaded
}
Promise.all([...document.fonts].map((face) => face.load())).finally(() => {
  fitWords(slides[at]);
  root.dataset.ready = "";
});
