(function () {
  "use strict";
  var doc = document, root = doc.documentElement;
  root.classList.add("js");

  var links = Array.prototype.slice.call(doc.querySelectorAll("nav a"));
  var tabs = links.map(function (link) { return doc.getElementById(link.getAttribute("href").slice(1)); });
  doc.querySelector("nav").setAttribute("role", "tablist");

  function show(place, move) {
    links.forEach(function (link, i) {
      link.setAttribute("aria-selected", i === place ? "true" : "false");
      link.tabIndex = i === place ? 0 : -1;
      tabs[i].hidden = i !== place;
    });
    hide();
    if (move) { links[place].focus(); }
  }

  links.forEach(function (link, i) {
    link.setAttribute("role", "tab");
    link.setAttribute("aria-controls", tabs[i].id);
    tabs[i].setAttribute("role", "tabpanel");
    link.addEventListener("click", function (event) {
      event.preventDefault();
      show(i, false);
      try { history.replaceState(null, "", link.getAttribute("href")); } catch (e) { /* some viewers forbid it */ }
    });
    link.addEventListener("keydown", function (event) {
      var step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (step) { event.preventDefault(); show((i + step + links.length) % links.length, true); }
    });
  });

  // a mark's own <title> serves where there is no script; here it becomes the text of one tooltip
  doc.querySelectorAll("svg title").forEach(function (title) {
    title.parentNode.setAttribute("data-tip", title.textContent);
    title.remove();
  });
  doc.querySelectorAll("[title]").forEach(function (mark) { mark.removeAttribute("title"); });

  var tip = doc.createElement("div");
  tip.id = "tip";
  tip.setAttribute("role", "status");
  tip.hidden = true;
  doc.body.appendChild(tip);

  function hide() { if (tip) { tip.hidden = true; } }

  function place(event) {
    var mark = event.target.closest ? event.target.closest("[data-tip]") : null;
    if (!mark) { hide(); return; }
    tip.textContent = mark.getAttribute("data-tip");
    tip.hidden = false;
    var wide = root.clientWidth, left = event.pageX + 12;
    if (left + tip.offsetWidth > wide - 6) { left = Math.max(6, event.pageX - tip.offsetWidth - 12); }
    tip.style.left = Math.max(6, Math.min(left, wide - tip.offsetWidth - 6)) + "px";
    tip.style.top = Math.max(6, event.pageY - tip.offsetHeight - 10) + "px";
  }

  doc.addEventListener("mousemove", place);
  doc.addEventListener("click", place);
  doc.addEventListener("scroll", hide, { passive: true });

  if (links.length) {
    var first = links.findIndex(function (link) { return link.getAttribute("href") === location.hash; });
    show(Math.max(first, 0), false);
  }
})();
