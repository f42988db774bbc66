// The page: header, sections and footer.

const SEVERITIES = new Map([["high", ["▲", "High"]], ["medium", ["◆", "Medium"]], ["low", ["●", "Low"]]]);
const CONFIDENCE = new Map([
    ["measured", "measured in the trace"],
    ["likely", "attributed to a cause"],
    ["possible", "inferred from names or a model"],
]);
const FIRST_FINDINGS = 10;

function head(report) {
    document.title = `${report.title} · marey report`;
    const missing = (report.missing ?? []).map((one) => `${one.name}: ${one.why}`);
    const omissions = [...(report.warnings ?? []), ...missing];
    return [
        h("p", { class: "kind" }, "marey report"),
        h("h1", null, h("bdi", null, report.title)),
        h("p", { class: "path" }, h("bdi", null, report.path)),
        omissions.length
            ? h("div", { class: "warnings", role: "note" }, h("strong", null, "Missing from this report"),
                h("ul", null, omissions.map((line) => h("li", null, line)))) : null,
        (report.summary ?? []).length ? h("dl", { class: "cards" }, report.summary.map((card) =>
            h("div", { title: exact(card.value, card.name) }, h("dt", null, card.label),
                h("dd", null, h("bdi", null, card.text))))) : null,
    ].filter(Boolean);
}

function fact(label, value, title) {
    return h("div", { title: title ?? null }, h("dt", null, label), h("dd", null, value));
}

function evidence(data) {
    const pairs = data.columns.map((name, at) => h("tr", null, h("th", { scope: "row" }, name),
        h("td", { title: exact(data.row[at], name) }, h("bdi", null, cell(data.row[at], name)))));
    return h("div", null, h("table", { class: "pairs" }, h("tbody", null, pairs)), sqlBox(data.sql));
}

function finding(one) {
    const per = one.is_per_step ? " per step" : "";
    const [mark, name] = SEVERITIES.get(one.severity) ?? ["●", one.severity];
    const wide = Math.min(Math.max(one.impact_percent, 0), 100);
    const hasGain = one.gain_nanos !== null && one.gain_nanos !== undefined;
    const subject = one.subject.length > LONG_TEXT ? longText(one.subject) : h("bdi", null, one.subject);
    return h("article", { class: `finding ${SEVERITIES.has(one.severity) ? one.severity : "low"}` },
        h("header", null,
            h("span", { class: "badge" }, h("span", { "aria-hidden": "true" }, `${mark} `), name),
            h("h3", null, one.title),
            one.rank === null || one.rank === undefined ? null : h("span", { class: "rank" }, `rank ${one.rank}`),
            h("span", { class: "subject" }, subject)),
        h("dl", { class: "facts" },
            fact("Impact", [duration(one.impact_nanos), per, h("small", null, percent(one.impact_percent))],
                exact(one.impact_nanos, "impact_nanos")),
            fact("Maximum gain", hasGain ? [duration(one.gain_nanos), per] : "–",
                hasGain ? exact(one.gain_nanos, "gain_nanos") : null),
            fact("Confidence", one.confidence, CONFIDENCE.get(one.confidence))),
        s("svg", { class: "impact", width: "100%", height: 4, role: "img",
            "aria-label": `${percent(one.impact_percent)} of the time` },
        s("rect", { class: "impact-all", width: "100%", height: 4 }),
        s("rect", { class: "impact-part", width: `${wide}%`, height: 4 })),
        h("p", null, one.description),
        one.overlaps?.length ? h("p", { class: "overlaps" }, overlaps(one, per)) : null,
        h("p", { class: "hint" }, h("strong", null, "Fix: "), one.hint),
        one.evidence ? details("Evidence", () => evidence(one.evidence)) : null);
}

function overlaps(one, per) {
    const short = (text) => text.length > LONG_TEXT ? `${text.slice(0, LONG_TEXT)}…` : text;
    const names = one.overlaps.map((other) =>
        `${other.rule} of ${short(other.subject)} (up to ${duration(other.nanos)}${per})`);
    return `Overlaps in time with: ${names.join(", ")}`;
}

function findingSection(findings) {
    const list = h("div", { class: "findings" }, findings.slice(0, FIRST_FINDINGS).map((one) => finding(one)));
    const rest = findings.slice(FIRST_FINDINGS);
    const more = h("button", { type: "button", class: "more", click: () => {
        list.append(...rest.map((one) => finding(one)));
        list.children[FIRST_FINDINGS].querySelector("summary, button")?.focus();
        more.remove();
    } }, `Show ${rest.length} more`);
    return h("div", null, list, rest.length ? more : null);
}

function tableSection(of) {
    if (of.missing) {
        return h("p", { class: "failed", role: "alert" }, `Not in this report: ${of.missing}`);
    }
    return h("div", null, of.doc ? h("p", { class: "doc" }, of.doc) : null,
        of.name === "kernels" ? kernelBars(of) : null, table(of),
        of.sql ? details("SQL", () => sqlBox(of.sql)) : null);
}

function sections(report) {
    const charts = report.charts ?? {};
    const tables = (report.tables ?? []).filter((one) => one.rows.length || one.missing);
    const findings = report.findings ?? [];
    const steps = charts.steps ?? [];
    const series = memorySeries(charts.memory ?? []);
    const kernels = tables.find((one) => one.name === "kernels");
    const nodes = charts.flame ?? [];
    const tableEntry = (one) => [one.name, one.title, () => tableSection(one)];
    return [
        ["findings", "Findings", () => findings.length
            ? findingSection(findings)
            : h("p", { class: "doc" }, "No findings above the thresholds.")],
        steps.length ? ["step-strip", "Steps", () => stepSection(steps)] : null,
        charts.devices?.length ? ["device-time", "Device time", () => deviceSection(charts.devices)] : null,
        kernels ? tableEntry(kernels) : null,
        series.length ? ["memory", "Memory", () => memorySection(series, findings)] : null,
        nodes.length ? ["flame", "Flame graph", () => flameSection(nodes)] : null,
        ...tables.filter((one) => one !== kernels).map(tableEntry),
    ].filter(Boolean);
}

/** Builds a section; an error is shown in its place, and other sections are not affected. */
function section([name, title, build]) {
    let inside;
    try {
        inside = build();
    } catch (error) {
        inside = h("p", { class: "failed", role: "alert" }, `Cannot show this section: ${error.message}`);
    }
    return h("section", { id: `section-${name}`, "aria-label": title }, h("h2", null, title), inside);
}

function show() {
    const report = JSON.parse(document.getElementById("report").textContent);
    const all = sections(report);
    const links = all.map(([name, title]) => h("li", null, h("a", { href: `#section-${name}` }, title)));
    document.getElementById("top").append(...head(report),
        h("nav", { "aria-label": "Sections" }, h("ul", null, links)));
    document.getElementById("report-body").replaceChildren(...all.map(section));
    document.getElementById("generated").append(h("p", null, "Generated by marey ", report.marey, ", ",
        h("time", { datetime: report.created }, report.created.replace("T", " ").replace("Z", " UTC")),
        ". Every table and finding is an SQL query, which you can run with ", h("code", null, "marey query"),
        ". 1 MB is 1,000,000 bytes."));
}

show();
