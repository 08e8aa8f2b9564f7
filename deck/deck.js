// The deck's state (which slide, which of its build steps, black or not) and what shows it.
// All of deck/*.js becomes one function of the page: names are shared, and the last file, start.js, sets things going.
const root = document.documentElement;
const find = (selector) => document.querySelector(selector);
const slides = [...document.querySelectorAll(".slide")];
const numbers = slides.map((slide) => Number(slide.dataset.number));
const deckName = document.title;

let at = 0; // index of the slide shown
let step = 0; // index of its build step shown
let black = false;
let returnTo = null; // what had the focus before something was opened

const WHOLE = Infinity; // the step that shows all of a slide

function show(index, wanted = 0) {
  const before = at;
  at = Math.max(0, Math.min(index, slides.length - 1));
  step = Math.max(0, Math.min(wanted, lastStep(at)));
  if (at !== before) zoomOut();
  slides.forEach((slide, i) => {
    slide.classList.toggle("current", i === at);
    slide.classList.toggle("next", i === at + 1);
  });
  showStep();
  const slide = slides[at];
  if (location.hash !== place()) history.replaceState(null, "", place());
  document.title = at ? `${numbers[at]} · ${deckName}` : deckName;
  find("#progress i").style.width = `${(100 * (at + 1)) / slides.length}%`;
  find("#progress").setAttribute("aria-valuenow", at + 1);
  if (at !== before || !find("#drawer-body").children.length) fillDrawer(slide);
  if (!overview()) window.scrollTo(0, 0);
  showOnDesk();
  fitWords(slide);
  for (const near of [slide, slides[at + 1], slides[at - 1]])
    for (const image of near?.querySelectorAll("img") ?? []) image.decode().catch(() => {});
}

// #21 is the slide of that number at its first step, #21.2 at its second.
function place() {
  return step ? `#${numbers[at]}.${step + 1}` : `#${numbers[at]}`;
}

function placeIn(hash) {
  const [, number, wanted] = /^#(\d+)(?:\.(\d+))?$/.exec(hash) ?? [];
  return [numbers.indexOf(Number(number)), Number(wanted ?? 1) - 1];
}

function announce(moved) {
  const slide = slides[at];
  const ofSteps = lastStep(at) ? ` Step ${step + 1} of ${lastStep(at) + 1}.` : "";
  find("#announcer").textContent = moved
    ? `Slide ${numbers[at]} of ${numbers.at(-1)}. ${slide.querySelector("h2").textContent}.${ofSteps} ${slide.querySelector("img").alt}`
    : ofSteps.trim();
}

// Notes that do not fit are set smaller; what still does not fit can be scrolled, and then by keyboard too.
function fitWords(slide) {
  const words = slide.querySelector(presenting ? ".notes" : ".words");
  if (!words) return;
  if (presenting) {
    words.style.fontSize = "";
    for (let size = parseFloat(getComputedStyle(words).fontSize); words.scrollHeight > words.clientHeight && size > 16; size--)
      words.style.fontSize = `${size - 1}px`;
  }
  if (words.scrollHeight > words.clientHeight + 1) words.tabIndex = 0;
  else words.removeAttribute("tabindex");
}

function go(index, wanted = 0) {
  const [slideBefore, stepBefore] = [at, step];
  show(index, wanted);
  if (black) setBlack(false);
  if (at === slideBefore && step === stepBefore) return;
  announce(at !== slideBefore);
  tell();
}

function forward() {
  if (step < lastStep(at)) go(at, step + 1);
  else if (at + 1 < slides.length) go(at + 1);
  else go(at, WHOLE);
}

function back() {
  if (step) go(at, step - 1);
  else if (at) go(at - 1, WHOLE);
  else go(at);
}

function goToNumber(number, wanted = 0) {
  const index = numbers.indexOf(number);
  if (index >= 0) go(index, wanted);
  else say(`There is no slide ${number}`);
}

function setBlack(on) {
  showBlack(on);
  if (black && !presenting) find("#black").focus();
  tell();
}

function showBlack(on) {
  black = on;
  find("#black").hidden = presenting || !black;
  find("#desk-black").hidden = !black;
}

let hush;
function say(text, lasting = 1600) {
  find("#toast").textContent = text;
  clearTimeout(hush);
  hush = setTimeout(() => {
    find("#toast").textContent = "";
    typed = "";
  }, lasting);
}

// --- evidence ---

function fillDrawer(slide) {
  const parts = [...slide.querySelector(".evidence").children];
  find("#drawer-body").replaceChildren(...parts.map((part) => part.cloneNode(true)));
}

function openDrawer(on) {
  const drawer = find("#drawer");
  if (on === !drawer.hidden) return;
  if (on) returnTo = document.activeElement;
  drawer.hidden = !on;
  if (on) drawer.focus();
  else if (returnTo?.isConnected && returnTo !== document.body) returnTo.focus();
}

// --- theme ---

const THEMES = ["", "light", "dark"]; // "" follows the system

function storedTheme(value) {
  try {
    if (value === undefined) return localStorage.getItem("theme") ?? "";
    localStorage.setItem("theme", value);
  } catch {
    // a browser may keep no storage for a file
  }
  return value ?? "";
}

function setTheme(theme) {
  if (theme) root.dataset.theme = theme;
  else delete root.dataset.theme;
  storedTheme(theme);
}

function nextTheme() {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order = dark ? ["", "light", "dark"] : ["", "dark", "light"]; // the first press always changes what is seen
  const theme = order[(order.indexOf(root.dataset.theme ?? "") + 1) % order.length];
  setTheme(theme);
  say(theme ? `Theme: ${theme}` : "Theme: as the system has it");
}
