"use strict";
{
  const svg = document.documentElement;
  const width = Number(svg.getAttribute("viewBox").split(" ")[2]);
  // Positions are rounded to a thousandth.
  const slack = 0.002;
  const charWidth = Number(svg.dataset.charWidth);
  const frames = Array.from(svg.querySelectorAll(".frame"), (element) => {
    const rect = element.querySelector("rect");
    return {
      element,
      rect,
      text: element.querySelector("text"),
      name: element.querySelector("title").textContent.split("\n").slice(0, -1).join("\n"),
      x: Number(rect.getAttribute("x")),
      y: Number(rect.getAttribute("y")),
      width: Number(rect.getAttribute("width")),
    };
  });
  const all = frames[0];

  function fit(name, room) {
    const count = Math.floor((room - 6) / charWidth);
    const chars = Array.from(name);
    if (chars.length <= count) return name;
    return count >= 3 ? chars.slice(0, count - 1).join("") + "…" : "";
  }

  function zoom(to) {
    const scale = width / to.width;
    const end = to.x + to.width;
    for (const frame of frames) {
      const isAround = frame.y < to.y && frame.x <= to.x + slack && frame.x + frame.width >= end - slack;
      const isInside = frame.y >= to.y && frame.x >= to.x - slack && frame.x + frame.width <= end + slack;
      frame.element.classList.toggle("around", isAround);
      frame.element.classList.toggle("outside", !isAround && !isInside);
      const x = isAround ? 0 : (frame.x - to.x) * scale;
      const room = isAround ? width : frame.width * scale;
      frame.rect.setAttribute("x", x);
      frame.rect.setAttribute("width", room);
      frame.text.setAttribute("x", x + 3);
      frame.text.textContent = fit(frame.name, room);
    }
  }

  function search() {
    const wanted = prompt("Names that contain:");
    if (wanted === null) return;
    let ends = 0;
    let found = 0;
    for (const frame of frames) {
      const isFound = wanted !== "" && frame.name.includes(wanted);
      frame.element.classList.toggle("found", isFound);
      // Frames are sorted from left to right, parents first: matches inside a match are counted once.
      if (isFound && frame.x >= ends - slack) {
        ends = frame.x + frame.width;
        found += frame.width;
      }
    }
    searchButton.textContent = wanted === "" ? "search" : `search: ${((100 * found) / all.width).toFixed(2)} %`;
  }

  function button(label, x, action) {
    const text = document.createElementNS(svg.namespaceURI, "text");
    text.setAttribute("class", "button");
    text.setAttribute("x", x);
    text.setAttribute("y", 18);
    text.textContent = label;
    text.addEventListener("click", action);
    svg.append(text);
    return text;
  }

  for (const frame of frames) frame.element.addEventListener("click", () => zoom(frame));
  button("reset", width - 190, () => zoom(all));
  const searchButton = button("search", width - 140, search);
}
