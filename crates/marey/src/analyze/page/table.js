// Tables, and the SQL beside them.

const FIRST_ROWS = 50;
const LONG_TABLE = 10;
const WIDE_TEXT = 28;
const LONG_TEXT = 80;

/** Copies a text. Browsers may deny the clipboard API to a local file, so there is a fallback. */
async function copy(text) {
    try {
        await navigator.clipboard.writeText(text);
    } catch {
        const area = h("textarea", { class: "unseen" });
        area.value = text;
        document.body.append(area);
        area.select();
        document.execCommand("copy");
        area.remove();
    }
}

function sqlBox(sql) {
    const button = h("button", { type: "button", class: "copy", click: onCopy }, "Copy");
    async function onCopy() {
        await copy(sql);
        button.textContent = "Copied";
        announce("SQL copied");
        setTimeout(() => (button.textContent = "Copy"), 1500);
    }
    return h("div", { class: "sql" }, button, h("pre", { tabindex: 0, "aria-label": "SQL" }, sql));
}

function details(summary, build) {
    const box = h("details", { toggle: onToggle }, h("summary", null, summary));
    // The content is built when it is first onToggle.
    function onToggle() {
        if (box.open && box.childElementCount === 1) box.append(build());
    }
    return box;
}

/** Shows two lines of a long text, and all of it after a click. */
function longText(text) {
    const button = h(
        "button",
        { type: "button", class: "long", "aria-expanded": "false", title: text.slice(0, 2000) },
        text,
    );
    button.addEventListener("click", () => {
        const open = button.getAttribute("aria-expanded") === "true";
        button.setAttribute("aria-expanded", String(!open));
    });
    return button;
}

function isNumeric(rows, at) {
    const value = rows.map((row) => row[at]).find((each) => each !== null && each !== undefined);
    return typeof value === "number";
}

function compareValues(one, other, numeric) {
    if (numeric) return Number(one) - Number(other);
    return String(one).localeCompare(String(other), "en", { numeric: true });
}

function sortRows(rows, at, numeric, down) {
    const isNone = (row) => row[at] === null || row[at] === undefined;
    return [...rows].sort((one, other) => {
        if (isNone(one) || isNone(other)) return isNone(one) - isNone(other);
        const order = compareValues(one[at], other[at], numeric);
        return down ? -order : order;
    });
}

/** Returns the class of a column: numbers are right-aligned, long texts may wrap. */
function columnClass(rows, at, column) {
    if (isNumeric(rows, at)) return "number";
    return rows.some((row) => cell(row[at], column.name).length > WIDE_TEXT) ? "wide" : "short";
}

function bodyRow(row, columns, classes) {
    return h("tr", null, columns.map((column, at) => {
        const text = cell(row[at], column.name);
        const name = classes[at];
        if (name === "wide" && text.length > LONG_TEXT) return h("td", { class: name }, longText(text));
        const full = exact(row[at], column.name);
        return h("td", { class: name, title: full === text ? null : full }, h("bdi", null, text));
    }));
}

/** Returns the heading of a column without its unit, which the cells show. */
function heading(name) {
    const short = name.replace(/_(nanos|bytes)$/, "");
    return name.endsWith("_percent") ? name.replace(/_percent$/, " %").replaceAll("_", " ")
        : short.replaceAll("_", " ");
}

/** Builds a table that sorts by clicks on headings, with a filter if it is long. */
function table(of) {
    const { columns, rows } = of;
    const classes = columns.map((column, at) => columnClass(rows, at, column));
    const state = { at: -1, down: false, words: [], all: false };
    const body = h("tbody");
    const count = h("span", { class: "count" });
    const more = h("button", { type: "button", class: "more", click: showAll });
    const heads = columns.map((column, at) =>
        h("th", { scope: "col", class: classes[at] },
            h("button", { type: "button", title: `${column.name}${column.doc ? `: ${column.doc}` : ""}`,
                click: () => sortBy(at) }, heading(column.name))));
    const texts = new Map();

    function textOf(row) {
        if (!texts.has(row)) {
            texts.set(row, row.map((v, at) => cell(v, columns[at].name)).join("\n").toLowerCase());
        }
        return texts.get(row);
    }
    function draw() {
        let shown = rows.filter((row) => state.words.every((word) => textOf(row).includes(word)));
        const found = shown.length;
        if (state.at >= 0) shown = sortRows(shown, state.at, classes[state.at] === "number", state.down);
        if (!state.all) shown = shown.slice(0, FIRST_ROWS);
        body.replaceChildren(...shown.map((row) => bodyRow(row, columns, classes)));
        const cut = of.was_cut ? ", truncated" : "";
        count.textContent = `${integer(found)} of ${integer(rows.length)} rows${cut}`;
        more.hidden = shown.length === found;
        more.textContent = `Show all ${integer(found)} rows`;
    }
    function showAll() {
        state.all = true;
        draw();
    }
    function sortBy(at) {
        state.down = state.at === at ? !state.down : classes[at] === "number";
        state.at = at;
        heads.forEach((head, index) => {
            if (index === at) head.setAttribute("aria-sort", state.down ? "descending" : "ascending");
            else head.removeAttribute("aria-sort");
        });
        draw();
    }
    function onFilter(event) {
        state.words = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
        draw();
    }
    draw();
    const label = `Filter ${of.title}`;
    const box = h("input", { type: "search", placeholder: "Filter", "aria-label": label, input: onFilter });
    return h("div", { class: "table" },
        rows.length > LONG_TABLE || of.was_cut ? h("div", { class: "tools" }, box, count) : null,
        h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": of.title },
            h("table", null, h("thead", null, h("tr", null, heads)), body)),
        more);
}
