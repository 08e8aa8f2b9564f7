// The deck's behaviour: one state (which slide, black or not) and the ways to change it.
// The presenter's window is this same page opened with ?presenter; the two tell each other every change by postMessage.
"use strict";
(() => {
  const root = document.documentElement;
  const find = (selector) => document.querySelector(selector);
  const slides = [...document.querySelectorAll(".slide")];
  const numbers = slides.map((slide) => Number(slide.dataset.number));
  const presenting = new URLSearchParams(location.search).has("presenter");
  const name = document.title;

  let at = 0; // index of the slide shown
  let black = false;
  let peer = presenting ? window.opener : null; // the other window, once known
  let returnTo = null; // what had the focus before something was opened
  let typed = ""; // a slide number being typed

  // --- showing ---

  function show(index) {
    at = Math.max(0, Math.min(index, slides.length - 1));
    slides.forEach((slide, i) => {
      slide.classList.toggle("current", i === at);
      slide.classList.toggle("next", i === at + 1);
    });
    const slide = slides[at];
    if (location.hash !== `#${numbers[at]}`) history.replaceState(null, "", `#${numbers[at]}`);
    document.title = at ? `${numbers[at]} · ${name}` : name;
    find("#progress i").style.width = `${(100 * (at + 1)) / slides.length}%`;
    find("#progress").setAttribute("aria-valuenow", at + 1);
    find("#desk-count").textContent = `${numbers[at]} / ${numbers.at(-1)}`;
    find("#the-end").hidden = at + 1 < slides.length;
    find("#drawer-body").replaceChildren(...[...slide.querySelector(".evidence").children].map((part) => part.cloneNode(true)));
    if (!root.classList.contains("overview")) window.scrollTo(0, 0);
    fitWords(slide);
    for (const near of [slide, slides[at + 1], slides[at - 1]]) near?.querySelector("img").decode().catch(() => {});
  }

  function announce() {
    const slide = slides[at];
    find("#announcer").textContent =
      `Slide ${numbers[at]} of ${numbers.at(-1)}. ${slide.querySelector("h2").textContent}. ${slide.querySelector("img").alt}`;
  }

  // Notes that do not fit are set smaller; what still does not fit can be scrolled, and then by keyboard too.
  function fitWords(slide) {
    const words = slide.querySelector(presenting ? ".notes" : ".words");
    if (presenting) {
      words.style.fontSize = "";
      for (let size = parseFloat(getComputedStyle(words).fontSize); words.scrollHeight > words.clientHeight && size > 16; size--)
        words.style.fontSize = `${size - 1}px`;
    }
    if (words.scrollHeight > words.clientHeight + 1) words.tabIndex = 0;
    else words.removeAttribute("tabindex");
  }

  function go(index) {
    const before = at;
    show(index);
    if (black) setBlack(false);
    if (at === before) return;
    announce();
    tell();
  }

  function goToNumber(number) {
    const index = numbers.indexOf(number);
    if (index >= 0) go(index);
    else say(`There is no slide ${number}`);
  }

  function setBlack(on) {
    black = on;
    find("#black").hidden = presenting || !black;
    find("#desk-black").hidden = !black;
    if (black && !presenting) find("#black").focus();
    tell();
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

  // --- two windows in step ---

  function tell() {
    if (peer && !peer.closed) peer.postMessage({ deck: "state", number: numbers[at], black }, "*");
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
      const index = numbers.indexOf(data.number);
      if (index !== at) {
        show(index);
        announce();
      }
      if (data.black !== black) {
        black = data.black === true;
        find("#black").hidden = presenting || !black;
        find("#desk-black").hidden = !black;
      }
    }
  });

  function openPresenter() {
    if (presenting) return;
    if (peer && !peer.closed) return peer.focus();
    const address = new URL(location.href);
    address.search = "?presenter";
    peer = window.open(address, "presenter", "popup,width=1280,height=760");
    if (!peer) say("The browser blocked the presenter's window: allow pop-ups for this page", 6000);
  }

  // --- overview, drawer, help ---

  const overview = () => root.classList.contains("overview");

  function setOverview(on) {
    if (presenting || on === overview()) return;
    root.classList.toggle("overview", on);
    if (on) {
      openDrawer(false);
      const link = slides[at].querySelector(".jump");
      link.focus({ preventScroll: true });
      link.scrollIntoView({ block: "center" });
    } else {
      document.activeElement?.blur();
      show(at);
    }
  }

  function moveInOverview(key) {
    const links = slides.map((slide) => slide.querySelector(".jump"));
    const top = slides[0].offsetTop;
    const across = slides.filter((slide) => slide.offsetTop === top).length;
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -across, ArrowDown: across, Home: -1e9, End: 1e9 }[key];
    const from = Math.max(0, links.indexOf(document.activeElement));
    const to = Math.abs(step) === across && across > 1 && !(from + step in links) ? from : from + step;
    links[Math.max(0, Math.min(to, links.length - 1))].focus();
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
  const stored = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("theme") ?? "";
      localStorage.setItem("theme", value);
    } catch {
      // a browser may keep no storage for a file
    }
    return value ?? "";
  };

  function setTheme(theme) {
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    stored(theme);
  }

  function nextTheme() {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const order = dark ? ["", "light", "dark"] : ["", "dark", "light"]; // the first press always changes what is seen
    const theme = order[(order.indexOf(root.dataset.theme ?? "") + 1) % order.length];
    setTheme(theme);
    say(theme ? `Theme: ${theme}` : "Theme: as the system has it");
  }

  function fullScreen() {
    if (document.fullscreenElement) document.exitFullscreen();
    else root.requestFullscreen?.().catch(() => say("The browser allows no full screen here"));
  }

  // --- the presenter's clock ---

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

  function pause(at = spent()) {
    elapsed = at;
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
      sessionStorage.setItem("stage", JSON.stringify({ black, elapsed: spent(), running }));
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

  // --- keys, buttons, touch, address ---

  const ACTIONS = {
    ArrowRight: () => go(at + 1),
    ArrowDown: () => go(at + 1),
    PageDown: () => go(at + 1),
    ArrowLeft: () => go(at - 1),
    ArrowUp: () => go(at - 1),
    PageUp: () => go(at - 1),
    Home: () => go(0),
    End: () => go(slides.length - 1),
    o: () => setOverview(!overview()),
    e: () => openDrawer(find("#drawer").hidden),
    n: openPresenter,
    f: fullScreen,
    b: () => setBlack(!black),
    t: nextTheme,
    "?": () => find("#help").showModal(),
    Escape: () => (black ? setBlack(false) : find("#drawer").hidden ? setOverview(false) : openDrawer(false)),
  };
  if (presenting) Object.assign(ACTIONS, { p: () => pause(), r: restart });

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || find("#help").open) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
    const onControl = event.target.closest?.("button, a");
    if (/^\d$/.test(key)) {
      typed = (typed + key).slice(-3);
      say(`Go to ${typed} ⏎`, 4000);
    } else if (key === "Enter" && typed) {
      event.preventDefault();
      say("");
      setOverview(false);
      goToNumber(Number(typed));
      typed = "";
    } else if (key === " " && !onControl) {
      event.preventDefault();
      typed = "";
      go(at + (event.shiftKey ? -1 : 1));
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
    if (button) ACTIONS[button.dataset.key]();
    if (jump) {
      event.preventDefault();
      setOverview(false);
      goToNumber(Number(jump.hash.slice(1)));
    }
  });

  let touch = null;
  document.addEventListener("touchstart", ({ touches }) => (touch = touches.length === 1 ? touches[0] : null), { passive: true });
  document.addEventListener("touchend", ({ changedTouches }) => {
    if (!touch || overview() || find("#help").open || window.visualViewport?.scale > 1.05) return;
    const across = changedTouches[0].clientX - touch.clientX;
    const down = changedTouches[0].clientY - touch.clientY;
    if (Math.abs(across) > 50 && Math.abs(across) > 1.5 * Math.abs(down)) go(at + (across < 0 ? 1 : -1));
    touch = null;
  });

  window.addEventListener("hashchange", () => {
    const number = Number(location.hash.slice(1));
    if (number && number !== numbers[at]) goToNumber(number);
  });
  window.addEventListener("resize", () => fitWords(slides[at]));

  // --- start ---

  const theme = stored();
  if (THEMES.includes(theme)) setTheme(theme);
  root.classList.toggle("presenter", presenting); // before anything is measured
  show(Math.max(0, numbers.indexOf(Number(location.hash.slice(1)))));
  const stage = keptStage();
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
})();
