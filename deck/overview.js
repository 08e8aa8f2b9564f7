// All slides at once, by section; the presenter's window has it too, and chooses there without the audience seeing it.

const overview = () => root.classList.contains("overview");

function setOverview(on) {
  if (on === overview()) return;
  root.classList.toggle("overview", on);
  root.classList.toggle("presenter", presenting && !on);
  if (on) {
    openDrawer(false);
    zoomTo(null);
    const link = slides[at].querySelector(".jump");
    link.focus({ preventScroll: true });
    link.scrollIntoView({ block: "center" });
  } else {
    document.activeElement?.blur();
    show(at, step);
  }
}

function moveInOverview(key) {
  const links = slides.map((slide) => slide.querySelector(".jump"));
  const from = Math.max(0, links.indexOf(document.activeElement));
  const to = {
    ArrowLeft: from - 1,
    ArrowRight: from + 1,
    ArrowUp: inNextRow(from, -1),
    ArrowDown: inNextRow(from, 1),
    Home: 0,
    End: links.length - 1,
  }[key];
  links[Math.max(0, Math.min(to, links.length - 1))].focus();
}

// The slide in the row above (-1) or below (1) that stands nearest to being in the same column.
function inNextRow(from, direction) {
  const [top, left] = [slides[from].offsetTop, slides[from].offsetLeft];
  const beyond = slides.map((slide, i) => i).filter((i) => direction * (slides[i].offsetTop - top) > 1);
  if (!beyond.length) return from;
  const row = slides[direction > 0 ? beyond[0] : beyond.at(-1)].offsetTop;
  const aside = (i) => Math.abs(slides[i].offsetLeft - left);
  return beyond.filter((i) => slides[i].offsetTop === row).reduce((best, i) => (aside(i) < aside(best) ? i : best));
}
