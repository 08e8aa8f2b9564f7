// The presenter's window: this same page opened with ?presenter. The two tell each other every change by postMessage.

const presenting = new URLSearchParams(location.search).has("presenter");

let peer = presenting ? window.opener : null; // the other window, once known

function tell() {
  if (peer && !peer.closed) peer.postMessage({ deck: "state", number: numbers[at], step, black, zoom }, "*");
}

function hello(fresh) {
  if (peer && !peer.closed) peer.postMessage({ deck: "hello", fresh }, "*");
}

window.addEventListener("message", ({ source, data }) => {
  if (!data || typeof data !== "object" || (presenting ? source !== window.opener : source === window)) return;
  if (data.deck === "hello" && !presenting) {
    const known = peer === source;
    peer = source;
    if (data.fresh || !known) tell(); // a window that has just opened, or ours that has just been reloaded
  } else if (data.deck === "state" && source === (peer ??= source) && numbers.includes(data.number)) {
    follow(data);
  }
});

function follow(told) {
  const index = numbers.indexOf(told.number);
  const [slideBefore, stepBefore] = [at, step];
  if (index !== at || told.step !== step) show(index, Number(told.step) || 0);
  if (at !== slideBefore || step !== stepBefore) announce(at !== slideBefore);
  if (told.black !== black) showBlack(told.black === true);
  if (String(told.zoom) !== String(zoom)) setZoom(Array.isArray(told.zoom) ? told.zoom.map(Number) : null);
}

function openPresenter() {
  if (presenting) return;
  if (peer && !peer.closed) return peer.focus();
  const address = new URL(location.href);
  address.search = "?presenter";
  peer = window.open(address, "presenter", "popup,width=1280,height=760");
  if (!peer) say("The browser blocked the presenter's window: allow pop-ups for this page", 6000);
}

function showOnDesk() {
  const steps = lastStep(at) ? ` · step ${step + 1} of ${lastStep(at) + 1}` : "";
  find("#desk-count").textContent = `${numbers[at]} / ${numbers.at(-1)}`;
  find("#desk-section").textContent = `${slides[at].dataset.section}${steps}`;
  find("#the-end").hidden = at + 1 < slides.length;
}

// --- the clock ---

let elapsed = 0;
let since = Date.now();
let running = true;
const spent = () => elapsed + (running ? Date.now() - since : 0);

function tick() {
  const seconds = Math.floor(spent() / 1000);
  const minutes = Math.floor(seconds / 60);
  find("#timer").textContent = `${minutes}:${String(seconds % 60).padStart(2, "0")}`;
  find("#clock").textContent = new Date().toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
}

function pause(stopped = spent()) {
  elapsed = stopped;
  since = Date.now();
  running = !running;
  find("#pause").firstChild.textContent = running ? "Pause " : "Go on ";
  tick();
}

function restart() {
  elapsed = 0;
  since = Date.now();
  tick();
}

// --- a reload, by the one who presents or after a rebuild, keeps what was on the stage ---

function keep() {
  try {
    sessionStorage.setItem("stage", JSON.stringify({ black, elapsed: spent(), running, alone: alone() }));
  } catch {
    // a browser may keep no storage for a file
  }
}

function keptStage() {
  if (performance.getEntriesByType("navigation")[0]?.type !== "reload") return null;
  try {
    return JSON.parse(sessionStorage.getItem("stage"));
  } catch {
    return null;
  }
}

window.addEventListener("pagehide", keep);
