//! Tests of the pickle reader with made-up pickles and with the output of Python.

use std::io::Cursor;

use marey_store::Assembler;
use proptest::prelude::*;
use serde_json::json;

use super::*;

const ROWS: &[RowList] = &[RowList { key: "rows", depth: 1 }, RowList { key: "nested", depth: 2 }];

/// Returns the value of a pickle as JSON, or the error.
fn read(content: &[u8]) -> Result<serde_json::Value, String> {
    let mut input = Input::new(Cursor::new(content.to_vec())).unwrap();
    let mut pickle = Pickle::new(&mut input, &[]);
    while pickle.next_row().map_err(|broken| broken.to_string())?.is_some() {}
    let json = pickle.values.json(pickle.stack[0]).map_err(|error| error.to_string())?;
    Ok(serde_json::from_str(&json).unwrap())
}

/// Returns the rows of a pickle as text, and how it ended.
fn rows(content: &[u8]) -> (Vec<String>, Result<(), String>) {
    let mut input = Input::new(Cursor::new(content.to_vec())).unwrap();
    let mut pickle = Pickle::new(&mut input, ROWS);
    let mut rows = Vec::new();
    loop {
        match pickle.next_row() {
            Ok(Some(row)) => {
                let json = pickle.values.json(row.value);
                let json = json.unwrap_or_else(|error| error.to_string());
                rows.push(format!("{} {} {json}", row.key, row.list_index));
            }
            Ok(None) => return (rows, Ok(())),
            Err(broken) => return (rows, Err(broken.to_string())),
        }
    }
}

fn text(text: &str) -> Vec<u8> {
    [b"X", &(text.len() as u32).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The same values as Python writes them with each protocol, without the types that a protocol
/// lacks.
#[test]
fn output_of_python_is_read() {
    let mut expected = json!({
        "none": null, "yes": true, "no": false,
        "ints": [
            0, 255, 256, 65535, 65536, -1, -2_147_483_648_i64, 2_147_483_648_i64, i64::MAX, i64::MIN,
            "9223372036854775808", "-1267650600228229401496703205376",
        ],
        "reals": [0.5, -1e300, "inf"],
        "texts": ["", "é", "x".repeat(300), "\u{fffd}\u{fffd}\u{fffd}"],
        "bytes": "ab", "long": "y".repeat(300),
        "tuples": [[], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4]],
        "set": [7], "frozen": [8],
        "dict": {"1": 2, "a": {}}, "one": {"k": [3]},
        "many": (0..1100).collect::<Vec<_>>(),
        "shared": [{"k": [3]}, {"k": [3]}, {"1": 2, "a": {}}],
    });
    let without = |expected: &mut serde_json::Value, keys: [&str; 2]| {
        let object = expected.as_object_mut().unwrap();
        object.retain(|key, _| !keys.contains(&key.as_str()));
    };
    let five = include_bytes!("../../../tests/data/memory_snapshot/values_protocol_5.pickle");
    assert_eq!(read(five).unwrap(), expected);
    let four = include_bytes!("../../../tests/data/memory_snapshot/values_protocol_4.pickle");
    assert_eq!(read(four).unwrap(), expected);
    without(&mut expected, ["set", "frozen"]);
    let three = include_bytes!("../../../tests/data/memory_snapshot/values_protocol_3.pickle");
    assert_eq!(read(three).unwrap(), expected);
    without(&mut expected, ["bytes", "long"]);
    let two = include_bytes!("../../../tests/data/memory_snapshot/values_protocol_2.pickle");
    assert_eq!(read(two).unwrap(), expected);
}

#[test]
fn rare_opcodes_are_read() {
    let cases: [(&[u8], serde_json::Value); 9] = [
        (b"\x80\x02(K\x01K\x02l.", json!([1, 2])),
        (b"\x80\x02(U\x01aK\x02d.", json!({"a": 2})),
        (b"\x80\x02(T\x01\0\0\0aNt.", json!(["a", null])),
        (b"]K\x01K\x020a.", json!([1])),
        (b"](K\x011(K\x02e.", json!([2])),
        (b"](0K\x01a.", json!([1])),
        (b"]K\x012r\x05\0\0\0\x86a.", json!([[1, 1]])),
        (b"\x8b\x02\0\0\0\x00\xff.", json!(-256)),
        (b"\x8a\0.", json!(0)),
    ];
    for (content, expected) in cases {
        assert_eq!(read(content).unwrap(), expected, "{}", content.escape_ascii());
    }
}

#[test]
fn anything_but_data_is_refused() {
    let cases: [(&[u8], &str); 27] = [
        (
            b"\x80\x02cposix\nsystem\n.",
            "byte 2: the pickle would import `posix.system`, which is never done",
        ),
        (
            b"\x80\x02(S'x'\niposix\nsystem\n.",
            "byte 3: the pickle has the opcode 0x53, which is unknown",
        ),
        (
            b"\x80\x02(iposix\nsystem\n.",
            "byte 3: the pickle would import `posix.system`, which is never done",
        ),
        (
            b"\x80\x04\x8c\x08builtins\x8c\x04eval\x93.",
            "byte 18: the pickle would import `builtins.eval`, which is never done",
        ),
        (b"\x80\x04K\x01K\x02\x93.", "byte 6: the pickle would import `?.?`, which is never done"),
        (b"\x80\x04N)R.", "byte 4: the pickle would call or build an object, which is never done"),
        (b"N)\x81.", "byte 2: the pickle would call or build an object, which is never done"),
        (b"N)}\x92.", "byte 3: the pickle would call or build an object, which is never done"),
        (b"N}b.", "byte 2: the pickle would call or build an object, which is never done"),
        (b"(No.", "byte 2: the pickle would call or build an object, which is never done"),
        (
            b"\x82\x01.",
            "byte 0: the pickle would import `copyreg._extension_registry`, which is never done",
        ),
        (b"NQ.", "byte 1: the pickle refers to an object outside of it"),
        (b"Pid\n.", "byte 0: the pickle refers to an object outside of it"),
        (b"\x97.", "byte 0: the pickle has the opcode 0x97, which is unknown"),
        (b"\x80\x06.", "byte 0: pickle protocol 6 is unknown"),
        (b"]", "byte 1: the pickle ends early"),
        (b"", "byte 0: the pickle ends early"),
        (b"X\xff\xff\xff\xffabc", "byte 8: the pickle ends early"),
        (b"\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc", "byte 12: the pickle ends early"),
        (b"\x8b\xff\xff\xff\x7fabc", "byte 5: a whole number has 2147483647 bytes"),
        (b".", "byte 1: the pickle stops in the middle of a value"),
        (b"e", "byte 1: a mark is missing"),
        (b"(a", "byte 2: a value is missing"),
        (b"(e", "byte 2: a value is missing"),
        (b"N(K\x01e", "byte 5: elements are added to a value that is no list"),
        (b"}(Nu", "byte 4: keys and values are added to a value that is no dict"),
        (b"h\x07", "byte 2: the memo has nothing at 7"),
    ];
    for (content, expected) in cases {
        assert_eq!(read(content).unwrap_err(), expected, "{}", content.escape_ascii());
    }
    assert_eq!(
        read(b"Nr\xff\xff\xff\xff.").unwrap_err(),
        "byte 6: the memo has no entry 4294967295 yet"
    );
    // The long text allows a memo index of its length, but such a memo would exceed the memory
    // limit.
    let long = text(&"x".repeat(3 << 20));
    let number: u32 = 3 << 20;
    assert_eq!(
        read(&[&long[..], b"r", &number.to_le_bytes(), b"."].concat()).unwrap_err(),
        "byte 3145738: the memo has no entry 3145728 yet"
    );
}

/// Python writes elements in batches, and a single element without a mark. PyTorch writes all
/// elements at once and puts them into the memo when they are complete.
#[test]
fn rows_are_yielded_in_file_order() {
    let row = |n: u8| [b"}(K\x01K", &[n][..], b"u"].concat();
    let batch = |rows: &[u8]| [b"](", rows, b"e"].concat();
    let dict = |content: &[u8]| [b"\x80\x04}(", content, b"u."].concat();
    let expected: Vec<_> = [2, 3].map(|n| format!("rows 0 {{\"1\":{n}}}")).into();

    let python =
        dict(&[&text("a")[..], b"N", &text("rows"), &batch(&[row(2), row(3)].concat())].concat());
    assert_eq!(rows(&python), (expected.clone(), Ok(())));
    let torch =
        [&text("rows")[..], &batch(&[&row(2)[..], b"q\0", &row(3), b"q\x01"].concat())].concat();
    assert_eq!(rows(&dict(&torch)), (expected.clone(), Ok(())));
    let batches = [&text("rows")[..], b"](", &row(2), b"e(", &row(3), b"e"].concat();
    assert_eq!(rows(&dict(&batches)), (expected.clone(), Ok(())));
    let alone = [b"\x80\x04}".to_vec(), text("rows"), b"]}K\x01K\x02sas.".to_vec()].concat();
    assert_eq!(rows(&alone), (vec![expected[0].clone()], Ok(())));

    let nested =
        [&text("nested")[..], b"](", &batch(&row(2)), &batch(&row(3)), b"]", &row(4), b"ae"];
    let numbered = [2, 3, 4].map(|n| format!("nested {} {{\"1\":{n}}}", n - 2)).into();
    assert_eq!(rows(&dict(&nested.concat())), (numbered, Ok(())));

    // The key names a row list only in the outermost dict.
    let inner = [&text("a")[..], b"}(", &text("rows"), &batch(&row(2)), b"u"].concat();
    assert_eq!(rows(&dict(&inner)), (Vec::new(), Ok(())));
}

/// Rows may share any value while few values are in memory, and only tuples beyond that.
#[test]
fn rows_may_share_values() {
    let row = b"}q\x07(K\x01](K\x05eq\x08u";
    let tuple = b"}(K\x01(K\x07K\x08tq\x09u}(K\x01h\x09u";
    let shared = [&row[..], b"h\x07}(K\x02h\x08u", tuple, b"K\x09"].concat();
    let head = [b"}(", &text("rows")[..], b"]("].concat();
    let list = ["{\"1\":[5]}", "{\"2\":[5]}", "{\"1\":[7,8]}", "{\"1\":[7,8]}", "{\"1\":[5]}", "9"];
    let expected: Vec<_> = list.iter().map(|row| format!("rows 0 {row}")).collect();
    let few = rows(&[&head[..], &shared, b"eu."].concat());
    assert_eq!(few, (expected.clone(), Ok(())));

    let filler = b"}(K\x01K\x02u".repeat(50_000);
    let (many, end) = rows(&[&head[..], &filler, &shared, b"eu."].concat());
    assert_eq!((many.len(), end), (50_006, Ok(())));
    let lost_row = "rows 0 a part of it belongs to another entry".to_owned();
    let expected = [&expected[0], &lost_row, &expected[2], &expected[3], &lost_row, &expected[5]];
    assert_eq!(many[50_000..].iter().collect::<Vec<_>>(), expected);
}

#[test]
fn many_rows_take_little_memory() {
    for after in [&b""[..], b"\x94"] {
        let row = [b"}(", &text("k")[..], b"K\x01K\x02](K\x03K\x04K\x05eu", after].concat();
        let content = [&b"}("[..], &text("rows"), b"](", &row.repeat(50_000), b"eu."].concat();
        let mut input = Input::new(Cursor::new(content.clone())).unwrap();
        let mut pickle = Pickle::new(&mut input, ROWS);
        let (mut count, mut most) = (0, 0);
        while pickle.next_row().unwrap().is_some() {
            count += 1;
            most = most.max(pickle.values.object_count());
        }
        assert_eq!(count, 50_000);
        assert!(most < MIN_FREED_VALUES / 4, "{most}");
    }
}

#[test]
fn bombs_are_refused() {
    // Each list contains the previous one twice.
    let mut laughs = b"]q\0K\x01a".to_vec();
    for level in 1..=30_u8 {
        laughs
            .extend([b"](h", &[level - 1][..], b"h", &[level - 1], b"eq", &[level], b"0"].concat());
    }
    laughs.extend(b"0h\x1e.");
    assert_eq!(read(&laughs).unwrap_err(), "shared values expand to far more than the file");

    let cycle = b"]q\0h\0a.";
    assert_eq!(read(cycle).unwrap_err(), "values are nested too deeply");

    let deep = [&b"]".repeat(40)[..], &b"a".repeat(39), b"."].concat();
    assert_eq!(read(&deep).unwrap_err(), "values are nested too deeply");

    let wide: [(&[u8], usize); 5] = [
        (b"]", 300_000),
        (b"](", 300_000),
        (b"}", 300_000),
        (b"N", 2_200_000),
        (b"\x94", 2_200_000),
    ];
    for (wide, count) in wide {
        let bomb = [b"N", &wide.repeat(count)[..]].concat();
        let error = read(&bomb).unwrap_err();
        assert!(error.ends_with("the values take far more memory than the file"), "{error}");
    }
}

/// One text of 100,000 bytes that each of 20,000 rows refers to.
#[test]
fn a_text_that_all_rows_share_is_no_bomb() {
    let long = text(&"x".repeat(100_000));
    let row = b"}(K\x01h\0u";
    let head = [&b"}(K\x01"[..], &long, b"q\0", &text("rows"), b"]("].concat();
    let (rows, end) = rows(&[head, row.repeat(20_000), b"eu.".to_vec()].concat());
    assert_eq!((rows.len(), end), (20_000, Ok(())));
    assert!(rows.iter().map(String::len).sum::<usize>() < 30_000_000);
    assert_eq!(rows[19_999], "rows 0 shared values expand to far more than the file");
}

#[test]
fn fields_before_a_fault_are_kept() {
    let content = [b"}(", &text("a")[..], b"K\x01", &text("b"), b"](K\x02", b"\xff"].concat();
    let mut input = Input::new(Cursor::new(content)).unwrap();
    let mut pickle = Pickle::new(&mut input, ROWS);
    assert!(pickle.next_row().is_err());
    let fields = pickle.outer_fields();
    let fields = fields.iter().map(|&(key, value)| (pickle.values.text(key).unwrap(), value));
    assert_eq!(fields.collect::<Vec<_>>()[0], ("a", Value::Int(1)));
}

#[test]
fn a_stack_is_converted_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut run = Assembler::new(folder.path());
    let mut values = Values::default();
    values.set_max_expanded_bytes(1 << 20);
    let frame = |values: &mut Values, name: &str| {
        let fields = [("filename", "a.py"), ("name", name)];
        let mut items: Vec<_> = fields
            .into_iter()
            .flat_map(|(key, text)| [key, text].map(|text| values.add_text(text.to_owned())))
            .collect();
        items.extend([values.add_text("line".to_owned()), Value::Int(7)]);
        values.add_dict(items)
    };
    let (inner, outer) = (frame(&mut values, "f"), frame(&mut values, "main"));
    let stack = values.add_list(vec![inner, outer]);
    let (id, result) = stack_context(&mut values, stack, &mut run);
    let outer_name = run.text_id("a.py:7@main");
    let outer_id =
        run.context_id(Assembler::ROOT, marey_model::context::NodeKind::Frame, outer_name);
    let inner_name = run.text_id("a.py:7@f");
    let inner_id = run.context_id(outer_id, marey_model::context::NodeKind::Frame, inner_name);
    assert_eq!((id, result), (Some(inner_id), Ok(())));
    assert_eq!(stack_context(&mut values, stack, &mut run), (Some(inner_id), Ok(())));
    assert!(values.items(stack).is_none());

    let cut = values.add_list(vec![inner, Value::Int(1), outer]);
    assert_eq!(
        stack_context(&mut values, cut, &mut run),
        (Some(outer_id), Err(ValueError::NotAFrame))
    );
    assert_eq!(stack_context(&mut values, cut, &mut run), (Some(outer_id), Ok(())));
    let empty = values.add_list(Vec::new());
    assert_eq!(stack_context(&mut values, empty, &mut run), (None, Ok(())));
    assert_eq!(stack_context(&mut values, empty, &mut run), (None, Ok(())));
}

/// Writes a value as a pickle, with every object in the memo.
fn dump(value: &serde_json::Value, out: &mut Vec<u8>) {
    use serde_json::Value as Json;
    match value {
        Json::Null => out.push(b'N'),
        Json::Bool(value) => out.push(if *value { 0x88 } else { 0x89 }),
        Json::Number(number) => {
            if let Some(number) = number.as_i64() {
                out.extend([0x8a, 8]);
                out.extend(number.to_le_bytes());
            } else {
                out.push(b'G');
                out.extend(number.as_f64().unwrap().to_be_bytes());
            }
        }
        Json::String(value) => out.extend([&text(value)[..], b"\x94"].concat()),
        Json::Array(items) => {
            out.extend(b"]\x94(");
            for item in items {
                dump(item, out);
            }
            out.push(b'e');
        }
        Json::Object(items) => {
            out.extend(b"}\x94(");
            for (key, value) in items {
                out.extend(text(key));
                dump(value, out);
            }
            out.push(b'u');
        }
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|quarters| json!(f64::from(quarters) / 4.0)),
        ".{0,9}".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::hash_map(".{0,5}", inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn values_survive_a_round_trip(value in any_json()) {
        let mut content = b"\x80\x04".to_vec();
        dump(&value, &mut content);
        content.push(b'.');
        prop_assert_eq!(read(&content).unwrap(), value);
    }

    #[test]
    fn damaged_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        end in any::<prop::sample::Index>(),
    ) {
        let snapshot = include_bytes!("../../../tests/data/memory_snapshot/snapshot_protocol_4.pickle");
        let mut content = snapshot.to_vec();
        for (index, byte) in flips {
            let index = index.index(content.len());
            content[index] = byte;
        }
        content.truncate(1 + end.index(content.len()));
        let (_, _any_end) = rows(&content);
    }

    #[test]
    fn arbitrary_bytes_never_panic(content in prop::collection::vec(prop_oneof![
        prop::sample::select(b"(.012NKMJGXUTCBatelsdu]}){h\x94qrj\x85\x86\x87\x88\x8a\x8c\x8f\x90\x91".to_vec()),
        0..4_u8,
    ], 0..60)) {
        let _any_end = read(&content);
    }
}

#[test]
fn every_truncation_is_a_fault() {
    let snapshot = include_bytes!("../../../tests/data/memory_snapshot/snapshot_protocol_4.pickle");
    for end in 0..snapshot.len() {
        let cut = format!("byte {end}: the pickle ends early");
        assert_eq!(rows(&snapshot[..end]).1, Err(cut));
    }
}
