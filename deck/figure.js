// The figure: its build steps, alone on the screen, and a closer look at a part of it.

// --- build steps ---
// A figure's picture is its last step. For each earlier one a cover lies over it, which hides what comes later; where two
// steps are alike it is transparent. Covers stand in the page last step first, so that an earlier one lies on top.

const coversOf = slides.map((slide) => [...slide.querySelectorAll(".cover")].reverse());
const lastStep = (index) => coversOf[index].length;

function showStep() {
  coversOf.forEach((covers, i) => covers.forEach((cover, k) => cover.classList.toggle("on", i === at && k === step)));
  slides[at].querySelectorAll(".steps i").forEach((dot, k) => dot.classList.toggle("on", k <= step));
}

// --- the figure alone ---
// Full screen begins with the figure alone and ends with what was there before it.

let aloneBefore = false;

const alone = () => root.classList.contains("alone");

function setAlone(on) {
  root.classList.toggle("alone", on);
  fitWords(slides[at]);
}

const wholeScreen = matchMedia("(display-mode: fullscreen)"); // by the key f, or by the browser's own

function onFullScreen() {
  const on = Boolean(document.fullscreenElement) || wholeScreen.matches;
  if (presenting || on === root.classList.contains("full")) return;
  root.classList.toggle("full", on);
  if (on) aloneBefore = alone();
  setAlone(on || aloneBefore);
}

document.addEventListener("fullscreenchange", onFullScreen);
wholeScreen.addEventListener("change", onFullScreen);

function fullScreen() {
  if (document.fullscreenElement) document.exitFullscreen();
  else root.requestFullscreen?.().catch(() => say("The browser allows no full screen here"));
}

// --- a closer look ---

let zoom = null; // the point of the figure that stays where it is, as shares of its width and height

function setZoom(point) {
  zoom = point;
  slides.forEach((slide, i) => {
    const picture = slide.querySelector(".picture");
    const zoomed = Boolean(zoom) && i === at;
    picture.classList.toggle("zoomed", zoomed);
    if (zoomed) picture.style.transformOrigin = `${100 * zoom[0]}% ${100 * zoom[1]}%`;
  });
}

function zoomOut() {
  if (zoom) setZoom(null);
}

function zoomTo(point) {
  setZoom(point);
  tell();
}

function toggleZoom(point = [0.5, 0.5]) {
  zoomTo(zoom ? null : point);
}

// Where a click fell on the figure; near an edge the edge itself, so that the margin comes along.
function pointIn(figure, { clientX, clientY }) {
  const box = figure.getBoundingClientRect();
  const share = (value) => Math.max(0, Math.min(1, (value - 0.1) / 0.8));
  return [share((clientX - box.left) / box.width), share((clientY - box.top) / box.height)];
}
