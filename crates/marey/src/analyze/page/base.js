"use strict";

// Element builders. Every text becomes a text node, so no text of a trace is parsed as HTML.

const SVG = "http://www.w3.org/2000/svg";

function fill(element, attributes, children) {
    for (const [name, value] of Object.entries(attributes ?? {})) {
        if (typeof value === "function") element.addEventListener(name, value);
        else if (value !== null && value !== undefined && value !== false) {
            element.setAttribute(name, value === true ? "" : value);
        }
    }
    element.append(...children.flat().filter((child) => child !== null && child !== undefined));
    return element;
}

function h(tag, attributes, ...children) {
    return fill(document.createElement(tag), attributes, children);
}

function s(tag, attributes, ...children) {
    return fill(document.createElementNS(SVG, tag), attributes, children);
}

// Number formats, selected by the suffix of a column's name.

const DURATIONS = [["ns", 1], ["µs", 1e3], ["ms", 1e6], ["s", 1e9]];
const SIZES = [["B", 1], ["kB", 1e3], ["MB", 1e6], ["GB", 1e9], ["TB", 1e12]];
// A larger number of nanoseconds, beyond three years, is a time since 1970.
const MOMENT_NANOS = 1e17;
// Columns of identifiers: 12345, not 12,345.
const NAMES = /(^|_)(id|pid|tid|rank|device|stream|number|address|queue|version)$/;

function integer(value) {
    return value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

/** Formats a number with three significant digits: 1.23, 12.3, 123, 1,230. */
function digits(value) {
    const size = Math.abs(value);
    if (value === 0 || size >= 99.95) return integer(value);
    if (size < 0.001) return value.toExponential(1);
    return value.toFixed(size >= 9.995 ? 1 : size >= 0.995 ? 2 : 3);
}

function scaled(value, units) {
    const last = units.length - 1;
    // Rounds up to the next unit: 999.6 µs is 1.00 ms.
    let at = units.findIndex(([, size], index) => index === last || Math.abs(value) / size < 999.5);
    const [unit, size] = units[at];
    const text = at === 0 && Number.isInteger(value) ? integer(value) : digits(value / size);
    return `${text} ${unit}`;
}

function duration(nanos) {
    return scaled(nanos, DURATIONS);
}

function size(bytes) {
    return scaled(bytes, SIZES);
}

function percent(value) {
    return value > 0 && value < 0.05 ? "< 0.1 %" : `${value.toFixed(1)} %`;
}

function share(part, all) {
    return all > 0 ? percent((100 * part) / all) : "–";
}

function moment(nanos) {
    return new Date(nanos / 1e6).toISOString().replace("T", " ").replace("Z", " UTC");
}

/** Formats a cell. Integers beyond 2^53 are strings, since JavaScript would round them. */
function cell(value, column) {
    if (value === null || value === undefined) return "–";
    if (typeof value === "boolean") return value ? "yes" : "no";
    const number = typeof value === "number" ? value : Number(value === "" ? NaN : value);
    if (typeof value === "object") return JSON.stringify(value);
    if (column.endsWith("_nanos") && Number.isFinite(number)) {
        return number > MOMENT_NANOS ? moment(number) : duration(number);
    }
    if (column.endsWith("_bytes") && Number.isFinite(number)) return size(number);
    if (/bytes_per_second$/.test(column) && Number.isFinite(number)) return `${size(number)}/s`;
    if (column.endsWith("_percent") && Number.isFinite(number)) return percent(number);
    if (typeof value !== "number") return String(value);
    if (NAMES.test(column)) return String(value);
    return Number.isInteger(value) ? integer(value) : digits(value);
}

/** Returns the exact value of a cell, for a tooltip. */
function exact(value, column) {
    if (value === null || value === undefined) return "null";
    if (typeof value === "object") return JSON.stringify(value);
    if (typeof value !== "number") return String(value);
    const text = Number.isInteger(value) && !NAMES.test(column) ? integer(value) : String(value);
    const unit = /_(nanos|bytes|percent)$/.exec(column);
    return unit ? `${text} ${{ nanos: "ns", bytes: "bytes", percent: "%" }[unit[1]]}` : text;
}

// The tooltip, for mouse and keyboard.

function showTip(lines, x, y) {
    const tip = document.getElementById("tip");
    tip.replaceChildren(...lines.map((line, at) => h("div", { class: at ? null : "tip-head" }, line)));
    tip.hidden = false;
    const { width, height } = tip.getBoundingClientRect();
    const right = document.documentElement.clientWidth;
    const left = x + 14 + width > right ? Math.max(4, x - width - 14) : x + 14;
    const below = y + 18 + height < window.innerHeight;
    tip.style.left = `${left}px`;
    tip.style.top = `${below ? y + 18 : Math.max(4, y - height - 10)}px`;
}

function hideTip() {
    document.getElementById("tip").hidden = true;
}

function withTooltip(element, lines) {
    const currentLines = () => (typeof lines === "function" ? lines() : lines);
    element.addEventListener("mousemove", (event) =>
        showTip(currentLines(), event.clientX, event.clientY));
    element.addEventListener("mouseleave", hideTip);
    element.addEventListener("focus", () => {
        const box = element.getBoundingClientRect();
        showTip(currentLines(), box.left + box.width / 2, box.top + Math.min(box.height / 2, 40));
    });
    element.addEventListener("blur", hideTip);
    return element;
}

/** Makes many items one stop of the Tab key; the arrow keys move between them. */
function roving(container, items) {
    items.forEach((item, at) => item.setAttribute("tabindex", at ? -1 : 0));
    const keys = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 };
    container.addEventListener("keydown", (event) => {
        const at = items.indexOf(document.activeElement);
        const ends = { Home: 0, End: items.length - 1 };
        const next = ends[event.key] ?? at + keys[event.key];
        if (event.key === "Escape") hideTip();
        if (at < 0 || !items[next]) return;
        event.preventDefault();
        items[at].setAttribute("tabindex", -1);
        items[next].setAttribute("tabindex", 0);
        items[next].focus();
    });
}

function announce(text) {
    document.getElementById("announcement").textContent = text;
}

/** Calls `draw` with the width of an element, now and whenever it changes. */
function drawOnResize(element, draw) {
    let width = 0;
    const observer = new ResizeObserver(([entry]) => {
        const now = Math.floor(entry.contentRect.width);
        if (now === width || now === 0) return;
        width = now;
        draw(width);
    });
    observer.observe(element);
    return element;
}
