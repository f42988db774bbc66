// Charts of steps, devices, kernels and memory.

const CLASSES = [
    ["compute", "compute_nanos", "Compute"],
    ["communication", "exposed_communication_nanos", "Exposed communication"],
    ["memory", "memory_only_nanos", "Memory only"],
    ["idle", "idle_nanos", "Idle"],
];

/** Returns the symbol of a legend: a triangle, a line, or a rectangle, as in the chart. */
function key(name) {
    if (name === "outlier") return s("path", { class: name, d: "M2 1h10l-5 8z" });
    if (/^(median|memory-key)/.test(name)) return s("path", { class: name, d: "M0 5h22" });
    return s("rect", { class: name, x: 0.5, y: 0.5, width: 13, height: 9 });
}

function legend(classes) {
    return h("ul", { class: "legend" }, classes.map(([name, label]) => {
        const width = /^(median|memory-key)/.test(name) ? 22 : 14;
        return h("li", null, s("svg", { width, height: 10, "aria-hidden": "true" }, key(name)), label);
    }));
}

function pluralize(count, word) {
    return `${integer(count)} ${word}${count === 1 ? "" : "s"}`;
}

const deviceLegend = () => legend(CLASSES.map(([name, , label]) => [name, label]));

/** Returns the classes of a row that are not zero, with their offsets. */
function parts(row) {
    let from = 0;
    return CLASSES.filter(([, key]) => row[key] > 0).map(([name, key, label]) => {
        const part = { name, label, value: row[key], from };
        from += row[key];
        return part;
    });
}

function partLines(row, all) {
    return parts(row).map((part) => `${part.label}: ${duration(part.value)} (${share(part.value, all)})`);
}

function rankName(rank) {
    return rank === null || rank === undefined ? "Steps" : `Rank ${rank}`;
}

function groupBy(rows, keyOf) {
    const groups = new Map();
    for (const row of rows) {
        const key = keyOf(row);
        if (!groups.has(key)) groups.set(key, []);
        groups.get(key).push(row);
    }
    return groups;
}

function median(values) {
    const ordered = [...values].sort((one, other) => one - other);
    const middle = ordered.length >> 1;
    return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
}

// Steps: one bar each, whose height is the duration.

const STEPS = { height: 112, top: 18, bottom: 20, left: 64, gap: 2, least: 4, most: 44 };
const FIRST_RANKS = 4;

function stepBar(row, x, width, yOf) {
    const top = yOf(row.duration_nanos);
    const known = parts(row);
    const label = `Step ${row.number}${row.is_outlier ? ", outlier" : ""}`;
    const lines = [label, `Duration: ${duration(row.duration_nanos)}`, ...partLines(row, row.duration_nanos)];
    const base = yOf(0);
    // Scaled down if the parts add up to more than the step.
    const sum = known.reduce((all, part) => all + part.value, 0);
    const scale = sum > row.duration_nanos ? row.duration_nanos / sum : 1;
    const rects = known.map((part) => {
        const upper = yOf((part.from + part.value) * scale);
        return s("rect", { class: part.name, x, y: upper, width, height: yOf(part.from * scale) - upper });
    });
    const mark = row.is_outlier
        ? s("path", { class: "outlier", d: `M${x + width / 2 - 5} ${top - 12}h10l-5 8z` }) : null;
    const outline = s("rect", { class: known.length ? "outline" : "host", x, y: top, width,
        height: Math.max(base - top, 1) });
    const hit = s("rect", { class: "hit", x: x - STEPS.gap / 2, y: 0, width: width + STEPS.gap, height: base });
    const bar = s("g", { class: "step-bar", role: "img", "aria-label": lines.join(", ") },
        hit, rects, outline, mark);
    return withTooltip(bar, lines);
}

function stepChart(rows, most) {
    const box = h("div", { class: "scroll chart" });
    return drawOnResize(box, (room) => {
        const slot = Math.min(STEPS.most, Math.max(STEPS.least, (room - STEPS.left) / rows.length));
        const width = Math.max(room, STEPS.left + Math.ceil(slot * rows.length));
        const base = STEPS.top + STEPS.height;
        const yOf = (nanos) => base - (STEPS.height * nanos) / most;
        const bars = rows.map((row, at) =>
            stepBar(row, STEPS.left + at * slot + STEPS.gap / 2, slot - STEPS.gap, yOf));
        const every = Math.ceil(44 / slot);
        const labels = rows.map((row, at) => at % every ? null : s("text", { class: "axis middle",
            x: STEPS.left + (at + 0.5) * slot, y: base + 14 }, String(row.number)));
        const middle = median(rows.map((row) => row.duration_nanos));
        const end = STEPS.left + slot * rows.length;
        const svg = s("svg", { class: "steps", width, height: base + STEPS.bottom, role: "group",
            "aria-label": `${pluralize(rows.length, "step")}, median ${duration(middle)}. `
                + "Use the arrow keys to move between them." },
        axisText(most, yOf(most)), axisText(0, base),
        s("line", { class: "baseline", x1: STEPS.left, x2: end, y1: base, y2: base }),
        bars,
        s("line", { class: "median", x1: STEPS.left, x2: end, y1: yOf(middle), y2: yOf(middle) }), labels);
        roving(svg, bars);
        box.replaceChildren(svg);
    });
}

function axisText(nanos, y) {
    return s("text", { class: "axis end", x: STEPS.left - 6, y: y + 4 }, duration(nanos));
}

function stepSection(rows) {
    const most = Math.max(...rows.map((row) => row.duration_nanos), 1);
    const ranks = [...groupBy(rows, (row) => row.rank ?? null)];
    const chart = ([rank, steps]) => {
        const times = steps.map((row) => row.duration_nanos);
        const outliers = steps.filter((row) => row.is_outlier).length;
        const note = `${pluralize(steps.length, "step")}, median ${duration(median(times))}, longest `
            + `${duration(Math.max(...times))}${outliers ? `, ${pluralize(outliers, "outlier")}` : ""}`;
        return h("div", { class: "strip" },
            h("h3", null, rankName(rank), " ", h("small", null, note)), stepChart(steps, most));
    };
    const others = ranks.slice(FIRST_RANKS);
    const columns = ["rank", "number", "duration_nanos", "is_outlier", ...CLASSES.map(([, key]) => key)];
    const marks = [...CLASSES.map(([name, , label]) => [name, label]), ["outlier", "Outlier"],
        ["median", "Median"]];
    return h("div", null, legend(marks), ranks.slice(0, FIRST_RANKS).map(chart),
        others.length ? details(`${pluralize(others.length, "more rank")}`, () => h("div", null, others.map(chart))) : null,
        details("Steps as a table", () => table(asTable("Steps", columns, rows))));
}

function asTable(title, names, rows) {
    const used = names.filter((name) => rows.some((row) => row[name] !== null && row[name] !== undefined));
    return { title, columns: used.map((name) => ({ name, doc: "" })),
        rows: rows.map((row) => used.map((name) => row[name])), was_cut: false };
}

// Devices and kernels: one bar a row. Positions are percentages, so resizing needs no redraw.

function bar(name, row) {
    const { label, lines, rects, value } = row;
    const line = h("div", { class: `bar-row ${name}`, role: "img", "aria-label": lines.join(", ") },
        h("bdi", { class: "bar-label" }, label),
        s("svg", { width: "100%", height: 18, "aria-hidden": "true" }, rects),
        h("span", { class: "bar-value" }, value));
    return withTooltip(line, lines);
}

function bars(name, rows) {
    const items = rows.map((row) => bar(name, row));
    const box = h("div", { class: "bars", role: "group" }, items);
    roving(box, items);
    return box;
}

function deviceName(row) {
    const device = `device ${row.device}`;
    return row.rank === null || row.rank === undefined ? device : `rank ${row.rank}, ${device}`;
}

function deviceSection(devices) {
    const rows = devices.map((row) => ({ label: deviceName(row), ...row }));
    const names = ["window_nanos", ...CLASSES.map(([, key]) => key)];
    const all = bars("device-bar", rows.map((row) => ({
        label: row.label,
        lines: [row.label, `Window: ${duration(row.window_nanos)}`, ...partLines(row, row.window_nanos)],
        value: `${share(row.window_nanos - (row.idle_nanos ?? 0), row.window_nanos)} busy`,
        rects: parts(row).flatMap((part) => {
            const x = (100 * part.from) / row.window_nanos;
            const width = (100 * part.value) / row.window_nanos;
            const rect = s("rect", { class: part.name, x: `${x}%`, y: 0.5, width: `${width}%`, height: 17 });
            if (width < 8) return [rect];
            return [rect, s("text", { class: `inside on-${part.name}`, x: `${x}%`, dx: 5, y: 13 },
                percent(width))];
        }),
    })));
    return h("div", null, deviceLegend(), all,
        table(asTable("Devices", ["label", ...names, ...Object.keys(rows[0])]
            .filter((name, at, list) => list.indexOf(name) === at), rows)));
}

const FIRST_KERNELS = 15;

function kernelBars(kernels) {
    const at = (name) => kernels.columns.findIndex((column) => column.name === name);
    const [name, total, count] = ["name", "total_nanos", "count"].map(at);
    if (name < 0 || total < 0 || !kernels.rows.length) return null;
    const rows = sortRows(kernels.rows, total, true, true).slice(0, FIRST_KERNELS);
    const most = Math.max(rows[0][total], 1);
    const places = ["rank", "device"].filter((column) => new Set(kernels.rows.map((row) => row[at(column)])).size > 1);
    return bars("kernel-bar", rows.map((row) => {
        const place = places.map((column) => `${column} ${row[at(column)] ?? "–"}`).join(", ");
        const label = place ? `${place}: ${row[name]}` : String(row[name]);
        const lines = [label.slice(0, 400), `Total: ${duration(row[total])}`];
        if (count >= 0) lines.push(`Count: ${integer(row[count])}`);
        return { label: label.slice(0, 400), lines, value: duration(row[total]),
            rects: [s("rect", { class: "compute", x: 0, y: 3, height: 12,
                width: `${(100 * row[total]) / most}%` })] };
    }));
}

// Memory: one step line for each device.

const MEMORY = { height: 200, top: 10, bottom: 24, left: 64, right: 12 };

/** Returns the points of each device's line. */
function memorySeries(rows) {
    const lines = groupBy(rows, deviceName);
    return [...lines].map(([label, points]) => ({ label, rank: points[0].rank ?? null,
        points: points.map((row) => [Number(row.time_nanos), row.allocated_bytes]) }));
}

/** Reduces points to the first, least, greatest and last of each pixel column. */
function downsample(points, xOf) {
    const kept = [];
    for (const column of groupBy(points, (point) => Math.floor(xOf(point[0]))).values()) {
        let [least, most] = [0, 0];
        column.forEach((point, at) => {
            if (point[1] < column[least][1]) least = at;
            if (point[1] > column[most][1]) most = at;
        });
        const places = new Set([0, Math.min(least, most), Math.max(least, most), column.length - 1]);
        kept.push(...[...places].map((at) => column[at]));
    }
    return kept;
}

/** Fits a line by least squares: its value at a time, and its slope in bytes per second. */
function trend(points) {
    const n = points.length;
    const meanX = points.reduce((sum, [x]) => sum + x, 0) / n;
    const meanY = points.reduce((sum, [, y]) => sum + y, 0) / n;
    const over = points.reduce((sum, [x, y]) => sum + (x - meanX) * (y - meanY), 0);
    const under = points.reduce((sum, [x]) => sum + (x - meanX) ** 2, 0);
    const slope = under > 0 ? over / under : 0;
    return { at: (x) => meanY + slope * (x - meanX), perSecond: slope * 1e9 };
}

/** Returns the least round number not below a value, for ticks at 0, half and all of it. */
function roundUp(value) {
    const power = 10 ** Math.floor(Math.log10(Math.max(value, 1)));
    return [1, 2, 4, 5, 8, 10].map((step) => step * power).find((tick) => tick >= value);
}

function leaks(series, findings) {
    return findings.some((finding) => finding.rule === "memory_leak"
        && (finding.rank ?? series.rank) === series.rank);
}

function memoryLine(series, number, scale, isLeaking) {
    const { xOf, yOf } = scale;
    const { points } = series;
    const shown = points.length > 4 * scale.width ? downsample(points, xOf) : points;
    const path = shown.map(([x, y], at) => at
        ? `H${xOf(x).toFixed(1)}V${yOf(y).toFixed(1)}` : `M${xOf(x).toFixed(1)} ${yOf(y).toFixed(1)}`);
    const line = s("path", { class: `memory-line m${number % 6}`, d: path.join("") });
    if (!isLeaking || points.length < 2) return [line];
    const grows = trend(points);
    const [first, last] = [points[0][0], points[points.length - 1][0]];
    return [line, s("line", { class: "trend", x1: xOf(first), y1: yOf(grows.at(first)), x2: xOf(last),
        y2: yOf(grows.at(last)) })];
}

function memoryAt(points, time) {
    let [low, high] = [0, points.length];
    while (low < high) {
        const middle = (low + high) >> 1;
        if (points[middle][0] <= time) low = middle + 1;
        else high = middle;
    }
    return low ? points[low - 1][1] : null;
}

function memorySection(series, findings) {
    const times = series.flatMap((one) => [one.points[0][0], one.points[one.points.length - 1][0]]);
    const [first, last] = [Math.min(...times), Math.max(...times)];
    const peaks = series.map((one) => one.points.reduce((most, [, bytes]) => Math.max(most, bytes), 0));
    const most = roundUp(Math.max(...peaks));
    const notes = series.map((one, at) => {
        const grows = leaks(one, findings) && one.points.length > 1
            ? `, grows ${size(trend(one.points).perSecond)}/s (dashed)` : "";
        return [`memory-key m${at % 6}`, `${one.label}: peak ${size(peaks[at])}${grows}`];
    });
    const box = h("div", { class: "chart" });
    drawOnResize(box, (width) => {
        const base = MEMORY.top + MEMORY.height;
        const room = width - MEMORY.left - MEMORY.right;
        const xOf = (time) => MEMORY.left + (room * (time - first)) / Math.max(last - first, 1);
        const yOf = (bytes) => base - (MEMORY.height * bytes) / most;
        const ticks = [0, most / 2, most].flatMap((bytes) => [
            s("line", { class: "grid", x1: MEMORY.left, x2: width - MEMORY.right, y1: yOf(bytes), y2: yOf(bytes) }),
            s("text", { class: "axis end", x: MEMORY.left - 6, y: yOf(bytes) + 4 }, size(bytes))]);
        const ends = [[first, "axis"], [last, "axis end"]].map(([time, name]) =>
            s("text", { class: name, x: xOf(time), y: base + 16 }, `+${duration(time - first)}`));
        const cursor = s("line", { class: "cursor", y1: MEMORY.top, y2: base, visibility: "hidden" });
        const lines = series.flatMap((one, at) =>
            memoryLine(one, at, { xOf, yOf, width }, leaks(one, findings)));
        const svg = s("svg", { class: "memory-chart", width, height: base + MEMORY.bottom, role: "img", tabindex: 0,
            "aria-label": `Memory over ${duration(last - first)}. ${notes.map(([, note]) => note).join(". ")}` },
        ticks, ends, lines, cursor);
        let place = MEMORY.left;
        const point = (x, y) => {
            place = Math.min(Math.max(x, MEMORY.left), width - MEMORY.right);
            const time = first + ((place - MEMORY.left) / room) * (last - first);
            const head = `+${duration(time - first)}`;
            const texts = series.map((one) => [one.label, memoryAt(one.points, time)])
                .map(([label, bytes]) => `${label}: ${bytes === null ? "–" : size(bytes)}`);
            for (const end of ["x1", "x2"]) cursor.setAttribute(end, place);
            cursor.setAttribute("visibility", "visible");
            showTip([head, ...texts], svg.getBoundingClientRect().left + place, y);
        };
        const leave = () => { cursor.setAttribute("visibility", "hidden"); hideTip(); };
        svg.addEventListener("mousemove", (event) =>
            point(event.clientX - svg.getBoundingClientRect().left, event.clientY));
        svg.addEventListener("mouseleave", leave);
        svg.addEventListener("blur", leave);
        svg.addEventListener("keydown", (event) => {
            const step = { ArrowLeft: -8, ArrowRight: 8 }[event.key];
            if (event.key === "Escape") leave();
            if (!step) return;
            event.preventDefault();
            point(place + step, svg.getBoundingClientRect().top + MEMORY.top);
        });
        box.replaceChildren(svg);
    });
    return h("div", null, legend(notes), box);
}
