// The flame graph of host time; callers are above their callees.

const FLAME = { row: 19, least: 0.5, letter: 6.8, pad: 4 };
const KINDS = ["operator", "scope", "module", "step", "state", "function", "kernel"];

/** Computes the horizontal extents of nodes, in nanoseconds. A parent precedes its children. */
function flameLayout(nodes) {
    const n = nodes.length;
    const parent = nodes.map((node, at) => (node.parent >= 0 && node.parent < at ? node.parent : -1));
    const inside = new Float64Array(n);
    const weight = new Float64Array(n);
    let all = 0;
    // Children that ran concurrently with their parent can be longer in all, and then widen it.
    for (let at = n - 1; at >= 0; at--) {
        weight[at] = Math.max(nodes[at].total_nanos, inside[at], 0);
        if (parent[at] >= 0) inside[parent[at]] += weight[at];
        else all += weight[at];
    }
    const children = nodes.map(() => []);
    const roots = [];
    parent.forEach((above, at) => (above >= 0 ? children[above] : roots).push(at));
    const from = new Float64Array(n);
    const depth = new Int32Array(n);
    const place = (list, start, level) => {
        list.sort((one, other) => weight[other] - weight[one] || one - other);
        let x = start;
        for (const at of list) {
            from[at] = x;
            depth[at] = level;
            x += weight[at];
        }
    };
    place(roots, 0, 1);
    for (let at = 0; at < n; at++) place(children[at], from[at], depth[at] + 1);
    return { parent, weight, children, roots, from, depth, all };
}

/** Returns the visible nodes when `zoom` fills the chart: its callers, itself, and its callees. */
function flameVisible(layout, zoom, width) {
    const { parent, weight, children, roots, from, depth, all } = layout;
    const span = Math.max(zoom < 0 ? all : weight[zoom], 1);
    const start = zoom < 0 ? 0 : from[zoom];
    const shown = [{ at: -1, x: 0, width, y: 0, isAbove: zoom >= 0 }];
    for (let at = zoom < 0 ? -1 : parent[zoom]; at >= 0; at = parent[at]) {
        shown.push({ at, x: 0, width, y: depth[at], isAbove: true });
    }
    const open = zoom < 0 ? [...roots] : [zoom];
    while (open.length) {
        const at = open.pop();
        const wide = (weight[at] / span) * width;
        if (wide < FLAME.least) continue;
        shown.push({ at, x: ((from[at] - start) / span) * width, width: wide, y: depth[at], isAbove: false });
        open.push(...children[at]);
    }
    return shown;
}

/** Shortens a name to a width, by whole code points. */
function shorten(name, width) {
    const room = Math.floor((width - 2 * FLAME.pad) / FLAME.letter);
    if (room < 2) return null;
    const letters = Array.from(name.slice(0, 2 * room + 2));
    return letters.length <= room ? letters.join("") : `${letters.slice(0, room - 1).join("")}…`;
}

function kindClass(kind) {
    const at = KINDS.indexOf(kind);
    return `kind-${at < 0 ? "other" : at}`;
}

function flameSection(nodes) {
    const layout = flameLayout(nodes);
    const state = { zoom: -1, focus: -1, word: "", width: 0, elements: new Map() };
    const svg = s("svg", { class: "flame", tabindex: 0, role: "application",
        "aria-label": `Flame graph of ${pluralize(nodes.length, "node")}. `
            + "Arrow keys move to callers, callees and neighbours, Enter zooms, Escape zooms out." });
    const box = h("div", { class: "chart flame-box" }, svg);
    const nodeDetails = h("p", { class: "node-details", "aria-live": "polite" });
    const found = h("span", { class: "count" });
    const back = h("button", { type: "button", click: () => zoomTo(-1), hidden: true }, "Reset zoom");
    const search = h("input", { type: "search", placeholder: "Search", "aria-label": "Search the flame graph",
        input: (event) => highlight(event.target.value.trim().toLowerCase()) });

    function lines(at) {
        if (at < 0) return ["All", `Total: ${duration(layout.all)}`];
        const node = nodes[at];
        const above = layout.parent[at];
        return [node.name.slice(0, 400), `Kind: ${node.kind}`,
            `Total: ${duration(node.total_nanos)} (${share(node.total_nanos, layout.all)} of all`
            + `${above < 0 ? "" : `, ${share(node.total_nanos, layout.weight[above])} of its caller`})`,
            `Self: ${duration(node.self_nanos)}`, `Count: ${integer(node.count)}`];
    }
    const matches = (at) => at >= 0 && state.word !== "" && nodes[at].name.toLowerCase().includes(state.word);

    function draw() {
        const shown = flameVisible(layout, state.zoom, state.width);
        const deepest = shown.reduce((most, one) => Math.max(most, one.y), 0);
        svg.setAttribute("width", state.width);
        svg.setAttribute("height", (deepest + 1) * FLAME.row + 1);
        state.elements = new Map();
        svg.replaceChildren(...shown.map((one) => drawNode(one)));
        mark();
        back.hidden = state.zoom < 0;
    }
    function drawNode({ at, x, width, y, isAbove }) {
        const kind = at < 0 ? "kind-all" : kindClass(nodes[at].kind);
        const text = shorten(at < 0 ? "all" : nodes[at].name, width);
        const top = y * FLAME.row;
        const element = s("g", { class: `node ${kind}${isAbove ? " above" : ""}`, "data-at": at },
            s("rect", { x: x.toFixed(2), y: top, width: Math.max(width - 0.5, 0.5).toFixed(2), height: FLAME.row - 1 }),
            text === null ? null : s("text", { x: (x + FLAME.pad).toFixed(2), y: top + 13 }, text));
        state.elements.set(at, element);
        return element;
    }
    function mark() {
        svg.classList.toggle("searched", state.word !== "");
        for (const [at, element] of state.elements) {
            element.classList.toggle("match", matches(at));
            element.classList.toggle("focus", at === state.focus);
        }
        nodeDetails.textContent = lines(state.focus).join(" · ");
    }
    /** Highlights matching nodes. The time of nested matches counts once. */
    function highlight(word) {
        state.word = word;
        let [count, time] = [0, 0];
        const within = new Uint8Array(nodes.length);
        nodes.forEach((node, at) => {
            const above = layout.parent[at] >= 0 && within[layout.parent[at]];
            if (matches(at)) {
                count++;
                if (!above) time += layout.weight[at];
                within[at] = 1;
            } else within[at] = above;
        });
        found.textContent = word ? `${pluralize(count, "node")}, ${share(time, layout.all)} of the time` : "";
        mark();
    }
    function zoomTo(at) {
        state.zoom = at;
        state.focus = at;
        hideTip();
        draw();
    }
    function neighbour(key) {
        const at = state.focus;
        const list = at < 0 || layout.parent[at] < 0 ? layout.roots : layout.children[layout.parent[at]];
        if (key === "ArrowUp") return at < 0 ? -1 : layout.parent[at];
        if (key === "ArrowDown") return (at < 0 ? layout.roots : layout.children[at])[0] ?? at;
        return at < 0 ? at : list[list.indexOf(at) + (key === "ArrowRight" ? 1 : -1)] ?? at;
    }
    const nodeOf = (event) => event.target.closest?.(".node");
    svg.addEventListener("click", (event) => {
        const node = nodeOf(event);
        if (node) zoomTo(Number(node.dataset.at));
    });
    svg.addEventListener("mousemove", (event) => {
        const node = nodeOf(event);
        if (node) showTip(lines(Number(node.dataset.at)), event.clientX, event.clientY);
        else hideTip();
    });
    svg.addEventListener("mouseleave", hideTip);
    svg.addEventListener("keydown", (event) => {
        if (event.key === "Enter") zoomTo(state.focus);
        else if (event.key === "Escape") zoomTo(state.zoom < 0 ? -1 : layout.parent[state.zoom]);
        else if (event.key.startsWith("Arrow")) {
            const next = neighbour(event.key);
            // A node that is too narrow or outside the zoom is not drawn and cannot be focused.
            if (!state.elements.has(next)) return;
            state.focus = next;
            mark();
        } else return;
        event.preventDefault();
    });
    drawOnResize(box, (width) => {
        state.width = width;
        draw();
    });
    const kinds = [...new Set(nodes.map((node) => node.kind))];
    return h("div", null, h("div", { class: "tools" }, search, found, back),
        legend(kinds.map((kind) => [`${kindClass(kind)} key`, kind])), box, nodeDetails);
}
