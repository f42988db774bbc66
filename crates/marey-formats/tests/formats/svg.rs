//! Flame graphs.

use marey_formats::{ExportError, Format, LeftOut, export};
use marey_store::Run;

use crate::dump::{export_bytes, import_bytes, import_data, reader};

fn export_text(run: &Run) -> (String, LeftOut) {
    let (bytes, left_out) = export_bytes(run, Format::Svg);
    (String::from_utf8(bytes).unwrap(), left_out)
}

/// A frame of the file.
#[derive(Debug, PartialEq)]
struct Frame<'a> {
    title: &'a str,
    x: &'a str,
    y: &'a str,
    width: &'a str,
    colour: &'a str,
    text: &'a str,
}

fn frames(svg: &str) -> Vec<Frame<'_>> {
    svg.split("<g class=\"frame\">").skip(1).map(frame).collect()
}

fn frame(mut rest: &str) -> Frame<'_> {
    let mut between = |start: &str, end: &str| {
        let part;
        (part, rest) = rest.split_once(start).unwrap().1.split_once(end).unwrap();
        part
    };
    Frame {
        title: between("<title>", "</title>"),
        x: between("<rect x=\"", "\""),
        y: between("y=\"", "\""),
        width: between("width=\"", "\""),
        colour: between("fill=\"", "\""),
        text: {
            between("<text x=\"", "\"");
            between("\">", "</text></g>")
        },
    }
}

#[test]
fn widths_are_shares_and_frames_lie_inside_their_parents() {
    let run = import_bytes(b"main;b 25\nmain;a 50\nmain 25\n").unwrap();
    let (svg, left_out) = export_text(&run.run);
    assert_eq!(left_out, LeftOut::new());
    let frames = frames(&svg);
    let rows: Vec<_> = frames.iter().map(|f| (f.title, f.x, f.y, f.width, f.text)).collect();
    let expected = [
        ("all\n100 (100.00 %)", "0.000", "28", "1200.000", "all"),
        ("main\n100 (100.00 %)", "0.000", "44", "1200.000", "main"),
        ("a\n50 (50.00 %)", "0.000", "60", "600.000", "a"),
        ("b\n25 (25.00 %)", "600.000", "60", "300.000", "b"),
    ];
    assert_eq!(rows, expected);
    assert!(svg.contains("viewBox=\"0 0 1200 80\""), "{svg}");
    // Equal names have equal colours in all graphs.
    let colours: Vec<_> = frames.iter().map(|frame| frame.colour).collect();
    assert_eq!(colours, ["#c8c8c8", "#b6c77b", "#a0ce78", "#93da7b"]);
    assert_eq!(export_text(&run.run).0, svg);
}

#[test]
fn times_have_units_and_long_labels_are_shortened() {
    let run = import_data("pprof/protobuf.pb");
    let (svg, left_out) = export_text(&run.run);
    // Stacks without time have no width.
    let expected = [
        ("frames narrower than a tenth of a pixel", 2),
        ("metadata entries", 13),
        ("values of other kinds", 15),
    ];
    assert_eq!(left_out, LeftOut::from(expected));
    assert!(svg.contains(">cpu: 30.000 ms</text>"), "{svg}");
    let titles: Vec<_> = frames(&svg).into_iter().map(|frame| frame.title).collect();
    assert!(titles.contains(&"0x1234 (libc.so.6)\n20.000 ms (66.67 %)"), "{titles:?}");

    let name = "n".repeat(400);
    let run = import_bytes(format!("{name} 1\nb 999\n").as_bytes()).unwrap();
    let (svg, _) = export_text(&run.run);
    let frames = frames(&svg);
    // Sorted by name, not by width: `b` is first.
    assert_eq!((frames[1].title, frames[1].text), ("b\n999 (99.90 %)", "b"));
    assert!(frames[2].title.starts_with(&name));
    assert_eq!((frames[2].width, frames[2].text), ("1.200", ""));
    let run = import_bytes(format!("{name} 1\nb 9\n").as_bytes()).unwrap();
    let (svg, _) = export_text(&run.run);
    assert_eq!(self::frames(&svg)[2].text, "nnnnnnnnnnnnnnnn…");
}

#[test]
fn activities_besides_spans_are_counted() {
    let (_folder, run) = super::csv::run("relu");
    let (svg, left_out) = export_text(&run);
    assert!(!svg.contains("kernel"), "{svg}");
    let expected =
        [("device activities", 1), ("instants", 1), ("step numbers", 1), ("asynchronous spans", 1)];
    assert_eq!(left_out, LeftOut::from(expected));
}

#[test]
fn invisible_frames_are_counted() {
    let run = import_bytes(b"a 1000000\nb;c;d 1\ne -5\n").unwrap();
    let (svg, left_out) = export_text(&run.run);
    let expected = [
        ("frames narrower than a tenth of a pixel", 3),
        ("values below zero or without a number", 1),
    ];
    assert_eq!(left_out, LeftOut::from(expected));
    assert_eq!(frames(&svg).len(), 2);
}

#[test]
fn names_are_always_escaped() {
    // Control characters at the start would be recognised as binary.
    let first = "x".repeat(300);
    let content = format!("{first} 1\n</g>]]><script>&\"'\u{8}\u{ffff}é 1\n");
    let run = import_bytes(content.as_bytes()).unwrap();
    let (svg, _) = export_text(&run.run);
    let escaped = "&lt;/g&gt;]]&gt;&lt;script&gt;&amp;&quot;&#39;\u{fffd}\u{fffd}é";
    assert!(frames(&svg).iter().any(|frame| frame.title == format!("{escaped}\n1 (50.00 %)")));
    assert_eq!(svg.matches("<script>").count(), 1);
    assert_eq!(svg.matches("]]>").count(), 1);
    // Nothing is fetched: the only address is the XML namespace.
    assert_eq!(svg.matches("http").count(), svg.matches("xmlns=\"http").count());
}

#[test]
fn an_empty_graph_is_refused() {
    let run = import_bytes(b"a 0\nb 0\n").unwrap();
    let error = export(&reader(&run.run), Format::Svg, &mut Vec::new()).unwrap_err();
    assert!(
        matches!(error, ExportError::NoData { missing: "no weight above zero", .. }),
        "{error}"
    );
}
