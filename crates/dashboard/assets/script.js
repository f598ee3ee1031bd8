// Follows the cluster: takes pages from the server's stream and changes what differs in the document, so that focus, open
// parts, selections and scroll positions stay. Shows times as ages and counts down to those that lie ahead.
(() => {
  "use strict";

  // Makes `old` like `fresh`, in place.
  function become(old, fresh) {
    if (old.nodeType !== fresh.nodeType || old.nodeName !== fresh.nodeName || key(old) !== key(fresh)) {
      old.replaceWith(fresh);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
      return;
    }
    // What the reader opened or closed stays as it is; the text of a time is ours.
    const theirs = old.nodeName === "DETAILS" ? "open" : null;
    for (const { name } of [...old.attributes]) {
      if (name !== theirs && !fresh.hasAttribute(name)) old.removeAttribute(name);
    }
    for (const { name, value } of fresh.attributes) {
      if (name !== theirs && old.getAttribute(name) !== value) old.setAttribute(name, value);
    }
    if (old.nodeName === "TIME") return tick(old);
    let one = old.firstChild;
    let other = fresh.firstChild;
    while (one && other) {
      const [nextOne, nextOther] = [one.nextSibling, other.nextSibling];
      become(one, other);
      [one, other] = [nextOne, nextOther];
    }
    while (one) {
      const next = one.nextSibling;
      one.remove();
      one = next;
    }
    while (other) {
      const next = other.nextSibling;
      old.append(other);
      other = next;
    }
  }

  function key(node) {
    return node.nodeType === Node.ELEMENT_NODE ? node.getAttribute("data-key") : null;
  }

  function span(seconds) {
    const whole = Math.max(0, Math.round(seconds));
    if (whole < 120) return `${whole}s`;
    if (whole < 7200) return `${Math.floor(whole / 60)}m`;
    if (whole < 172800) return `${Math.floor(whole / 3600)}h`;
    return `${Math.floor(whole / 86400)}d`;
  }

  function tick(time) {
    const seconds = (Date.parse(time.dateTime) - Date.now()) / 1000;
    if (Number.isNaN(seconds)) return;
    let text = null;
    if (time.hasAttribute("data-age")) text = `${span(-seconds)} ago`;
    else if (time.hasAttribute("data-countdown")) text = seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`;
    if (text !== null && time.textContent !== text) {
      time.title = time.dateTime;
      time.textContent = text;
    }
  }

  function tickAll() {
    document.querySelectorAll("time[data-age], time[data-countdown]").forEach(tick);
  }

  function say(state) {
    const place = document.querySelector("[data-live-state]");
    if (place) {
      place.textContent = state;
      place.classList.toggle("lost", state !== "live");
    }
  }

  tickAll();
  setInterval(tickAll, 1000);

  const page = document.body.dataset.live;
  if (!page) return;
  let source = null;

  function follow() {
    source = new EventSource(`/live?page=${encodeURIComponent(page)}`);
    source.addEventListener("page", (event) => {
      const place = document.getElementById("page");
      const fresh = document.createElement("div");
      fresh.id = "page";
      fresh.innerHTML = JSON.parse(event.data);
      become(place, fresh);
      tickAll();
      say("live");
    });
    source.addEventListener("open", () => say("live"));
    source.addEventListener("error", () => say("not connected"));
  }

  // Browsers allow few connections to a host: a tab that is not seen gives up its own.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden && source) {
      source.close();
      source = null;
    } else if (!document.hidden && !source) {
      follow();
    }
  });
  follow();
})();
