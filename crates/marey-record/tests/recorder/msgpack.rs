//! A minimal MessagePack reader for profiles.

use serde_json::{Map, Value};

/// Decodes one value, which must be the entire input.
pub(crate) fn decode(bytes: &[u8]) -> Value {
    let mut rest = bytes;
    let value = value(&mut rest);
    assert!(rest.is_empty(), "{} bytes after the end", rest.len());
    value
}

fn take<'a>(rest: &mut &'a [u8], len: usize) -> &'a [u8] {
    let (taken, left) = rest.split_at(len);
    *rest = left;
    taken
}

fn array<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    take(rest, N).try_into().unwrap()
}

fn len(rest: &mut &[u8]) -> usize {
    u32::from_be_bytes(array(rest)) as usize
}

fn value(rest: &mut &[u8]) -> Value {
    let [tag] = array(rest);
    match tag {
        0x00..=0x7f => tag.into(),
        0x80..=0x8f => map(rest, usize::from(tag & 0x0f)),
        0x90..=0x9f => list(rest, usize::from(tag & 0x0f)),
        0xa0..=0xbf => text(rest, usize::from(tag & 0x1f)).into(),
        0xc0 => Value::Null,
        0xc2 | 0xc3 => (tag == 0xc3).into(),
        0xcb => f64::from_be_bytes(array(rest)).into(),
        0xcf => u64::from_be_bytes(array(rest)).into(),
        0xd3 => i64::from_be_bytes(array(rest)).into(),
        0xdb => {
            let len = len(rest);
            text(rest, len).into()
        }
        0xdd => {
            let len = len(rest);
            list(rest, len)
        }
        0xdf => {
            let len = len(rest);
            map(rest, len)
        }
        _ => panic!("unexpected tag {tag:#x}"),
    }
}

fn text(rest: &mut &[u8], len: usize) -> String {
    String::from_utf8(take(rest, len).to_vec()).unwrap()
}

fn list(rest: &mut &[u8], len: usize) -> Value {
    (0..len).map(|_| value(rest)).collect()
}

fn map(rest: &mut &[u8], len: usize) -> Value {
    let mut fields = Map::new();
    for _ in 0..len {
        let Value::String(key) = value(rest) else { panic!("a key that is no text") };
        let value = value(rest);
        assert!(fields.insert(key.clone(), value).is_none(), "{key} occurs twice");
    }
    fields.into()
}
